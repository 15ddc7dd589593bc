//! Test cases that stand in `cases.yaml`.

use serde::de::DeserializeOwned;

/// Returns the cases of a test: their names, and their arguments.
pub(crate) fn cases<T: DeserializeOwned>(test: &str) -> Vec<(String, T)> {
    let tables = olm_core::yaml::to_json(include_str!("cases.yaml")).unwrap();
    let cases = tables[0][test].as_object().unwrap_or_else(|| panic!("no cases of {test}"));
    assert!(!cases.is_empty(), "no cases of {test}");
    let read = |(name, case): (&String, &serde_json::Value)| {
        let case = T::deserialize(case).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), case)
    };
    cases.iter().map(read).collect()
}
