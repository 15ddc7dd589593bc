//! JSON as Go's encoder writes it: compact, keys sorted, `<`, `>` and `&` escaped.
//!
//! Names that contain a hash of JSON, and annotations that hold JSON, must be equal to upstream's
//! byte by byte. Source: Go `encoding/json`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::yaml::go_float;

/// Returns the compact JSON text of a value, the keys of every map sorted.
///
/// Example: `{"b": "<", "a": 1}` gives `{"a":1,"b":"\u003c"}`.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    push_value(&mut out, value);
    out
}

/// Appends the JSON text of a value.
pub fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        // Go keeps integers that fit 64 signed bits and makes floats of all other numbers.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => out.push_str(&go_float(float)),
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::String(text) => push_string(out, text),
        Value::Array(items) => {
            push_joined(out, ('[', ']'), items.iter(), push_value);
        }
        Value::Object(map) => push_object(out, map),
    }
}

/// Appends the JSON text of an object.
pub fn push_object(out: &mut String, map: &Map<String, Value>) {
    let mut entries: Vec<_> = map.iter().collect();
    // The map is sorted unless a feature of the JSON crate keeps insertion order.
    entries.sort_by(|a, b| a.0.cmp(b.0));
    push_joined(out, ('{', '}'), entries.into_iter(), |out, (key, value)| {
        push_string(out, key);
        out.push(':');
        push_value(out, value);
    });
}

/// Appends items between two brackets, separated by commas.
pub fn push_joined<T>(
    out: &mut String,
    brackets: (char, char),
    items: impl Iterator<Item = T>,
    mut push: impl FnMut(&mut String, T),
) {
    out.push(brackets.0);
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(brackets.1);
}

/// Appends a string in quotes, escaped as Go does.
pub fn push_string(out: &mut String, text: &str) {
    Value::from(text).to_string().chars().for_each(|c| push_char(out, c));
}

/// Appends JSON text without the white space between its tokens, keeping the order of keys and the
/// spelling of numbers.
///
/// The text must be valid JSON.
pub fn push_compact(out: &mut String, json: &str) {
    let mut in_string = false;
    let mut escaped = false;
    for c in json.chars() {
        if !in_string && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        push_char(out, c);
        match c {
            '"' if !escaped => in_string = !in_string,
            '\\' if in_string && !escaped => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
}

/// Appends a character of JSON text, escaped if HTML would read it otherwise.
fn push_char(out: &mut String, c: char) {
    if matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') {
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;
    use proptest::prelude::*;

    const CASES: &str = include_str!("testdata/cases.yaml");

    #[test]
    fn compacting_keeps_order_and_numbers() {
        let mut out = String::new();
        push_compact(&mut out, "{ \"b\" : 4.20,\n \"a\" : \"x \\\" < \\\\\" , \"c\": \" \" }");
        assert_eq!(out, r#"{"b":4.20,"a":"x \" \u003c \\","c":" "}"#);
    }

    // applying.md c4
    #[test]
    fn writes_each_value_as_go() {
        for (json, want) in cases::<(&str, &str)>(CASES, "writes_each_value_as_go") {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(to_string(&value), want);
        }
    }

    proptest! {
        #[test]
        fn strings_read_back_the_same(text in any::<String>()) {
            let written = to_string(&Value::String(text.clone()));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }

        #[test]
        fn floats_read_back_the_same(float in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
            let written = to_string(&Value::from(float));
            prop_assert_eq!(written.parse::<f64>().unwrap().to_bits(), float.to_bits());
        }
    }
}
