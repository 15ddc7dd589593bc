//! What a catalog or an API server will refuse of a bundle, and what nobody can use of it.
//!
//! In: a bundle with its files, or the objects that it becomes. Out: sentences. An error is refused
//! for certain; whatever may be meant is a warning. The rules of catalogs are those of
//! [`crate::catalog::lint`], asked of the blobs that the bundle becomes; those of API servers are
//! what Kubernetes checks beyond the schemas of its own kinds.
//!
//! Source: rendering.md section 5.

mod admission;
mod definition;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::Value;

use crate::bundle::{Bundle, BundleError, Files, csv_as_written, is_label, is_subdomain};
use crate::catalog::CatalogBundle;
use crate::catalog::lint::{Finding, ImageCheck, Linter, Rule, Severity};
use crate::catalog::read::Meta;
use crate::error::{Chain, quote};
use crate::object::{Object, items};
use crate::removed_apis::served_version;
use crate::similar;

/// Rules of catalogs that are about a bundle alone.
#[rustfmt::skip]
const OF_BUNDLES: [Rule; 11] = [
    Rule::Meta, Rule::Property, Rule::Bundle, Rule::Entry, Rule::SkipRange, Rule::RelatedImage,
    Rule::BundleVersion, Rule::Gvk, Rule::Required, Rule::Constraint, Rule::MaxOpenshift,
];
/// Versions of the reviews that an API server sends to webhooks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// Annotations of a CSV that are read by their exact names.
const ANNOTATIONS: [&str; 3] = ["olm.properties", "olm.skipRange", "olm.substitutesFor"];
/// Most letters that differ between an annotation and the one that was meant.
const NEAR: usize = 2;
/// Types of webhooks.
const WEBHOOKS: [&str; 3] =
    ["ConversionWebhook", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is refused for certain, one sentence each.
    pub errors: Vec<String>,
    /// What may be meant, one sentence each.
    pub warnings: Vec<String>,
}

/// Returns what the lint of a catalog says of the blobs that a bundle becomes.
///
/// # Errors
///
/// The bundle cannot become blobs.
pub fn in_catalog(
    bundle: &Bundle,
    files: &Files,
    image: ImageCheck,
) -> Result<Findings, BundleError> {
    let mut linter = Linter::new(image);
    let mut found = Findings::default();
    for blob in CatalogBundle::new(bundle, files, "")?.alone() {
        match Meta::parse(&blob) {
            Ok(meta) => linter.add_blob("", 0, &meta),
            Err(reason) => found.errors.push(Chain(&reason).to_string()),
        }
    }
    for Finding { rule, severity, text, hint, .. } in linter.finish() {
        if !OF_BUNDLES.contains(&rule) {
            continue;
        }
        let text = hint.map_or_else(|| text.clone(), |hint| format!("{text}; {hint}"));
        match severity {
            Severity::Error => found.errors.push(text),
            Severity::Warning => found.warnings.push(text),
            Severity::Note => {}
        }
    }
    Ok(found)
}

/// Returns why an API server will refuse objects, one sentence for each reason.
pub fn refused<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Vec<String> {
    let faults = |object: &Object| {
        let mut faults: Vec<String> = unserved(object).into_iter().chain(name(object)).collect();
        faults.extend(match object.kind() {
            "CustomResourceDefinition" => definition::faults(object),
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                admission::faults(object)
            }
            "APIService" => {
                object.pointer("/spec/service").and_then(admission::port).into_iter().collect()
            }
            _ => Vec::new(),
        });
        let about = format!("{} {}", object.kind(), quote(object.name()));
        faults.into_iter().map(move |fault| format!("{about}: {fault}")).collect::<Vec<_>>()
    };
    objects.into_iter().flat_map(faults).collect()
}

