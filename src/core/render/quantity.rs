//! Quantities as texts.
//!
//! Authors write `cpu: 1` without quotes. The API server takes that, but clients and comparing
//! code expect a text, so numbers become texts; nothing is canonicalized. Source: rendering.md 4.8.

use serde_json::{Map, Value};

use crate::yaml::go_float;

/// Turns the numbers in the quantity fields of a pod's `spec` into texts.
pub(super) fn write_as_text(pod: &mut Map<String, Value>) {
    for key in ["containers", "initContainers"] {
        for container in items(pod.get_mut(key)) {
            resources(container.get_mut("resources"));
            for variable in items(container.get_mut("env")) {
                if let Some(Value::Object(field)) = variable
                    .get_mut("valueFrom")
                    .and_then(|source| source.get_mut("resourceFieldRef"))
                {
                    text(field.get_mut("divisor"));
                }
            }
        }
    }
    for volume in items(pod.get_mut("volumes")) {
        if let Some(Value::Object(directory)) = volume.get_mut("emptyDir") {
            text(directory.get_mut("sizeLimit"));
        }
        let claim = volume
            .get_mut("ephemeral")
            .and_then(|ephemeral| ephemeral.pointer_mut("/volumeClaimTemplate/spec"));
        if let Some(Value::Object(claim)) = claim {
            resources(claim.get_mut("resources"));
        }
    }
    resources(pod.get_mut("resources"));
    quantities(pod.get_mut("overhead"));
}

/// Returns the maps of a list; anything else is left to the API server to refuse.
fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

fn resources(value: Option<&mut Value>) {
    if let Some(Value::Object(resources)) = value {
        quantities(resources.get_mut("limits"));
        quantities(resources.get_mut("requests"));
    }
}

fn quantities(value: Option<&mut Value>) {
    if let Some(Value::Object(map)) = value {
        map.values_mut().for_each(|quantity| text(Some(quantity)));
    }
}

fn text(value: Option<&mut Value>) {
    if let Some(value) = value
        && let Value::Number(number) = value
    {
        let text = match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        };
        *value = Value::String(text);
    }
}
