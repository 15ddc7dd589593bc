//! What a `CatalogSource` becomes.

use olm_api::keys::annotation::CATALOG_IMAGE_TEMPLATE as TEMPLATE;
use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, has, text, texts};
use crate::catalog::template;
use crate::error::quote;
use crate::object::Object;

/// Catalogs that come with a platform, and the name they have for OLM v1.
const DEFAULTS: [(&str, &str); 5] = [
    ("redhat-operators", "openshift-redhat-operators"),
    ("certified-operators", "openshift-certified-operators"),
    ("community-operators", "openshift-community-operators"),
    ("redhat-marketplace", "openshift-redhat-marketplace"),
    ("operatorhubio-catalog", "operatorhubio"),
];

/// Returns the name of the catalog that a source becomes.
pub(super) fn name(source: &str) -> &str {
    let known = DEFAULTS.iter().find(|(classic, _)| *classic == source);
    known.map_or(source, |(_, name)| *name)
}

/// Says whether a catalog comes with the platform.
pub(super) fn is_default(source: &str) -> bool {
    name(source) != source
}

pub(super) fn convert(source: &Object, answer: &mut Answer) {
    if is_default(source.name()) {
        let text = format!("is catalog {}, which the platform brings", name(source.name()));
        return answer.line(source, Carried::NotNeeded, "name", text);
    }
    let image = text(source, "/spec/image");
    if image.is_empty() {
        let text = "served by a process, not from an image: kubectl olm catalog build makes one";
        return answer.line(source, Carried::No, "sourceType", text);
    }
    let mut spec = json!({"source": {"type": "Image", "image": {"ref": image}}});
    answer.line(source, Carried::Yes, format!("image: {image}"), "becomes ref");
    let mut annotations = Map::new();
    if let Some(template) = source.annotation(TEMPLATE) {
        let field = format!("{TEMPLATE}: {template}");
        match template::fill(template, "v1.0.0") {
            Ok(_) => {
                annotations.insert(TEMPLATE.to_owned(), json!(template));
                answer.line(source, Carried::Yes, field, "stays, and counts instead of ref");
            }
            Err(error) => {
                let text = format!("{error}; ref is the image as it stands");
                answer.line(source, Carried::No, field, text);
            }
        }
    }
    if let Some(priority) = source.pointer("/spec/priority").filter(|it| it.is_i64()) {
        spec["priority"] = priority.clone();
        let field = format!("priority: {priority}");
        answer.line(source, Carried::Yes, field, "becomes priority");
    }
    poll(source, image, &mut spec, answer);
    let mut metadata = json!({"name": source.name()});
    let secrets = texts(source, "/spec/secrets");
    if let Some(secret) = secrets.first() {
        annotations.insert(policy::PULL_SECRET.to_owned(), json!(secret));
        let text = format!(
            "becomes annotation {}: copy the Secret to the controller's namespace and label it",
            policy::PULL_SECRET
        );
        answer.line(source, Carried::Yes, format!("secrets: {secret}"), text);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    for more in secrets.iter().skip(1) {
        let text = "a catalog has one pull secret: join them";
        answer.line(source, Carried::No, format!("secrets: {more}"), text);
    }
    for field in ["displayName", "publisher", "icon", "description"] {
        if has(source, &format!("/spec/{field}")) {
            answer.line(source, Carried::NotNeeded, field, "a ClusterCatalog shows none");
        }
    }
    for field in ["grpcPodConfig", "runAsRoot"] {
        if has(source, &format!("/spec/{field}")) {
            answer.line(source, Carried::NotNeeded, field, "no pod serves a catalog");
        }
    }
    let object = json!({"apiVersion": olm_api::API_VERSION, "kind": "ClusterCatalog",
        "metadata": metadata, "spec": spec});
    answer.catalogs.extend(Object::from_value(object));
}

fn poll(source: &Object, image: &str, spec: &mut serde_json::Value, answer: &mut Answer) {
    let interval = text(source, "/spec/updateStrategy/registryPoll/interval");
    if interval.is_empty() {
        return;
    }
    let field = format!("registryPoll.interval: {interval}");
    match minutes(interval) {
        _ if image.contains('@') => {
            answer.line(source, Carried::NotNeeded, field, "a digest never changes");
        }
        Some(minutes) => {
            spec["source"]["image"]["pollIntervalMinutes"] = json!(minutes);
            let text = format!("becomes pollIntervalMinutes: {minutes}");
            answer.line(source, Carried::Yes, field, text);
        }
        None => {
            let text = format!("{} is not a time", quote(interval));
            answer.line(source, Carried::No, field, text);
        }
    }
}

/// Returns the minutes of a Go duration, rounded up.
fn minutes(text: &str) -> Option<u64> {
    let (mut seconds, mut number) = (0_u64, String::new());
    for character in text.chars() {
        if character.is_ascii_digit() {
            number.push(character);
            continue;
        }
        let factor = match character {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        let count: u64 = number.parse().ok()?;
        seconds = seconds.checked_add(count.checked_mul(factor)?)?;
        number.clear();
    }
    (number.is_empty() && seconds > 0).then(|| seconds.div_ceil(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_becomes_whole_minutes() {
        let cases = [("45m", Some(45)), ("1h30m", Some(90)), ("30s", Some(1)), ("10m1s", Some(11))];
        for (text, want) in cases {
            assert_eq!(minutes(text), want, "{text}");
        }
        assert_eq!(["", "5", "1d", "0s"].map(minutes), [None; 4]);
    }
}
