//! The form in which blobs are stored and served: compact JSON with sorted keys.
//!
//! Works on tokens where the source is JSON, so that numbers keep their digits (catalogs.md 1.7).

use std::collections::BTreeMap;

use serde::de::Visitor;
use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting of a document (catalogs.md 5.8).
pub(super) const MAX_DEPTH: usize = 100;

/// The nesting of a document is deeper than [`MAX_DEPTH`].
#[derive(Debug)]
pub(super) struct TooDeep;

/// Writes a JSON text: keys sorted by bytes, no white space, numbers as they are, strings escaped
/// no more than needed.
///
/// The syntax of a raw value was checked when it was read, so depth is all that can be wrong here.
pub(super) fn write_raw(out: &mut String, raw: &RawValue, depth: usize) -> Result<(), TooDeep> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members = members(raw).ok_or(TooDeep)?;
            enter(depth)?;
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                separate(out, index);
                write_text(out, &key);
                out.push(':');
                write_raw(out, value, depth + 1)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| TooDeep)?;
            enter(depth)?;
            out.push('[');
            for (index, item) in items.into_iter().enumerate() {
                separate(out, index);
                write_raw(out, item, depth + 1)?;
            }
            out.push(']');
        }
        // Without escapes the literal is already in its shortest form.
        Some(b'"') if text.contains('\\') => write_text(out, &string(text)),
        _ => out.push_str(text),
    }
    Ok(())
}

/// Writes a value read from YAML in the same form.
pub(super) fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<(), TooDeep> {
    match value {
        Value::Object(map) => {
            enter(depth)?;
            // Sorted here, because the map keeps insertion order when another crate asks for it.
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                separate(out, index);
                write_text(out, key);
                out.push(':');
                write_value(out, value, depth + 1)?;
            }
            out.push('}');
        }
        Value::Array(items) => {
            enter(depth)?;
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write_value(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::String(text) => write_text(out, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Returns the members of a JSON object, the last of equal keys, or `None` if it is not an object.
pub(super) fn members(raw: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    let pairs: BTreeMap<Text, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    Some(
        pairs
            .into_iter()
            .map(|(key, value)| (key.0, value))
            .collect(),
    )
}

/// Returns the text of a JSON string literal. Halves of surrogate pairs become U+FFFD.
pub(super) fn string(literal: &str) -> String {
    serde_json::from_str::<Text>(literal)
        .map(|text| text.0)
        .unwrap_or_default()
}

fn enter(depth: usize) -> Result<(), TooDeep> {
    if depth < MAX_DEPTH {
        Ok(())
    } else {
        Err(TooDeep)
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

/// A JSON string that is read even where its escapes do not spell valid Unicode.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Text(String);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lossy;
        impl Visitor<'_> for Lossy {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Lossy)
    }
}
