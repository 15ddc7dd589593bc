//! Numbers as decoded by the readers of a revision's content.
//!
//! Digests of revisions are hashes of JSON text, and a digest that was stored once can never
//! change, so it matters which reader decoded a number.

use serde_json::{Number, Value};

/// Above this magnitude every `f64` is a whole number that `i64` may not hold.
const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns `value` as decoded by a reader that turns every number into a 64-bit float.
///
/// Whole numbers come back as integers where `i64` holds them, so that `3.0` prints `3` and
/// 9007199254740993 becomes 9007199254740992.
///
/// Source: operator-controller decodes the content of referenced Secrets with `encoding/json` into
/// untyped maps.
pub fn through_float(value: &Value) -> Value {
    map_numbers(value, &|number| number.as_f64().map(float_number))
}

/// Returns `value` with whole floating-point numbers turned into integers, other numbers unchanged.
///
/// The API server refuses `3.0` for an integer field although a float reader would pass it on as
/// `3`; integers keep their full precision.
pub fn whole_floats_as_integers(value: &Value) -> Value {
    map_numbers(value, &|number| {
        number.is_f64().then(|| number.as_f64().map(float_number)).flatten()
    })
}

fn map_numbers(value: &Value, convert: &dyn Fn(&Number) -> Option<Value>) -> Value {
    match value {
        Value::Number(number) => convert(number).unwrap_or_else(|| value.clone()),
        Value::Array(items) => items.iter().map(|item| map_numbers(item, convert)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, item)| (key.clone(), map_numbers(item, convert))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked before the cast")]
fn float_number(float: f64) -> Value {
    let negative_zero = float == 0.0 && float.is_sign_negative();
    if float.fract() == 0.0 && float.abs() < I64_RANGE && !negative_zero {
        Value::from(float as i64)
    } else {
        Value::from(float)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fixture::cases;
    use crate::go_json::to_string;

    const CASES: &str = include_str!("../testdata/revision/cases.yaml");

    // applying.md c4
    #[test]
    fn reads_numbers_as_floats() {
        for (json, want) in cases::<(&str, &str)>(CASES, "reads_numbers_as_floats") {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(to_string(&through_float(&value)), want);
        }
    }

    #[test]
    fn integers_keep_their_precision_when_applied() {
        let value = json!({"big": 9_007_199_254_740_993_i64, "whole": 3.0, "part": 0.5});
        let want = json!({"big": 9_007_199_254_740_993_i64, "whole": 3, "part": 0.5});
        assert_eq!(whole_floats_as_integers(&value), want);
    }

    proptest! {
        #[test]
        fn reading_as_floats_is_idempotent(integer in any::<i64>()) {
            let once = through_float(&Value::from(integer));
            prop_assert_eq!(through_float(&once), once);
        }
    }
}
