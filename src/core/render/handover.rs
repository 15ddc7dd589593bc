//! What is done to every rendered object before it enters a revision.
//!
//! Source: rendering.md 6.1.

use olm_api::keys::{annotation, label};
use serde_json::Value;

use crate::object::{Object, take_map};

/// Keys of `metadata` that enter a revision; other metadata in a manifest belongs to the cluster it
/// was exported from.
const METADATA_KEYS: [&str; 4] = ["annotations", "labels", "name", "namespace"];

/// Labels and annotates objects for a revision and removes what must not be applied.
///
/// Every object gets the labels of its extension over its own, and the annotations for package and
/// version where these are not empty; package and version are those of the resolved bundle, not
/// those of its files. Pod templates and selectors are left alone. `status`, the last-applied
/// annotation and all metadata but annotations, labels, name and namespace are removed.
pub fn prepare_for_revision(
    objects: Vec<Object>,
    extension: &str,
    package: &str,
    version: &str,
) -> Vec<Object> {
    objects.into_iter().map(|object| prepare(object, extension, package, version)).collect()
}

fn prepare(mut object: Object, extension: &str, package: &str, version: &str) -> Object {
    object.0.remove("status");
    let metadata = object.metadata_mut();
    metadata.retain(|key, _| METADATA_KEYS.contains(&key.as_str()));
    let mut labels = take_map(metadata, "labels");
    labels.insert(label::OWNER_KIND.to_owned(), label::OWNER_KIND_EXTENSION.into());
    labels.insert(label::OWNER_NAME.to_owned(), extension.into());
    metadata.insert("labels".to_owned(), Value::Object(labels));
    let mut annotations = take_map(metadata, "annotations");
    annotations.remove(annotation::LAST_APPLIED);
    if !version.is_empty() {
        annotations.insert(annotation::BUNDLE_VERSION.to_owned(), version.into());
    }
    if !package.is_empty() {
        annotations.insert(annotation::PACKAGE_NAME.to_owned(), package.into());
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    object
}
