//! YAML read as Go reads it, as JSON values, and YAML written so that no reader misinterprets it.
//!
//! In: text of one or more YAML or JSON documents. Out: JSON values, as upstream gets them from
//! `sigs.k8s.io/yaml`: YAML 1.1 booleans and octal numbers, the last of duplicate keys, keys of
//! any scalar type as text. No type of ours is deserialized from YAML directly.
//!
//! Source: stack.md section 7.

mod quick;
mod quoted;
mod read;
mod write;

pub use read::{Places, SourcedValue, YamlError, go_float, scalar_to_string, to_json_with_sources};
pub use write::{to_yaml, to_yaml_stream};

use serde_json::Value;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

/// Returns the keys that a map of the first document has twice, each with line and column of the value
/// that counts, both from 1.
pub fn repeated_keys(text: &str) -> Vec<(String, usize, usize)> {
    // The quick reader reads no such map, and neither reader tells keys that a merge brings.
    let mut found = Vec::new();
    if !text.contains("<<")
        && quick::read(text).is_none()
        && let Some(places) = Places::read(text)
    {
        places.repeated(&mut found);
    }
    found
}

/// Reads every document of a YAML or JSON text, in order.
///
/// Documents that are empty, hold comments only or are `null` are left out. A text whose first
/// character is `{` is first tried as a sequence of JSON values.
///
/// Scalars follow YAML 1.1 (`yes` is true, `0644` is 420); a float with an integral value within
/// 64 bits becomes an integer; of duplicate keys the last one wins; merge keys are expanded; a key
/// that is a number or boolean becomes its text (`on:` is the key `true`).
///
/// Example: `a: 0644` gives `[{"a": 420}]`.
///
/// Source: stack.md section 7.
pub fn to_json(text: &str) -> Result<Vec<Value>, YamlError> {
    let text = read::checked(text)?;
    if text.trim_start().starts_with('{')
        && let Ok(values) = read::json_stream(text)
    {
        return Ok(values);
    }
    quick::read(text).map_or_else(|| read::careful(text), Ok)
}
