//! A custom resource definition, as far as its upgrades are judged by it.

use serde_json::{Map, Value, json};

use super::schema;
use crate::object::Object;

/// What of a custom resource definition decides whether it can follow another.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name, for example `kettles.example.com`.
    pub name: String,
    pub(super) scope: String,
    pub(super) versions: Vec<Version>,
    /// The versions that objects are or were stored in.
    pub(super) stored: Vec<String>,
    /// Whether a webhook converts between versions.
    pub(super) converted: bool,
}

/// A version of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) schema: Map<String, Value>,
}

impl Definition {
    /// Reads a CRD of `apiextensions.k8s.io/v1`; what has not the type that the API server asks for
    /// counts as absent.
    pub fn of(crd: &Value) -> Self {
        Self::of_parts(&crd["metadata"], &crd["spec"], &crd["status"])
    }

    fn of_parts(metadata: &Value, spec: &Value, status: &Value) -> Self {
        let versions = spec["versions"].as_array().into_iter().flatten();
        let stored = status["storedVersions"].as_array();
        Self {
            name: text(&metadata["name"]),
            scope: text(&spec["scope"]),
            versions: versions.map(Version::of).collect(),
            stored: stored.into_iter().flatten().map(text).collect(),
            converted: spec["conversion"]["strategy"] == "Webhook",
        }
    }

    /// Reads a CRD of a bundle.
    pub fn of_object(crd: &Object) -> Self {
        let member = |key| crd.0.get(key).unwrap_or(&Value::Null);
        Self::of_parts(member("metadata"), member("spec"), member("status"))
    }

    /// Reads a CRD of a bundle as it would be once it is written and has objects.
    pub fn written(crd: &Object) -> Self {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten();
        let storing = versions.filter(|version| version["storage"] == true);
        Self {
            stored: storing.map(|version| text(&version["name"])).collect(),
            ..Self::of_object(crd)
        }
    }

    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl Version {
    fn of(version: &Value) -> Self {
        let schema = &version["schema"]["openAPIV3Schema"];
        Self {
            name: text(&version["name"]),
            served: version["served"] == true,
            schema: if schema.is_object() {
                schema::normalized(schema)
            } else {
                schema::normalized(&json!({"type": "object"}))
            },
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
