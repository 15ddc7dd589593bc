//! The API server's audit log: who wrote what.

use std::path::Path;

use serde_json::Value;

/// One write to an object, as the API server saw it.
#[derive(Debug, Clone)]
pub struct Write {
    /// Who sent the request.
    pub user: String,
    /// Whom the sender acted as, if anybody.
    pub acted_as: Option<String>,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Resource, plural.
    pub resource: String,
    /// Subresource, empty for the object itself.
    pub subresource: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name, empty when a create request does not say it in its URL.
    pub name: String,
    /// Status code of the answer.
    pub code: u64,
    /// Whether the request was a dry run.
    pub dry_run: bool,
}

/// Returns all writes in the log so far, oldest first.
pub fn writes(log: &Path) -> Vec<Write> {
    let text = std::fs::read_to_string(log).expect("the audit log can be read");
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|event| write(&event))
        .collect()
}

fn write(event: &Value) -> Option<Write> {
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let verb = text("/verb");
    ["create", "update", "patch", "delete", "deletecollection"]
        .contains(&verb.as_str())
        .then(|| Write {
            user: text("/user/username"),
            acted_as: event
                .pointer("/impersonatedUser/username")
                .and_then(Value::as_str)
                .map(str::to_owned),
            verb,
            resource: text("/objectRef/resource"),
            subresource: text("/objectRef/subresource"),
            group: text("/objectRef/apiGroup"),
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event
                .pointer("/responseStatus/code")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
            dry_run: text("/requestURI").contains("dryRun=All"),
        })
}
