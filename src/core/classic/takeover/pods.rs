//! What the pods of an operator have from Classic alone.

use serde_json::{Value, json};

use crate::object::Object;

/// Lists what the pods of a Deployment have from Classic and do not have as it is rendered: what the
/// API server does not tell of an apply, as it is still another's.
pub fn dropped(live: &Object, rendered: &Object) -> Vec<String> {
    const TEMPLATE: &str = "/spec/template";
    let mut dropped = Vec::new();
    for map in ["annotations", "labels"] {
        let of = |object: &Object| {
            let found = object.pointer(&format!("{TEMPLATE}/metadata/{map}"));
            found.and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let after = of(rendered);
        let gone = of(live).into_iter().filter(|(key, _)| !after.contains_key(key));
        dropped.extend(gone.map(|(key, _)| format!(".spec.template.metadata.{map}[{key:?}]")));
    }
    let list = |object: &Value, key: &str| object[key].as_array().cloned().unwrap_or_default();
    let gone = |before: &Value, after: &Value, key: &str| {
        let after = list(after, key);
        let name = |it: &Value| it["name"].as_str().map(str::to_owned);
        let mut all: Vec<_> = list(before, key).iter().filter_map(name).collect();
        all.retain(|name| after.iter().all(|it| it["name"] != json!(name)));
        all
    };
    let pod =
        |object: &Object| object.pointer(&format!("{TEMPLATE}/spec")).cloned().unwrap_or_default();
    let (before, after) = (pod(live), pod(rendered));
    let volumes = gone(&before, &after, "volumes").into_iter();
    dropped.extend(volumes.map(|name| format!(".spec.template.spec.volumes[{name}]")));
    for container in list(&before, "containers") {
        let same = |it: &&Value| it["name"] == container["name"];
        let after = list(&after, "containers").iter().find(same).cloned().unwrap_or_default();
        let name = container["name"].as_str().unwrap_or_default();
        for key in ["env", "volumeMounts"] {
            let gone = gone(&container, &after, key).into_iter();
            let path = format!(".spec.template.spec.containers[{name}].{key}");
            dropped.extend(gone.map(|name| format!("{path}[{name}]")));
        }
    }
    dropped
}
