//! Fields of a live object that keep the API server from taking what is applied: of what several
//! managers write below one name, or of several choices of which only one may be made, a server-side
//! apply removes only what its manager alone has. So the rest is made the manager's.
//!
//! Source: applying.md 3.6.

use itertools::Itertools as _;
use serde_json::{Map, Value, json};

use super::managed_fields::subtract;
use crate::object::Object;

/// Reasons of a refusal, as the API server writes them.
const REQUIRED: &str = "FieldValueRequired";
const DUPLICATE: &str = "FieldValueDuplicate";

/// A field that the API server refuses, as it says so.
#[derive(Debug, Clone, Copy)]
pub struct RefusedField<'a> {
    /// Its path, such as `spec.ports[1].name`.
    pub field: &'a str,
    /// Why, as a word.
    pub reason: &'a str,
    /// Why, for people; names a value that is there twice.
    pub message: &'a str,
}

/// One step of the path of a field as the API server names it, such as `spec.ports[1].name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Member(&'a str),
    /// An index of a list, which is one of the object that was tried, or a key of a map.
    Item(&'a str),
}

/// Returns `metadata.managedFields` of `live` in which `manager` alone has the fields that prevent
/// `desired` from being applied, and these fields; `None` if there are none, or it has them already.
///
/// What `desired` does not have beside, within or in place of a refused field is taken. Nothing of
/// metadata and status is. The index of an item counts for nothing, so that of items which are to stay
/// only what the refusal can be about is taken.
pub fn take_leftovers<'a>(
    live: &Object,
    desired: &Object,
    manager: &str,
    refused: impl IntoIterator<Item = RefusedField<'a>>,
) -> Option<(Value, String)> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let of_object = |entry: &&Value| entry["subresource"].as_str().unwrap_or_default().is_empty();
    let ours = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply";
    let own = entries.iter().filter(of_object).find(|entry| ours(entry))?;
    let trees: Vec<_> = entries.iter().filter(of_object).map(|it| &it["fieldsV1"]).collect();
    let mut taken = json!({});
    for refused in refused {
        let steps = steps(refused.field);
        let [Step::Member(first), rest @ ..] = steps.as_slice() else { continue };
        if matches!(*first, "metadata" | "status" | "apiVersion" | "kind") {
            continue;
        }
        if let (Some(live), Some(desired)) = (live.0.get(*first), desired.0.get(*first)) {
            let key = member(first);
            let (own, trees) = (&own["fieldsV1"][&key], at(&trees, &key));
            let node = Node { live, desired, own, trees, refused, is_top: true, in_item: false };
            node.take(rest, entry(&mut taken, key));
        }
    }
    prune(&mut taken);
    let mut fields = entries.clone();
    for entry in fields.iter_mut().filter(|entry| of_object(&&**entry)) {
        if ours(entry) {
            take_into(&mut entry["fieldsV1"], &taken);
        } else {
            subtract(&mut entry["fieldsV1"], &taken);
        }
    }
    fields.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|tree| !tree.is_empty()));
    (fields != *entries).then(|| (fields.into(), paths(&taken).join(", ")))
}

/// A part of the object: as it is, as it is to be, and who manages what of it.
struct Node<'a> {
    live: &'a Value,
    desired: &'a Value,
    own: &'a Value,
    trees: Vec<&'a Value>,
    refused: RefusedField<'a>,
    /// Whether it is a member of the object itself, which has much besides.
    is_top: bool,
    /// Whether it is in an item of a list, which may be another than the refused one.
    in_item: bool,
}

