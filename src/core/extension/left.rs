//! Which version ran before everything lost its owner: a tool recreated the objects from a backup, or
//! the extension was orphaned. It is installed before any other, because from nothing no update path
//! leads to another.
//!
//! Source: applying.md 2.4.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::conditions::Reason;
use olm_api::keys::{annotation, label};
use olm_api::{ClusterObjectSet, LifecycleState};

use crate::revision::{Kin, is_made_for};
use crate::status::Note;
use crate::version::Version;

/// The version that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub(super) version: String,
    /// The range that is asked for and that it is not in.
    pub(super) excluded_by: Option<String>,
}

impl Left {
    /// Returns what `Ready` explains, unless the version is excluded; where it cannot be had, also how to
    /// do without it.
    pub(super) fn note(&self, can_be_had: bool) -> Option<Note> {
        let hint = if can_be_had {
            ""
        } else {
            "; upgradeConstraintPolicy SelfCertified installs another version over them"
        };
        let message = format!(
            "existing objects without an owner belong to version {}; it is installed first, so that \
             later updates follow the update path{hint}",
            self.version
        );
        self.excluded_by.is_none().then_some(Note { reason: Reason::Retrying, message })
    }
}

/// Returns the version of a package that an extension had: that of its newest revision without an
/// owner, else the highest of the CRDs without one that have its label. What is being deleted does not
/// count.
pub fn left_version<'a>(
    (extension, package): (&str, &str),
    sets: &[ClusterObjectSet],
    crds: impl IntoIterator<Item = &'a ObjectMeta>,
) -> Option<Version> {
    let version = |metadata: &ObjectMeta| {
        let empty = BTreeMap::new();
        let recorded = metadata.annotations.as_ref().unwrap_or(&empty);
        let of_package = recorded.get(annotation::PACKAGE_NAME).is_some_and(|it| it == package);
        let stays = of_package && metadata.deletion_timestamp.is_none();
        recorded.get(annotation::BUNDLE_VERSION).filter(|_| stays)?.parse::<Version>().ok()
    };
    let made = |set: &&ClusterObjectSet| {
        let number = Some(set.spec.revision);
        set.spec.lifecycle_state == LifecycleState::Active
            && Kin::of(&set.metadata, number) == Kin::Unowned
            && is_made_for(&set.metadata, extension, number)
    };
    let sets = sets.iter().filter(made);
    let newest = sets.filter_map(|set| Some((set.spec.revision, version(&set.metadata)?)));
    let newest = newest.max_by_key(|(number, _)| *number).map(|(_, version)| version);
    let left = |crd: &&ObjectMeta| {
        let owner = crd.labels.as_ref().and_then(|labels| labels.get(label::OWNER_NAME));
        owner.is_some_and(|owner| owner == extension)
            && crd.owner_references.iter().flatten().next().is_none()
    };
    let crds = crds.into_iter().filter(left).filter_map(version);
    newest.or_else(|| crds.max_by(Version::precedence))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{cases, revision};

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    fn metadata(name: &str, version: &str, more: &Value) -> Value {
        let mut metadata = json!({"name": name, "labels": {label::OWNER_NAME: "e"}, "annotations": {
            annotation::PACKAGE_NAME: "p", annotation::BUNDLE_VERSION: version}});
        for (key, value) in more.as_object().unwrap() {
            metadata[key] = value.clone();
        }
        metadata
    }

    fn set(number: i64, version: &str, more: &Value) -> ClusterObjectSet {
        let metadata = metadata(&format!("e-{number}"), version, more);
        revision(number, &json!({"metadata": metadata}))
    }

    // applying.md 2.4
    #[test]
    fn what_has_no_owner_tells_which_version_ran() {
        for (sets, crds, want) in cases::<(Vec<(i64, &str, Value)>, Vec<(&str, Value)>, Option<&str>)>(
            CASES,
            "what_has_no_owner_tells_which_version_ran",
        ) {
            let sets: Vec<_> =
                sets.iter().map(|(number, it, more)| set(*number, it, more)).collect();
            let crds =
                crds.iter().map(|(version, more)| metadata("foos.example.com", version, more));
            let crds: Vec<ObjectMeta> =
                crds.map(|it| serde_json::from_value(it).unwrap()).collect();
            let left = left_version(("e", "p"), &sets, &crds);
            assert_eq!(left.map(|version| version.to_string()).as_deref(), want);
        }
    }
}
