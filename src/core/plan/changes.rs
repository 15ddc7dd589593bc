//! What becomes of each object, and of its fields.

use std::collections::BTreeMap;

use olm_api::keys::annotation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::object::Object;
use crate::render::without_ca;
use crate::revision::{Fixed, Phase};

/// Fields that the API server writes into every object.
const WRITTEN_BY_SERVER: [&str; 3] = ["generation", "managedFields", "resourceVersion"];
/// Replacement for a value of a Secret.
const MASK: &str = "(masked)";

/// The change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is made.
    Create,
    /// Fields of it change.
    Change,
    /// It is removed.
    Delete,
}

/// An object that does not stay as it is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// How it changes.
    pub action: Action,
    /// The phase it is in; of one that is removed none.
    pub phase: Option<String>,
    /// Its group and version.
    pub api_version: String,
    pub kind: String,
    /// Its namespace, empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    /// The fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Which of these fields the API server refuses to change, and what becomes of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<String>,
    /// Whose the object is that is there in its place, and is not taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// A field that changes; null stands for one that is not there.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FieldChange {
    /// Path of the field.
    pub path: String,
    /// The present value.
    pub from: Value,
    /// The new value.
    pub to: Value,
}

/// Compares the objects of two revisions: those of the new one in their order, then those that go.
pub(super) fn changes(old: &[Object], new: &[Phase]) -> Vec<ObjectChange> {
    let mut left: BTreeMap<_, &Object> = BTreeMap::new();
    for object in old {
        left.insert(object.key(), object);
    }
    let mut changes = Vec::new();
    for phase in new {
        for object in &phase.objects {
            let before = left.remove(&object.key());
            let (action, fields) = match before {
                None => (Action::Create, Vec::new()),
                Some(before) => (Action::Change, fields(before, object)),
            };
            if action == Action::Create || !fields.is_empty() {
                let fixed = before.and_then(|before| Fixed::of(before, object));
                let immutable = fixed.map(|fixed| fixed.to_string());
                let change = change(action, Some(&phase.name), object, fields);
                changes.push(ObjectChange { immutable, ..change });
            }
        }
    }
    let gone = left.into_values();
    changes.extend(gone.map(|object| change(Action::Delete, None, object, Vec::new())));
    changes
}

fn change(
    action: Action,
    phase: Option<&str>,
    object: &Object,
    fields: Vec<FieldChange>,
) -> ObjectChange {
    ObjectChange {
        action,
        phase: phase.map(str::to_owned),
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        fields,
        immutable: None,
        taken: None,
    }
}

fn fields(before: &Object, after: &Object) -> Vec<FieldChange> {
    let value = |object: &Object| without_ca(object).into_value();
    let mut fields = differences(&value(before), &value(after));
    if after.group().is_empty() && after.kind() == "Secret" {
        let content = |field: &&mut FieldChange| {
            [".data", ".stringData"].iter().any(|path| field.path.starts_with(path))
        };
        for field in fields.iter_mut().filter(content) {
            for value in [&mut field.from, &mut field.to] {
                if !value.is_null() {
                    *value = json!(MASK);
                }
            }
        }
    }
    fields
}

/// Returns what differs between two states of an object. The version of the bundle, which every
/// object of it carries, and what the API server writes are left out.
pub fn differences(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    collect(before, after, "", &mut found);
    found
}

fn collect(before: &Value, after: &Value, path: &str, found: &mut Vec<FieldChange>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let ignored = match path {
                    ".metadata" => WRITTEN_BY_SERVER.contains(&key.as_str()),
                    ".metadata.annotations" => key == annotation::BUNDLE_VERSION,
                    _ => false,
                };
                if ignored {
                    continue;
                }
                let none = Value::Null;
                let (old, new) = (old.get(key).unwrap_or(&none), new.get(key).unwrap_or(&none));
                let path = if key.contains(['.', '/']) {
                    format!("{path}[{key:?}]")
                } else {
                    format!("{path}.{key}")
                };
                collect(old, new, &path, found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                collect(old, new, &format!("{path}[{index}]"), found);
            }
        }
        (old, new) if old != new => {
            found.push(FieldChange { path: path.to_owned(), from: old.clone(), to: new.clone() });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_writes_is_no_change() {
        let before =
            json!({"metadata": {"generation": 1, "resourceVersion": "1"}, "spec": {"a": 1}});
        let after =
            json!({"metadata": {"generation": 2, "resourceVersion": "2"}, "spec": {"a": 2}});
        let found = differences(&before, &after);
        assert_eq!(found.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), [".spec.a"]);
    }
}
