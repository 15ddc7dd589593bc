//! YAML as Go reads it. Nothing panics or takes forever; what we write is read back the same, and
//! both readers agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_core::yaml::{to_json, to_json_with_sources, to_yaml_stream};
use serde_json::Value;

/// Before this document only the general reader takes a text.
const UNUSUAL: &str = "&a {}\n---\n";

/// Turns integers beyond 64 bits with a sign into floats, as which Go keeps them: a float that is
/// written without an exponent is read as an integer.
fn as_go_keeps(documents: Vec<Value>) -> Vec<Value> {
    documents.into_iter().map(as_go).collect()
}

fn as_go(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() => number.as_f64().into(),
        Value::Array(items) => as_go_keeps(items).into(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, as_go(value)))
            .collect(),
        other => other,
    }
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let _ = to_json_with_sources(text);
    let documents = match to_json(text) {
        Ok(documents) => documents,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = to_yaml_stream(&documents);
    let again = to_json(&written).map(as_go_keeps);
    assert_eq!(again, Ok(as_go_keeps(documents.clone())), "{written}");
    // A mark of byte order, a directive or JSON would mean something else behind a document.
    let alone = text.starts_with('\u{feff}')
        || text.trim_start().starts_with('{')
        || text.lines().any(|line| line.starts_with('%'));
    if !alone {
        let general = to_json(&format!("{UNUSUAL}{text}"));
        let general = general.map(|mut all| all.split_off(1));
        assert_eq!(general, Ok(documents), "{text}");
    }
});
