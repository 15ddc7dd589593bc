//! Where an extension would go if whoever holds it let it go.

use olm_api::UpdateStatus;

use super::decide::{DecisionError, Question};
use crate::resolve::{Catalog, Environment, Options, Resolution, Warning, resolve};
use crate::revision::BundleRecord;

/// A step, taken or held.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The bundle it leads to.
    pub target: BundleRecord,
    /// The catalog that offers it; nothing while a rollout goes on, whatever catalogs say.
    pub catalog: Option<String>,
    /// Whether no edge of the catalog allows it.
    pub forced: bool,
    /// How the catalogs offer it, where it is held.
    pub held: Option<UpdateStatus>,
}

impl Question {
    /// Returns what is rolled out, else the step that the catalogs offer; one that is held is
    /// resolved as if its version were asked for.
    ///
    /// # Errors
    /// As the [`Answer`](super::Answer) has them.
    pub fn course(
        &self,
        catalogs: &[Catalog<'_>],
        environment: &Environment,
        options: &Options,
    ) -> Result<Course, DecisionError> {
        let resolution = self.resolve(catalogs, environment, options);
        if let Some(rolling) = &self.rolling
            && self.gives_way(catalogs, &resolution).is_none()
        {
            let target = rolling.bundle.clone();
            return Ok(Course { target, catalog: None, forced: false, held: None });
        }
        let answer = self.answer(catalogs, environment, options, &resolution);
        let held = answer.update.filter(|held| held.version.is_some() && self.stays(&resolution));
        if let Some(held) = held {
            let mut exactly = self.request();
            exactly.filter.version.clone_from(&held.version);
            exactly.moves_held = false;
            let released = resolve(&exactly, catalogs, environment, options).result?;
            let package = &self.filter.package_name;
            return Ok(Course {
                target: BundleRecord::selected(&released, package, options.release_support),
                catalog: Some(released.catalog.to_owned()),
                forced: released.warnings.contains(&Warning::ForcedStep),
                held: Some(held),
            });
        }
        let goal = answer.goal?;
        let catalog = resolution.result.as_ref().ok();
        Ok(Course {
            target: goal.target,
            catalog: catalog.map(|selected| selected.catalog.to_owned()),
            forced: goal.forced,
            held: None,
        })
    }

    fn stays(&self, resolution: &Resolution<'_>) -> bool {
        let installed = self.installed.as_ref().map(|installed| &installed.name);
        let selected = resolution.result.as_ref();
        selected.map_or(true, |selected| Some(&selected.bundle.name) == installed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use olm_api::ClusterExtension;
    use olm_api::keys::policy;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::json;

    use super::super::holds::{Facts, Hold, all, reported};
    use super::super::{Policy, ValidExtension};
    use super::*;
    use crate::catalog::Content;
    use crate::resolve::UpdatePolicy;

    const VERSIONS: [&str; 4] = ["1.0.0", "1.0.1", "1.1.0", "2.0.0"];

    /// A catalog of these versions, each of which may follow any lower one.
    fn content(versions: &[&str]) -> Content {
        let bundles = versions.iter().map(|version| {
            json!({"schema": "olm.bundle", "package": "p", "name": BundleRecord::example(version).name,
                "image": BundleRecord::example(version).image, "properties": [
                    {"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
        });
        let entries = versions.iter().map(
            |version| json!({"name": BundleRecord::example(version).name, "skipRange": format!("<{version}")}),
        );
        let entries: Vec<_> = entries.collect();
        let channel =
            json!({"schema": "olm.channel", "package": "p", "name": "stable", "entries": entries});
        crate::fixture::content(bundles.chain([channel]))
    }

    proptest! {
        // plugin.md U83: the controller acts on the answer, the plan shows the course
        #[test]
        fn the_plan_and_the_next_status_name_the_same_holds(
            offered in subsequence(VERSIONS.to_vec(), 1..=VERSIONS.len()),
            installed in select(VERSIONS.to_vec()),
            upgrade in select(vec!["None", "PatchOnly", "MinorOnly", "Any"]),
            approved in option::of(select(VERSIONS.to_vec())),
            range in option::of(select(vec!["1.x", "1.0.0", ">=1.0.0"])),
            home in select(vec!["acme", "gone"]),
            (paused, closed, stays) in any::<(bool, bool, bool)>(),
        ) {
            let mut annotations = BTreeMap::new();
            let mut annotate = |key: &str, value: &str| {
                annotations.insert(key.to_owned(), value.to_owned());
            };
            annotate(policy::UPGRADE, upgrade);
            if let Some(version) = approved {
                annotate(policy::APPROVE, version);
            }
            if paused {
                annotate(policy::PAUSED, "true");
            }
            if closed {
                annotate(policy::UPDATE_WINDOW, "00:00-01:00 UTC");
            }
            if stays {
                annotate(policy::CATALOG_MOVE, "Hold");
            }
            let policy = Policy::of(&annotations, UpdatePolicy::MinorOnly).unwrap();
            let object = json!({"metadata": {"name": "e", "annotations": annotations}, "spec":
                {"namespace": "ns", "source": {"sourceType": "Catalog",
                    "catalog": {"packageName": "p", "version": range}}}});
            let extension: ClusterExtension = serde_json::from_value(object).unwrap();
            let valid = ValidExtension::of(&extension).unwrap();
            let now = "2026-11-24T12:00:00Z".parse().unwrap();
            let question = Question {
                installed: Some(BundleRecord::example(installed)),
                came_from: Some(home.to_owned()),
                ..Question::of(valid, policy, None, &[], now)
            };
            let content = content(&offered);
            let catalogs = [Catalog {
                name: "acme",
                labels: BTreeMap::new(),
                priority: 0,
                enabled: true,
                problem: None,
                content: Some(&content),
            }];
            let (options, environment) =
                (question.options(Options::default()), Environment::default());
            let resolution = question.resolve(&catalogs, &environment, &options);
            let answer = question.answer(&catalogs, &environment, &options, &resolution);
            let course = question.course(&catalogs, &environment, &options);
            let (Ok(goal), Ok(course)) = (&answer.goal, &course) else { return Ok(()) };

            let facts = Facts::of(valid, &question.policy, &course.target, question.installed.as_ref());
            let facts = Facts { offered: course.held.as_ref(), ..facts };
            let planned: BTreeSet<_> = all(&facts).iter().map(Hold::word).collect();
            if !paused && goal.target.name != BundleRecord::example(installed).name {
                prop_assert_eq!(&course.target, &goal.target);
                prop_assert!(planned.is_empty(), "{planned:?}");
                return Ok(());
            }
            // An update that no step leads to is not held.
            let update = answer.update.filter(|update| update.version.is_some());
            let status = json!({"conditions": [], "update": update});
            let mut seen = extension.clone();
            seen.status = Some(serde_json::from_value(status).unwrap());
            let told: BTreeSet<_> = reported(&seen).iter().map(|holder| holder.word).collect();
            prop_assert_eq!(planned, told);
        }
    }
}
