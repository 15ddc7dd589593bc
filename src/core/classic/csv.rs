//! What becomes of the installed `ClusterServiceVersion`, which an extension has no counterpart of,
//! and of what OLM Classic added to its operator.

use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, Classic, has, text};
use crate::bundle::{Csv, mode};
use crate::config::Features;
use crate::object::Object;
use crate::render::{PROXY_NAMES, ProxyVariables, check_support};

/// Fields of the spec that are treated alike, and what becomes of them.
const FIELDS: [(&[&str], Carried, &str); 6] = [
    (&["install", "installModes", "relatedImages"], Carried::Yes, "come with the bundle"),
    (
        &[
            "displayName",
            "description",
            "keywords",
            "maintainers",
            "provider",
            "links",
            "icon",
            "maturity",
        ],
        Carried::NotNeeded,
        "stay in the bundle, for people",
    ),
    (&["replaces", "skips"], Carried::NotNeeded, "the catalog has the edges"),
    (&["minKubeVersion"], Carried::Yes, "is a constraint of the bundle"),
    (
        &["labels", "annotations", "selector"],
        Carried::NotNeeded,
        "OLM Classic does nothing with it",
    ),
    (&["nativeAPIs"], Carried::NotNeeded, "is not checked: the API server refuses unserved kinds"),
];

impl Classic<'_> {
    /// Reads the installed CSV of a Subscription.
    pub(super) fn csv(&self, subscription: &Object, answer: &mut Answer) {
        let name = text(subscription, "/status/installedCSV");
        let Some(csv) = self.find("ClusterServiceVersion", subscription.namespace(), name) else {
            return;
        };
        for (fields, carried, text) in FIELDS {
            let given = fields.iter().filter(|field| has(csv, &format!("/spec/{field}")));
            let given: Vec<_> = given.copied().collect();
            if !given.is_empty() {
                answer.line(csv, carried, given.join(", "), text);
            }
        }
        if has(csv, "/spec/release") {
            let text = "the newest release of the version counts";
            answer.line(csv, Carried::NotNeeded, "release", text);
        }
        if has(csv, "/spec/cleanup/enabled") {
            let text = "OLM Classic does nothing with it: kubectl olm delete NAME --delete-data";
            answer.line(csv, Carried::NotNeeded, "cleanup.enabled", text);
        }
        for (field, key) in [("apiservicedefinitions", "owned"), ("webhookdefinitions", "")] {
            let names = names(csv, field, key);
            if names.is_empty() {
                continue;
            }
            let dot = if key.is_empty() { "" } else { "." };
            let line = format!("{field}{dot}{key}: {}", names.join(", "));
            match refused(csv, field) {
                None => {
                    let text = "come with the bundle, with a certificate of their own";
                    answer.line(csv, Carried::Yes, line, text);
                }
                Some(why) => answer.line(csv, Carried::No, line, why),
            }
        }
        for field in ["customresourcedefinitions", "apiservicedefinitions"] {
            let required = names(csv, field, "required");
            if !required.is_empty() {
                let line = format!("{field}.required: {}", required.join(", "));
                let text = "checked, and waited for; never installed by itself";
                answer.line(csv, Carried::Yes, line, text);
            }
        }
        let owned = names(csv, "customresourcedefinitions", "owned");
        if !owned.is_empty() {
            let line = format!("customresourcedefinitions.owned: {}", owned.join(", "));
            answer.line(csv, Carried::Yes, line, "are taken over, with their objects");
            let text = format!(
                "their ClusterRoles -admin, -edit, -view and -crdview stay while they do, and are \
                 not updated: annotation {}: aggregate makes others",
                policy::USER_ROLES
            );
            answer.line(csv, Carried::NotNeeded, "roles of users", text);
        }
    }

    /// Reads the `OperatorCondition` of the installed CSV. One that the operator or an administrator
    /// wrote is kept, as an annotation of the extension.
    pub(super) fn conditions(
        &self,
        subscription: &Object,
        annotations: &mut Map<String, Value>,
        answer: &mut Answer,
    ) {
        let csv = text(subscription, "/status/installedCSV");
        let Some(condition) = self.find("OperatorCondition", subscription.namespace(), csv) else {
            return;
        };
        let wanted = format!("annotation {}: Enabled", policy::OPERATOR_CONDITIONS);
        let overridden = has(condition, "/spec/overrides");
        let written = ["/spec/conditions", "/status/conditions"];
        if !overridden && !written.iter().any(|conditions| has(condition, conditions)) {
            let text = format!("nobody wrote any: {wanted} lets the operator");
            return answer.line(condition, Carried::NotNeeded, "conditions", text);
        }
        annotations.insert(policy::OPERATOR_CONDITIONS.to_owned(), json!("Enabled"));
        answer.line(condition, Carried::Yes, "conditions", format!("become {wanted}"));
        if overridden {
            let text = "go with the CSV: set them again on the OperatorCondition of the extension";
            answer.line(condition, Carried::No, "overrides", text);
        }
    }

    /// Reads the proxies of the cluster, which Classic gave to every operator whose Subscription sets
    /// none.
    pub(super) fn proxies(
        &self,
        subscription: &Object,
        annotations: &mut Map<String, Value>,
        answer: &mut Answer,
    ) {
        let statuses = self.all("Proxy").filter_map(|proxy| proxy.pointer("/status"));
        let mut proxies = statuses.map(ProxyVariables::of_status);
        if proxies.all(|proxy| proxy == ProxyVariables::default()) {
            return;
        }
        let env = subscription.pointer("/spec/config/env").and_then(Value::as_array);
        let mut set = env.into_iter().flatten().filter_map(|it| it["name"].as_str());
        if set.any(|name| PROXY_NAMES.contains(&name)) {
            return;
        }
        annotations.insert(policy::CLUSTER_PROXY.to_owned(), json!("Inject"));
        let text = format!("become annotation {}: Inject", policy::CLUSTER_PROXY);
        answer.line(subscription, Carried::Yes, "proxies of the cluster", text);
    }
}

/// Returns the names of the definitions in a field of the spec.
fn names(csv: &Object, field: &str, key: &str) -> Vec<String> {
    let slash = if key.is_empty() { "" } else { "/" };
    let list = csv.pointer(&format!("/spec/{field}{slash}{key}")).and_then(Value::as_array);
    let name = |it: &Value| {
        let of = |key: &str| it[key].as_str().unwrap_or_default();
        match field {
            "webhookdefinitions" => of("generateName").to_owned(),
            "apiservicedefinitions" => format!("{}.{}", of("version"), of("group")),
            _ => of("name").to_owned(),
        }
    };
    let mut names: Vec<_> = list.into_iter().flatten().map(name).collect();
    names.sort_unstable();
    // A CRD is owned once for each of its versions.
    names.dedup();
    names
}

/// Returns why a bundle with this field cannot be installed, whatever else it has.
fn refused(csv: &Object, field: &str) -> Option<String> {
    let mut spec = json!({"installModes": [{"type": mode::ALL_NAMESPACES, "supported": true}]});
    spec[field] = csv.pointer(&format!("/spec/{field}")).cloned().unwrap_or_default();
    match Csv::from_manifest(&json!({"spec": spec})) {
        Ok(csv) => check_support(&csv, Features::default()).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}
