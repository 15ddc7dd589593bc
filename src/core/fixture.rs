//! Tables of test cases that are YAML files.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::catalog::Content;
use crate::catalog::read::Meta;
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
