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

    fn mismatch<T>(&self, expected: &'static str) -> Result<T, FieldError> {
        Err(FieldError {
            path: self.path.clone(),
            expected,
            found: self.value.map_or("null", type_name),
        })
    }

    pub(super) fn object(&self) -> Result<ObjectAt<'a>, FieldError> {
        let map = match self.value {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => return self.mismatch("object"),
        };
        let path = self.path.clone();
        Ok(ObjectAt { map, path })
    }

    pub(super) fn string(&self) -> Result<Option<String>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.mismatch("string"),
        }
    }

    pub(super) fn text(&self) -> Result<String, FieldError> {
        self.string().map(Option::unwrap_or_default)
    }

    pub(super) fn bool(&self) -> Result<bool, FieldError> {
        match self.value {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.mismatch("boolean"),
        }
    }

    pub(super) fn integer(&self) -> Result<Option<i64>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => self.mismatch("integer"),
            },
        }
    }

    /// Returns a number or a name, as ports of pods are given.
    pub(super) fn integer_or_text(&self) -> Result<Option<Value>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(value) if value.is_string() || value.is_i64() => Ok(Some(value.clone())),
            Some(_) => self.mismatch("integer or string"),
        }
    }

    /// Returns the items of a list, or nothing when it is absent.
    pub(super) fn list(&self) -> Result<Option<Vec<Self>>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| Self {
                        value: Some(item).filter(|item| !item.is_null()),
                        path: format!("{}[{index}]", self.path),
                    })
                    .collect(),
            )),
            Some(_) => self.mismatch("array"),
        }
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
        let Some(map) = object.map else {
            return Ok(None);
        };
        map.keys()
            .map(|key| Ok((key.clone(), object.field(key).text()?)))
            .collect::<Result<_, _>>()
            .map(Some)
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
