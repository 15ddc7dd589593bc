//! What a `CatalogSource` becomes.

use std::borrow::Cow;

use itertools::Itertools as _;
use jiff::SignedDuration;
use olm_api::keys::annotation::CATALOG_IMAGE_TEMPLATE as TEMPLATE;
use olm_api::keys::policy;
use serde_json::{Map, Value, json};

use super::{Answer, Carried, has, ours, texts};
use crate::catalog::template;
use crate::error::quote;
use crate::object::Object;

/// Catalogs that come with a platform: their name in Classic, their name for OLM v1, and the repository
/// of their image.
const DEFAULTS: &str = include_str!("default_catalogs.tsv");

/// Fields that a catalog does without, and why.
const NOT_NEEDED: [(&[&str], &str); 2] = [
    (&["displayName", "publisher", "icon", "description"], "a ClusterCatalog has no such field"),
    (&["grpcPodConfig", "runAsRoot"], "catalogs have no pods of their own"),
];

/// A version for templates that Classic filled for none: the template counts, not what it gives.
const OLDEST: &str = "v1.33.0";

/// Returns the name of the catalog that a source becomes: that of the platform, unless the object has
/// an image of somebody else, such as a mirror's.
pub(super) fn name<'a>(source: &'a str, found: Option<&Object>) -> &'a str {
    let image = found.map_or("", |found| found.text_at("/spec/image"));
    let rows = DEFAULTS.lines().filter_map(|row| row.split('\t').collect_tuple::<(_, _, _)>());
    let known = rows.filter(|(classic, ..)| *classic == source).find(|(_, _, repository)| {
        let version = image.strip_prefix(repository);
        let version = version.filter(|it| it.is_empty() || it.starts_with([':', '@']));
        image.is_empty() || version.is_some()
    });
    known.map_or(source, |(_, name, _)| name)
}

pub(super) fn convert(source: &Object, answer: &mut Answer) {
    let becomes = name(source.name(), Some(source));
    if becomes != source.name() {
        let text = format!("is the default catalog {becomes}");
        return answer.line(source, Carried::NotNeeded, "name", text);
    }
    let template = source.annotation(TEMPLATE);
    let filled = template.map(|template| template::fill(template, OLDEST));
    let image = match (source.text_at("/spec/image"), resolved(source), &filled) {
        ("", Some(resolved), _) => resolved,
        ("", None, Some(Ok(filled))) => filled.as_str(),
        (image, ..) => image,
    };
    if let Some(Err(error)) = &filled
        && image.is_empty()
    {
        let text = format!("{error}, and there is no image: set spec.image");
        return answer.line(source, Carried::No, TEMPLATE, text);
    }
    let kind = source.text_at("/spec/sourceType");
    if image.is_empty() || !["", "grpc"].contains(&kind) {
        let text = "served by a process, not from an image: kubectl olm catalog build builds one";
        let mut fields = ["sourceType", "address", "configMap"].into_iter().filter_map(|field| {
            let value = source.pointer(&format!("/spec/{field}"))?.as_str()?;
            Some(format!("{field}: {value}"))
        });
        return answer.line(source, Carried::No, fields.join(", "), text);
    }
    let (written, completed) = (image, with_tag(image));
    let image = &*completed;
    if let Some(first) = answer.catalogs.iter().find(|it| it.name() == source.name()) {
        let is_same = first.text_at("/spec/source/image/ref") == image;
        let carried = if is_same { Carried::NotNeeded } else { Carried::No };
        let text = "catalogs are cluster-scoped: another CatalogSource of this name is converted";
        return answer.line(source, carried, format!("image: {image}"), text);
    }
    for field in ["address", "configMap"] {
        let value = source.text_at(&format!("/spec/{field}"));
        if !value.is_empty() {
            let line = format!("{field}: {value}");
            answer.line(source, Carried::NotNeeded, line, "not used, because an image is set");
        }
    }
    if !kind.is_empty() {
        let field = format!("sourceType: {kind}");
        answer.line(source, Carried::Yes, field, "becomes source.type Image");
    }
    let mut spec = json!({"source": {"type": "Image", "image": {"ref": image}}});
    let text =
        if image == written { "becomes ref" } else { "becomes ref, with the tag it means: latest" };
    answer.line(source, Carried::Yes, format!("image: {written}"), text);
    let mut annotations = Map::new();
    if let (Some(template), Some(filled)) = (template, &filled) {
        let field = format!("{TEMPLATE}: {template}");
        match filled {
            Ok(_) => {
                annotations.insert(TEMPLATE.to_owned(), json!(template));
                answer.line(source, Carried::Yes, field, "is kept, and used instead of ref");
            }
            Err(error) => {
                let text = format!("{error}; ref is spec.image");
                answer.line(source, Carried::No, field, text);
            }
        }
    }
    priority(source, &mut spec, answer);
    poll(source, image, &mut spec, answer);
    pull_secret(source, &mut annotations, answer);
    for (fields, text) in NOT_NEEDED {
        for field in fields.iter().filter(|field| has(source, &format!("/spec/{field}"))) {
            answer.line(source, Carried::NotNeeded, *field, text);
        }
    }
    answer.catalogs.push(ours("ClusterCatalog", source.name(), annotations, spec));
}

