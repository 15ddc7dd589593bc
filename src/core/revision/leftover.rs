//! Parts of a live object that keep the API server from taking what is applied: of what several
//! managers write below one name, or of several choices of which only one may be made, an apply
//! leaves what it does not own.
//!
//! Source: applying.md 3.6.

use serde_json::Value;

use crate::object::Object;

/// One step of the path of a field as the API server names it, such as `spec.ports[1].name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Member(&'a str),
    /// An index of a list, or a key of a map.
    Item,
}

/// Returns the parts of `live`, as JSON pointers with their new values, that let `desired` be applied:
/// below each refused field that is not in `desired`, or in a list of it, stands what `desired` has.
/// Nothing of metadata and status is changed.
///
/// `fields` are those that the API server has refused. The whole list that holds a refused item is
/// replaced: items that only others have written go with it, because the refusal does not name them.
pub fn without_leftovers<'a>(
    live: &Object,
    desired: &Object,
    fields: impl IntoIterator<Item = &'a str>,
) -> Vec<(String, Value)> {
    let mut cleared = live.0.clone();
    for field in fields {
        let steps = steps(field);
        let [Step::Member(first), rest @ ..] = steps.as_slice() else { continue };
        if matches!(*first, "metadata" | "status" | "apiVersion" | "kind") {
            continue;
        }
        if let (Some(live), Some(desired)) = (cleared.get_mut(*first), desired.0.get(*first)) {
            clear(live, desired, rest, true);
        }
    }
    let changed = cleared.into_iter().filter(|(key, value)| live.0.get(key) != Some(value));
    changed.map(|(key, value)| (format!("/{key}"), value)).collect()
}

/// Clears one field below a member of the object; `is_top` while it is the member itself, of which
/// others may have what nobody refuses, such as `replicas`.
fn clear(live: &mut Value, desired: &Value, steps: &[Step<'_>], is_top: bool) {
    let [Step::Member(name), rest @ ..] = steps else {
        return replace(live, desired, is_top);
    };
    match (live.get_mut(*name), desired.get(*name)) {
        (Some(live), Some(desired)) => clear(live, desired, rest, false),
        (Some(_), None) if is_top => {
            live.as_object_mut().map(|live| live.remove(*name));
        }
        _ => replace(live, desired, is_top),
    }
}

fn replace(live: &mut Value, desired: &Value, is_top: bool) {
    let scaled = live.get("replicas").filter(|_| is_top).cloned();
    live.clone_from(desired);
    if let (Some(scaled), Some(live)) = (scaled, live.as_object_mut()) {
        live.entry("replicas").or_insert(scaled);
    }
}

fn steps(field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some(item) = rest.strip_prefix('[') {
            steps.push(Step::Item);
            rest = item.split_once(']').map_or("", |(_, rest)| rest);
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
    use serde_json::json;

    use super::*;

    fn object(spec: &Value) -> Object {
        Object::from_value(json!({"kind": "K", "metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    #[rstest]
    #[case::name_of_a_list("spec.ports[1].name",
        json!({"ports": [{"port": 1, "name": "a"}], "clusterIP": "10.0.0.1"}),
        json!({"ports": [{"port": 2, "name": "a"}]}),
        json!({"ports": [{"port": 2, "name": "a"}], "clusterIP": "10.0.0.1"}))]
    #[case::choice("spec.strategy.rollingUpdate",
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "replicas": 3}),
        json!({"strategy": {"type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}, "replicas": 3}))]
    #[case::of_nobody("spec.conversion.strategy",
        json!({"conversion": {"webhook": {"clientConfig": {"caBundle": "x"}}}, "group": "g"}),
        json!({"group": "g"}),
        json!({"group": "g"}))]
    #[case::all_of_it("spec",
        json!({"minAvailable": 1}),
        json!({"maxUnavailable": 1}),
        json!({"maxUnavailable": 1}))]
    #[case::scaled_by_others("spec",
        json!({"replicas": 3, "a": 1}),
        json!({"b": 1}),
        json!({"replicas": 3, "b": 1}))]
    #[case::absent("spec.a.b", json!({"c": 1}), json!({"c": 1}), json!({"c": 1}))]
    fn what_is_refused_gives_way(
        #[case] field: &str,
        #[case] live: Value,
        #[case] desired: Value,
        #[case] want: Value,
    ) {
        let parts = without_leftovers(&object(&live), &object(&desired), [field]);
        let found = parts.first().map_or(live, |(path, value)| {
            assert_eq!(path, "/spec");
            value.clone()
        });
        assert_eq!(found, want);
    }

    #[rstest]
    #[case("metadata.annotations[a.b/c]")]
    #[case("status.replicas")]
    #[case("")]
    #[case("[0]")]
    fn nothing_else_is_changed(#[case] field: &str) {
        let parts =
            without_leftovers(&object(&json!({"a": 1})), &object(&json!({"b": 1})), [field]);
        assert_eq!(parts, []);
    }

    proptest! {
        #[test]
        fn never_panics(field in "[a-z.\\[\\]0-9]{0,20}") {
            let _ = without_leftovers(&object(&json!({"a": [1]})), &object(&json!({"a": {}})), [field.as_str()]);
        }
    }
}
