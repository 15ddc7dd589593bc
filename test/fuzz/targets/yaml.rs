//! YAML as Go reads it. Nothing panics or takes too long; what we write is read back the same, both
//! readers agree, and the indentation of quoted scalars does not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_core::yaml::{to_json, to_json_with_sources, to_yaml_stream};
use serde_json::Value;

/// Placed before a text, this document makes only the general reader accept it.
const UNUSUAL: &str = "&a {}\n---\n";

/// Placed before a text, it has quoted scalars rewritten: the general reader refuses it.
const UNINDENTED: &str = "a: 'b\nc'\n---\n";

/// Turns integers beyond 64 bits with a sign into floats, which is how Go keeps them: a float that
/// is written without an exponent is read as an integer.
fn as_go_keeps(documents: Vec<Value>) -> Vec<Value> {
    documents.into_iter().map(as_go).collect()
}

fn as_go(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() => number.as_f64().into(),
        Value::Array(items) => as_go_keeps(items).into(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, as_go(value))).collect()
        }
        other => other,
    }
}

/// Checks that a text inside quotes reads the same whatever the indentation of its lines.
fn check_indentation(text: &str) {
    let lines = || text.split(['\n', '\r']).map(|line| line.trim_matches([' ', '\t']));
    // At the start of a line these end the document.
    if lines().any(|line| line.starts_with("---") || line.starts_with("...")) {
        return;
    }
    let quoted = |indent: &str| {
        let text = lines().collect::<Vec<_>>().join(&format!("\n{indent}"));
        let (single, double) = (text.replace('\'', "''"), text.replace('"', "'"));
        [format!("a:\n- b: '{single}'\n  c: 1\n"), format!("a:\n- b: \"{double}\"\n  c: 1\n")]
    };
    let indented = quoted("    ").map(|text| to_json(&text));
    for indent in ["", " ", "  ", "\t", " \t "] {
        for (text, want) in quoted(indent).iter().zip(&indented) {
            match (to_json(text), want) {
                (Err(found), Err(want)) => assert_eq!(found.line, want.line, "{text}"),
                (found, want) => assert_eq!(found, *want, "{text}"),
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return
    };
    check_indentation(text);
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
    // A byte order mark, a directive or JSON would mean something else after a document.
    let alone = text.trim_start().starts_with('\u{feff}')
        || text.trim_start().starts_with('{')
        || text.lines().any(|line| line.starts_with('%'));
    if !alone {
        for before in [UNUSUAL, UNINDENTED] {
            let general = to_json(&format!("{before}{text}"));
            let general = general.map(|mut all| all.split_off(1));
            assert_eq!(general.as_ref(), Ok(&documents), "{text}");
        }
    }
});
