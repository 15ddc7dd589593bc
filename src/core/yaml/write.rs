//! The writer: block style, and quotes around every text that a reader of YAML 1.1 or 1.2 could
//! take for something else.

use itertools::Itertools as _;
use serde_json::Value;

/// Writes a value as one YAML document, ended by a newline, without `---`.
///
/// Texts that a YAML 1.1 or 1.2 reader would take for a boolean, number, date or null are quoted;
/// texts of several lines become literal blocks if that is exact, and long ones stay on one line,
/// where they can be searched and copied. Reading the result with
/// [`super::to_json`] returns the same value.
///
/// Example: `{"a": "yes", "b": 1}` gives `a: 'yes'` and `b: 1` on two lines.
#[expect(
    clippy::expect_used,
    reason = "a JSON value in memory has only what YAML can hold, and writing to it cannot fail"
)]
pub fn to_yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).expect("a JSON value is written as YAML")
}

/// Writes values as a stream of documents, each opened by `---`.
///
/// Without values the text is empty.
pub fn to_yaml_stream(values: &[Value]) -> String {
    values.iter().map(|value| format!("---\n{}", to_yaml(value))).join("")
}
