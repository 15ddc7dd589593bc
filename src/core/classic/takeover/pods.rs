//! What the pods of an operator have from Classic alone.

use serde_json::{Map, Value};

use crate::object::{Object, items};

/// Lists what the pods of a Deployment have from Classic and do not have as it is rendered: what the
/// API server does not tell of an apply, as it is still another's.
pub fn dropped(live: &Object, rendered: &Object) -> Vec<String> {
    let none = Value::Null;
    let [before, after] = [live, rendered].map(|it| it.pointer("/spec/template").unwrap_or(&none));
    let mut dropped = Vec::new();
    for map in ["annotations", "labels"] {
        let keys = before["metadata"][map].as_object().into_iter().flat_map(Map::keys);
        let gone = keys.filter(|key| after["metadata"][map].get(key).is_none());
        dropped.extend(gone.map(|key| format!(".spec.template.metadata.{map}[{key:?}]")));
    }
    let mut compare = |path: &str, before: &Value, after: &Value| {
        let names = items(before).filter_map(|it| it["name"].as_str());
        let gone = names.filter(|name| items(after).all(|it| it["name"] != **name));
        dropped.extend(gone.map(|name| format!("{path}[{name}]")));
    };
    let (before, after) = (&before["spec"], &after["spec"]);
    compare(".spec.template.spec.volumes", &before["volumes"], &after["volumes"]);
    for container in items(&before["containers"]) {
        let same = |it: &&Value| it["name"] == container["name"];
        let after = items(&after["containers"]).find(same).unwrap_or(&none);
        let name = container["name"].as_str().unwrap_or_default();
        for key in ["env", "volumeMounts"] {
            let path = format!(".spec.template.spec.containers[{name}].{key}");
            compare(&path, &container[key], &after[key]);
        }
    }
    dropped
}
