//! Merges fields that were written by other means into our server-side apply entry.
//!
//! A field that no apply entry of ours lists is never pruned when the bundle drops it. So the entry
//! that a create leaves behind, and those of Helm at a takeover, are merged into our apply entry.

use serde_json::{Map, Value, json};

use crate::object::Object;

/// Returns `metadata.managedFields` with the `Update` entries of `manager` and of `others` merged
/// into the `Apply` entry of `manager`, or `None` when there is nothing to merge.
///
/// Entries of subresources are left unchanged: `status` is written by others under the same name.
///
/// Source: applying.md 3.6 and 2.3; client-go `csaupgrade` does the same for kubectl.
pub fn upgrade_managed_fields(live: &Object, manager: &str, others: &[&str]) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let updating = [&[manager], others].concat();
    let is_update = |entry: &Value| updating.iter().any(|it| is_of(entry, it, "Update"));
    let is_apply = |entry: &Value| is_of(entry, manager, "Apply");
    let first = entries.iter().find(|entry| is_update(entry))?;
    let mut apply = entries.iter().find(|entry| is_apply(entry)).unwrap_or(first).clone();
    for entry in entries.iter().filter(|entry| is_update(entry)) {
        if let (Some(into), Some(from)) = (apply.get_mut("fieldsV1"), entry.get("fieldsV1")) {
            union(into, from);
        }
    }
    if let Value::Object(apply) = &mut apply {
        apply.insert("manager".to_owned(), json!(manager));
        apply.insert("operation".to_owned(), json!("Apply"));
    }
    let kept = entries.iter().filter(|entry| !is_update(entry) && !is_apply(entry)).cloned();
    Some(std::iter::once(apply).chain(kept).collect())
}

/// Returns `metadata.managedFields` of `live` where those whom `is_earlier` names have none of the fields
/// that `manager` has applied, there or in `applied`, or `None` when that changes nothing. What else they
/// have stays theirs, but for what is within items that were applied: those go as a whole when they are
/// dropped.
pub fn take_applied_fields(
    live: &Object,
    applied: &Object,
    manager: &str,
    is_earlier: impl Fn(&str) -> bool,
) -> Option<Value> {
    let before = live.pointer("/metadata/managedFields")?.as_array()?;
    let applied = before.iter().chain(applied.list_at("/metadata/managedFields"));
    let applied: Vec<_> = applied.filter(|entry| is_of(entry, manager, "Apply")).collect();
    let mut entries = before.clone();
    for entry in &mut entries {
        let name = entry["manager"].as_str().unwrap_or_default();
        if name != manager && is_of_object(entry) && is_earlier(name) {
            // Defaults are among what was written by an `Update`, not among what was applied.
            let is_filled = entry["operation"] == "Update";
            for ours in &applied {
                remove_applied(&mut entry["fieldsV1"], &ours["fieldsV1"], is_filled);
            }
        }
    }
    entries.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    if entries.is_empty() {
        // Without any manager all fields would be of `before-first-apply` with the next apply.
        entries.extend(applied.last().map(|ours| (*ours).clone()));
    }
    (entries != *before).then_some(entries.into())
}

/// Returns `metadata.managedFields` with all entries in the version of the object, or `None` if they are.
///
/// The API server converts a custom resource to the version of every entry, and fails where its definition
/// has lost that version, or where a field is unknown to it.
pub fn in_one_version(live: &Object) -> Option<Value> {
    let version = json!(live.api_version());
    let mut entries = live.pointer("/metadata/managedFields")?.as_array()?.clone();
    let mut others = entries.iter_mut().filter(|entry| entry["apiVersion"] != version).peekable();
    others.peek()?;
    others.for_each(|entry| entry["apiVersion"] = version.clone());
    // The API server tells entries apart by these, and keeps one of two that are the same.
    let is_same = |one: &Value, two: &Value| {
        ["manager", "operation", "subresource"].iter().all(|key| one[key] == two[key])
    };
    let mut merged: Vec<Value> = Vec::new();
    for entry in entries {
        match merged.iter_mut().find(|other| is_same(other, &entry)) {
            Some(other) => union(&mut other["fieldsV1"], &entry["fieldsV1"]),
            None => merged.push(entry),
        }
    }
    Some(merged.into())
}

/// Says whether a manager wrote an entry by an operation, and not for a subresource.
fn is_of(entry: &Value, manager: &str, operation: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == operation && is_of_object(entry)
}