fn priority(source: &Object, spec: &mut Value, answer: &mut Answer) {
    if let Some(priority) = source.pointer("/spec/priority").and_then(Value::as_i64) {
        let nearest = priority.clamp(i32::MIN.into(), i32::MAX.into());
        spec["priority"] = json!(nearest);
        let text = if nearest == priority {
            "becomes priority".to_owned()
        } else {
            format!("becomes priority {nearest}, the nearest that a ClusterCatalog can have")
        };
        answer.line(source, Carried::Yes, format!("priority: {priority}"), text);
    }
}

fn pull_secret(source: &Object, annotations: &mut Map<String, Value>, answer: &mut Answer) {
    let secrets = texts(source, "/spec/secrets");
    if let Some(secret) = secrets.first() {
        annotations.insert(policy::PULL_SECRET.to_owned(), json!(secret));
        let text = format!(
            "becomes annotation {}: copy the Secret to the controller's namespace and label it",
            policy::PULL_SECRET
        );
        answer.line(source, Carried::Yes, format!("secrets: {secret}"), text);
    }
    for more in secrets.iter().skip(1) {
        let text = "a catalog has one pull secret: merge them";
        answer.line(source, Carried::No, format!("secrets: {more}"), text);
    }
}

/// Returns an image with a tag or a digest, which the kubelet does without and a ClusterCatalog does not.
fn with_tag(image: &str) -> Cow<'_, str> {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) { image.into() } else { format!("{image}:latest").into() }
}

/// Returns the image that Classic filled the template of a source in to.
fn resolved(source: &Object) -> Option<&str> {
    let mut conditions = source.list_at("/status/conditions");
    let found = conditions.find(|it| it["type"] == "ResolvedImage" && it["status"] == "True");
    found?["message"].as_str().filter(|image| !image.is_empty())
}

fn poll(source: &Object, image: &str, spec: &mut Value, answer: &mut Answer) {
    let interval = source.text_at("/spec/updateStrategy/registryPoll/interval");
    if interval.is_empty() {
        return;
    }
    let field = format!("updateStrategy.registryPoll.interval: {interval}");
    match minutes(interval) {
        _ if image.contains('@') => {
            answer.line(source, Carried::NotNeeded, field, "a digest is not polled");
        }
        Some(minutes) => {
            spec["source"]["image"]["pollIntervalMinutes"] = json!(minutes);
            let text = format!("becomes pollIntervalMinutes: {minutes}");
            answer.line(source, Carried::Yes, field, text);
        }
        None => {
            answer.line(
                source,
                Carried::No,
                field,
                format!("{} is not a duration", quote(interval)),
            );
        }
    }
}

/// Returns the minutes of a Go duration, rounded up.
fn minutes(text: &str) -> Option<u64> {
    let duration = text.parse::<SignedDuration>().ok()?;
    let seconds = duration.as_secs() + i64::from(duration.subsec_nanos() > 0);
    Some(u64::try_from(seconds).ok()?.div_ceil(60)).filter(|it| *it > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_becomes_whole_minutes() {
        let cases = [
            ("45m", Some(45)),
            ("1h30m", Some(90)),
            ("30s", Some(1)),
            ("10m1s", Some(11)),
            ("1.5h", Some(90)),
        ];
        for (text, want) in cases {
            assert_eq!(minutes(text), want, "{text}");
        }
        assert_eq!(["", "5", "1d", "0s", "-5m"].map(minutes), [None; 5]);
    }
}
