//! Manifests of the bundle that become objects almost unchanged.
//!
//! Source: rendering.md 4.5 and 4.6.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bundle::supported_kind;
use crate::error::quote;
use crate::object::Object;

/// Keys of the `spec` of a custom resource definition; some bundles carry others of older
/// versions, which server-side apply refuses (rendering.md R14).
const CRD_SPEC_KEYS: [&str; 6] =
    ["group", "names", "scope", "versions", "conversion", "preserveUnknownFields"];

/// Returns a custom resource definition without fields that a cluster would have added.
pub(super) fn crd(manifest: &Object) -> Object {
    let mut crd = manifest.clone();
    crd.0.remove("status");
    crd.metadata_mut().remove("creationTimestamp");
    if let Some(Value::Object(spec)) = crd.0.get_mut("spec") {
        spec.retain(|key, _| CRD_SPEC_KEYS.contains(&key.as_str()));
    }
    crd
}

/// Returns a manifest, moved into the install namespace if its kind lives in one.
pub(super) fn other(manifest: &Object, namespace: &str) -> Object {
    let mut object = manifest.clone();
    if supported_kind(object.kind()) == Some(true) {
        let metadata = object.metadata_mut();
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    object
}

/// Warns of bindings to a service account of this bundle in a namespace where it is not created.
///
/// The subject is left unchanged: others legitimately name service accounts of other namespaces.
pub(super) fn foreign_subjects(objects: &[Object], namespace: &str) -> Vec<String> {
    let accounts: BTreeSet<&str> = objects
        .iter()
        .filter(|object| object.kind() == "ServiceAccount")
        .map(Object::name)
        .collect();
    let mut warnings = Vec::new();
    for binding in objects {
        if !matches!(binding.kind(), "RoleBinding" | "ClusterRoleBinding") {
            continue;
        }
        for subject in binding.list_at("/subjects") {
            let text = |key| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            let (name, other) = (text("name"), text("namespace"));
            if text("kind") == "ServiceAccount"
                && !other.is_empty()
                && other != namespace
                && accounts.contains(name)
            {
                warnings.push(format!(
                    "{} {} binds service account {} of namespace {}, but the bundle creates it in \
                     {}",
                    binding.kind(),
                    quote(binding.name()),
                    quote(name),
                    quote(other),
                    quote(namespace)
                ));
            }
        }
    }
    warnings
}

/// Warns of definitions whose objects are converted behind a Service of this bundle in a namespace where
/// it is not created.
pub(super) fn foreign_services(objects: &[Object], namespace: &str) -> Vec<String> {
    let services = objects.iter().filter(|object| object.kind() == "Service");
    let services: BTreeSet<&str> = services.map(Object::name).collect();
    let warning = |crd: &Object| {
        let service = crd.pointer("/spec/conversion/webhook/clientConfig/service")?;
        let (name, other) = (service["name"].as_str()?, service["namespace"].as_str()?);
        (services.contains(name) && other != namespace).then(|| {
            format!(
                "{} {} is converted by Service {} of namespace {}, but the bundle creates it in {}",
                crd.kind(),
                quote(crd.name()),
                quote(name),
                quote(other),
                quote(namespace)
            )
        })
    };
    objects.iter().filter_map(warning).collect()
}
