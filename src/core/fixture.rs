//! Tables of test cases that are YAML files.

use serde_json::Value;

use crate::yaml;

/// Returns the rows of a table.
pub(crate) fn rows(table: &str) -> Vec<Value> {
    match yaml::to_json(table).unwrap().as_slice() {
        [Value::Array(rows)] => rows.clone(),
        other => panic!("one list, not {other:?}"),
    }
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
