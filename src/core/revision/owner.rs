//! Whom a revision belongs to, and who keeps it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use olm_api::keys::{annotation, finalizer, label};
use olm_api::{API_VERSION, ClusterObjectSet};

/// Returns the controller reference of a revision to its extension.
pub fn extension_reference(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut references = metadata.owner_references.iter().flatten();
    references.find(|reference| {
        reference.kind == label::OWNER_KIND_EXTENSION
            && reference.controller == Some(true)
            && reference.api_version.split('/').next() == API_VERSION.split('/').next()
    })
}

/// Returns the `owner-name` label of a revision. It only finds revisions: anybody can write it.
pub fn owner_name(revision: &ClusterObjectSet) -> Option<&str> {
    let labels = revision.metadata.labels.as_ref()?;
    labels.get(label::OWNER_NAME).map(String::as_str)
}

/// Says whether our finalizer is on the revision, and with it possibly something installed.
pub fn has_finalizer(revision: &ClusterObjectSet) -> bool {
    has(&revision.metadata, finalizer::TEARDOWN)
}

/// Says whether Kubernetes was asked to keep the dependents of an object that is being deleted.
pub fn has_orphan_finalizer(metadata: &ObjectMeta) -> bool {
    has(metadata, finalizer::ORPHAN)
}

/// Says whether what an extension installed is to stay: Kubernetes was asked to keep its dependents,
/// or it was written down that it had been.
///
/// The finalizer alone does not tell. The garbage collector takes it off when it has let go of the
/// dependents it knows, and of kinds that are new to it it knows none.
pub fn is_orphaned(extension: &ObjectMeta) -> bool {
    has_orphan_finalizer(extension) || is_marked_orphaned(extension)
}

/// Says whether it is written down that what an extension installed is to stay.
pub fn is_marked_orphaned(extension: &ObjectMeta) -> bool {
    let marks = extension.annotations.as_ref();
    let mark = marks.and_then(|all| all.get(annotation::ORPHANED));
    mark.is_some() && mark == orphan_mark(extension).as_ref()
}

/// Returns what is written down: when the deletion began. So nobody can write it beforehand, and a
/// copy of the object does not carry it.
pub fn orphan_mark(extension: &ObjectMeta) -> Option<String> {
    let began = extension.deletion_timestamp.as_ref()?;
    Some(began.0.to_string())
}

fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == finalizer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_orphaning_deletion_is_remembered_for_that_deletion_only() {
        let extension = |finalizers: &[&str], mark: Option<&str>, began: Option<&str>| {
            let metadata: ObjectMeta = serde_json::from_value(json!({
                "finalizers": finalizers, "deletionTimestamp": began,
                "annotations": mark.map(|mark| json!({annotation::ORPHANED: mark})),
            }))
            .unwrap();
            is_orphaned(&metadata)
        };
        let (began, other) = (Some("2026-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
        assert!(extension(&["orphan"], None, began));
        assert!(extension(&[], began, began));
        assert!(!extension(&[], None, began));
        assert!(!extension(&[], other, began));
        assert!(!extension(&[], Some("true"), began));
        assert!(!extension(&[], began, None));
    }
}
