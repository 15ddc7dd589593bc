//! Checks `spec.config` against what the bundle lets an administrator choose.
//!
//! In: the inline configuration, the install modes of the bundle, the features that are on. Out:
//! the namespaces the operator watches and what is changed about its Deployments. The texts of
//! refusals are upstream's, which come from a JSON schema; here the rules are written out, and
//! [`schema`] prints them as a schema.
//!
//! Source: rendering.md section 3.

mod check;
mod quantity;
mod schema;
mod types;
mod watch;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::bundle::{Csv, is_subdomain};
use crate::error::{Classify, Disposition};
use crate::object::items;
use check::{Findings, unknown_field, wrong_type};
use types::Type;
use watch::Offer;

pub use schema::{example, schema};

/// What may be configured.
///
/// Everything is on by default (decision 10); each is a feature gate of upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
        Self { single_own_namespace: true, deployment_config: true, webhooks: true }
    }
}

/// What the configuration says, valid for the bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Namespaces the operator watches; one empty name means all of them.
    pub targets: Vec<String>,
    /// What is changed about every Deployment of the bundle.
    pub deployment: Option<DeploymentConfig>,
    /// Warnings for people, one sentence each; none of them stops anything.
    pub warnings: Vec<String>,
}

/// A valid `deploymentConfig`: every field has the type of rendering.md 3.2, numbers that are
/// quantities are texts, and fields that no type knows are left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeploymentConfig(Map<String, Value>);

impl DeploymentConfig {
    /// Returns the list under a key; an absent one is empty.
    pub(crate) fn list(&self, key: &str) -> &[Value] {
        let list = self.0.get(key).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Returns the object under a key; an absent one is `None`, not an empty object.
    pub(crate) fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.0.get(key)?.as_object()
    }
}

/// What is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It does not follow the schema.
    /// One detail for each violation, in the order of their paths; at least one.
    #[error("invalid ClusterExtension configuration: invalid configuration: {}", joined(.0))]
    Invalid(Vec<String>),
    /// `deploymentConfig` follows the schema and still cannot be used.
    /// One reason each, after its path; at least one.
    #[error("invalid deploymentConfig: failed to unmarshal deploymentConfig: {}", .0.join("; "))]
    Unusable(Vec<String>),
}

impl ConfigError {
    /// Returns what the text, which is upstream's, does not tell.
    pub fn hint(&self) -> Option<String> {
        let unknown = unknown_field(WATCH_NAMESPACE);
        let is_refused = matches!(self, Self::Invalid(details) if details.contains(&unknown));
        is_refused.then(|| {
            format!(
                "spec.config.inline has {WATCH_NAMESPACE} only where the bundle supports install mode \
                 OwnNamespace or SingleNamespace; others watch all namespaces"
            )
        })
    }
}

impl Classify for ConfigError {
    fn disposition(&self) -> Disposition {
        // Only a change of the spec or another bundle can help.
        Disposition::Terminal(olm_api::conditions::Reason::InvalidConfiguration)
    }
}

fn joined(details: &[String]) -> String {
    match details {
        [detail] => detail.clone(),
        details => format!("multiple errors found:\n  - {}", details.join("\n  - ")),
    }
}

/// Key of the configuration that names the watched namespace.
const WATCH_NAMESPACE: &str = "watchNamespace";

/// Key of the configuration that changes the Deployments.
const DEPLOYMENT_CONFIG: &str = "deploymentConfig";

/// Returns the names of the Secrets that a configuration has the pods of an operator pull with; what
/// cannot be the name of a Secret is left out.
pub fn pull_secrets(inline: Option<&Value>) -> BTreeSet<String> {
    let list = inline.and_then(|inline| inline.get(DEPLOYMENT_CONFIG)?.get("imagePullSecrets"));
    let names = list.into_iter().flat_map(items).filter_map(|it| it.get("name")?.as_str());
    names.filter(|name| is_subdomain(name)).map(str::to_owned).collect()
}

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
    let empty = Map::new();
    let map = match inline {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(map)) => map,
        Some(other) => return Err(ConfigError::Invalid(vec![wrong_type("", other, "object")])),
    };
    let offer = Offer::new(csv, features);
    let mut findings = Findings::default();
    let mut deployment = None;
    // In the order of the keys, the one that may be required among them.
    let keys = map.keys().map(String::as_str);
    for key in keys.chain([WATCH_NAMESPACE]).collect::<BTreeSet<_>>() {
        match (key, map.get(key)) {
            (WATCH_NAMESPACE, value) if offer.has_watch_namespace() => {
                let value = value.unwrap_or(&Value::Null);
                let details = watch::findings(offer, install_namespace, value);
                findings.details.extend(details);
            }
            (DEPLOYMENT_CONFIG, Some(value)) if features.deployment_config => {
                deployment = Some(DeploymentConfig(findings.deployment_config(value)));
            }
            (key, Some(_)) => findings.details.push(unknown_field(key)),
            (_, None) => {}
        }
    }
    let dropped = findings.finish()?.join(", ");
    let text = "the configuration has fields that nothing reads, they are left out";
    let warning = (!dropped.is_empty()).then(|| format!("{text}: {dropped}"));
    let target = map.get(WATCH_NAMESPACE).and_then(Value::as_str);
    Ok(Configuration {
        targets: vec![target.unwrap_or_default().to_owned()],
        deployment,
        warnings: warning.into_iter().collect(),
    })
}

impl Findings {
    /// Checks the value of `deploymentConfig`.
    fn deployment_config(&mut self, value: &Value) -> Map<String, Value> {
        match self.value(&Type::Named(types::DEPLOYMENT_CONFIG), value, DEPLOYMENT_CONFIG) {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// Returns the paths that were left out, or what is wrong with the value.
    fn finish(self) -> Result<Vec<String>, ConfigError> {
        if !self.details.is_empty() {
            return Err(ConfigError::Invalid(self.details));
        }
        if !self.unusable.is_empty() {
            return Err(ConfigError::Unusable(self.unusable));
        }
        Ok(self.dropped)
    }
}

#[cfg(test)]
mod tests;
