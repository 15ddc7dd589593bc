//! JSON text exactly as Go's `encoding/json` writes it.
//!
//! Digests and data keys of revisions are hashes of this text, and a digest that was stored once
//! can never change, so every byte counts. Map keys are sorted bytewise whatever order the map of
//! the JSON library keeps.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Above this magnitude every `f64` is a whole number that `i64` may not hold.
const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns the text that Go's `encoding/json` writes for `value`, without a final newline.
///
/// Integers that fit `i64` are printed as they are, every other number as a 64-bit float.
///
/// Source: Go `encoding/json` with HTML escaping on, its default.
pub fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// Returns `value` as a reader sees it that decodes every number into a 64-bit float.
///
/// Whole numbers come back as integers where `i64` holds them, so that `3.0` prints `3` and
/// 9007199254740993 becomes 9007199254740992.
///
/// Source: operator-controller decodes the content of referenced Secrets with `encoding/json` into
/// untyped maps.
pub fn through_float(value: &Value) -> Value {
    map_numbers(value, &|number| number.as_f64().map(float_number))
}

/// Returns `value` with whole floating-point numbers turned into integers, all others untouched.
///
/// The API server refuses `3.0` for an integer field although a float reader would pass it on as
/// `3`; integers keep their full precision.
pub fn whole_floats_as_integers(value: &Value) -> Value {
    map_numbers(value, &|number| {
        number
            .is_f64()
            .then(|| number.as_f64().map(float_number))
            .flatten()
    })
}

fn map_numbers(value: &Value, convert: &dyn Fn(&Number) -> Option<Value>) -> Value {
    match value {
        Value::Number(number) => convert(number).unwrap_or_else(|| value.clone()),
        Value::Array(items) => items
            .iter()
            .map(|item| map_numbers(item, convert))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| (key.clone(), map_numbers(item, convert)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked before the cast"
)]
fn float_number(float: f64) -> Value {
    let negative_zero = float == 0.0 && float.is_sign_negative();
    if float.fract() == 0.0 && float.abs() < I64_RANGE && !negative_zero {
        Value::from(float as i64)
    } else {
        Value::from(float)
    }
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            text.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(text, key);
                text.push(':');
                write_value(text, &map[key]);
            }
            text.push('}');
        }
    }
}

fn write_number(text: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{integer}");
    } else if let Some(float) = number.as_f64() {
        write_float(text, float);
    }
}

/// Shortest form that reads back the same; exponent only below 1e-6 and from 1e21 on.
fn write_float(text: &mut String, float: f64) {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let scientific = format!("{float:e}");
        // Go writes the sign of a positive exponent, Rust does not.
        match scientific.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                let _ = write!(text, "{mantissa}e+{exponent}");
            }
            _ => text.push_str(&scientific),
        }
    } else {
        let _ = write!(text, "{float}");
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    // applying.md c4
    #[rstest]
    #[case(json!("a<b"), r#""a\u003cb""#)]
    #[case(json!("\u{2028}\u{1}"), r#""\u2028\u0001""#)]
    #[case(json!("\u{8}\u{c}\n\r\t\"\\\u{7f}é"), "\"\\b\\f\\n\\r\\t\\\"\\\\\u{7f}é\"")]
    #[case(json!(1e21), "1e+21")]
    #[case(json!(1e20), "100000000000000000000")]
    #[case(json!(1e-7), "1e-7")]
    #[case(json!(1.5e-10), "1.5e-10")]
    #[case(json!(0.000_001), "0.000001")]
    #[case(json!(3.0), "3")]
    #[case(json!(-0.0), "-0")]
    #[case(json!(9_007_199_254_740_993_i64), "9007199254740993")]
    #[case(json!(18_446_744_073_709_551_615_u64), "18446744073709552000")]
    #[case(json!({"b": [true, null], "a": {}, "B": []}), r#"{"B":[],"a":{},"b":[true,null]}"#)]
    fn writes_as_go(#[case] value: Value, #[case] want: &str) {
        assert_eq!(to_string(&value), want);
    }

    // applying.md c4
    #[rstest]
    #[case(json!(9_007_199_254_740_993_i64), "9007199254740992")]
    #[case(json!([{"a": 3.0}]), r#"[{"a":3}]"#)]
    #[case(json!(0.5), "0.5")]
    fn reads_numbers_as_floats(#[case] value: Value, #[case] want: &str) {
        assert_eq!(to_string(&through_float(&value)), want);
    }

    #[test]
    fn integers_keep_their_precision_when_applied() {
        let value = json!({"big": 9_007_199_254_740_993_i64, "whole": 3.0, "part": 0.5});
        let want = json!({"big": 9_007_199_254_740_993_i64, "whole": 3, "part": 0.5});
        assert_eq!(whole_floats_as_integers(&value), want);
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

        #[test]
        fn reading_as_floats_is_idempotent(integer in any::<i64>()) {
            let once = through_float(&Value::from(integer));
            prop_assert_eq!(through_float(&once), once);
        }
    }
}
