//! What the controller last said of an extension, beside what the plugin finds now.
//!
//! Source: plugin.md 5.

use anyhow::Context as _;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use olm_api::ClusterExtension;
use olm_core::extension::{
    Answer, Goal, Input, Question, ValidExtension, last_change, reverted, said,
};
use olm_core::operator_condition::{NotUpgradeable, held};
use olm_core::resolve::{Catalog, Options, Selector};
use olm_core::revision::BundleRecord;
use olm_core::status::{Note, Said};

use super::{Cluster, ClusterState, ExtensionSnapshot};

impl Cluster {
    /// Decides about an extension as the controller does.
    pub(crate) async fn answer(
        &self,
        extension: &ClusterExtension,
        snapshot: &ExtensionSnapshot,
    ) -> anyhow::Result<Answer> {
        let (catalogs, options) = (snapshot.catalogs(), &snapshot.options);
        let question = &snapshot.question;
        let environment = question.environment(&catalogs, options, &snapshot.environment);
        let resolution = question.resolve(&catalogs, &environment, options);
        let mut answer = question.answer(&catalogs, &environment, options, &resolution);
        if let (Ok(goal), Some(valid)) = (answer.goal.clone(), ValidExtension::of(extension))
            && let Some(held) = self.operator(question, valid, &goal.target).await?
            && let (false, Some(present)) = (question.asks_for_one(), question.present())
        {
            answer.hold(goal, &held);
            answer.goal = Ok(Goal::keep(present.clone()));
        }
        Ok(answer)
    }

    /// Compares what stands in the status of an extension with the answer about it, if one is known.
    pub(crate) async fn said(
        &self,
        extension: &ClusterExtension,
        snapshot: &ExtensionSnapshot,
        answer: Option<&Answer>,
    ) -> anyhow::Result<Option<Said>> {
        let question = &snapshot.question;
        let state = self.state().await?;
        let inputs = state.inputs(question, &snapshot.catalogs(), &snapshot.options);
        Ok(said(extension, question, answer, &inputs))
    }

    /// Returns what is said of a roll-out that failed and was taken back, if `target` is not tried again
    /// because of it.
    pub(crate) async fn taken_back(
        &self,
        extension: &ClusterExtension,
        question: &Question,
        target: &BundleRecord,
    ) -> anyhow::Result<Option<Note>> {
        let installed = question.installed.as_ref();
        let stays = installed.is_some_and(|installed| installed.is_same_bundle(target));
        if stays || !question.policy.reverts {
            return Ok(None);
        }
        let revisions = self.revisions(&extension.name_any()).await?;
        let back = reverted(&question.policy, extension, &revisions, target);
        Ok(back.map(|back| back.note()))
    }

    /// Returns why the installed operator does not let another bundle take its place, if it does not.
    pub(crate) async fn operator(
        &self,
        question: &Question,
        extension: ValidExtension<'_>,
        target: &BundleRecord,
    ) -> anyhow::Result<Option<NotUpgradeable>> {
        let Some(installed) = question.heeds(target) else {
            return Ok(None);
        };
        let kind = GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
        let kind = ApiResource::from_gvk(&kind);
        let (client, namespace) = (self.client.clone(), &extension.spec.namespace);
        let conditions = Api::<DynamicObject>::namespaced_with(client, namespace, &kind);
        let found = conditions.get_opt(&installed.name).await;
        let found =
            found.with_context(|| format!("reading OperatorCondition {}", installed.name))?;
        let condition = found.map(serde_json::to_value).transpose()?;
        Ok(condition.and_then(|condition| held(&condition, installed, target)))
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
        let not_known = |what: String| Input { what, changed: None };
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
                inputs.push(not_known(format!("catalog {name}, which cannot be read from here")));
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