fn is_of_object(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

/// Removes every path of `applied` from `from`, and what nothing is left of. What `from` has below one
/// of them stays: the bundle does not have it. Of an item of a list nothing does if defaults may be among
/// that (`is_filled`): they would keep the item.
fn remove_applied(from: &mut Value, applied: &Value, is_filled: bool) {
    let (Value::Object(from), Value::Object(applied)) = (from, applied) else { return };
    for (path, below) in applied {
        if let Some(found) = from.get_mut(path) {
            remove_applied(found, below, is_filled);
            if is_filled && path.starts_with("k:") || is_nothing(found) {
                from.remove(path);
            }
        }
    }
}

/// Returns whether nothing is left but that the field itself is there.
fn is_nothing(left: &Value) -> bool {
    left.as_object().is_none_or(|left| left.keys().all(|path| path == "."))
}

/// Removes every path of `taken` from `from` with all below it, and what nothing is left of.
pub(super) fn subtract(from: &mut Value, taken: &Value) {
    let (Value::Object(from), Value::Object(taken)) = (from, taken) else { return };
    for (path, below) in taken {
        let Some(found) = from.get_mut(path) else { continue };
        let is_whole = below.as_object().is_none_or(Map::is_empty);
        subtract(found, below);
        if is_whole || found.as_object().is_none_or(Map::is_empty) {
            from.remove(path);
        }
    }
}

/// Says whether anybody but `manager` has written something below a field, named as in `fieldsV1`.
pub(super) fn others_manage(live: &Object, manager: &str, field: &str) -> bool {
    let entries = live.list_at("/metadata/managedFields");
    let mut others = entries.filter(|entry| entry["manager"] != manager);
    others.any(|entry| {
        let below = entry["fieldsV1"][field].as_object();
        below.is_some_and(|below| below.keys().any(|key| key != "."))
    })
}

/// Adds every path of `from` to `into`; both are sets in the `fieldsV1` form.
fn union(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (path, below) in from {
        let entry = into.entry(path.clone()).or_insert_with(|| Value::Object(Map::new()));
        union(entry, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::object;

    #[expect(clippy::needless_pass_by_value, reason = "callers write fields in place")]
    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": {"f:data": fields}})
    }

    fn live(entries: &Value) -> Object {
        object(json!({"metadata": {"managedFields": entries}}))
    }

    #[test]
    fn created_object_gets_an_apply_entry() {
        let live = live(&json!([
            {"manager": "us", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "us", "operation": "Update", "subresource": "status", "fieldsV1": {}},
        ]));
        let want = json!([
            {"manager": "us", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "us", "operation": "Update", "subresource": "status", "fieldsV1": {}},
        ]);
        assert_eq!(upgrade_managed_fields(&live, "us", &[]), Some(want));
    }

    #[test]
    fn update_entries_join_the_apply_entry() {
        let live = live(&json!([
            {"manager": "us", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "helm", "operation": "Update", "fieldsV1": {"f:data": {"f:b": {}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}},
        ]));
        let upgraded = upgrade_managed_fields(&live, "us", &["helm"]).unwrap();
        assert_eq!(upgraded[0]["fieldsV1"], json!({"f:data": {"f:a": {}, "f:b": {}}}));
        assert_eq!(upgraded[1]["manager"], "kubectl");
        assert_eq!(upgraded.as_array().unwrap().len(), 2);
    }

    #[test]
    fn fields_of_the_bundle_are_taken_from_earlier_managers() {
        let ours = entry("us", "Apply", json!({"f:a": {}}));
        let theirs = entry("manager", "Update", json!({".": {}, "f:a": {}, "f:own": {}}));
        let left = entry("manager", "Update", json!({".": {}, "f:own": {}}));
        let applied = live(&json!([ours]));
        let taken = |entries: Value| {
            take_applied_fields(&live(&entries), &applied, "us", |name| name == "manager")
        };
        assert_eq!(taken(json!([ours, theirs])), Some(json!([ours, left])));
        assert_eq!(taken(json!([theirs])), Some(json!([left])), "before it is applied");
        let all = entry("manager", "Update", json!({"f:a": {}}));
        assert_eq!(taken(json!([ours, all])), Some(json!([ours])));
        assert_eq!(taken(json!([all])), Some(json!([ours])), "somebody manages it");
        assert_eq!(taken(json!([ours, left])), None);
        let another = entry("kubectl", "Apply", json!({"f:a": {}}));
        assert_eq!(taken(json!([ours, another])), None);
        let dropped = entry("us", "Apply", json!({"f:own": {}}));
        assert_eq!(taken(json!([dropped, theirs])), Some(json!([dropped])));
    }

    // A container that a later version drops would stay with what defaults filled in.
    #[test]
    fn an_item_of_a_list_is_taken_as_a_whole() {
        let item = r#"k:{"name":"proxy"}"#;
        let ours = entry("us", "Apply", json!({"f:list": {item: {".": {}, "f:image": {}}}}));
        let filled = json!({".": {}, "f:image": {}, "f:resources": {}});
        let theirs = json!({"f:list": {".": {}, item: filled, r#"k:{"name":"own"}"#: {".": {}}}});
        let left = json!({"f:list": {".": {}, r#"k:{"name":"own"}"#: {".": {}}}});
        let mut applied_left = left.clone();
        applied_left["f:list"][item] = json!({"f:resources": {}});
        for (operation, left) in [("Update", left), ("Apply", applied_left)] {
            let found = live(&json!([entry("kubectl", operation, theirs.clone())]));
            let taken = take_applied_fields(&found, &live(&json!([ours])), "us", |_| true);
            assert_eq!(taken, Some(json!([entry("kubectl", operation, left)])));
        }
    }

    #[test]
    fn all_managers_can_have_one_version() {
        let entry = |version: &str, fields: &[&str]| {
            let fields: Map<_, _> = fields.iter().map(|it| ((*it).to_owned(), json!({}))).collect();
            json!({"manager": "us", "operation": "Update", "apiVersion": version, "fieldsV1": fields})
        };
        let of = |versions: &[&str]| {
            let entries: Vec<_> =
                versions.iter().map(|it| entry(it, &[&format!("f:{it}")])).collect();
            object(json!({"apiVersion": "g/v1", "metadata": {"managedFields": entries}}))
        };
        let one = json!([entry("g/v1", &["f:g/v1alpha1", "f:g/v1"])]);
        assert_eq!(in_one_version(&of(&["g/v1alpha1", "g/v1"])), Some(one));
        assert_eq!(in_one_version(&of(&["g/v1"])), None);
    }

    #[test]
    fn an_applied_object_is_left_alone() {
        let live = live(&json!([{"manager": "us", "operation": "Apply", "fieldsV1": {}}]));
        assert_eq!(upgrade_managed_fields(&live, "us", &[]), None);
    }
}