impl<'a> Node<'a> {
    /// Adds to `taken` what prevents the update below a path.
    fn take(&self, steps: &[Step<'_>], taken: &mut Value) {
        let [step, rest @ ..] = steps else {
            if !self.is_top {
                self.take_members(taken);
            }
            return;
        };
        let (Step::Member(name) | Step::Item(name)) = *step;
        if matches!(step, Step::Item(_)) && self.live.is_array() {
            return self.take_items(rest, taken);
        }
        let key = member(name);
        match (self.live.get(name), self.desired.get(name)) {
            (Some(live), Some(desired)) if !rest.is_empty() => {
                let node = Node { is_top: false, ..self.below(live, desired, &key) };
                node.take(rest, entry(taken, key));
            }
            (Some(_), None) if rest.is_empty() || !self.in_item => {
                *entry(taken, key) = json!(true);
            }
            // It is missing where it is refused.
            (_, Some(_)) if self.refused.reason == REQUIRED => {}
            (None, Some(_)) if !self.is_top => {
                self.take_members(taken);
            }
            (Some(live), Some(desired)) if !self.is_top => {
                let within = self.below(live, desired, &key);
                if !within.take_members(entry(taken, key)) && self.refused.reason != DUPLICATE {
                    self.take_members(taken);
                }
            }
            // Known by another name here.
            (None, None) if !self.is_top && !self.in_item => {
                self.take_members(taken);
            }
            _ => {}
        }
    }

    /// Takes the members that are not to be. Returns whether there are any.
    fn take_members(&self, taken: &mut Value) -> bool {
        let (Some(live), Some(desired)) = (self.live.as_object(), self.desired.as_object()) else {
            return false;
        };
        let mut any = false;
        for name in live.keys().filter(|name| !desired.contains_key(*name)) {
            *entry(taken, member(name)) = json!(true);
            any = true;
        }
        any
    }

    /// Looks into the items of a list of objects. Of those that are not to be, those that the manager
    /// had, and those with the value that is refused because it is there twice, are taken.
    fn take_items(&self, rest: &[Step<'_>], taken: &mut Value) {
        let (Some(live), Some(desired)) = (self.live.as_array(), self.desired.as_array()) else {
            return;
        };
        let keys = self.trees.iter().filter_map(|tree| tree.as_object()).flat_map(Map::keys);
        for key in keys.unique() {
            let Some(names) = key.strip_prefix("k:").and_then(|key| serde_json::from_str(key).ok())
            else {
                continue;
            };
            let is = |item: &&Value| is_named(item, &names);
            match (live.iter().find(is), desired.iter().find(is)) {
                (Some(live), Some(desired)) => {
                    let node = Node { in_item: true, ..self.below(live, desired, key) };
                    node.take(rest, entry(taken, key.clone()));
                }
                (Some(live), None) => {
                    if self.own.get(key).is_some() || self.is_twice(live, rest) {
                        *entry(taken, key.clone()) = json!(true);
                    }
                }
                (None, _) => {}
            }
        }
    }

    /// Returns whether an item has the value that is refused because another has it.
    fn is_twice(&self, item: &Value, rest: &[Step<'_>]) -> bool {
        let [Step::Member(name)] = rest else { return false };
        let value = item.get(*name).filter(|value| value.is_string());
        self.refused.reason == DUPLICATE
            && value.is_some_and(|value| self.refused.message.contains(&value.to_string()))
    }

    fn below(&self, live: &'a Value, desired: &'a Value, key: &str) -> Self {
        let (own, trees) = (&self.own[key], at(&self.trees, key));
        Self { live, desired, own, trees, is_top: false, ..*self }
    }
}

/// Adds what is taken to the fields of the manager: each with all below it.
fn take_into(own: &mut Value, taken: &Value) {
    let Some(members) = taken.as_object() else { return };
    for (key, below) in members {
        let is_whole = below.as_object().is_none_or(Map::is_empty);
        match own.get_mut(key) {
            Some(known) if !is_whole => take_into(known, below),
            _ => own[key] = below.clone(),
        }
    }
}

/// Says whether an item has this key; what a default fills in may be missing.
fn is_named(item: &Value, key: &Map<String, Value>) -> bool {
    let same = key.iter().filter_map(|(name, value)| Some(item.get(name)? == value));
    let same: Vec<_> = same.collect();
    !same.is_empty() && same.into_iter().all(|same| same)
}

fn member(name: &str) -> String {
    format!("f:{name}")
}

fn at<'a>(trees: &[&'a Value], key: &str) -> Vec<&'a Value> {
    trees.iter().filter_map(|tree| tree.get(key)).collect()
}

/// Returns the part of a tree below a key. Until [`prune`], `true` is a field that is taken, with all
/// below it.
fn entry(tree: &mut Value, key: String) -> &mut Value {
    if *tree == json!(true) {
        // All of it is taken already: what is looked at below does not count.
        *tree = json!({".": true});
    } else if tree.is_null() {
        *tree = json!({});
    }
    &mut tree[key]
}

/// Leaves of a tree what is taken, in the form of `fieldsV1`.
fn prune(tree: &mut Value) {
    let Some(members) = tree.as_object_mut() else { return };
    members.retain(|_, below| {
        if *below == json!(true) || below.get(".") == Some(&json!(true)) {
            *below = json!({});
            return true;
        }
        prune(below);
        below.as_object().is_some_and(|below| !below.is_empty())
    });
}

/// Returns the fields of a tree as a person writes them.
fn paths(tree: &Value) -> Vec<String> {
    let Some(members) = tree.as_object().filter(|members| !members.is_empty()) else {
        return vec![String::new()];
    };
    let below = |(key, tree): (&String, &Value)| {
        let name = key.strip_prefix("f:").map_or_else(|| format!("[{key}]"), |it| format!(".{it}"));
        paths(tree).into_iter().map(move |rest| format!("{name}{rest}"))
    };
    members.iter().flat_map(below).collect()
}

