//! Test cases that stand in `cases.toml`.

use serde::de::DeserializeOwned;

/// Returns the cases of a test.
pub(crate) fn cases<T: DeserializeOwned>(test: &str) -> Vec<T> {
    let tables: toml::Table = toml::from_str(include_str!("cases.toml")).unwrap();
    let cases: Vec<T> = tables[test].clone().try_into().unwrap();
    assert!(!cases.is_empty(), "no cases of {test}");
    cases
}
