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

/// A version for templates that Classic filled for none: the template counts, not what it gives.
const OLDEST: &str = "v1.33.0";

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
    let template = source.annotation(TEMPLATE);
    let filled = template.map(|template| template::fill(template, OLDEST));
    let image = match (text(source, "/spec/image"), resolved(source), &filled) {
        ("", Some(resolved), _) => resolved,
        ("", None, Some(Ok(filled))) => filled.as_str(),
        (image, ..) => image,
    };
    let unfilled = match &filled {
        Some(Err(error)) if image.is_empty() => Some(error),
        _ => None,
    };
    if let Some(error) = unfilled {
        let text = format!("{error}, and there is no image: set spec.image");
        return answer.line(source, Carried::No, TEMPLATE, text);
    }
    let kind = text(source, "/spec/sourceType");
    if image.is_empty() || !["", "grpc"].contains(&kind) {
        let text = "served by a process, not from an image: kubectl olm catalog build makes one";
        let fields = ["sourceType", "address", "configMap"].map(|field| {
            let value = source.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
            value.map(|value| format!("{field}: {value}"))
        });
        let fields: Vec<_> = fields.into_iter().flatten().collect();
        return answer.line(source, Carried::No, fields.join(", "), text);
    }
    for field in ["address", "configMap"] {
        let value = text(source, &format!("/spec/{field}"));
        if !value.is_empty() {
            let line = format!("{field}: {value}");
            answer.line(source, Carried::NotNeeded, line, "the image counts");
        }
    }
    if !kind.is_empty() {
        answer.line(
            source,
            Carried::Yes,
            format!("sourceType: {kind}"),
            "becomes source.type Image",
        );
    }
    let mut spec = json!({"source": {"type": "Image", "image": {"ref": image}}});
    answer.line(source, Carried::Yes, format!("image: {image}"), "becomes ref");
    let mut annotations = Map::new();
    if let (Some(template), Some(filled)) = (template, &filled) {
        let field = format!("{TEMPLATE}: {template}");
        match filled {
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
    let metadata = metadata(source, annotations, answer);
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

/// Returns name and annotations of the catalog, its pull secret among them.
fn metadata(source: &Object, mut annotations: Map<String, Value>, answer: &mut Answer) -> Value {
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
    metadata
}

/// Returns the image that Classic filled the template of a source in to.
fn resolved(source: &Object) -> Option<&str> {
    let conditions = source.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|it| it["type"] == "ResolvedImage" && it["status"] == "True");
    found?["message"].as_str().filter(|image| !image.is_empty())
}

fn poll(source: &Object, image: &str, spec: &mut serde_json::Value, answer: &mut Answer) {
    let interval = text(source, "/spec/updateStrategy/registryPoll/interval");
    if interval.is_empty() {
        return;
    }
    let field = format!("updateStrategy.registryPoll.interval: {interval}");
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
