//! Documents for programs: what they begin with, and that they are what their schemas say.

use rstest::rstest;
use serde_json::Value;

use super::{outcome, program};

fn olm(arguments: &str) -> String {
    outcome(&mut program(arguments.split(' '))).1
}

// plugin.md U10
#[rstest]
#[case("search --from shop=browse/shop.yaml", "olm.search")]
#[case("catalog lint catalog", "olm.lint")]
#[case("catalog diff catalog browse/shop.yaml", "olm.diff")]
#[case("graph teapot --from graph/teapot.yaml", "olm.graph")]
#[case("bundle images dir:../../core/testdata/bundle/sample", "olm.images")]
fn a_document_begins_with_its_schema_and_is_the_same_on_two_runs(
    #[case] verb: &str,
    #[case] schema: &str,
) {
    let [json, yaml] = ["json", "yaml"].map(|format| {
        let line = format!("{verb} -o {format}");
        let once = olm(&line);
        assert_eq!(once, olm(&line));
        once
    });
    let begin = format!("{{\n  \"schema\": \"{schema}\",\n  \"schemaVersion\": 1,\n");
    assert!(json.starts_with(&begin), "{json}");
    assert!(yaml.starts_with(&format!("schema: {schema}\nschemaVersion: 1\n")), "{yaml}");
    let read: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(olm_core::yaml::to_json(&yaml).unwrap(), [read]);
}

// plugin.md 1.4
#[test]
fn a_package_that_is_found_has_its_priority_and_channels() {
    let found = olm("search cistern --from shop=browse/shop.yaml,priority=3 -o json");
    let found: Value = serde_json::from_str(&found).unwrap();
    let package = &found["packages"][0];
    assert_eq!(package["priority"], 3);
    assert_eq!(package["channels"], serde_json::json!(["stable", "candidate", "legacy"]));
    let names = olm("search cistern --from shop=browse/shop.yaml -o name");
    assert!(names.lines().any(|name| name == "cistern-operator"), "{names}");
}

// plugin.md U23
#[rstest]
#[case::kind("kind:cistern", true)]
#[case::another_kind("kind:ciste", false)]
#[case::category("storage", true)]
#[case::catalog("cistern --catalog shop", true)]
#[case::another_catalog("cistern --catalog mall", false)]
#[case::label("cistern --catalog olm.operatorframework.io/metadata.name=shop", true)]
fn packages_are_found_by_kind_keyword_and_catalog(#[case] words: &str, #[case] found: bool) {
    let search = format!("search {words} --from shop=browse/shop.yaml -o json");
    let answer: Value = serde_json::from_str(&olm(&search)).unwrap();
    let packages = answer["packages"].as_array().unwrap();
    let is_there = packages.iter().any(|it| it["name"] == "cistern-operator");
    assert_eq!(is_there, found, "{packages:?}");
}

// plugin.md 1.4
#[test]
fn every_version_and_every_channel_are_shown_when_asked_for() {
    let text = olm("search cistern --from shop=browse/shop.yaml --versions --channels");
    assert!(text.contains("VERSIONS "), "{text}");
    assert!(text.contains("2.0.0-rc.1,1.8.0,1.7.1,1.7.0,1.6.0,1.5.0"), "{text}");
    assert!(text.contains("stable,candidate,legacy"), "{text}");
}

// plugin.md 1.4, U56
#[test]
fn images_of_a_bundle_are_listed_and_make_a_configuration() {
    let images =
        |format| olm(&format!("bundle images dir:../../core/testdata/bundle/sample -o {format}"));
    let names = images("name");
    assert!(!names.is_empty());
    let answer: Value = serde_json::from_str(&images("json")).unwrap();
    let listed = answer["images"].as_array().unwrap();
    let listed: Vec<_> = listed.iter().map(|image| image["image"].as_str().unwrap()).collect();
    assert_eq!(listed, names.lines().collect::<Vec<_>>());
    let set = images("imageset");
    assert!(set.contains("apiVersion: mirror.openshift.io/v2alpha1\n"), "{set}");
    assert!(set.contains("kind: ImageSetConfiguration\n"), "{set}");
    assert!(listed.iter().all(|image| set.contains(&format!("- name: {image}\n"))), "{set}");
}

// plugin.md U10
#[test]
fn each_document_has_one_schema_with_its_title() {
    let schemas = kubectl_olm::schemas();
    let names: std::collections::BTreeSet<_> = schemas.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), schemas.len());
    for (name, text) in schemas {
        assert!(text.starts_with(&format!("{{\n  \"title\": \"{name}\",\n")), "{text}");
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert!(schema["description"].is_string(), "{name}");
        jsonschema::validator_for(&schema).unwrap();
    }
}
