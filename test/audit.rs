//! Reads the API server's audit log: who sent which requests.

use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

/// One request for an object or a list of objects, as the API server saw it.
#[derive(Debug, Clone)]
pub struct Request {
    /// When the API server received it.
    pub received: Timestamp,
    /// When it had answered.
    pub answered: Timestamp,
    /// User name of the sender.
    pub user: String,
    /// User name that the sender impersonated, if any.
    pub acted_as: Option<String>,
    /// Path and query of the URL.
    pub uri: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource, empty for the object itself.
    pub subresource: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object, empty when a create request does not have it in its URL.
    pub name: String,
    /// Status code of the response.
    pub code: u64,
    /// Whether the request was a dry run.
    pub dry_run: bool,
}

impl Request {
    /// Says whether its verb writes, dry runs included. A review is created to get an answer, and
    /// changes nothing.
    pub fn is_write(&self) -> bool {
        let asks = ["authentication.k8s.io", "authorization.k8s.io"].contains(&self.group.as_str());
        !asks
            && ["create", "update", "patch", "delete", "deletecollection"]
                .contains(&self.verb.as_str())
    }
}

/// The user that the controller is.
pub const CONTROLLER: &str =
    "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

/// Returns the requests of the controller, impersonating or not.
pub fn of_controller(log: &Path) -> Vec<Request> {
    let mut requests = mentioning(log, CONTROLLER);
    requests.retain(|request| request.user == CONTROLLER);
    requests
}

/// Returns all writes in the log so far, oldest first.
pub fn writes(log: &Path) -> Vec<Request> {
    let mut requests = mentioning(log, "");
    requests.retain(Request::is_write);
    requests
}

/// Returns all requests in the log so far whose record mentions `text`, oldest first.
///
/// Requests that are not about an object, such as those of discovery, have no resource.
pub fn mentioning(log: &Path, text: &str) -> Vec<Request> {
    let records = std::fs::read_to_string(log).expect("the audit log can be read");
    records
        .lines()
        .filter(|line| line.contains(text))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|event| request(&event))
        .collect()
}

fn request(event: &Value) -> Option<Request> {
    let text = |pointer: &str| {
        event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let uri = text("/requestURI");
    Some(Request {
        received: text("/requestReceivedTimestamp").parse().ok()?,
        answered: text("/stageTimestamp").parse().ok()?,
        user: text("/user/username"),
        acted_as: event
            .pointer("/impersonatedUser/username")
            .and_then(Value::as_str)
            .map(str::to_owned),
        verb: text("/verb"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        group: text("/objectRef/apiGroup"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        dry_run: uri.contains("dryRun=All"),
        uri,
    })
}
