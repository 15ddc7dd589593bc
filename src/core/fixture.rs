//! Tables of test cases that are YAML files, and objects that many tests are about.

use olm_api::{ClusterExtension, ClusterObjectSet};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::Content;
use crate::catalog::read::Meta;
use crate::object::Object;
use crate::yaml;

/// Returns the rows of a table.
pub(crate) fn rows(table: &str) -> Vec<Value> {
    match yaml::to_json(table).unwrap().as_slice() {
        [Value::Array(rows)] => rows.clone(),
        other => panic!("one list, not {other:?}"),
    }
}

/// Returns the cases of a test: the member with its name of a file of tables, which is a map from the
/// names of cases, or a list. The case that fails is printed.
pub(crate) fn cases<T: Deserialize<'static>>(tables: &str, test: &str) -> impl Iterator<Item = T> {
    assert_eq!(yaml::repeated_keys(tables), [], "names of cases");
    let tables: &'static Value = Box::leak(Box::new(yaml::to_json(tables).unwrap().remove(0)));
    let named: Vec<(&str, _)> = match &tables[test] {
        Value::Object(rows) => rows.iter().map(|(name, row)| (name.as_str(), row)).collect(),
        Value::Array(rows) => rows.iter().map(|row| ("", row)).collect(),
        other => panic!("cases of {test}, not {other}"),
    };
    assert!(!named.is_empty(), "{test} has no cases");
    let mut shown = Shown(String::new());
    named.into_iter().map(move |(name, row)| {
        shown.set(format!("{name} {row}"));
        T::deserialize(row).unwrap()
    })
}

/// A case, which is printed if the test panics.
struct Shown(String);

impl Shown {
    fn set(&mut self, case: String) {
        self.0 = case;
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case that failed: {}", self.0);
        }
    }
}

/// Returns a value as an object of Kubernetes.
pub(crate) fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// Returns extension `e`, which asks for package `p`, with members set or added.
pub(crate) fn extension(more: &Value) -> ClusterExtension {
    let mut extension = json!({"metadata": {"name": "e"}, "spec": {"namespace": "ns",
        "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}});
    merge(&mut extension, more);
    serde_json::from_value(extension).unwrap()
}

/// Returns revision `e-<number>`, which is active, with members set or added.
pub(crate) fn revision(number: i64, more: &Value) -> ClusterObjectSet {
    let mut revision = json!({"metadata": {"name": format!("e-{number}")}, "spec": {
        "revision": number, "lifecycleState": "Active", "collisionProtection": "Prevent"}});
    merge(&mut revision, more);
    serde_json::from_value(revision).unwrap()
}

/// Returns a condition of 2026-01-01.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Sets members of a value, or adds them.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Returns the content of a catalog of such blobs.
pub(crate) fn content(blobs: impl IntoIterator<Item = impl ToString>) -> Content {
    let blobs = blobs.into_iter().map(|blob| Meta::parse(&blob.to_string()).unwrap());
    Content::from_blobs(&blobs.collect::<Vec<_>>())
}

/// Returns one of the words of a text.
pub(crate) fn word(text: &'static str) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(text.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned)
}

/// Returns JSON of such leaves, in lists and in maps with such keys.
pub(crate) fn json(
    leaf: impl Strategy<Value = Value> + 'static,
    key: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = Value> {
    leaf.prop_recursive(5, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns a text of a row.
pub(crate) fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// Returns a list of texts of a row.
pub(crate) fn texts<'a>(row: &'a Value, key: &str) -> Vec<&'a str> {
    let list = row[key].as_array().unwrap_or_else(|| panic!("{key} of {row}"));
    list.iter().map(|text| text.as_str().unwrap()).collect()
}
