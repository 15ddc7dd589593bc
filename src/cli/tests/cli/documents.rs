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
#[case("why --package teapot --from red=why/red.yaml", "olm.resolution.report")]
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

#[test]
fn rendered_yaml_and_json_hold_the_same_objects() {
    let render = "bundle render ../../core/testdata/bundle/sample -n ops";
    let yaml = olm(render);
    assert!(yaml.starts_with("---\n"), "{yaml}");
    let list: Value = serde_json::from_str(&olm(&format!("{render} -o json"))).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    assert_eq!(list["items"], Value::Array(olm_core::yaml::to_json(&yaml).unwrap()));
    assert!(list["items"].as_array().unwrap().len() > 10);
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
