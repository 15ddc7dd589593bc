//! `spec.config` against what the bundle lets an administrator choose.
//!
//! In: the inline configuration, the install modes of the bundle, the features that are on. Out:
//! the namespaces the operator watches. The texts of refusals are upstream's, which come from a
//! JSON schema; here the rules are written out.
//!
//! Source: rendering.md section 3.

use serde_json::Value;

use crate::bundle::{Csv, mode};
use crate::error::{Classify, Disposition, quote};

/// What may be configured.
///
/// Everything is on by default (README decision 10); each is a feature gate of upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Whether the install modes SingleNamespace and OwnNamespace are offered; without them the
    /// key `watchNamespace` does not exist and a bundle must support AllNamespaces.
    pub single_own_namespace: bool,
    /// Whether the key `deploymentConfig` exists.
    pub deployment_config: bool,
    /// Whether bundles with webhooks are accepted.
    pub webhooks: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            single_own_namespace: true,
            deployment_config: true,
            webhooks: true,
        }
    }
}

/// What the configuration says, valid for the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Namespaces the operator watches; one empty name means all of them.
    pub targets: Vec<String>,
}

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid configuration: {}", joined(details))]
pub struct ConfigError {
    /// One finding each, without prefix, in a stable order; at least one.
    pub details: Vec<String>,
}

impl Classify for ConfigError {
    fn disposition(&self) -> Disposition {
        // Only a change of the spec or another bundle can help.
        Disposition::Terminal(olm_api::conditions::reasons::INVALID_CONFIGURATION)
    }
}

fn joined(details: &[String]) -> String {
    match details {
        [detail] => detail.clone(),
        details => details
            .iter()
            .fold("multiple errors found:".to_owned(), |text, detail| {
                text + "\n  - " + detail
            }),
    }
}

/// Key of the configuration that names the watched namespace.
const WATCH_NAMESPACE: &str = "watchNamespace";

/// Longest name of a namespace, in characters.
const MAX_NAME_CHARS: usize = 63;

/// Checks a configuration and returns what it says.
///
/// An absent configuration is an empty one. Without SingleNamespace and OwnNamespace the targets
/// are all namespaces; with one of them and AllNamespaces `watchNamespace` may be left out; with
/// one of them and without AllNamespaces it is required.
///
/// Example: a bundle with AllNamespaces and OwnNamespace in `ops` takes nothing, null or `ops`.
pub fn configure(
    csv: &Csv,
    install_namespace: &str,
    inline: Option<&Value>,
    features: Features,
) -> Result<Configuration, ConfigError> {
    let offer = Offer::new(csv, features);
    let details = findings(&offer, install_namespace, inline);
    if !details.is_empty() {
        return Err(ConfigError { details });
    }
    let watched = inline.and_then(|inline| inline.get(WATCH_NAMESPACE));
    let target = watched.and_then(Value::as_str).unwrap_or_default();
    let targets = vec![target.to_owned()];
    Ok(Configuration { targets })
}

/// Which install modes a bundle offers through the configuration.
struct Offer {
    all: bool,
    own: bool,
    single: bool,
}

impl Offer {
    fn new(csv: &Csv, features: Features) -> Self {
        let supports = |mode| features.single_own_namespace && csv.supports(mode);
        Self {
            all: csv.supports(mode::ALL_NAMESPACES),
            own: supports(mode::OWN_NAMESPACE),
            single: supports(mode::SINGLE_NAMESPACE),
        }
    }

    fn has_watch_namespace(&self) -> bool {
        self.own || self.single
    }
}

/// Returns the findings ordered by key.
fn findings(offer: &Offer, install_namespace: &str, inline: Option<&Value>) -> Vec<String> {
    let empty = serde_json::Map::new();
    let map = match inline {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(map)) => map,
        Some(other) => {
            return vec![format!(
                "invalid type: got {}, want object",
                type_name(other)
            )];
        }
    };
    let mut found: Vec<(&str, Vec<String>)> = map
        .keys()
        .filter(|key| *key != WATCH_NAMESPACE || !offer.has_watch_namespace())
        .map(|key| (key.as_str(), vec![format!("unknown field {}", quote(key))]))
        .collect();
    if offer.has_watch_namespace() {
        let value = map.get(WATCH_NAMESPACE).unwrap_or(&Value::Null);
        found.push((
            WATCH_NAMESPACE,
            watch_namespace(offer, install_namespace, value),
        ));
    }
    found.sort_by_key(|(key, _)| *key);
    found.into_iter().flat_map(|(_, details)| details).collect()
}

fn watch_namespace(offer: &Offer, install_namespace: &str, value: &Value) -> Vec<String> {
    if value.is_null() {
        return if offer.all {
            Vec::new()
        } else {
            vec![format!("required field \"{WATCH_NAMESPACE}\" is missing")]
        };
    }
    let mut details = match value {
        Value::String(name) => name_findings(offer, install_namespace, name),
        other => vec![wrong_type(other, "string")],
    };
    if offer.all && !details.is_empty() {
        // With AllNamespaces the schema has two branches, null and a name, and reports both.
        details.insert(0, format!("invalid value for field \"{WATCH_NAMESPACE}\""));
        details.insert(1, wrong_type(value, "null"));
    }
    details
}

fn wrong_type(value: &Value, want: &str) -> String {
    let got = type_name(value);
    format!("invalid type for field \"{WATCH_NAMESPACE}\": got {got}, want {want}")
}

/// Checks the format, and only where that holds length and pattern.
fn name_findings(offer: &Offer, install_namespace: &str, name: &str) -> Vec<String> {
    if !install_namespace.is_empty()
        && let Some((format, reason)) = format_fault(offer, install_namespace, name)
    {
        return vec![format!(
            "invalid format for field \"{WATCH_NAMESPACE}\": '{name}' is not valid {format}: \
             invalid value {}: {reason}",
            quote(name)
        )];
    }
    let chars = name.chars().count();
    let mut details = Vec::new();
    if chars > MAX_NAME_CHARS {
        details.push(format!(
            "field \"{WATCH_NAMESPACE}\" must have maximum length of {MAX_NAME_CHARS} (len={chars})"
        ));
    }
    if chars == 0 {
        details.push(format!(
            "field \"{WATCH_NAMESPACE}\" must have minimum length of 1 (len=0)"
        ));
    }
    if !matches_pattern(name) {
        details.push(format!(
            "field \"{WATCH_NAMESPACE}\" must match pattern \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\""
        ));
    }
    details
}

fn format_fault(offer: &Offer, namespace: &str, name: &str) -> Option<(&'static str, String)> {
    if offer.own && !offer.single && name != namespace {
        let reason = format!(
            "must be {} (the namespace where the operator is installed) because this \
             operator only supports OwnNamespace install mode",
            quote(namespace)
        );
        return Some(("ownNamespaceInstallMode", reason));
    }
    if offer.single && !offer.own && name == namespace {
        let reason = format!(
            "must be different from {} (the install namespace) because this operator \
             uses SingleNamespace install mode to watch a different namespace",
            quote(namespace)
        );
        return Some(("singleNamespaceInstallMode", reason));
    }
    None
}

fn matches_pattern(name: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
        && bytes.iter().all(|byte| outer(byte) || *byte == b'-')
}

/// Names a JSON type as the schema's messages do, which know no integers.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
