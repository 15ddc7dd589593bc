//! Quantities as strings.
//!
//! Authors write `cpu: 1` without quotes. The API server takes that, but clients and comparing code
//! expect a string, so numbers become strings; nothing is canonicalized. Source: rendering.md 4.8.

use serde_json::{Map, Value};

use crate::yaml::go_float;

/// Turns the numbers in the quantity fields of a pod's `spec` into strings.
pub(super) fn write_as_text(pod: &mut Map<String, Value>) {
    for key in ["containers", "initContainers"] {
        for container in items(pod.get_mut(key)) {
            resources(container);
            for variable in items(container.get_mut("env")) {
                if let Some(Value::Object(field)) = variable
                    .get_mut("valueFrom")
                    .and_then(|source| source.get_mut("resourceFieldRef"))
                {
                    text(field, "divisor");
                }
            }
        }
    }
    for volume in items(pod.get_mut("volumes")) {
        if let Some(Value::Object(directory)) = volume.get_mut("emptyDir") {
            text(directory, "sizeLimit");
        }
        let claim = volume
            .get_mut("ephemeral")
            .and_then(|ephemeral| ephemeral.pointer_mut("/volumeClaimTemplate/spec"));
        if let Some(Value::Object(claim)) = claim {
            resources(claim);
        }
    }
    resources(pod);
    quantities(pod, "overhead");
}

/// Returns the maps of a list; anything else is left to the API server to refuse.
fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Converts the limits and requests of an object with `resources`.
fn resources(owner: &mut Map<String, Value>) {
    if let Some(Value::Object(resources)) = owner.get_mut("resources") {
        quantities(resources, "limits");
        quantities(resources, "requests");
    }
}

fn quantities(owner: &mut Map<String, Value>, key: &str) {
    if let Some(Value::Object(map)) = owner.get_mut(key) {
        map.values_mut().for_each(convert);
    }
}

fn text(owner: &mut Map<String, Value>, key: &str) {
    if let Some(value) = owner.get_mut(key) {
        convert(value);
    }
}

fn convert(value: &mut Value) {
    if let Value::Number(number) = value {
        let text = match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        };
        *value = Value::String(text);
    }
}
