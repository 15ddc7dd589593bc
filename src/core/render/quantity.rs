//! Quantities as strings.
//!
//! Authors write `cpu: 1` without quotes. The API server takes that, but clients and comparing code
//! expect a string, so numbers become strings; nothing is canonicalized. Source: rendering.md 4.8.

use serde_json::Value;

use crate::yaml::go_float;

/// Turns the numbers in the quantities of a pod's `spec` into strings, wherever they are.
pub(super) fn write_as_text(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(write_as_text),
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("divisor" | "sizeLimit", quantity) => convert(quantity),
                    ("limits" | "overhead" | "requests", Value::Object(quantities)) => {
                        quantities.values_mut().for_each(convert);
                    }
                    (_, value) => write_as_text(value),
                }
            }
        }
        _ => {}
    }
}

fn convert(value: &mut Value) {
    if let Value::Number(number) = value {
        let text = match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        };
        *value = Value::String(text);
    }
}
