//! Which changes of a schema cannot make a stored object invalid.
//!
//! Source: applying.md 6.4. Below `not` and `oneOf`, where accepting more may mean accepting less,
//! only what says nothing about objects passes.

use serde_json::Value;

use super::schema::{KEYWORDS, Kind, is_turning};

/// Keywords that say nothing about objects.
const DOCUMENTATION: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Members of a rule that only shape its message.
const MESSAGES: [&str; 2] = ["message", "messageExpression"];

/// What these keywords mean where they are absent.
const DEFAULTS: [(&str, &str); 2] =
    [("x-kubernetes-list-type", "atomic"), ("x-kubernetes-map-type", "granular")];

/// Says whether every object stays valid when a keyword changes from one value to another; an
/// absent one is null.
pub(super) fn is_harmless(key: &str, old: &Value, new: &Value, monotone: bool) -> bool {
    if old == new || DOCUMENTATION.contains(&key) {
        return true;
    }
    let Some(keyword) = KEYWORDS.iter().find(|keyword| keyword.key == key) else {
        return false;
    };
    if let Some((_, default)) = DEFAULTS.iter().find(|(defaulted, _)| *defaulted == key) {
        return old.as_str().unwrap_or(default) == new.as_str().unwrap_or(default);
    }
    match (keyword.kind, key) {
        (_, "format" | "enum") => monotone && new.is_null(),
        (_, "nullable") => monotone && new == true,
        (Kind::Rules, _) => monotone && keeps_only(old, new),
        (Kind::Schema | Kind::SchemaOrFlag | Kind::Items | Kind::Schemas, _) => {
            let monotone = monotone && !is_turning(key);
            match (old, new) {
                (Value::Array(old), Value::Array(new)) => {
                    let mut pairs = old.iter().zip(new);
                    old.len() == new.len() && pairs.all(|(old, new)| is_looser(old, new, monotone))
                }
                (Value::Object(_), Value::Object(_)) => is_looser(old, new, monotone),
                _ => false,
            }
        }
        (Kind::SchemaMap, _) => match (old.as_object(), new.as_object()) {
            (Some(old), Some(new)) => {
                let mut pairs = old.iter().zip(new);
                old.len() == new.len()
                    && pairs.all(|(old, new)| old.0 == new.0 && is_looser(old.1, new.1, monotone))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Says whether a schema differs from another by harmless changes alone.
fn is_looser(old: &Value, new: &Value, monotone: bool) -> bool {
    KEYWORDS.iter().all(|keyword| {
        let (key, absent) = (keyword.key, &Value::Null);
        let (old, new) = (old.get(key), new.get(key));
        is_harmless(key, old.unwrap_or(absent), new.unwrap_or(absent), monotone)
    })
}

/// Says whether all rules of `new` are among those of `old`, whatever their messages.
fn keeps_only(old: &Value, new: &Value) -> bool {
    let rules = |rules: &Value| -> Vec<Value> {
        let mut rules = rules.as_array().cloned().unwrap_or_default();
        for members in rules.iter_mut().filter_map(Value::as_object_mut) {
            members.retain(|name, _| !MESSAGES.contains(&name.as_str()));
        }
        rules
    };
    let known = rules(old);
    rules(new).iter().all(|rule| known.contains(rule))
}
