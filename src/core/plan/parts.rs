//! Parts of objects that a person asks for before a step.

use std::collections::BTreeSet;

use super::Difference;
use crate::gate::{MaxVersion, max_openshift_version};
use crate::object::Object;
use crate::rbac::Powers;

/// Compares what the operator's pods can do.
pub(super) fn granted<'a>(
    old: impl Iterator<Item = &'a Object>,
    new: impl Iterator<Item = &'a Object>,
) -> Difference {
    let (old, new) = (Powers::of(old), Powers::of(new));
    Difference { added: new.beyond(&old), removed: old.beyond(&new) }
}

/// Returns the webhooks of configurations, and the CRDs whose objects a webhook converts.
pub(super) fn webhooks<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeSet<String> {
    objects
        .flat_map(|object| {
            let named = object.list_at("/webhooks").map(|hook| {
                let name = hook["name"].as_str().unwrap_or_default();
                format!("{} {name}", object.kind())
            });
            let converts = crate::uninstall::is_converted_by_webhook(object);
            let converted = converts.then(|| format!("conversion of {}", object.name()));
            named.chain(converted).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the images of containers.
pub(super) fn images<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeSet<String> {
    let lists = ["initContainers", "containers"].map(|list| format!("/spec/template/spec/{list}"));
    objects
        .flat_map(|object| {
            let containers = lists.iter().flat_map(|list| object.list_at(list));
            containers.filter_map(|container| Some(container["image"].as_str()?.to_owned()))
        })
        .collect()
}

/// Returns the newest version of OpenShift that properties name, as they write it.
pub(super) fn supported(properties: Option<&str>) -> Option<String> {
    match max_openshift_version(properties) {
        Ok(MaxVersion::Supports(max)) => Some(max.to_string()),
        Ok(MaxVersion::NotDeclared) | Err(_) => None,
    }
}
