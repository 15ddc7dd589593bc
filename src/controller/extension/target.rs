//! Which bundle a pass works towards, as far as the revisions alone can say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use olm_api::keys::annotation;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::resolve::{Installed, Selected};
use olm_core::revision::{deadline, recorded_constraints, states};

/// A bundle a revision is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Its name in the catalog.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its version as recorded.
    pub version: String,
    /// Its release; empty means explicitly none.
    pub release: Option<String>,
    /// Its image as the catalog writes it.
    pub image: String,
    /// Its constraints as its revision records them, if it has any.
    pub constraints: Option<String>,
}

/// What the revisions say about a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    /// A roll-out is under way for this very spec: work on.
    KeepRolling(Target),
    /// Ask the catalogs what may follow the installed bundle.
    Resolve(Option<Target>),
}

impl Target {
    /// Reads the bundle a revision was made of from its annotations.
    pub(super) fn of(revision: &ClusterObjectSet) -> Self {
        let empty = BTreeMap::new();
        let annotations = revision.metadata.annotations.as_ref().unwrap_or(&empty);
        let text = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        Self {
            name: text(annotation::BUNDLE_NAME),
            package: text(annotation::PACKAGE_NAME),
            version: text(annotation::BUNDLE_VERSION),
            release: annotations.get(annotation::BUNDLE_RELEASE).cloned(),
            image: text(annotation::BUNDLE_REFERENCE),
            constraints: annotations.get(annotation::BUNDLE_CONSTRAINTS).cloned(),
        }
    }

    /// Returns the bundle that resolution chose.
    pub(super) fn selected(selected: &Selected<'_>, package: &str, release_support: bool) -> Self {
        // Without the gate the release is recorded where upstream looks for it: behind the version.
        let (version, release) = if release_support {
            let release = selected.version.release.as_ref();
            let version = selected.version.version.to_string();
            (
                version,
                Some(release.map(ToString::to_string).unwrap_or_default()),
            )
        } else {
            (selected.version.recorded(), None)
        };
        Self {
            name: selected.bundle.name.clone(),
            package: package.to_owned(),
            version,
            release,
            image: selected.bundle.image.clone(),
            constraints: recorded_constraints(selected.bundle),
        }
    }

    /// Says whether both are the same bundle, whatever their images.
    pub(super) fn is_same_bundle(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.release) == (&other.name, &other.version, &other.release)
    }

    /// Returns what resolution has to know of the installed bundle.
    pub(super) fn as_installed(&self) -> Installed {
        Installed {
            name: self.name.clone(),
            version: self.version.clone(),
            release: self.release.clone(),
        }
    }

    /// Returns the annotations that record the bundle on a revision.
    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::from(
            [
                (annotation::BUNDLE_NAME, &self.name),
                (annotation::PACKAGE_NAME, &self.package),
                (annotation::BUNDLE_VERSION, &self.version),
                (annotation::BUNDLE_REFERENCE, &self.image),
            ]
            .map(|(key, value)| (key.to_owned(), value.clone())),
        );
        for (key, value) in [
            (annotation::BUNDLE_RELEASE, &self.release),
            (annotation::BUNDLE_CONSTRAINTS, &self.constraints),
        ] {
            if let Some(value) = value {
                annotations.insert(key.to_owned(), value.clone());
            }
        }
        annotations
    }
}

/// Says whether a pass goes on with a roll-out or asks the catalogs.
///
/// A roll-out is kept while it was started for the generation at hand and has time left. After a
/// change of the spec, and after its deadline, the catalogs are asked again, from the installed
/// bundle: successor rules start from what succeeded, not from what is rolling out.
///
/// `revisions` is sorted by number.
///
/// Source: applying.md 1.3, decision 6.
pub(super) fn course(
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
    now: Timestamp,
) -> Course {
    let states = states(revisions);
    let installed = || states.installed.map(Target::of);
    let Some(rolling) = states.rolling.last() else {
        return Course::Resolve(installed());
    };
    let same_spec = recorded_generation(rolling)
        .is_none_or(|recorded| Some(recorded) == extension.metadata.generation);
    let late = deadline(rolling).is_some_and(|deadline| deadline.at <= now);
    if same_spec && !late {
        Course::KeepRolling(Target::of(rolling))
    } else {
        Course::Resolve(installed())
    }
}

fn recorded_generation(revision: &ClusterObjectSet) -> Option<i64> {
    revision
        .metadata
        .annotations
        .as_ref()?
        .get(annotation::EXTENSION_GENERATION)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn extension(generation: i64) -> ClusterExtension {
        serde_json::from_value(json!({"metadata": {"name": "e", "generation": generation}}))
            .unwrap()
    }

    fn revision(number: i64, version: &str, generation: i64, succeeded: bool) -> ClusterObjectSet {
        let status = if succeeded { "True" } else { "False" };
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {
                "name": format!("e-{number}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {
                    annotation::BUNDLE_NAME: format!("p.v{version}"),
                    annotation::PACKAGE_NAME: "p",
                    annotation::BUNDLE_VERSION: version,
                    annotation::BUNDLE_REFERENCE: format!("r/p:{version}"),
                    annotation::EXTENSION_GENERATION: generation.to_string(),
                },
            },
            "spec": {"lifecycleState": "Active", "revision": number,
                "collisionProtection": "Prevent", "progressDeadlineMinutes": 10},
            "status": {"conditions": [{"type": "Succeeded", "status": status, "reason": "Succeeded",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    const EARLY: &str = "2026-01-01T00:05:00Z";
    const LATE: &str = "2026-01-01T00:11:00Z";

    #[test]
    fn a_rollout_for_the_same_spec_goes_on() {
        let revisions = [
            revision(1, "1.0.0", 1, true),
            revision(2, "1.1.0", 2, false),
        ];
        assert_eq!(
            course(&extension(2), &revisions, at(EARLY)),
            Course::KeepRolling(Target::of(&revisions[1]))
        );
    }

    // decision 6, applying.md a8
    #[test]
    fn a_changed_spec_resolves_from_what_succeeded() {
        let revisions = [
            revision(1, "1.0.0", 1, true),
            revision(2, "1.1.0", 2, false),
        ];
        assert_eq!(
            course(&extension(3), &revisions, at(EARLY)),
            Course::Resolve(Some(Target::of(&revisions[0])))
        );
    }

    #[test]
    fn a_rollout_past_its_deadline_resolves_again() {
        let revisions = [revision(1, "1.0.0", 1, false)];
        assert_eq!(
            course(&extension(1), &revisions, at(LATE)),
            Course::Resolve(None)
        );
    }

    #[test]
    fn the_recorded_bundle_survives_a_round_trip() {
        let target = Target {
            name: "p.v1".into(),
            package: "p".into(),
            version: "1.0.0".into(),
            release: Some(String::new()),
            image: "r/p@sha256:0".into(),
            constraints: Some("[]".into()),
        };
        let mut revision = revision(1, "1.0.0", 1, true);
        revision.metadata.annotations = Some(target.annotations());
        assert_eq!(Target::of(&revision), target);
    }
}
