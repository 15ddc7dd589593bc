//! Structural schemas, as the API server's types hold them.
//!
//! A schema is normalised once: what those types do not tell apart is equal afterwards (an absent
//! list and an empty one, `false` and nothing, `1` and `1.0`), and what they drop is gone.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use strum::EnumString;

use crate::go_json;

/// A schema whose values are normalised, sub-schemas included.
pub(super) type Schema = Map<String, Value>;

/// What a keyword holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
pub(super) enum Kind {
    /// Text, absent when empty.
    Text,
    /// Text or nothing.
    TextPointer,
    /// Any value.
    Json,
    /// A list of any values.
    Jsons,
    Number,
    /// A boolean, absent when false.
    Flag,
    /// A boolean or nothing.
    FlagPointer,
    Texts,
    Schema,
    Schemas,
    /// A schema, or a list of them.
    Items,
    /// A schema, or whether anything is allowed.
    SchemaOrFlag,
    SchemaMap,
    /// By name a schema, or a list of names.
    Dependencies,
    Rules,
}

/// A keyword of a schema.
pub(super) struct Keyword {
    pub(super) key: &'static str,
    /// What the field is called in the types of the API server, which texts name.
    pub(super) field: &'static str,
    pub(super) kind: Kind,
}

/// Everything a schema may say, in the order of the fields of `JSONSchemaProps`.
pub(super) static KEYWORDS: LazyLock<Vec<Keyword>> = LazyLock::new(|| {
    let rows = include_str!("keywords.tsv").lines().map(|row| row.split('\t'));
    let keywords = rows.filter_map(|mut row| {
        let (key, field, kind) = (row.next()?, row.next()?, row.next()?.parse().ok()?);
        Some(Keyword { key, field, kind })
    });
    keywords.collect()
});

/// Returns a schema in the form in which equal schemas are equal values.
pub(super) fn normalized(schema: &Value) -> Schema {
    let mut normal = Schema::new();
    for keyword in KEYWORDS.iter() {
        let value = schema.get(keyword.key).and_then(|value| normalized_value(keyword.kind, value));
        if let Some(value) = value {
            normal.insert(keyword.key.to_owned(), value);
        }
    }
    normal
}

fn normalized_value(kind: Kind, value: &Value) -> Option<Value> {
    if value.is_null() {
        return None;
    }
    let schema = |schema: &Value| Value::Object(normalized(schema));
    let map = |value: &Value, each: fn(&Value) -> Value| {
        let map = value.as_object()?;
        let map: Schema = map.iter().map(|(key, value)| (key.clone(), each(value))).collect();
        (!map.is_empty()).then_some(Value::Object(map))
    };
    let list = |value: &Value, each: &dyn Fn(&Value) -> Value| {
        let items = value.as_array()?;
        (!items.is_empty()).then(|| items.iter().map(each).collect())
    };
    match kind {
        Kind::Text => (value != "").then(|| value.clone()),
        Kind::Flag => (value == true).then(|| value.clone()),
        Kind::TextPointer | Kind::FlagPointer => Some(value.clone()),
        Kind::Json | Kind::Number => Some(spelled(value)),
        Kind::Jsons => list(value, &spelled),
        Kind::Texts => list(value, &Value::clone),
        Kind::Rules => list(value, &rule),
        Kind::Schemas => list(value, &schema),
        Kind::SchemaOrFlag if value.is_boolean() => Some(value.clone()),
        Kind::Items if value.is_array() => list(value, &schema),
        Kind::Schema | Kind::SchemaOrFlag | Kind::Items => Some(schema(value)),
        Kind::SchemaMap => map(value, |value| Value::Object(normalized(value))),
        Kind::Dependencies => map(value, |value| match value {
            Value::Array(_) => value.clone(),
            other => Value::Object(normalized(other)),
        }),
    }
}

/// Returns a value whose numbers are equal to every other spelling of them.
fn spelled(value: &Value) -> Value {
    serde_json::from_str(&go_json::to_string(value)).unwrap_or_else(|_| value.clone())
}

/// Returns a rule without its empty members.
fn rule(rule: &Value) -> Value {
    let mut rule = rule.clone();
    if let Some(members) = rule.as_object_mut() {
        members.retain(|_, member| !member.is_null() && *member != "");
    }
    rule
}

/// Where a schema stands, which decides what a change of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// It describes a field.
    Field,
    /// Below `allOf` and `anyOf`: a condition on fields that are described elsewhere.
    Condition,
    /// Below `not` and `oneOf`, where accepting more may make the whole accept less.
    Turning,
}

impl Position {
    /// Returns the position of the schemas below a keyword of a schema that stands here.
    pub(super) fn below(self, key: &str) -> Self {
        match key {
            "not" | "oneOf" => Self::Turning,
            "allOf" | "anyOf" if self == Self::Field => Self::Condition,
            _ => self,
        }
    }
}

/// Most bytes of a path in a schema that is compared or judged by: each field has one, and a CRD has
/// room for a long path and many fields below it. Those of known CRDs have less than 400.
pub(super) const MAX_PATH: usize = 2048;

/// Returns about how many bytes the longest path has.
pub(super) fn longest_path(schema: &Schema) -> usize {
    fn below(value: &Value) -> usize {
        match value {
            Value::Object(members) => longest_path(members),
            Value::Array(items) => items.iter().map(below).max().unwrap_or_default(),
            _ => 0,
        }
    }
    let paths = schema.iter().map(|(name, value)| name.len() + 1 + below(value));
    paths.max().unwrap_or_default()
}

/// Returns the schemas right below a schema, each with its keyword and its part of the path.
pub(super) fn children(schema: &Schema) -> Vec<(&'static str, String, &Schema)> {
    let mut children = Vec::new();
    for keyword in KEYWORDS.iter() {
        let key = keyword.key;
        let Some(value) = schema.get(key) else { continue };
        match (keyword.kind, value) {
            (Kind::Schema | Kind::SchemaOrFlag | Kind::Items, Value::Object(_)) => {
                children.push((key, key.to_owned(), value));
            }
            (Kind::Schemas | Kind::Items, Value::Array(items)) => {
                let items = items.iter().enumerate();
                children.extend(items.map(|(index, item)| (key, format!("{key}[{index}]"), item)));
            }
            (Kind::SchemaMap | Kind::Dependencies, Value::Object(map)) => {
                children.extend(map.iter().map(|(name, child)| match key {
                    "properties" => (key, name.clone(), child),
                    _ => (key, format!("{key}[{name}]"), child),
                }));
            }
            _ => {}
        }
    }
    let schemas = children.into_iter();
    schemas.filter_map(|(key, part, child)| Some((key, part, child.as_object()?))).collect()
}
