//! The rules of the configuration as a JSON Schema for people and editors, and an example.
//!
//! Source: rendering.md 3.2.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::types::{self, Fields, Type};
use super::watch::{MAX_NAME_CHARS, Offer, PATTERN};
use super::{DEPLOYMENT_CONFIG, Features, WATCH_NAMESPACE};
use crate::bundle::Csv;

/// Returns the JSON Schema (draft-07) of `spec.config.inline` for a bundle.
///
/// The formats `ownNamespaceInstallMode` and `singleNamespaceInstallMode` are upstream's: the name
/// must be, or must not be, the install namespace.
pub fn schema(csv: &Csv, features: Features) -> Value {
    let offer = Offer::new(csv, features);
    let mut properties = Map::new();
    let mut definitions = BTreeMap::new();
    if offer.has_watch_namespace() {
        properties.insert(WATCH_NAMESPACE.to_owned(), watch_namespace(offer));
    }
    if features.deployment_config {
        let fields = types::fields(types::DEPLOYMENT_CONFIG);
        let mut config = object(fields, &mut definitions);
        config["additionalProperties"] = false.into();
        config["description"] = "What is changed about every Deployment of the bundle".into();
        properties.insert(DEPLOYMENT_CONFIG.to_owned(), config);
    }
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": format!("Configuration of {}", csv.name),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if offer.has_watch_namespace() && !offer.all {
        schema["required"] = json!([WATCH_NAMESPACE]);
    }
    if !definitions.is_empty() {
        schema["definitions"] = json!(definitions);
    }
    schema
}

fn watch_namespace(offer: Offer) -> Value {
    let mut name = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_CHARS,
        "pattern": PATTERN,
    });
    if let Some(format) = offer.format() {
        name["format"] = format.into();
    }
    let mut schema = if offer.all { json!({ "anyOf": [{ "type": "null" }, name] }) } else { name };
    schema["description"] = "The namespace that the operator watches".into();
    schema
}

fn object(fields: &Fields, definitions: &mut BTreeMap<&str, Value>) -> Value {
    let mut properties = Map::new();
    for (name, field) in fields {
        properties.insert((*name).to_owned(), type_schema(&field.type_, definitions));
    }
    let required: BTreeSet<&str> =
        fields.iter().filter(|(_, field)| field.required).map(|(name, _)| *name).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn type_schema(type_: &Type, definitions: &mut BTreeMap<&str, Value>) -> Value {
    match type_ {
        Type::Text => json!({ "type": "string" }),
        Type::Boolean => json!({ "type": "boolean" }),
        Type::Int32 => json!({ "type": "integer", "format": "int32" }),
        Type::Int64 => json!({ "type": "integer", "format": "int64" }),
        Type::Quantity => json!({ "type": ["string", "number"] }),
        Type::Any => json!({ "type": "object" }),
        Type::List(item) => json!({ "type": "array", "items": type_schema(item, definitions) }),
        Type::Map(item) => {
            let item = type_schema(item, definitions);
            json!({ "type": "object", "additionalProperties": item })
        }
        Type::Named(name) => {
            if !definitions.contains_key(name) {
                // Inserted before its fields are visited, so that each type is described once.
                definitions.insert(name, Value::Null);
                let described = object(types::fields(name), definitions);
                definitions.insert(name, described);
            }
            json!({ "$ref": format!("#/definitions/{name}") })
        }
    }
}

/// Returns an example of `spec.config` that the bundle accepts in a namespace.
///
/// It names everything the bundle lets an administrator choose: the watched namespace where there
/// is a choice or an obligation, and some common changes of the Deployments.
pub fn example(csv: &Csv, install_namespace: &str, features: Features) -> Value {
    let offer = Offer::new(csv, features);
    let mut inline = Map::new();
    if offer.has_watch_namespace() {
        let namespace = if offer.own {
            install_namespace.to_owned()
        } else {
            // Cut, so that what is appended does not make the name too long.
            let base: String = install_namespace.chars().take(MAX_NAME_CHARS - 5).collect();
            format!("{base}-apps")
        };
        inline.insert(WATCH_NAMESPACE.to_owned(), namespace.into());
    }
    if features.deployment_config {
        inline.insert(
            DEPLOYMENT_CONFIG.to_owned(),
            json!({
                "env": [{ "name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128" }],
                "resources": {
                    "requests": { "cpu": "100m", "memory": "128Mi" },
                    "limits": { "memory": "512Mi" },
                },
                "nodeSelector": { "kubernetes.io/os": "linux" },
                "tolerations": [{
                    "key": "node-role.kubernetes.io/infra",
                    "operator": "Exists",
                    "effect": "NoSchedule",
                }],
            }),
        );
    }
    json!({ "configType": "Inline", "inline": inline })
}