/// Returns what a bundle says that nothing reads, or that contradicts itself, one sentence each.
pub fn doubts(bundle: &Bundle, files: &Files) -> Vec<String> {
    let csv = &bundle.csv;
    let mut doubts: Vec<String> = csv.annotations.keys().filter_map(|key| misspelt(key)).collect();
    let unknown = csv.webhooks.iter().filter(|it| !WEBHOOKS.contains(&it.kind.as_str()));
    doubts.extend(unknown.map(|webhook| {
        let (name, kind) = (quote(&webhook.generate_name), quote(&webhook.kind));
        format!("webhook {name} is left out: its type {kind} is not one of {}", WEBHOOKS.join(", "))
    }));
    doubts.extend(versions_not_defined(bundle, &csv_as_written(files).manifest));
    doubts
}

fn misspelt(key: &str) -> Option<String> {
    let lower = key.to_lowercase();
    let distance = |known: &str| similar::distance(&known.to_lowercase(), &lower, NEAR);
    let near = ANNOTATIONS.into_iter().filter_map(|known| Some((distance(known)?, known)));
    let (_, near) = near.min()?;
    (near != key).then(|| {
        let (key, near) = (quote(key), quote(near));
        format!("annotation {key} is not read; did you mean {near}")
    })
}

/// Returns the owned versions that the CRDs of a bundle do not have. OLM Classic waits for them for
/// ever; OLM v1 does not read them.
fn versions_not_defined(bundle: &Bundle, csv: &Value) -> Vec<String> {
    let defined: BTreeMap<&str, BTreeSet<&str>> = (bundle.crds.iter())
        .map(|crd| (crd.name(), definition::version_names(crd).collect()))
        .collect();
    let owned = items(&csv["spec"]["customresourcedefinitions"]["owned"]);
    let missing = owned.filter_map(|owned| {
        let (name, version) = (owned["name"].as_str()?, owned["version"].as_str()?);
        let versions = defined.get(name)?;
        (!versions.contains(version)).then(|| {
            format!(
                "owned version {} of {} is not in the custom resource definition, which has: {}",
                quote(version),
                quote(name),
                versions.iter().join(", ")
            )
        })
    });
    missing.collect()
}

/// Returns why no cluster serves the API version of a kind of Kubernetes itself.
fn unserved(object: &Object) -> Option<String> {
    let served = served_version(object.group(), object.kind())?;
    (object.api_version() != served).then(|| {
        let version = quote(object.api_version());
        format!("no supported Kubernetes serves it in {version}: use {served}")
    })
}

/// Returns why an object cannot have its name.
fn name(object: &Object) -> Option<String> {
    let name = object.name();
    let fault = match object.kind() {
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => {
            let fits = !matches!(name, "." | "..") && !name.contains(['/', '%']);
            (!fits).then_some("the name must not be \".\" or \"..\" nor contain \"/\" or \"%\"")
        }
        "Service" => {
            let fits = is_label(name) && name.len() <= 63;
            (!fits).then_some("the name is not a DNS label")
        }
        _ => (!is_subdomain(name)).then_some("the name is not a DNS subdomain"),
    };
    fault.map(str::to_owned)
}

/// Returns the texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    items(value).filter_map(Value::as_str).collect()
}

/// Returns why a member is not one of some words; an absent one is allowed unless it is required.
fn not_one_of(value: &Value, key: &str, words: &[&str], required: bool) -> Option<String> {
    let listed = || words.join(", ");
    match value.get(key) {
        None | Some(Value::Null) => {
            required.then(|| format!("{key} is missing: one of {}", listed()))
        }
        Some(Value::String(text)) if words.contains(&text.as_str()) => None,
        Some(other) => Some(format!("{key} {other} is not one of {}", listed())),
    }
}

/// Returns why an API server can send a webhook no review that it understands.
fn no_review(versions: &Value, key: &str) -> Option<String> {
    let versions = texts(versions);
    if versions.is_empty() {
        return Some(format!("{key} is missing: at least one of {}", REVIEWS.join(", ")));
    }
    let known = versions.iter().any(|version| REVIEWS.contains(version));
    (!known).then(|| format!("{key} has none of {}", REVIEWS.join(", ")))
}

#[cfg(test)]
mod tests;
