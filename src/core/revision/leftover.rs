//! Fields of a live object that keep the API server from taking what is applied: of what several
//! managers write below one name, or of several choices of which only one may be made, a server-side
//! apply removes only what its manager alone has. So the rest is made the manager's.
//!
//! Source: applying.md 3.6.

use itertools::Itertools as _;
use serde_json::{Map, Value, json};

use super::managed_fields::{subtract, union};
use crate::object::Object;

/// One step of the path of a field as the API server names it, such as `spec.ports[1].name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Member(&'a str),
    /// An index of a list, which is one of the object that was tried, or a key of a map.
    Item(&'a str),
}

/// Returns `metadata.managedFields` of `live` in which `manager` alone has the fields that stand in the
/// way of `desired`, and these fields; `None` if there are none, or it has them already.
///
/// `refused` are the fields that the API server has refused. What `desired` does not have beside or in
/// place of them is taken. Nothing of metadata and status is.
pub fn take_leftovers<'a>(
    live: &Object,
    desired: &Object,
    manager: &str,
    refused: impl IntoIterator<Item = &'a str>,
) -> Option<(Value, String)> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let of_object = |entry: &&Value| entry["subresource"].as_str().unwrap_or_default().is_empty();
    let ours = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply";
    let own = entries.iter().filter(of_object).find(|entry| ours(entry))?;
    let trees: Vec<_> = entries.iter().filter(of_object).map(|it| &it["fieldsV1"]).collect();
    let mut taken = json!({});
    for field in refused {
        let steps = steps(field);
        let [Step::Member(first), rest @ ..] = steps.as_slice() else { continue };
        if matches!(*first, "metadata" | "status" | "apiVersion" | "kind") {
            continue;
        }
        if let (Some(live), Some(desired)) = (live.0.get(*first), desired.0.get(*first)) {
            let key = member(first);
            let node = Node { live, desired, own: &own["fieldsV1"][&key], trees: at(&trees, &key) };
            node.take(rest, true, entry(&mut taken, key));
        }
    }
    prune(&mut taken);
    let mut fields = entries.clone();
    for entry in fields.iter_mut().filter(|entry| of_object(&&**entry)) {
        if ours(entry) {
            union(&mut entry["fieldsV1"], &taken);
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
}

impl<'a> Node<'a> {
    /// Adds to `taken` what stands in the way below a path. `is_top` is of a member of the object
    /// itself, which has much besides.
    fn take(&self, steps: &[Step<'_>], is_top: bool, taken: &mut Value) {
        match steps {
            [Step::Item(_), rest @ ..] if self.live.is_array() => self.take_items(rest, taken),
            [Step::Member(name) | Step::Item(name), rest @ ..] => {
                let key = member(name);
                match (self.live.get(*name), self.desired.get(*name)) {
                    (Some(live), Some(desired)) if !rest.is_empty() => {
                        let node = self.below(live, desired, &key);
                        node.take(rest, false, entry(taken, key));
                    }
                    (Some(_), None) => *entry(taken, key) = json!(true),
                    (None, None) => {}
                    _ if is_top => {}
                    _ => self.take_members(taken),
                }
            }
            [] if is_top => {}
            [] => self.take_members(taken),
        }
    }

    /// Takes the members that are not to be.
    fn take_members(&self, taken: &mut Value) {
        let (Some(live), Some(desired)) = (self.live.as_object(), self.desired.as_object()) else {
            return;
        };
        for name in live.keys().filter(|name| !desired.contains_key(*name)) {
            *entry(taken, member(name)) = json!(true);
        }
    }

    /// Looks into the items of a list of objects. Of those that are not to be, those that the manager
    /// had, and those with the value of another in the refused field, are taken.
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
                    let node = self.below(live, desired, key);
                    node.take(rest, false, entry(taken, key.clone()));
                }
                (Some(live), None) => {
                    let same = |name: &str| {
                        let value = live.get(name);
                        value.is_some() && desired.iter().any(|it| it.get(name) == value)
                    };
                    let refused = matches!(rest, [Step::Member(name)] if same(name));
                    if refused || self.own.get(key).is_some() {
                        *entry(taken, key.clone()) = json!(true);
                    }
                }
                (None, _) => {}
            }
        }
    }

    fn below(&self, live: &'a Value, desired: &'a Value, key: &str) -> Self {
        Self { live, desired, own: &self.own[key], trees: at(&self.trees, key) }
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
    use rstest::rstest;

    use super::*;

    fn object(spec: &Value, ours: &Value, theirs: &Value) -> Object {
        let entry = |manager: &str, operation: &str, fields: &Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
        Object::from_value(json!({"kind": "K", "spec": spec, "metadata": {"name": "a",
            "managedFields": [entry("us", "Apply", ours), entry("them", "Update", theirs)]}}))
        .unwrap()
    }

    /// What is taken, and what others keep.
    fn taken(live: &Object, desired: &Value, field: &str) -> Option<(String, Value)> {
        let desired = object(desired, &json!({}), &json!({}));
        let (fields, paths) = take_leftovers(live, &desired, "us", [field])?;
        Some((paths, fields[1]["fieldsV1"]["f:spec"].clone()))
    }

    #[rstest]
    #[case::default_of_a_choice("spec.strategy.rollingUpdate",
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "replicas": 3}),
        json!({"strategy": {"type": "Recreate"}}),
        [json!({"f:strategy": {"f:type": {}}}), json!({"f:replicas": {}})],
        (".spec.strategy.rollingUpdate", json!({"f:replicas": {}})))]
    #[case::injected("spec.conversion.strategy",
        json!({"conversion": {"webhook": {"clientConfig": {"caBundle": "x"}}}, "group": "g"}),
        json!({"group": "g"}),
        [json!({}), json!({"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}})],
        (".spec.conversion", Value::Null))]
    #[case::same_name_of_another_port("spec.ports[1].name",
        json!({"ports": [{"port": 9, "name": "a"}, {"port": 7, "name": "own"}]}),
        json!({"ports": [{"port": 8, "name": "a"}]}),
        [json!({"f:ports": {"k:{\"port\":8}": {}}}),
            json!({"f:ports": {"k:{\"port\":9}": {"f:name": {}}, "k:{\"port\":7}": {"f:name": {}}}})],
        (".spec.ports[k:{\"port\":9}]", json!({"f:ports": {"k:{\"port\":7}": {"f:name": {}}}})))]
    #[case::another_choice_of_an_item("spec.volumes[0].configMap",
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "configMap": {}}]}),
        [json!({"f:volumes": {"k:{\"name\":\"v\"}": {}}}),
            json!({"f:volumes": {"k:{\"name\":\"v\"}": {"f:emptyDir": {}}}})],
        (".spec.volumes[k:{\"name\":\"v\"}].emptyDir", Value::Null))]
    #[case::rest_of_an_item_of_ours("spec.containers[1].image",
        json!({"containers": [{"name": "a", "env": 1}, {"name": "b", "env": 1}, {"name": "side"}]}),
        json!({"containers": [{"name": "a", "image": "i"}]}),
        [json!({"f:containers": {"k:{\"name\":\"a\"}": {}, "k:{\"name\":\"b\"}": {"f:image": {}}}}),
            json!({"f:containers": {"k:{\"name\":\"b\"}": {"f:env": {}}, "k:{\"name\":\"side\"}": {}}})],
        // Whose image is missing cannot be seen.
        (".spec.containers[k:{\"name\":\"a\"}].env, .spec.containers[k:{\"name\":\"b\"}]",
            json!({"f:containers": {"k:{\"name\":\"side\"}": {}}})))]
    #[case::key_of_a_map("spec.data[k]",
        json!({"data": {"k": "x", "own": "y"}}), json!({"data": {}}),
        [json!({}), json!({"f:data": {"f:k": {}, "f:own": {}}})],
        (".spec.data.k", json!({"f:data": {"f:own": {}}})))]
    fn what_stands_in_the_way_is_taken(
        #[case] field: &str,
        #[case] live: Value,
        #[case] desired: Value,
        #[case] managed: [Value; 2],
        #[case] want: (&str, Value),
    ) {
        let live = object(&live, &managed[0], &managed[1]);
        assert_eq!(taken(&live, &desired, field), Some((want.0.to_owned(), want.1)));
    }

    #[rstest]
    #[case("metadata.annotations[a.b/c]")]
    #[case("status.replicas")]
    #[case::all_of_it("spec")]
    #[case::absent("spec.b.c")]
    #[case("")]
    #[case("[0]")]
    fn nothing_else_is_taken(#[case] field: &str) {
        let live = object(&json!({"a": 1}), &json!({}), &json!({"f:a": {}}));
        assert_eq!(taken(&live, &json!({"b": 1}), field), None);
    }

    #[test]
    fn a_field_within_another_that_is_taken_is_taken_with_it() {
        let live = object(&json!({"a": {"b": {"c": 1}}}), &json!({}), &json!({"f:a": {}}));
        let desired = object(&json!({}), &json!({}), &json!({}));
        for refused in [["spec.a.b", "spec.a.b.c"], ["spec.a.b.c", "spec.a.b"]] {
            let (_, paths) = take_leftovers(&live, &desired, "us", refused).unwrap();
            assert_eq!(paths, ".spec.a");
        }
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