fn steps(field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some(item) = rest.strip_prefix('[') {
            let (item, after) = item.split_once(']').unwrap_or((item, ""));
            steps.push(Step::Item(item));
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        steps.push(Step::Member(&rest[..end]));
        rest = &rest[end..];
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/revision/cases.yaml");

    fn object(spec: &Value, ours: &Value, theirs: &Value) -> Object {
        let entry = |manager: &str, operation: &str, fields: &Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
        Object::from_value(json!({"kind": "K", "spec": spec, "metadata": {"name": "a",
            "managedFields": [entry("us", "Apply", ours), entry("them", "Update", theirs)]}}))
        .unwrap()
    }

    fn refused(field: &str) -> RefusedField<'_> {
        let (field, why) = field.split_once(' ').unwrap_or((field, ""));
        let reason = match why {
            "required" => REQUIRED,
            "" => "FieldValueForbidden",
            _ => DUPLICATE,
        };
        RefusedField { field, reason, message: why }
    }

    /// What is taken, and what others keep.
    fn taken(live: &Object, desired: &Value, field: &str) -> Option<(String, Value)> {
        let desired = object(desired, &json!({}), &json!({}));
        let (fields, paths) = take_leftovers(live, &desired, "us", [refused(field)])?;
        Some((paths, fields[1]["fieldsV1"]["f:spec"].clone()))
    }

    #[test]
    fn what_stands_in_the_way_is_taken() {
        for (field, live, desired, managed, want) in
            cases::<(&str, Value, Value, [Value; 2], (&str, Value))>(
                CASES,
                "what_stands_in_the_way_is_taken",
            )
        {
            let live = object(&live, &managed[0], &managed[1]);
            assert_eq!(taken(&live, &desired, field), Some((want.0.to_owned(), want.1)));
        }
    }

    #[test]
    fn nothing_else_is_taken() {
        for field in cases::<&str>(CASES, "nothing_else_is_taken") {
            let spec =
                json!({"a": 1, "l": [{"name": "k", "env": [{"name": "theirs"}]}, {"name": "m"}]});
            let keys = ["k", "m"].map(|name| format!("k:{{\"name\":\"{name}\"}}"));
            let theirs = json!({"f:a": {}, "f:l": {&keys[0]: {"f:env": {}}, &keys[1]: {}}});
            let live = object(&spec, &json!({"f:l": {&keys[0]: {}}}), &theirs);
            assert_eq!(taken(&live, &json!({"b": 1, "l": [{"name": "k"}]}), field), None);
        }
    }

    #[test]
    fn a_field_within_another_that_is_taken_is_taken_with_it() {
        let live = object(&json!({"a": {"b": {"c": 1}}}), &json!({}), &json!({"f:a": {}}));
        let desired = object(&json!({}), &json!({}), &json!({}));
        for fields in [["spec.a.b", "spec.a.b.c"], ["spec.a.b.c", "spec.a.b"]] {
            let (_, paths) = take_leftovers(&live, &desired, "us", fields.map(refused)).unwrap();
            assert_eq!(paths, ".spec.a");
        }
    }

    #[test]
    fn an_item_is_ours_as_a_whole_though_a_part_was() {
        let item = "k:{\"name\":\"b\"}";
        let ours = json!({"f:l": {item: {"f:image": {}}}});
        let live =
            object(&json!({"l": [{"name": "b", "env": 1}]}), &ours, &json!({"f:l": {item: {}}}));
        let desired = object(&json!({"l": []}), &json!({}), &json!({}));
        let refused = refused("spec.l[0].image required");
        let (fields, _) = take_leftovers(&live, &desired, "us", [refused]).unwrap();
        assert_eq!(fields[0]["fieldsV1"], json!({"f:spec": {"f:l": {item: {}}}}));
        assert_eq!(fields.as_array().unwrap().len(), 1);
    }

    #[test]
    fn what_is_taken_already_is_not_written_again() {
        let live = json!({"strategy": {"rollingUpdate": {"maxSurge": 1}}});
        let ours = json!({"f:strategy": {"f:rollingUpdate": {}}});
        let live = object(&live, &ours, &json!({"f:replicas": {}}));
        assert_eq!(taken(&live, &json!({"strategy": {}}), "spec.strategy.rollingUpdate"), None);
    }

    proptest! {
        #[test]
        fn never_panics(field in "(spec)?[a.\\[\\]0-9]{0,20}") {
            let live = object(&json!({"a": [{"a": {"a": 1}}]}), &json!({"f:a": {"k:{\"a\":1}": {}}}), &json!({}));
            let _ = taken(&live, &json!({"a": [{"a": 2}]}), &field);
        }
    }
}
