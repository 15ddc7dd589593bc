//! Which changes of a schema keep every stored object valid, readable and writable.
//!
//! Source: applying.md 6.4. Below `not` and `oneOf`, where accepting more may mean accepting less,
//! only what says nothing about objects passes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::schema::{Position, Schema};
use crate::object::items;

/// Keywords that say nothing about objects.
pub(super) const DOCUMENTATION: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Keywords that only ever refuse objects.
#[rustfmt::skip]
const LIMITS: [&str; 21] = [
    "format", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
    "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties",
    "minProperties", "required", "allOf", "oneOf", "anyOf", "not", "x-kubernetes-validations",
];

/// Members of a rule that only shape its message.
const MESSAGES: [&str; 4] = ["message", "messageExpression", "reason", "fieldPath"];

/// Most entries of `allOf` and `anyOf` that are compared each with each.
const MAX_ENTRIES: usize = 64;

/// The schema by which a field may have any value, as where unknown fields are preserved.
static ANYTHING: LazyLock<Schema> = LazyLock::new(|| {
    let flags = ["nullable", "x-kubernetes-preserve-unknown-fields"];
    flags.into_iter().map(|flag| (flag.to_owned(), true.into())).collect()
});

/// Says whether every object stays as it is when a keyword of a schema changes.
pub(super) fn is_harmless(key: &str, old: &Schema, new: &Schema, position: Position) -> bool {
    let (before, after) = (value(old, key), value(new, key));
    before == after
        || DOCUMENTATION.contains(&key)
        || position != Position::Turning && is_loosened(key, old, new, position)
        || is_looser_below(key, old, new, position)
}

/// Says whether a schema differs from another by documentation alone.
pub(super) fn is_same(old: &Schema, new: &Schema) -> bool {
    is_looser(old, new, Position::Turning)
}

/// Says whether a schema differs from another by harmless changes alone.
fn is_looser(old: &Schema, new: &Schema, position: Position) -> bool {
    let added = new.keys().filter(|key| !old.contains_key(*key));
    old.keys().chain(added).all(|key| is_harmless(key, old, new, position))
}

fn is_loosened(key: &str, old: &Schema, new: &Schema, position: Position) -> bool {
    let (before, after) = (value(old, key), value(new, key));
    if after.is_null() && LIMITS.contains(&key) {
        return true;
    }
    let (least, most) = (before.as_f64(), after.as_f64());
    let is_looser = |old: &Value, new: &Value| are_looser(old, new, Position::Condition);
    // So that the steps are few, only some are compared each with each, and none inside another.
    let count = items(before).count().max(items(after).count());
    let by_place = position == Position::Condition || count > MAX_ENTRIES;
    let other = |list, at| {
        let (first, most) = if by_place { (at, 1) } else { (0, count) };
        items(list).skip(first).take(most)
    };
    match key {
        "enum" => !before.is_null() && values(before).is_subset(&values(after)),
        "maximum" | "maxItems" | "maxLength" | "maxProperties" => {
            least.zip(most).is_some_and(|(before, after)| before <= after)
        }
        "minimum" => least.zip(most).is_some_and(|(before, after)| after <= before),
        "minItems" | "minLength" | "minProperties" => {
            most.is_some_and(|after| after <= least.unwrap_or_default())
        }
        "format" => before == "int32" && after == "int64",
        "required" => {
            let known = texts(before);
            let mut added = texts(after).into_iter().filter(|field| !known.contains(field));
            added.all(|field| is_filled_in(field, old, new))
        }
        "type" => match (before.as_str(), after.as_str()) {
            (Some("integer"), Some("number")) => true,
            (Some("integer" | "string"), None) => is_int_or_string(new),
            _ => false,
        },
        "x-kubernetes-int-or-string" => {
            after == true && matches!(value(old, "type").as_str(), Some("integer" | "string"))
        }
        "allOf" => items(after)
            .enumerate()
            .all(|(at, new)| other(before, at).any(|old| is_looser(old, new))),
        "anyOf" => {
            let any = || {
                let mut entries = items(before).enumerate();
                entries.all(|(at, old)| other(after, at).any(|new| is_looser(old, new)))
            };
            let either = json!([{"type": "integer"}, {"type": "string"}]);
            !before.is_null() && any() || is_int_or_string(new) && *after == either
        }
        // Without it there was no entry that could be invalid.
        "additionalProperties" => position == Position::Field && before.is_null() && !is_open(old),
        "nullable" | "x-kubernetes-preserve-unknown-fields" => after == true,
        "x-kubernetes-validations" => keeps_only(before, after),
        "x-kubernetes-list-type" => after.is_null() || after == "atomic",
        "x-kubernetes-list-map-keys" => value(new, "x-kubernetes-list-type") != "map",
        "x-kubernetes-map-type" => true,
        _ => false,
    }
}

