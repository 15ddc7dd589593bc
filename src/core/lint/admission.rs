//! What an API server refuses of the configurations of admission webhooks.

use serde_json::Value;

use super::{no_review, not_one_of, texts};
use crate::error::quote;
use crate::object::{Object, items};

/// Members with a few possible values, and whether they must be there.
const WORDS: [(&str, &[&str], bool); 4] = [
    ("sideEffects", &["None", "NoneOnDryRun"], true),
    ("failurePolicy", &["Fail", "Ignore"], false),
    ("matchPolicy", &["Equivalent", "Exact"], false),
    ("reinvocationPolicy", &["IfNeeded", "Never"], false),
];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
/// Parts of the shortest name of a webhook.
const PARTS: usize = 3;

/// Returns why a configuration is refused, one sentence for each reason.
pub(super) fn faults(configuration: &Object) -> Vec<String> {
    configuration.list_at("/webhooks").flat_map(webhook).collect()
}

fn webhook(webhook: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let name = webhook["name"].as_str().unwrap_or_default();
    if name.split('.').count() < PARTS {
        faults.push(format!("the name of webhook {} has less than three parts", quote(name)));
    }
    let words = WORDS.into_iter();
    faults.extend(words.filter_map(|(key, words, must)| not_one_of(webhook, key, words, must)));
    faults.extend(no_review(&webhook["admissionReviewVersions"], "admissionReviewVersions"));
    let seconds = webhook["timeoutSeconds"].as_i64();
    if let Some(seconds) = seconds.filter(|seconds| !(1..=30).contains(seconds)) {
        faults.push(format!("timeoutSeconds {seconds} is not between 1 and 30"));
    }
    let service = &webhook["clientConfig"]["service"];
    let path = service["path"].as_str().filter(|path| !path.is_empty());
    if let Some(path) = path.filter(|path| !path.starts_with('/')) {
        faults.push(format!("webhookPath {} does not begin with \"/\"", quote(path)));
    }
    faults.extend(port(service));
    faults.extend(items(&webhook["rules"]).enumerate().flat_map(|(index, rule)| {
        let faults = self::rule(rule).into_iter();
        faults.map(move |fault| format!("rules[{index}]: {fault}")).collect::<Vec<_>>()
    }));
    faults
}

/// Returns why the port of a Service that is called is refused.
pub(super) fn port(service: &Value) -> Option<String> {
    let port = service["port"].as_i64().filter(|port| !(1..=65_535).contains(port))?;
    Some(format!("containerPort {port} is not between 1 and 65535"))
}

fn rule(rule: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for key in ["operations", "apiGroups", "apiVersions", "resources"] {
        let items = texts(&rule[key]);
        let all_and_more = items.len() > 1 && items.contains(&"*") && key != "resources";
        if items.is_empty() {
            faults.push(format!("{key} is empty"));
        } else if all_and_more {
            faults.push(format!("{key} has other values beside \"*\""));
        } else if key != "apiGroups" && items.contains(&"") {
            faults.push(format!("{key} has an empty value"));
        }
    }
    let operations = texts(&rule["operations"]).into_iter();
    faults.extend(
        operations
            .filter(|it| !it.is_empty() && !OPERATIONS.contains(it))
            .map(|it| format!("operation {} is not one of {}", quote(it), OPERATIONS.join(", "))),
    );
    faults.extend(not_one_of(rule, "scope", &SCOPES, false));
    faults
}
