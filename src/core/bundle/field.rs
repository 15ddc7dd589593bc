//! Typed access to JSON values that knows the path of each value, for error messages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::type_name;

/// A field does not have the type it must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}expected {expected}, found {found}", prefix(path))]
pub struct FieldError {
    /// Path of the field, such as `spec.install.spec.deployments[0].name`; empty for the document.
    pub path: String,
    /// The type it must have.
    pub expected: &'static str,
    /// The type it has.
    pub found: &'static str,
}

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// A value and its path in a document; absent and null are the same.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    value: Option<&'a Value>,
    path: String,
}

/// An object and its path in a document, or nothing.
#[derive(Debug, Clone)]
pub(super) struct ObjectAt<'a> {
    map: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> At<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value: Some(value).filter(|value| !value.is_null()), path: String::new() }
    }

    pub(super) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    /// Returns what `read` makes of the value, or nothing when that is absent; fails if `read` finds
    /// it to be of another type than expected.
    fn read<T>(
        &self,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.value else { return Ok(None) };
        let mismatch = || FieldError { path: self.path.clone(), expected, found: type_name(value) };
        read(value).map(Some).ok_or_else(mismatch)
    }

    pub(super) fn object(&self) -> Result<ObjectAt<'a>, FieldError> {
        let map = self.read("object", Value::as_object)?;
        Ok(ObjectAt { map, path: self.path.clone() })
    }

    pub(super) fn string(&self) -> Result<Option<String>, FieldError> {
        self.read("string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn text(&self) -> Result<String, FieldError> {
        self.string().map(Option::unwrap_or_default)
    }

    pub(super) fn bool(&self) -> Result<bool, FieldError> {
        self.read("boolean", Value::as_bool).map(Option::unwrap_or_default)
    }

    pub(super) fn integer(&self) -> Result<Option<i64>, FieldError> {
        self.read("integer", Value::as_i64)
    }

    /// Returns a number or a name, as ports of pods are given.
    pub(super) fn integer_or_text(&self) -> Result<Option<Value>, FieldError> {
        let number_or_name = |value: &'a Value| value.is_string() || value.is_i64();
        self.read("integer or string", |value| number_or_name(value).then(|| value.clone()))
    }

    /// Returns the items of a list, or nothing when it is absent.
    pub(super) fn list(&self) -> Result<Option<Vec<Self>>, FieldError> {
        let item = |(index, item): (usize, &'a Value)| Self {
            value: Some(item).filter(|item| !item.is_null()),
            path: format!("{}[{index}]", self.path),
        };
        let items = self.read("array", Value::as_array)?;
        Ok(items.map(|items| items.iter().enumerate().map(item).collect()))
    }

    /// Reads every item of a list; an absent list counts as empty.
    pub(super) fn each<T>(
        &self,
        read: impl Fn(&ObjectAt<'a>) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FieldError> {
        let items = self.list()?.unwrap_or_default();
        items.iter().map(|item| read(&item.object()?)).collect()
    }

    /// Returns a list of strings, a null item being the empty string, or nothing when it is absent.
    pub(super) fn strings(&self) -> Result<Option<Vec<String>>, FieldError> {
        self.list()?.map(|items| items.iter().map(Self::text).collect()).transpose()
    }

    /// Returns a map of strings, a null value being the empty string, or nothing when it is absent.
    pub(super) fn string_map(&self) -> Result<Option<BTreeMap<String, String>>, FieldError> {
        let object = self.object()?;
        let Some(map) = object.map else { return Ok(None) };
        let texts = map.keys().map(|key| Ok((key.clone(), object.field(key).text()?)));
        texts.collect::<Result<_, _>>().map(Some)
    }
}

impl<'a> ObjectAt<'a> {
    pub(super) fn field(&self, key: &str) -> At<'a> {
        At {
            value: self.map.and_then(|map| map.get(key)).filter(|value| !value.is_null()),
            path: if self.path.is_empty() {
                key.to_owned()
            } else {
                format!("{}.{key}", self.path)
            },
        }
    }

    /// Returns the object itself, empty when it is absent.
    pub(super) fn map(&self) -> Map<String, Value> {
        self.map.cloned().unwrap_or_default()
    }
}
