//! What an API server refuses of custom resource definitions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{no_review, not_one_of};
use crate::bundle::{is_label, is_subdomain};
use crate::error::quote;
use crate::object::{Object, items};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// Annotation that groups of Kubernetes itself need.
const APPROVED: &str = "api-approved.kubernetes.io";

/// Returns the names of the versions.
pub(super) fn version_names(crd: &Object) -> impl Iterator<Item = &str> {
    crd.list_at("/spec/versions").filter_map(|version| version["name"].as_str())
}

/// Returns why a definition is refused, one sentence for each reason.
pub(super) fn faults(crd: &Object) -> Vec<String> {
    let mut faults = names(crd);
    let spec = crd.pointer("/spec").unwrap_or(&Value::Null);
    faults.extend(not_one_of(spec, "scope", &["Cluster", "Namespaced"], true));
    if spec["preserveUnknownFields"] == true {
        faults.push("preserveUnknownFields must be false".to_owned());
    }
    let mut known = BTreeSet::new();
    for version in crd.list_at("/spec/versions") {
        let name = version["name"].as_str().unwrap_or_default();
        if !known.insert(name) {
            faults.push(format!("version {} is given twice", quote(name)));
        }
        let found = self::version(name, version).into_iter();
        faults.extend(found.map(|fault| format!("version {}: {fault}", quote(name))));
    }
    let stored = crd.list_at("/spec/versions").filter(|it| it["storage"] == true).count();
    if known.is_empty() {
        faults.push("versions is missing".to_owned());
    } else if stored != 1 {
        faults.push(format!("exactly one version must have storage: true, not {stored}"));
    }
    faults.extend(conversion(&spec["conversion"]));
    faults
}

fn names(crd: &Object) -> Vec<String> {
    let mut faults = Vec::new();
    let group = crd.text_at("/spec/group");
    if !is_subdomain(group) || !group.contains('.') {
        faults.push(format!("group {} is not a DNS subdomain with a dot", quote(group)));
    }
    for key in ["plural", "kind"] {
        let name = crd.text_at(&format!("/spec/names/{key}")).to_lowercase();
        if !is_dns_1035(&name) {
            faults.push(format!("names.{key} {} is missing or not a DNS label", quote(&name)));
        }
    }
    let name = format!("{}.{group}", crd.text_at("/spec/names/plural"));
    if crd.name() != name {
        faults.push(format!("the name must be {}, plural and group", quote(&name)));
    }
    let of_kubernetes = ["k8s.io", "kubernetes.io"].into_iter().any(|owner| {
        let below = group.strip_suffix(owner);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    });
    let annotations = crd.pointer("/metadata/annotations").unwrap_or(&Value::Null);
    if of_kubernetes && annotations[APPROVED].as_str().unwrap_or_default().is_empty() {
        faults.push(format!("group {} needs annotation {APPROVED}", quote(group)));
    }
    faults
}

fn version(name: &str, version: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_dns_1035(name) {
        faults.push("the name is not a DNS label".to_owned());
    }
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_null() {
        faults.push("schema.openAPIV3Schema is missing".to_owned());
    } else if schema["type"] != "object" {
        faults.push("the type of schema.openAPIV3Schema must be object".to_owned());
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        let paths = [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")];
        let wrong = paths.into_iter().filter(|(key, start)| {
            let path = scale[*key].as_str().unwrap_or_default();
            !path.starts_with(start)
        });
        faults.extend(
            wrong.map(|(key, start)| format!("subresources.scale.{key} must begin with {start}")),
        );
    }
    for (index, column) in items(&version["additionalPrinterColumns"]).enumerate() {
        let missing = ["name", "jsonPath"].into_iter();
        let missing = missing.filter(|key| column[*key].as_str().unwrap_or_default().is_empty());
        let missing = missing.map(|key| format!("{key} is missing"));
        let found = missing.chain(not_one_of(column, "type", &COLUMN_TYPES, true));
        faults.extend(found.map(|fault| format!("additionalPrinterColumns[{index}]: {fault}")));
    }
    faults
}

fn conversion(conversion: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if conversion.is_null() {
        return faults;
    }
    faults.extend(not_one_of(conversion, "strategy", &["None", "Webhook"], true));
    let webhook = &conversion["webhook"];
    if conversion["strategy"] == "Webhook" {
        let key = "conversionReviewVersions";
        faults.extend(no_review(&webhook[key], &format!("conversion.webhook.{key}")));
        let config = &webhook["clientConfig"];
        if config["url"].is_null() == config["service"].is_null() {
            let text = "conversion.webhook.clientConfig needs either url or service";
            faults.push(text.to_owned());
        }
    } else if !webhook.is_null() {
        faults.push("conversion.webhook is only for strategy Webhook".to_owned());
    }
    faults
}

/// Says whether a text is a DNS label that begins with a letter.
fn is_dns_1035(text: &str) -> bool {
    is_label(text) && text.len() <= 63 && text.starts_with(|c: char| c.is_ascii_lowercase())
}
