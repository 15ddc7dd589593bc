//! Our CRDs against upstream's published ones (api.md A17).
//!
//! Everything but descriptions is compared: properties, defaults, enums, limits, formats, list and
//! map markers, CEL rules and messages, printer columns, names. `crds.yaml` lists the intended
//! differences; any other difference fails, and so does an entry that is not a difference any more.

use olm_test::paths;
use serde_json::Value;

const KINDS: [&str; 3] = ["clusterextensions", "clustercatalogs", "clusterobjectsets"];

/// Begin of the paths below `SCHEMA`.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";

/// Returns the intended differences: the kinds, and the path.
fn chosen() -> Vec<(Vec<String>, String)> {
    let rows = paths::rows::<(_, String, String)>("test/tests/corpus/crds.yaml").into_iter();
    rows.map(|(kinds, path, _why)| (kinds, path.replacen("SCHEMA", SCHEMA, 1))).collect()
}

#[test]
fn crds_equal_the_reference_but_for_the_chosen_differences() {
    let mut found = Vec::new();
    for kind in KINDS {
        let file = format!("olm.operatorframework.io_{kind}.yaml");
        let ours = read(&paths::repository().join("config/crd").join(&file));
        let reference = paths::shared_data().join("reference/crds/experimental");
        let reference = read(&reference.join(&file));
        let mut differences = Vec::new();
        compare(&ours, &reference, "", &mut differences);
        found.extend(differences.into_iter().map(|path| (kind.to_owned(), path)));
    }
    let of_each = |(kinds, path): (Vec<String>, String)| {
        kinds.into_iter().map(move |kind| (kind, path.clone()))
    };
    let mut chosen: Vec<_> = chosen().into_iter().flat_map(of_each).collect();
    found.sort();
    chosen.sort();
    assert_eq!(found, chosen);
}

// D20 is also compared in parts: only the six bracket repairs may differ.
#[test]
fn version_rule_differs_from_upstream_in_brackets_only() {
    let (_, pointer) = chosen().remove(0);
    let file = "olm.operatorframework.io_clusterextensions.yaml";
    let rule = |folder: std::path::PathBuf| {
        let crd = read(&folder.join(file));
        let rule = crd.pointer(&pointer).and_then(Value::as_str);
        rule.expect("the rule is there").to_owned()
    };
    let ours = rule(paths::repository().join("config/crd"));
    let upstream = rule(paths::shared_data().join("reference/crds/experimental"));
    let repaired = upstream.replace(r"[x|X|\\*])", r"x|X|\\*)").replace(r"|\\*])", r"|\\*)");
    assert_eq!(ours, repaired);
}

fn read(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the CRD can be read");
    serde_saphyr::from_str(&text).expect("the CRD is YAML")
}

/// Collects the JSON pointers at which `ours` and `reference` differ, except descriptions.
fn compare(ours: &Value, reference: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, reference) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                // A member called description is text, unless it is the name of a property.
                if key == "description" && !path.ends_with("/properties") {
                    continue;
                }
                let below = format!("{path}/{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => compare(a, b, &below, found),
                    _ => found.push(below),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, &format!("{path}/{index}"), found);
            }
        }
        _ if ours == reference => {}
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn every_schema_element_has_a_description() {
    for kind in KINDS {
        let file = format!("config/crd/olm.operatorframework.io_{kind}.yaml");
        let crd = read(&paths::repository().join(file));
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut missing = Vec::new();
        undescribed(schema, "", &mut missing);
        assert_eq!(missing, Vec::<String>::new(), "{kind}");
    }
}

/// Collects the properties without a description; `metadata` at the root is Kubernetes' own.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}.{name}");
        if property.get("description").is_none() && below != ".metadata" {
            found.push(below.clone());
        }
        undescribed(property, &below, found);
    }
    if let Some(items) = schema.get("items") {
        undescribed(items, &format!("{path}[]"), found);
    }
}
