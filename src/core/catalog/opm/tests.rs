//! Templates of opm, and what it makes of them.

use super::*;
use crate::bundle::fixture::{csv, load, with};
use crate::fixture::cases;

const CASES: &str = include_str!("../../testdata/catalog/cases.yaml");

fn bundle(version: &str) -> CatalogBundle {
    let spec = json!({"version": version, "description": format!("as of {version}"),
        "icon": [{"base64data": "eA==", "mediatype": "image/svg+xml"}],
        "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "d", "spec":
            {"template": {"spec": {"containers": [{"image": "r.io/lid:1"}]}}}}]}}});
    let csv = csv(&spec.to_string()).replace("pot.v1", &format!("a-v{version}"));
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: a}";
    let files = with(&[("manifests/csv.yaml", &csv), ("metadata/annotations.yaml", annotations)]);
    CatalogBundle::new(&load(&files), &files, &format!("r.io/a:{version}")).unwrap()
}

fn expand(template: &Value) -> Result<Vec<Value>, TemplateError> {
    let template = Template::of(template)?.unwrap();
    let bundles = template.images().into_iter().map(|image| {
        let version = image.rsplit_once(':').unwrap().1.to_owned();
        (image, bundle(&version))
    });
    let blobs = template.clone().expand(&bundles.collect())?.into_iter();
    Ok(blobs.map(|blob| serde_json::from_str(&blob.json).unwrap()).collect())
}

fn images(versions: &[&str]) -> Value {
    let images = versions.iter().map(|it| json!({"Image": format!("r.io/a:{it}")}));
    json!({"Bundles": images.collect::<Vec<_>>()})
}

/// Returns the channels in short: `name: bundle<replaces-skips`.
fn drawn(blobs: &[Value]) -> Vec<String> {
    let channels = blobs.iter().filter(|blob| blob["schema"] == "olm.channel");
    let short = |name: &Value| name.as_str().unwrap_or_default().replace("a-v", "");
    let drawn = channels.map(|channel| {
        let entries = channel["entries"].as_array().unwrap().iter().map(|entry| {
            let skips: Vec<_> =
                entry["skips"].as_array().into_iter().flatten().map(short).collect();
            format!(" {}<{}-{}", short(&entry["name"]), short(&entry["replaces"]), skips.join(","))
        });
        format!("{}:{}", channel["name"].as_str().unwrap(), entries.collect::<String>())
    });
    drawn.collect()
}

#[test]
fn channels_are_those_that_opm_makes_of_versions() {
    let versions = ["0.1.0", "0.1.1", "1.3.1", "1.1.0", "1.2.1", "1.3.1-beta", "1.3.1-alpha"];
    let template = json!({"Schema": "olm.semver", "GenerateMajorChannels": true,
        "Stable": images(&versions), "candidate": images(&["2.0.0"])});
    let blobs = expand(&template).unwrap();
    assert_eq!(
        drawn(&blobs),
        [
            "candidate-v2: 2.0.0<-",
            "stable-v0: 0.1.0<- 0.1.1<-0.1.0",
            "stable-v1: 1.1.0<- 1.2.1<1.1.0- 1.3.1-alpha<- 1.3.1-beta<- \
             1.3.1<1.2.1-1.1.0,1.3.1-alpha,1.3.1-beta",
        ]
    );
    let package = &blobs[0];
    assert_eq!(package["defaultChannel"], "stable-v1");
    assert_eq!(package["description"], "as of 1.3.1");
    assert_eq!(package["icon"]["mediatype"], "image/svg+xml");
    let bundles: Vec<_> = blobs[4..].iter().map(|blob| blob["name"].as_str().unwrap()).collect();
    assert!(bundles.is_sorted() && bundles.len() == 8, "{bundles:?}");
}

#[test]
fn minor_channels_are_made_unless_major_ones_are_wanted() {
    for (more, default) in
        cases::<(Value, &str)>(CASES, "minor_channels_are_made_unless_major_ones_are_wanted")
    {
        let mut template = json!({"schema": "olm.semver", "stable": images(&["1.1.0", "1.2.0"]),
            "fast": images(&["1.3.0"])});
        template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let blobs = expand(&template).unwrap();
        assert_eq!(blobs[0]["defaultChannel"], default);
        let minor = drawn(&blobs).contains(&"stable-v1.2: 1.2.0<1.1.0-".to_owned());
        assert_eq!(minor, default != "stable-v1");
    }
}

#[test]
fn what_opm_refuses_is_refused() {
    for (template, why) in cases::<(Value, &str)>(CASES, "what_opm_refuses_is_refused") {
        let error = expand(&template).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_basic_template_is_the_catalog_with_its_bundles_written_out() {
    let channel = json!({"schema": "olm.channel", "package": "a", "name": "stable",
        "entries": [{"name": "a-v1.0.0"}]});
    let package = json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"});
    let other = json!({"schema": "example.com/more", "x": 1});
    let bundle = json!({"schema": "olm.bundle", "image": "r.io/a:1.0.0"});
    let template = json!({"schema": "olm.template.basic",
        "entries": [other, bundle, channel, package]});
    let blobs = expand(&template).unwrap();
    assert_eq!([&blobs[0], &blobs[1], &blobs[3]], [&package, &channel, &other]);
    assert_eq!((&blobs[2]["name"], &blobs[2]["package"]), (&json!("a-v1.0.0"), &json!("a")));
    assert_eq!(Template::of(&json!({"schema": "olm.package"})), Ok(None));
}
