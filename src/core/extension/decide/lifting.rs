//! Finds what lifts the hold that an extension puts on updates of the platform.
//!
//! Source: applying.md 9.7, plugin.md 1.4.

use super::Question;
use crate::explain::explain;
use crate::extension::lift::{Lift, LiftStep};
use crate::gate::{MaxVersion, MinorRelease, max_declared};
use crate::resolve::{Catalog, Environment, Options};
use crate::revision::BundleRecord;
use crate::version::VersionRelease;

/// The most versions that are tried; the nearest come first.
const MAX_TRIED: usize = 25;

impl Question {
    /// Returns the nearest version that a platform of release `target` may have, and what leads to
    /// it: each way was tried.
    pub fn lift(
        &self,
        catalogs: &[Catalog<'_>],
        environment: &Environment,
        options: Options,
        target: MinorRelease,
    ) -> Lift {
        let mut request = self.request();
        // What waits for an approval is a way out as well.
        request.moves_held = false;
        let mut forced = None;
        let supporting = self.supporting(catalogs, options, target);
        let untried = supporting.len() > MAX_TRIED;
        for (version, supports) in supporting.into_iter().take(MAX_TRIED) {
            let report = explain(&request, catalogs, environment, &options, Some(&version));
            let Some(found) = report.target else { continue };
            let step = match found.ways.into_iter().next() {
                _ if found.selected && self.policy.paused => Some(LiftStep::Resume),
                _ if found.selected => Some(LiftStep::Itself),
                way => way.map(LiftStep::Change),
            };
            let Some(step) = step else { continue };
            let is_forced = matches!(&step, LiftStep::Change(change) if change.forced);
            let lift = Lift::Version { version: version.clone(), supports, step };
            if !is_forced {
                return lift;
            }
            forced.get_or_insert(lift);
        }
        let unread = || {
            let asked = self.resolve(catalogs, environment, &options).catalogs;
            let unread = asked.iter().find(|catalog| catalog.problem.is_some())?;
            Some(Lift::Unknown(format!("catalog {} cannot be read", unread.name)))
        };
        let others = || {
            let why = format!("only the nearest {MAX_TRIED} that support the release were tried");
            untried.then_some(Lift::Unknown(why))
        };
        forced.or_else(unread).or_else(others).unwrap_or(Lift::Removal)
    }

    /// Returns the versions above the installed one that support a release, the lowest first.
    fn supporting(
        &self,
        catalogs: &[Catalog<'_>],
        options: Options,
        target: MinorRelease,
    ) -> Vec<(String, MaxVersion)> {
        let installed = self.installed.as_ref().and_then(BundleRecord::version_release);
        let packages = catalogs.iter().filter(|catalog| catalog.enabled);
        let packages = packages.filter_map(|it| it.package(&self.filter.package_name));
        let mut found: Vec<(&VersionRelease, MaxVersion)> = Vec::new();
        for bundle in packages.flat_map(|package| &package.bundles) {
            let properties = bundle.properties.iter();
            let max = max_declared(properties.map(|it| (&*it.kind, &*it.value)));
            let version = bundle.version(options.release_support);
            let (Ok(version), Ok(max)) = (version, max) else { continue };
            let higher = |installed| version.precedence(installed).is_gt();
            if max.supports(target) && installed.as_ref().is_none_or(higher) {
                found.push((version, max));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.precedence(b));
        found.dedup_by(|(a, _), (b, _)| a.precedence(b).is_eq());
        found.into_iter().map(|(it, max)| (it.recorded(), max)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use olm_api::CatalogFilter;
    use olm_api::keys::policy;
    use serde_json::{Value, json};

    use super::*;
    use crate::extension::Policy;
    use crate::fixture::cases;
    use crate::resolve::tests::{Fixture, catalog, down};
    use crate::resolve::{CatalogProblem, Knowledge};

    const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

    /// Versions that replace each other, each with the raw JSON of what it supports.
    fn chain(versions: &[(&str, &str)]) -> Fixture {
        let names: Vec<_> = versions.iter().map(|(version, _)| *version).collect();
        let mut fixture = Fixture::chain(&names);
        for (blob, (_, max)) in fixture.blobs.iter_mut().zip(versions) {
            let value: Value = serde_json::from_str(max).unwrap();
            let property = json!({"type": "olm.maxOpenShiftVersion", "value": value});
            blob["properties"].as_array_mut().unwrap().push(property);
        }
        fixture
    }

    fn question(annotations: &[(&str, &str)]) -> Question {
        let filter = CatalogFilter {
            package_name: "kettle".to_owned(),
            version: Some("1.0.0".to_owned()),
            ..CatalogFilter::default()
        };
        let installed = BundleRecord {
            name: "kettle.v1.0.0".to_owned(),
            package: "kettle".to_owned(),
            ..BundleRecord::example("1.0.0")
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        Question {
            installed: Some(installed),
            ..Question::new(filter, Policy::example(annotations), now)
        }
    }

    fn lift(question: &Question, catalogs: &[Catalog<'_>]) -> String {
        let options = question.options(Options::default());
        let environment = Environment::default();
        let target = MinorRelease::new(4, 19);
        let lift = question.lift(catalogs, &environment, options, target);
        lift.text("quay")
    }

    // applying.md 9.7; plugin.md U57
    #[test]
    fn the_nearest_version_lifts_it() {
        for (versions, want) in
            cases::<(Vec<(&str, &str)>, &str)>(CASES, "the_nearest_version_lifts_it")
        {
            let content = chain(&versions).content();
            assert_eq!(lift(&question(&[]), &[catalog("a", 0, &content)]), want);
        }
    }

    // applying.md 9.7
    #[test]
    fn what_is_chosen_already_comes_by_itself_unless_paused() {
        let content = chain(&[("1.0.0", "\"4.18\""), ("1.1.0", "\"4.19\"")]).content();
        let catalogs = [catalog("a", 0, &content)];
        let mut free = question(&[]);
        free.filter.version = None;
        assert_eq!(
            lift(&free, &catalogs),
            "1.1.0 (up to 4.19) lifts it and is applied automatically"
        );
        let mut paused = question(&[(policy::PAUSED, "true")]);
        paused.filter.version = None;
        assert_eq!(
            lift(&paused, &catalogs),
            "1.1.0 (up to 4.19) lifts it: kubectl olm resume quay"
        );
    }

    // applying.md 9.7: its bundle may declare one
    #[test]
    fn what_declares_no_limit_is_only_said_of_the_catalog() {
        let (version, supports) = ("1.1.0".to_owned(), MaxVersion::NotDeclared);
        let lift = Lift::Version { version, supports, step: LiftStep::Itself };
        let want = "1.1.0 (its catalog declares no limit) lifts it and is applied automatically";
        assert_eq!(lift.text("quay"), want);
    }

    // applying.md 9.7
    #[test]
    fn what_no_edge_leads_to_has_to_be_forced() {
        let mut fixture = chain(&[("1.0.0", "\"4.18\""), ("1.1.0", "\"4.19\"")]);
        for entry in fixture.blobs[2]["entries"].as_array_mut().unwrap() {
            entry["replaces"] = json!("");
        }
        let content = fixture.content();
        assert_eq!(
            lift(&question(&[]), &[catalog("a", 0, &content)]),
            "1.1.0 (up to 4.19) lifts it: kubectl olm upgrade quay --to 1.1.0 --force"
        );
    }

    // applying.md 9.7: whoever has to remove an extension must have no other way.
    #[test]
    fn removal_is_advised_only_if_all_versions_were_tried() {
        let all = "no version in the catalogs lifts it: kubectl olm delete quay";
        let one_is_left = "the version that lifts it is not known, because only the nearest 25 that \
                           support the release were tried: kubectl olm why quay";
        for (versions, want) in [(MAX_TRIED, all), (MAX_TRIED + 1, one_is_left)] {
            let later: Vec<_> = (1..=versions).map(|minor| format!("1.{minor}.0")).collect();
            let later = later.iter().map(|version| (version.as_str(), "\"4.19\""));
            let mut fixture =
                chain(&[("1.0.0", "\"4.18\"")].into_iter().chain(later).collect::<Vec<_>>());
            let absent = json!({"type": "olm.package.required",
                "value": {"packageName": "absent", "versionRange": ">=1.0.0"}});
            for blob in &mut fixture.blobs[1..=versions] {
                blob["properties"].as_array_mut().unwrap().push(absent.clone());
            }
            let content = fixture.content();
            let nothing = Environment {
                providers: Knowledge::Known(Arc::default()),
                ..Environment::default()
            };
            let (question, target) = (question(&[]), MinorRelease::new(4, 19));
            let options = question.options(Options::default());
            let lift = question.lift(&[catalog("a", 0, &content)], &nothing, options, target);
            assert_eq!(lift.text("quay"), want);
        }
    }

    // applying.md 9.7
    #[test]
    fn nothing_is_said_of_what_cannot_be_read() {
        let content = chain(&[("1.0.0", "\"4.18\"")]).content();
        let problem = Some(CatalogProblem::NotServing);
        let stale = Catalog { problem, ..catalog("a", 0, &content) };
        for catalog in [down("a", 0), stale] {
            assert_eq!(
                lift(&question(&[]), &[catalog]),
                "the version that lifts it is not known, because catalog a cannot be read: kubectl olm why quay"
            );
        }
    }
}
