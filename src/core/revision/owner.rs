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
    let annotations = extension.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(annotation::ORPHANED))
}

fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == finalizer)
}