/// Says whether the schemas below a keyword differ by harmless changes alone.
fn is_looser_below(key: &str, old: &Schema, new: &Schema, position: Position) -> bool {
    let below = position.below(key);
    match (key, value(old, key), value(new, key)) {
        ("properties", before, after) => {
            let names = |fields: &Value| fields.as_object().map_or(0, Map::len);
            let are_looser = |fields: &Value| {
                let mut names = fields.as_object().into_iter().flat_map(Map::keys);
                names.all(|name| are_looser(&before[name], &after[name], position))
            };
            match position {
                Position::Field => {
                    are_looser(before) && (!is_open(old) || narrowed_fields(old, new).is_empty())
                }
                Position::Condition => are_looser(after),
                Position::Turning => names(before) == names(after) && are_looser(before),
            }
        }
        ("items", Value::Object(_), Value::Null) => position == Position::Condition,
        ("items" | "additionalProperties" | "not", before, after) => {
            are_looser(before, after, below)
        }
        // Otherwise [`is_loosened`] has compared each with each: once is enough.
        ("allOf" | "anyOf" | "oneOf", Value::Array(before), Value::Array(after))
            if below == Position::Turning =>
        {
            let mut pairs = before.iter().zip(after);
            before.len() == after.len() && pairs.all(|(old, new)| are_looser(old, new, below))
        }
        _ => false,
    }
}

/// The same of two values, of which one may be no schema.
fn are_looser(old: &Value, new: &Value, position: Position) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => is_looser(old, new, position),
        _ => false,
    }
}

/// Says whether a field that becomes required is filled in where it is missing.
fn is_filled_in(name: &str, old: &Schema, new: &Schema) -> bool {
    let has_default = value(new, "properties")[name].get("default").is_some();
    has_default && (value(old, "properties").get(name).is_some() || !is_open(old))
}

/// Returns the fields that `new` describes and `old` does not, except those that may have any value.
/// Where unknown fields are preserved, objects may have them with values that do not fit.
pub(super) fn narrowed_fields<'a>(old: &Schema, new: &'a Schema) -> Vec<&'a str> {
    let known = value(old, "properties");
    let fields = value(new, "properties").as_object().into_iter().flatten();
    // The API server requires these of an embedded object, described or not.
    let is_embedded = value(old, "x-kubernetes-embedded-resource") == true;
    let has = |name: &str| is_embedded && OF_EVERY_OBJECT.contains(&name);
    let added = fields.filter(|(name, _)| known.get(name).is_none() && !has(name));
    let narrowed = added.filter(|(_, field)| {
        field.as_object().is_some_and(|field| !is_looser(&ANYTHING, field, Position::Field))
    });
    narrowed.map(|(name, _)| name.as_str()).collect()
}

/// Fields that every object has, described or not.
pub(super) const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Says whether objects may have fields that the schema does not describe.
pub(super) fn is_open(schema: &Schema) -> bool {
    value(schema, "x-kubernetes-preserve-unknown-fields") == true
}

fn is_int_or_string(schema: &Schema) -> bool {
    value(schema, "x-kubernetes-int-or-string") == true
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

fn values(list: &Value) -> BTreeSet<String> {
    items(list).map(Value::to_string).collect()
}

fn texts(list: &Value) -> BTreeSet<&str> {
    items(list).map(|text| text.as_str().unwrap_or_default()).collect()
}

/// Returns the value of a keyword; an absent one is null.
fn value<'a>(schema: &'a Schema, key: &str) -> &'a Value {
    schema.get(key).unwrap_or(&Value::Null)
}
