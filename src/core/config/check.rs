//! Checks a value against a type of the table, and keeps the fields that the type has.
//!
//! Source: rendering.md 3.3.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::quantity;
use super::types::{DEPLOYMENT_CONFIG, Type, fields};
use crate::bundle;
use crate::error::quote;
use crate::yaml::go_float;

/// Findings about values, in the order of their paths.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the schema forbids, one detail each.
    pub(super) details: Vec<String>,
    /// What the schema allows but cannot be used, for example a number that is too large.
    pub(super) unusable: Vec<String>,
    /// Paths of fields that no type knows; they are left out.
    pub(super) dropped: Vec<String>,
}

impl Findings {
    /// Checks an object of a type of the table and returns it without unknown fields, which only
    /// `deploymentConfig` itself must not have.
    fn object(&mut self, name: &str, map: &Map<String, Value>, path: &str) -> Map<String, Value> {
        let known = fields(name);
        let mut taken = Map::new();
        let required = known.iter().filter(|(_, field)| field.required);
        let mut keys: BTreeSet<&str> = required.map(|(key, _)| *key).collect();
        keys.extend(map.keys().map(String::as_str));
        for key in keys {
            let below = format!("{path}.{key}");
            match (known.get(key), map.get(key)) {
                (Some(field), value) if field.required && value.is_none_or(Value::is_null) => {
                    self.details.push(missing(&below));
                }
                (Some(field), Some(value)) => {
                    taken.insert(key.to_owned(), self.value(&field.type_, value, &below));
                }
                (None, _) if name == DEPLOYMENT_CONFIG => self.details.push(unknown_field(key)),
                (None, _) => self.dropped.push(below),
                (Some(_), None) => {}
            }
        }
        taken
    }

    /// Checks a value and returns it in the form in which it is used.
    pub(super) fn value(&mut self, type_: &Type, value: &Value, path: &str) -> Value {
        match (type_, value) {
            (_, Value::Null) => {
                // rendering.md R12
                self.details.push(format!("field {} must not be null", quote(path)));
                Value::Null
            }
            (Type::Any, _) | (Type::Text, Value::String(_)) | (Type::Boolean, Value::Bool(_)) => {
                value.clone()
            }
            (Type::Int32 | Type::Int64, Value::Number(number)) if is_integral(number) => {
                self.integer(type_, number, path)
            }
            (Type::Quantity, Value::String(_) | Value::Number(_)) => self.quantity(value, path),
            (Type::List(item), Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, value)| self.value(item, value, &format!("{path}.{index}")))
                .collect(),
            (Type::Map(item), Value::Object(map)) => map
                .iter()
                .map(|(key, value)| {
                    (key.clone(), self.value(item, value, &format!("{path}.{key}")))
                })
                .collect::<Map<_, _>>()
                .into(),
            (Type::Named(name), Value::Object(map)) => self.object(name, map, path).into(),
            _ => {
                self.details.push(wrong_type(path, value, wanted(type_)));
                Value::Null
            }
        }
    }

    fn integer(&mut self, type_: &Type, number: &Number, path: &str) -> Value {
        let (least, most, name) = match type_ {
            Type::Int32 => (i32::MIN.into(), i32::MAX.into(), "int32"),
            _ => (i64::MIN, i64::MAX, "int64"),
        };
        let integer = as_integer(number).filter(|integer| (least..=most).contains(integer));
        if integer.is_none() {
            self.unusable.push(format!("{path}: {number} does not fit into {name}"));
        }
        integer.into()
    }

    /// Checks a quantity and returns it as a string, as the renderer writes it.
    fn quantity(&mut self, value: &Value, path: &str) -> Value {
        let text = match value {
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => go_float(float),
                _ => number.to_string(),
            },
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        if let Err(reason) = quantity::check(&text) {
            self.unusable.push(format!("{path}: {reason}"));
        }
        text.into()
    }
}

/// The detail for a required field that is absent or null.
pub(super) fn missing(path: &str) -> String {
    format!("required field {} is missing", quote(path))
}

/// The detail for a field that does not exist.
pub(super) fn unknown_field(key: &str) -> String {
    format!("unknown field {}", quote(key))
}

/// The detail for a value of another type; an empty path is the whole configuration.
pub(super) fn wrong_type(path: &str, value: &Value, want: &str) -> String {
    let field = match path {
        "" => String::new(),
        path => format!(" for field {}", quote(path)),
    };
    format!("invalid type{field}: got {}, want {want}", type_name(value))
}

fn wanted(type_: &Type) -> &'static str {
    match type_ {
        Type::Text => "string",
        Type::Boolean => "boolean",
        Type::Int32 | Type::Int64 => "integer",
        Type::Quantity => "string or number",
        Type::List(_) => "array",
        Type::Any | Type::Map(_) | Type::Named(_) => "object",
    }
}

/// Names a JSON type as the schema's messages do, which do not distinguish integers.
fn type_name(value: &Value) -> &'static str {
    if value.is_number() { "number" } else { bundle::type_name(value) }
}

/// Says whether JSON Schema counts a number as an integer, which it does with 1.0.
fn is_integral(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

fn as_integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        // Beyond 2^53 not every integer has a float, so such a float is not an exact number.
        let float = number.as_f64().filter(|float| float.abs() < 9.007e15)?;
        format!("{float:.0}").parse().ok()
    })
}
