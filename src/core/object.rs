//! A Kubernetes object as a JSON value.
//!
//! Manifests of a bundle stay JSON values from unpacking to apply, so that no field newer than our
//! typed structs is lost.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const CA_BUNDLE: &str = "caBundle";

/// A Kubernetes object: a JSON object with `apiVersion`, `kind` and `metadata`.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub Map<String, Value>);

/// What identifies an object for the API server: group, kind, namespace and name.
///
/// The version is kept for addressing but does not count for identity where [`Identity::key`] is
/// compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// API group, empty for the core group.
    pub group: String,
    /// API version, for example `v1`.
    pub version: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Identity {
    /// Returns what identifies the object for the API server, which leaves the version out.
    pub fn key(&self) -> (&str, &str, &str, &str) {
        (&self.group, &self.kind, &self.namespace, &self.name)
    }

    /// Returns the text for the object in messages: `<Kind>.<group>/<version> <namespace>/<name>`,
    /// with an empty namespace for cluster-scoped objects.
    pub fn text(&self) -> String {
        let (kind, version) = (&self.kind, self.api_version());
        format!("{kind}.{version} {}/{}", self.namespace, self.name)
    }

    /// Returns `group/version`, or `version` alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ", self.kind, self.api_version())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Makes an object with a name and, if not empty, a namespace.
pub fn object(api_version: &str, kind: &str, name: &str, namespace: &str) -> Object {
    let mut metadata = json!({ "name": name });
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let object = Object(Map::new()).with("apiVersion", api_version).with("kind", kind);
    object.with("metadata", metadata)
}

impl Object {
    /// Takes a JSON value if it is an object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// Returns the object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Returns `apiVersion`, empty when absent.
    pub fn api_version(&self) -> &str {
        self.text_at("/apiVersion")
    }

    /// Returns the API group, empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version().rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the API version without its group.
    pub fn version(&self) -> &str {
        self.api_version().rsplit_once('/').map_or(self.api_version(), |(_, version)| version)
    }

    /// Returns `kind`, empty when absent.
    pub fn kind(&self) -> &str {
        self.text_at("/kind")
    }

    /// Returns `metadata.name`, empty when absent.
    pub fn name(&self) -> &str {
        self.text_at("/metadata/name")
    }

    /// Returns `metadata.namespace`, empty when absent.
    pub fn namespace(&self) -> &str {
        self.text_at("/metadata/namespace")
    }

    /// Returns about how much memory the object takes: several times its text, because every map
    /// of it has room for [`NODE_ENTRIES`] entries.
    pub fn bytes(&self) -> usize {
        bytes_in(&self.0)
    }

    /// Returns group, kind, namespace and name: what identifies the object for the API server, which
    /// leaves the version out.
    pub fn key(&self) -> [&str; 4] {
        [self.group(), self.kind(), self.namespace(), self.name()]
    }

    /// Returns what identifies the object.
    pub fn identity(&self) -> Identity {
        Identity {
            group: self.group().to_owned(),
            version: self.version().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// Returns `metadata`, created empty when it is absent or not an object.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        map_in(&mut self.0, "metadata")
    }

    /// Returns the object with another member, or another value of one.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Returns its name, behind that of its namespace.
    pub fn place(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => format!("{namespace}/{}", self.name()),
        }
    }

    /// Returns a label, if the object has it.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.0.get("metadata")?.get("labels")?.get(key)?.as_str()
    }

    /// Returns an annotation, if the object has it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// Looks a value up by JSON pointer, for example `/spec/replicas`.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let mut parts = pointer.split('/').skip(1);
        let first = parts.next()?;
        parts.try_fold(self.0.get(first)?, |value, part| match value {
            Value::Object(map) => map.get(part),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns the text at a JSON pointer, empty when there is none.
    pub fn text_at(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the items of the list at a JSON pointer, none when there is no list.
    pub fn list_at<'a>(&'a self, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.pointer(pointer).into_iter().flat_map(items)
    }

    /// Says whether it is a `ClusterRole` whose rules the API server collects from others. An
    /// `aggregationRule` without selectors selects nothing and counts as absent.
    pub(crate) fn is_aggregated(&self) -> bool {
        let mut selectors = self.list_at("/aggregationRule/clusterRoleSelectors");
        self.kind() == "ClusterRole" && selectors.next().is_some()
    }

    /// Removes fields that other controllers write: the rules of an aggregated `ClusterRole`, and the
    /// CA of the conversion webhook of a CRD if it is not a certificate, because the operator or
    /// cert-manager injects one there.
    pub fn remove_fields_of_others(&mut self) {
        if self.is_aggregated() {
            self.0.remove("rules");
        }
        let spec = self.0.get_mut("spec");
        let client = spec.and_then(|spec| spec.pointer_mut("/conversion/webhook/clientConfig"));
        let client = client.and_then(Value::as_object_mut);
        if let Some(client) = client
            && client.get(CA_BUNDLE).is_some_and(is_no_certificate)
        {
            client.remove(CA_BUNDLE);
        }
    }
}

/// Returns whether the value of `caBundle` is valid base64 without a PEM certificate. The API server
/// names what is not valid base64.
fn is_no_certificate(ca_bundle: &Value) -> bool {
    let decoded = ca_bundle.as_str().and_then(|text| STANDARD.decode(text).ok());
    decoded
        .is_some_and(|pem| !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----"))
}

/// Returns the items of a list, none of any other value.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a text, an empty one for any other value.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns whether a value is neither null nor an empty text, list or map.
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Takes a map out of the metadata, empty when it is absent or not a map.
pub(crate) fn take_map(metadata: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match metadata.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Returns the map at a key of another, made empty when it is absent or not a map.
pub(crate) fn map_in<'a>(
    owner: &'a mut Map<String, Value>,
    key: &str,
) -> &'a mut Map<String, Value> {
    let value = owner.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value was made a map above"),
    }
}

/// Returns the list at a key of a map, made empty when it is absent or not a list.
pub(crate) fn list_in<'a>(owner: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = owner.entry(key).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(items) => items,
        _ => unreachable!("the value was made a list above"),
    }
}

/// Entries that a node of a map of the standard library has room for.
const NODE_ENTRIES: usize = 11;
/// What such a node takes.
const NODE: usize = 32 + NODE_ENTRIES * (size_of::<String>() + size_of::<Value>());
/// What an allocation takes beside its content.
const ALLOCATION: usize = 16;

fn bytes_in(map: &Map<String, Value>) -> usize {
    let inside = map.iter().map(|(key, value)| ALLOCATION + key.len() + bytes_behind(value));
    map.len().div_ceil(NODE_ENTRIES) * NODE + inside.sum::<usize>()
}

/// Returns what a value takes beside itself.
fn bytes_behind(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => ALLOCATION + text.len(),
        Value::Array(items) => {
            items.iter().map(|item| size_of::<Value>() + bytes_behind(item)).sum()
        }
        Value::Object(map) => bytes_in(map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn splits_group_and_version() {
        let object = Object::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "n"}}))
        .unwrap();
        assert_eq!(object.identity().to_string(), "Deployment.apps/v1 n/d");
        let core = Object::from_value(json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
        assert_eq!((core.group(), core.version()), ("", "v1"));
    }
}
