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

pub use read::{
    MAX_DEPTH, MAX_INPUT_BYTES, Places, SourcedValue, YamlError, go_float, scalar_to_string,
    to_json, to_json_with_sources,
};
pub use write::{to_yaml, to_yaml_stream};

#[cfg(test)]
mod tests;
