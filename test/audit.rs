//! Reads the API server's audit log: who sent which requests.

use std::path::Path;

use jiff::Timestamp;
use memchr::{memchr, memmem::Finder, memrchr};
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

/// Returns the writes in the log so far whose record mentions `text`, oldest first.
pub fn writes(log: &Path, text: &str) -> Vec<Request> {
    let mut requests = mentioning(log, text);
    requests.retain(Request::is_write);
    requests
}

/// Returns all requests in the log so far whose record mentions `text`, oldest first.
///
/// Requests that are not about an object, such as those of discovery, have no resource.
pub fn mentioning(log: &Path, text: &str) -> Vec<Request> {
    // It grows by a hundred megabytes, is read again and again, and tests are not optimized.
    let records = std::fs::read(log).expect("the audit log can be read");
    let finder = Finder::new(text);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < records.len()
        && let Some(hit) = finder.find(&records[at..])
    {
        let hit = at + hit;
        let start = memrchr(b'\n', &records[..hit]).map_or(0, |end| end + 1);
        let end = memchr(b'\n', &records[hit..]).map_or(records.len(), |rest| hit + rest);
        let event = serde_json::from_slice(&records[start..end]).ok();
        found.extend(event.and_then(|event| request(&event)));
        at = end + 1;
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_by_what_they_mention_but_for_one_that_is_being_written() {
        let record = |verb: &str, path: &str| {
            format!(
                "{{\"verb\":\"{verb}\",\"requestURI\":\"{path}\",\
                 \"requestReceivedTimestamp\":\"2026-01-01T00:00:00Z\",\
                 \"stageTimestamp\":\"2026-01-01T00:00:01Z\"}}\n"
            )
        };
        let log = tempfile::NamedTempFile::new().expect("a file");
        let whole = [record("get", "/a"), record("patch", "/a"), record("patch", "/b")].concat();
        let begun = "{\"verb\":\"delete\",\"requestURI\":\"/a\"";
        std::fs::write(log.path(), whole + begun).expect("it is written");
        let shown = |requests: Vec<Request>| {
            let requests = requests.into_iter().map(|it| format!("{} {}", it.verb, it.uri));
            requests.collect::<Vec<_>>()
        };
        assert_eq!(shown(mentioning(log.path(), "/a\"")), ["get /a", "patch /a"]);
        assert_eq!(shown(writes(log.path(), "")), ["patch /a", "patch /b"]);
        assert_eq!(shown(mentioning(log.path(), "/c")), [""; 0]);
    }
}
