//! A custom resource definition, as far as its upgrades are judged by it.

use serde_json::{Map, Value, json};

use super::schema;
use crate::object::{Object, items, text_of};

/// The parts of a custom resource definition that decide whether it can replace another.
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
    /// Whether no version prunes unknown fields, whatever its schema says.
    pub(super) preserves_unknown: bool,
    pub(super) names: Names,
}

/// Names of its objects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Names {
    pub(super) kind: String,
    pub(super) singular: String,
    pub(super) list: String,
    pub(super) short: Vec<String>,
    pub(super) categories: Vec<String>,
}

/// A version of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    stores: bool,
    /// As in its [`Definition`].
    pub(super) preserves_unknown: bool,
    pub(super) schema: Map<String, Value>,
    pub(super) subresources: Vec<String>,
    /// The paths that a list can be limited by.
    pub(super) selectable: Vec<String>,
}

impl Definition {
    /// Reads a CRD of `apiextensions.k8s.io/v1`; what has not the type that the API server asks for
    /// counts as absent.
    pub fn of(crd: &Value) -> Self {
        Self::of_parts(&crd["metadata"], &crd["spec"], &crd["status"])
    }

    fn of_parts(metadata: &Value, spec: &Value, status: &Value) -> Self {
        let preserves_unknown = spec["preserveUnknownFields"] == true;
        Self {
            name: text_of(&metadata["name"]),
            scope: text_of(&spec["scope"]),
            versions: items(&spec["versions"])
                .map(|version| Version::of(version, preserves_unknown))
                .collect(),
            stored: texts(&status["storedVersions"]),
            converted: spec["conversion"]["strategy"] == "Webhook",
            preserves_unknown,
            names: Names::of(&spec["names"]),
        }
    }

    /// Reads a CRD of a bundle.
    pub fn of_object(crd: &Object) -> Self {
        let member = |key| crd.0.get(key).unwrap_or(&Value::Null);
        Self::of_parts(member("metadata"), member("spec"), member("status"))
    }

    /// Returns a CRD of a bundle as it would be once it is written and has objects.
    #[must_use]
    pub fn written(self) -> Self {
        if self.stored.is_empty() { self.migrated() } else { self }
    }

    /// Returns it as it is once nothing is stored in another version than new objects are.
    #[must_use]
    pub fn migrated(mut self) -> Self {
        self.stored = self.storage().map(str::to_owned).into_iter().collect();
        self
    }

    /// Returns whether former stored versions are the only reason why the API server would refuse
    /// `new`.
    pub fn awaits_migration(&self, new: &Self) -> bool {
        self.stored.iter().any(|it| !new.has(it)) && self.storage().is_some_and(|it| new.has(it))
    }

    /// Returns the served versions that `new` does not serve.
    pub(super) fn unserved<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = &'a str> {
        let served = self.versions.iter().filter(|version| version.served);
        let names = served.map(|version| version.name.as_str());
        names.filter(move |name| new.version(name).is_none_or(|version| !version.served))
    }

    /// Returns the version that objects are stored in.
    pub fn storage(&self) -> Option<&str> {
        let mut versions = self.versions.iter();
        versions.find(|version| version.stores).map(|version| version.name.as_str())
    }

    /// Says whether it has a version.
    pub fn has(&self, version: &str) -> bool {
        self.version(version).is_some()
    }

    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl Names {
    /// Reads them; what is absent is what the API server fills in.
    fn of(names: &Value) -> Self {
        let kind = text_of(&names["kind"]);
        let given = |member: &str| names[member].as_str().filter(|name| !name.is_empty());
        Self {
            singular: given("singular").map_or_else(|| kind.to_lowercase(), str::to_owned),
            list: given("listKind").map_or_else(|| format!("{kind}List"), str::to_owned),
            short: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            kind,
        }
    }
}

impl Version {
    fn of(version: &Value, preserves_unknown: bool) -> Self {
        let schema = &version["schema"]["openAPIV3Schema"];
        let subresources = version["subresources"].as_object().into_iter().flatten();
        Self {
            name: text_of(&version["name"]),
            served: version["served"] == true,
            stores: version["storage"] == true,
            preserves_unknown,
            subresources: subresources
                .filter(|(_, value)| !value.is_null())
                .map(|(name, _)| name.clone())
                .collect(),
            selectable: items(&version["selectableFields"])
                .map(|it| text_of(&it["jsonPath"]))
                .collect(),
            schema: match schema {
                Value::Object(_) => schema::normalized(schema),
                _ => schema::normalized(&json!({"type": "object"})),
            },
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    items(list).map(text_of).collect()
}
