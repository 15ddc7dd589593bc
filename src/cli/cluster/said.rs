//! What the controller last said of an extension, beside what the plugin finds now.
//!
//! Source: plugin.md 5.

use kube::ResourceExt as _;
use olm_api::ClusterExtension;
use olm_core::extension::{Input, Question, Said, last_change};
use olm_core::resolve::{Catalog, Options, Selector};

use super::{Cluster, ClusterState, ExtensionSnapshot};

impl Cluster {
    /// Compares what stands in the status of an extension with what its snapshot leads to.
    pub(crate) async fn said(
        &self,
        extension: &ClusterExtension,
        snapshot: &ExtensionSnapshot,
    ) -> anyhow::Result<Option<Said>> {
        let (catalogs, options) = (snapshot.catalogs(), &snapshot.options);
        let question = &snapshot.question;
        let environment = question.environment(&catalogs, options, &snapshot.environment);
        let resolution = question.resolve(&catalogs, &environment, options);
        let answer = question.answer(&catalogs, &environment, options, &resolution);
        let inputs = self.state().await?.inputs(question, &catalogs, options);
        Ok(Said::of(extension, question, &answer, &inputs))
    }
}

impl ClusterState {
    /// Returns what a decision depends on besides the extension, and when it last changed.
    fn inputs(
        &self,
        question: &Question,
        catalogs: &[Catalog<'_>],
        options: &Options,
    ) -> Vec<Input> {
        let not_known = |what: String| Input {
            what,
            changed: None,
        };
        let mut inputs = Vec::new();
        let selector = Selector::new(question.filter.selector.as_ref()).ok();
        let selects = |catalog: &&Catalog<'_>| {
            let selector = selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&catalog.labels))
        };
        for catalog in catalogs.iter().filter(selects) {
            let name = catalog.name;
            let mut all = self.catalogs.iter();
            let found = all.find(|found| found.name_any() == name);
            inputs.extend(found.map(|found| Input {
                what: format!("catalog {name}"),
                changed: last_change(&found.metadata, |_| true),
            }));
            if catalog.enabled && catalog.content.is_none() {
                inputs.push(not_known(format!(
                    "catalog {name}, which cannot be read from here"
                )));
            }
        }
        if let Some(home) = &question.came_from
            && catalogs.iter().all(|catalog| catalog.name != home)
        {
            inputs.push(not_known(format!("catalog {home}, which is gone")));
        }
        let settings = &self.settings;
        match &settings.assumed {
            Some(assumed) => inputs.push(not_known(assumed.clone())),
            None if settings.controller.version == env!("CARGO_PKG_VERSION") => {
                inputs.extend(settings.changed.map(|changed| Input {
                    what: "the controller's settings".to_owned(),
                    changed: Some(changed),
                }));
            }
            None => inputs.push(not_known(format!(
                "the versions: the controller is {}, the plugin {}",
                settings.controller.version,
                env!("CARGO_PKG_VERSION")
            ))),
        }
        let needs = question.needs(catalogs, options);
        if needs.installed || needs.kubernetes {
            let what = "what the bundles need of the cluster, which may have changed";
            inputs.push(not_known(what.to_owned()));
        }
        inputs
    }
}
