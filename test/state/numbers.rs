//! Compares two states of one extension if a revision was deleted in between: the numbers of its
//! revisions, and names with these numbers, differ.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::keys::{annotation, label, policy};
use serde_json::{Value, json};

use super::{State, is_ours};
use crate::cluster::SYSTEM_NAMESPACE;

const REVISIONS: &str = "ClusterObjectSet.olm.operatorframework.io /";
/// Annotations that are nothing but a number.
const NUMBERS: [&str; 3] = [annotation::REVISION, annotation::CONTENT_OF, policy::ROLLBACK_TO];
/// Placeholder for every number.
const ANY: &str = "N";

pub(super) fn left_out(objects: &BTreeMap<String, Value>, extension: &str) -> State {
    let archived: BTreeSet<&str> = objects
        .iter()
        .filter(|(_, object)| object["spec"]["lifecycleState"] == "Archived")
        .filter_map(|(key, _)| number(key.strip_prefix(REVISIONS)?, extension))
        .map(|(number, _)| number)
        .collect();
    let secrets = format!("Secret. {SYSTEM_NAMESPACE}/");
    let mut kept = BTreeMap::new();
    for (key, object) in objects {
        let mut object = object.clone();
        let of_revision = [REVISIONS, &secrets].into_iter().find_map(|prefix| {
            let (number, rest) = number(key.strip_prefix(prefix)?, extension)?;
            Some((number, format!("{prefix}{extension}-{ANY}{rest}")))
        });
        if let Some((number, key)) = of_revision {
            // Content without an owner is of a revision that was not made; it is collected later.
            let made = key.starts_with(REVISIONS) || object["metadata"]["owners"].is_array();
            if made && !archived.contains(number) {
                // During a rollout there are several active revisions; the last one counts.
                in_all_texts(&mut object, extension);
                object["spec"]["revision"] = json!(ANY);
                // What was installed already is kept, and patched.
                if key.starts_with(REVISIONS) {
                    without_generations(&mut object);
                }
                kept.insert(key, object);
            }
            continue;
        }
        if is_ours(key) {
            in_all_texts(&mut object, extension);
        } else {
            // What Kubernetes derives from a Deployment has its annotations, not its labels.
            let copied = key.starts_with(&format!("ReplicaSet.apps {extension}/"));
            in_references(&mut object["metadata"], extension, copied);
        }
        kept.insert(key.clone(), object);
    }
    State(kept)
}

/// Removes the generation of a revision, and where its status names it.
fn without_generations(set: &mut Value) {
    set["metadata"]["generation"] = Value::Null;
    let status = &mut set["status"];
    if status.is_object() {
        status["observedGeneration"] = Value::Null;
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["observedGeneration"] = Value::Null;
    }
}

/// Splits what follows the extension in the name of a revision, or of something of a revision.
fn number<'a>(name: &'a str, extension: &str) -> Option<(&'a str, &'a str)> {
    let rest = name.strip_prefix(extension)?.strip_prefix('-')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(digits);
    (!number.is_empty() && (rest.is_empty() || rest.starts_with('-'))).then_some((number, rest))
}

/// Removes the numbers from every string in an object of ours.
fn in_all_texts(value: &mut Value, extension: &str) {
    match value {
        Value::String(text) => *text = without(text, extension),
        Value::Array(items) => {
            for item in items {
                in_all_texts(item, extension);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                if NUMBERS.contains(&key.as_str()) {
                    *field = json!(ANY);
                }
                in_all_texts(field, extension);
            }
        }
        _ => {}
    }
}

fn without(text: &str, extension: &str) -> String {
    let names = without_after(text, &format!("{extension}-"));
    without_after(&names, "revision ")
}

/// Removes the numbers that follow `prefix`.
fn without_after(text: &str, prefix: &str) -> String {
    let mut parts = text.split(prefix);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        out.push_str(prefix);
        if digits > 0 {
            out.push_str(ANY);
        }
        out.push_str(&part[digits..]);
    }
    out
}

/// Removes the numbers from an object's references to its revision.
fn in_references(metadata: &mut Value, extension: &str, copied: bool) {
    for (place, key) in [("annotations", annotation::REVISION), ("labels", label::REVISION_NAME)] {
        let labelled = metadata["labels"][label::OWNER_NAME] == extension;
        if (labelled || copied) && metadata[place][key].is_string() {
            metadata[place][key] = json!(ANY);
        }
    }
    for owner in metadata["owners"].as_array_mut().into_iter().flatten() {
        if owner["kind"] == "ClusterObjectSet" {
            in_all_texts(owner, extension);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64) -> State {
        let name = format!("x-{number}");
        let objects = [
            (
                format!("{REVISIONS}{name}"),
                json!({"metadata": {}, "spec": {"revision": number, "lifecycleState": "Active",
                    "phases": [{"objects": [{"ref": {"name": format!("{name}-abc")}}]}]}}),
            ),
            (
                format!("Secret. olmv1-system/{name}-abc"),
                json!({"metadata": {"labels": {label::REVISION_NAME: name}, "owners": [
                    {"kind": "ClusterObjectSet", "name": name}]}}),
            ),
            (
                "Deployment.apps x/x-2".to_owned(),
                json!({"metadata": {
                    "labels": {label::OWNER_NAME: "x"},
                    "annotations": {annotation::REVISION: number.to_string()},
                    "owners": [{"kind": "ClusterObjectSet", "name": name}],
                }, "spec": {"x": 1}}),
            ),
            (
                "ReplicaSet.apps x/x-2-abc".to_owned(),
                json!({"metadata": {"annotations": {annotation::REVISION: number.to_string()}}}),
            ),
            (
                "ClusterExtension.olm.operatorframework.io /x".to_owned(),
                json!({"metadata": {"annotations": {policy::ROLLBACK_TO: number.to_string()}},
                    "status": {"activeRevisions": [{"name": name}],
                        "conditions": [{"message": format!("1.0.0 of revision {number} is there")}]}}),
            ),
        ];
        State(objects.into_iter().collect())
    }

    #[test]
    fn only_the_number_of_a_revision_is_left_out() {
        let (one, other) = (state(1), state(4));
        assert!(!one.differences(&other).is_empty());
        let (one, mut other) = (one.without_numbers("x"), other.without_numbers("x"));
        assert_eq!(one.differences(&other), [""; 0]);
        assert!(other.contains("Deployment.apps x/x-2"));
        if let Some(deployment) = other.0.get_mut("Deployment.apps x/x-2") {
            deployment["spec"]["x"] = json!(2);
        }
        assert_eq!(one.differences(&other).len(), 1);
    }

    #[test]
    fn archived_revisions_are_left_out_with_their_content() {
        let mut more = state(2).0;
        more.extend([
            (
                format!("{REVISIONS}x-1"),
                json!({"metadata": {}, "spec": {"lifecycleState": "Archived"}}),
            ),
            ("Secret. olmv1-system/x-1-def".to_owned(), json!({"metadata": {}})),
            ("Secret. olmv1-system/x-3-abc".to_owned(), json!({"metadata": {"owners": null}})),
        ]);
        let more = State(more).without_numbers("x");
        assert_eq!(state(2).without_numbers("x").differences(&more), [""; 0]);
    }
}
