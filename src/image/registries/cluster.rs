//! The mirrors that an OpenShift cluster's nodes are told of, as entries of a registries
//! configuration: `ImageDigestMirrorSets`, `ImageTagMirrorSets` and, before them,
//! `ImageContentSourcePolicies`.
//!
//! Source: openshift/api `config/v1/types_image_digest_mirror_set.go`, `types_image_tag_mirror_set.go`,
//! `operator/v1alpha1/types_image_content_source_policy.go`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use olm_core::error::quote;
use serde_json::Value;

/// The kinds: path of their lists, key of their entries, and which pulls take their mirrors.
pub const KINDS: [(&str, &str, &str); 3] = [
    ("/apis/config.openshift.io/v1/imagedigestmirrorsets", "imageDigestMirrors", "digest-only"),
    ("/apis/config.openshift.io/v1/imagetagmirrorsets", "imageTagMirrors", "tag-only"),
    (
        "/apis/operator.openshift.io/v1alpha1/imagecontentsourcepolicies",
        "repositoryDigestMirrors",
        "digest-only",
    ),
];

/// Returns the text of a registries configuration with the mirrors of `lists`, each a list of one of
/// the [`KINDS`] by its key.
pub fn configuration(lists: &[(&str, Value)]) -> String {
    let mut sources = BTreeMap::<&str, (Vec<(&str, &str)>, bool)>::new();
    for (key, list) in lists {
        let kind = KINDS.iter().find(|(_, known, _)| known == key);
        let pull = kind.map_or("all", |(_, _, pull)| *pull);
        let items = list["items"].as_array().into_iter().flatten();
        let entries = items.flat_map(|item| item["spec"][key].as_array().into_iter().flatten());
        for entry in entries {
            let Some(source) = entry["source"].as_str() else { continue };
            let (mirrors, blocked) = sources.entry(source).or_default();
            let named = entry["mirrors"].as_array().into_iter().flatten();
            for mirror in named.filter_map(Value::as_str) {
                if !mirrors.contains(&(mirror, pull)) {
                    mirrors.push((mirror, pull));
                }
            }
            *blocked |= entry["mirrorSourcePolicy"] == "NeverContactSource";
        }
    }
    let mut text = String::new();
    for (source, (mirrors, blocked)) in sources {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[[registry]]\nprefix = {}", quote(source));
        if !source.starts_with("*.") {
            let _ = writeln!(text, "location = {}", quote(source));
        }
        let _ = writeln!(text, "blocked = {blocked}");
        for (mirror, pull) in mirrors {
            let _ = writeln!(
                text,
                "[[registry.mirror]]\nlocation = {}\npull-from-mirror = {}",
                quote(mirror),
                quote(pull)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registries::{Registries, RegistriesPaths};

    // plugin.md U55
    #[test]
    fn mirrors_of_a_cluster_are_those_of_its_nodes() {
        let list = |key: &str, entry: Value| json!({"items": [{"spec": {key: [entry]}}]});
        let digests = json!({"source": "quay.io/team", "mirrors": ["mirror.lab:5000/team"],
            "mirrorSourcePolicy": "NeverContactSource"});
        let tags = json!({"source": "quay.io/team", "mirrors": ["tags.lab/team"]});
        let lists = [(KINDS[0].1, list(KINDS[0].1, digests)), (KINDS[1].1, list(KINDS[1].1, tags))];
        let more = vec![configuration(&lists)];
        let file = "/nowhere".into();
        let paths = RegistriesPaths { file, drop_ins: Vec::new(), required: false, more };
        let registries = Registries::load(&paths).unwrap();
        let asked = |image: &str| {
            let endpoints = registries.endpoints(&image.parse().unwrap()).unwrap().into_iter();
            let text = |it: crate::registries::Endpoint| (it.image.name(), it.blocked.is_some());
            endpoints.map(text).collect::<Vec<_>>()
        };
        let digest = format!("quay.io/team/a@sha256:{}", "0".repeat(64));
        let origin = ("quay.io/team/a".to_owned(), true);
        let at = |name: &str| (name.to_owned(), false);
        assert_eq!(asked(&digest), [at("mirror.lab:5000/team/a"), origin.clone()]);
        assert_eq!(asked("quay.io/team/a:1"), [at("tags.lab/team/a"), origin]);
        assert_eq!(asked("quay.io/other/a:1"), [at("quay.io/other/a")]);
    }
}
