//! Schemas as Go prints them, which is how upstream's texts show them.
//!
//! What upstream prints as an address in memory, or in a form that says nothing, is printed as JSON.

use itertools::Itertools as _;
use serde_json::Value;

use super::schema::{KEYWORDS, Keyword, Kind};
use crate::go_json;
use crate::object::items;

/// Returns a schema as its generated method prints it: every field with its name.
pub(super) fn of_schema(schema: &Value) -> String {
    let fields = KEYWORDS.iter().map(|keyword| {
        let value = schema.get(keyword.key).unwrap_or(&Value::Null);
        format!("{}:{},", keyword.field, named(keyword, value))
    });
    format!("&JSONSchemaProps{{{}}}", fields.collect::<String>())
}

/// Returns a field of a schema printed with names.
fn named(keyword: &Keyword, value: &Value) -> String {
    let list = |of: &str, each: fn(&Value) -> String| {
        let items = items(value).map(|item| each(item).trim_start_matches('&').to_owned() + ",");
        format!("[]{of}{{{}}}", items.collect::<String>())
    };
    let map = |of: &str| {
        let entries = value.as_object().into_iter().flatten();
        let entries = entries.map(|(name, schema)| format!("{name}: {},", bare_schema(schema)));
        format!("{of}{{{}}}", entries.collect::<String>())
    };
    match (keyword.kind, keyword.key) {
        (Kind::Jsons, _) => list("JSON", json),
        (Kind::Schemas, _) => list("JSONSchemaProps", of_schema),
        (Kind::Rules, _) => {
            list("ValidationRule", |rule| format!("ValidationRule{}", go_json::to_string(rule)))
        }
        (Kind::SchemaMap, "definitions") => map("JSONSchemaDefinitions"),
        (Kind::SchemaMap, _) => map("map[string]JSONSchemaProps"),
        (Kind::Dependencies, _) => map("JSONSchemaDependencies"),
        (Kind::Number | Kind::TextPointer | Kind::FlagPointer, _) => match value {
            Value::Null => "nil".to_owned(),
            value => format!("*{}", scalar(value)),
        },
        _ => shared(keyword.kind, value),
    }
}

/// Returns a schema as Go prints any struct: the values of its fields alone.
fn bare_schema(schema: &Value) -> String {
    let fields = KEYWORDS.iter().map(|keyword| {
        let value = schema.get(keyword.key).unwrap_or(&Value::Null);
        bare(keyword.kind, value)
    });
    format!("{{{}}}", fields.format(" "))
}

fn bare(kind: Kind, value: &Value) -> String {
    let list = |each: fn(&Value) -> String| format!("[{}]", items(value).map(each).format(" "));
    match kind {
        Kind::Jsons => list(json),
        Kind::Schemas => list(bare_schema),
        Kind::Rules => list(go_json::to_string),
        Kind::SchemaMap | Kind::Dependencies => {
            let entries = value.as_object().into_iter().flatten();
            let entries = entries.map(|(name, schema)| format!("{name}:{}", bare_schema(schema)));
            format!("map[{}]", entries.format(" "))
        }
        Kind::Number | Kind::TextPointer | Kind::FlagPointer => match value {
            Value::Null => "<nil>".to_owned(),
            value => scalar(value),
        },
        _ => shared(kind, value),
    }
}

/// Returns what is printed alike with and without names.
fn shared(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (Kind::Text, Value::Null) => String::new(),
        (Kind::Text, value) => scalar(value),
        (Kind::Flag, value) => (value == true).to_string(),
        (Kind::Texts, value) => format!("[{}]", items(value).map(scalar).format(" ")),
        (_, Value::Null) => "nil".to_owned(),
        (Kind::Json, value) => json(value),
        (Kind::Schema, value) => of_schema(value),
        (_, value) => go_json::to_string(value),
    }
}

fn json(value: &Value) -> String {
    let text = go_json::to_string(value);
    format!("&JSON{{Raw:*[{}],}}", text.bytes().format(" "))
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
