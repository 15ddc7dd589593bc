//! What an administrator changes in every Deployment of a bundle.
//!
//! "Containers" never means init containers. Source: rendering.md 4.8.

use serde_json::{Map, Value};

use crate::config::DeploymentConfig;
use crate::object::{Object, list_in, map_in};

/// Applies the configuration to a Deployment.
pub(super) fn apply(deployment: &mut Object, config: &DeploymentConfig) {
    if let Some(annotations) = config.object("annotations") {
        add_missing(map_in(deployment.metadata_mut(), "annotations"), annotations);
    }
    let spec = map_in(&mut deployment.0, "spec");
    let template = map_in(spec, "template");
    if let Some(annotations) = config.object("annotations") {
        let metadata = map_in(template, "metadata");
        add_missing(map_in(metadata, "annotations"), annotations);
    }
    let pod = map_in(template, "spec");
    merge_named(pod, "volumes", &last_of_each_name(config.list("volumes")));
    append_new(pod, "tolerations", config.list("tolerations"));
    append_new(pod, "imagePullSecrets", config.list("imagePullSecrets"));
    match config.object("nodeSelector") {
        Some(selector) if selector.is_empty() => drop(pod.remove("nodeSelector")),
        Some(selector) => drop(pod.insert("nodeSelector".to_owned(), selector.clone().into())),
        None => {}
    }
    if let Some(change) = config.object("affinity") {
        affinity(pod, change);
    }
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if let Value::Object(container) = container {
            apply_to_container(container, config);
        }
    }
}

fn apply_to_container(container: &mut Map<String, Value>, config: &DeploymentConfig) {
    merge_named(container, "env", &last_of_each_name(config.list("env")));
    append_new(container, "envFrom", config.list("envFrom"));
    merge_named(container, "volumeMounts", config.list("volumeMounts"));
    if let Some(resources) = config.object("resources") {
        container.insert("resources".to_owned(), resources.clone().into());
    }
}

/// Annotations of the bundle take precedence, those for OLM included.
fn add_missing(annotations: &mut Map<String, Value>, added: &Map<String, Value>) {
    for (key, value) in added {
        annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Keeps the last variable or volume of each name; the API server refuses duplicates
/// (rendering.md R20).
fn last_of_each_name(entries: &[Value]) -> Vec<Value> {
    let mut last: Vec<Value> = Vec::with_capacity(entries.len());
    for entry in entries {
        match last.iter_mut().find(|known| known["name"] == entry["name"]) {
            Some(known) => *known = entry.clone(),
            None => last.push(entry.clone()),
        }
    }
    last
}

/// Replaces the last entry of the same name as a whole, else appends.
///
/// Only an entry of the bundle is replaced, and by one entry only, so that one volume can be
/// mounted twice.
fn merge_named(owner: &mut Map<String, Value>, key: &str, added: &[Value]) {
    if added.is_empty() {
        return;
    }
    let entries = list_in(owner, key);
    let own = entries.len();
    for (i, entry) in added.iter().enumerate() {
        let same = |known: &Value| known["name"] == entry["name"];
        let position = entries[..own].iter().rposition(same);
        match position.filter(|_| !added[..i].iter().any(same)) {
            Some(position) => entries[position] = entry.clone(),
            None => entries.push(entry.clone()),
        }
    }
}

/// Appends items that are not equal to any item in the list.
fn append_new(owner: &mut Map<String, Value>, key: &str, added: &[Value]) {
    if added.is_empty() {
        return;
    }
    let entries = list_in(owner, key);
    for entry in added {
        if !entries.iter().any(|known| said(known) == said(entry)) {
            entries.push(entry.clone());
        }
    }
}

/// Returns a value without nulls and empty strings, which count as absent in the compared types.
fn said(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null() && value.as_str() != Some(""))
            .map(|(key, value)| (key.clone(), said(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// An empty affinity removes everything, an empty part removes that part; absent parts stay.
fn affinity(pod: &mut Map<String, Value>, change: &Map<String, Value>) {
    let mut merged = match pod.remove("affinity") {
        Some(Value::Object(own)) if !change.is_empty() => own,
        _ => Map::new(),
    };
    for (part, value) in change {
        merged.insert(part.clone(), value.clone());
    }
    merged.retain(|_, part| !prefers_nothing(part));
    if !merged.is_empty() {
        pod.insert("affinity".to_owned(), merged.into());
    }
}

/// Says whether one of the three parts of an affinity has no term at all.
fn prefers_nothing(part: &Value) -> bool {
    let is_empty = |list: Option<&Value>| list.and_then(Value::as_array).is_none_or(Vec::is_empty);
    let required = &part["requiredDuringSchedulingIgnoredDuringExecution"];
    // For nodes, the list of terms is inside an object.
    let required = required.get("nodeSelectorTerms").or(Some(required));
    is_empty(required) && is_empty(part.get("preferredDuringSchedulingIgnoredDuringExecution"))
}
