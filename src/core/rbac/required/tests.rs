//! The rights that single objects and small bundles need.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::fixture::{cases, object, rows};
use crate::rbac::fixture::{binding, crd, plain, role, role_of_millions, small_bundle};
use crate::rbac::lines;

const CASES: &str = include_str!("../../testdata/rbac/cases.yaml");

fn compute(objects: &[Object], options: &Options) -> Required {
    let bundle = BundleObjects { name: "test.v1.2.0", objects };
    required(&[bundle], "ns1", options).unwrap()
}

/// Returns the rights of a row, each `[namespace, verb, group, resource, name]`.
fn named(row: &Value, key: &str) -> Vec<(String, Permission)> {
    let rights = row[key].as_array().into_iter().flatten();
    let right = |right: &Value| {
        let part = |at: usize| right[at].as_str();
        let [verb, group, resource] = [1, 2, 3].map(|at| part(at).unwrap());
        (part(0).unwrap().to_owned(), Permission::on(verb, group, resource, part(4)))
    };
    rights.map(right).collect()
}

// applying.md 5.3, f6
#[test]
fn objects_need_the_rights_of_their_row() {
    for row in rows(include_str!("../../testdata/rbac/required.yaml")) {
        let objects: Vec<_> =
            row["objects"].as_array().unwrap().iter().cloned().map(object).collect();
        let options = Options {
            collection_watch: row["options"] == "collection watch",
            bind_escalate: row["options"] == "bind and escalate",
            ..Options::default()
        };
        let bundle = BundleObjects { name: "test.v1.2.0", objects: &objects };
        let found = required(&[bundle], "ns1", &options);
        let error = found.as_ref().err().map(ToString::to_string);
        assert_eq!(error.as_deref(), row["error"].as_str(), "{row}");
        let Ok(found) = found else { continue };
        let needed = lines(&found.needed);
        let binds: Vec<_> = needed.iter().filter(|line| line.contains("bind]")).collect();
        let namespaces: Vec<_> = found.needed.namespaces().collect();
        for (key, found) in [
            ("needed", json!(needed)),
            ("binds", json!(binds)),
            ("advisory", json!(lines(&found.advisory))),
            ("namespaces", json!(namespaces)),
        ] {
            assert_eq!(row.get(key).unwrap_or(&found), &found, "{key} of {row}");
        }
        for (key, want) in [("holds", true), ("lacks", false)] {
            for (namespace, right) in named(&row, key) {
                assert_eq!(found.needed.covers(&namespace, &right), want, "{right:?} of {row}");
            }
        }
        let warnings: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(row.get("warnings").unwrap_or(&json!([])), &json!(warnings), "{row}");
    }
}

// applying.md 6.7
#[test]
fn stored_versions_can_be_trimmed_where_there_are_several() {
    for (versions, trims) in
        cases::<(Value, bool)>(CASES, "stored_versions_can_be_trimmed_where_there_are_several")
    {
        let mut crd = crd("foos", "Foo", "Namespaced");
        crd.0["spec"]["versions"] = versions;
        let required = compute(&[crd], &Options::default());
        let right = trimming("foos.example.com");
        assert_eq!(required.advisory.covers("", &right), trims);
        assert!(!required.needed.covers("", &right));
    }
}

#[test]
fn definition_of_another_given_bundle_serves() {
    let (objects, definitions) =
        ([plain("example.com/v1", "Foo", "ns1", "b")], [crd("foos", "Foo", "Namespaced")]);
    let bundles = [("a.v1", &objects), ("b.v1", &definitions)]
        .map(|(name, objects)| BundleObjects { name, objects });
    assert!(required(&bundles, "ns1", &Options::default()).is_ok());
}

#[test]
fn role_of_another_given_bundle_is_bound_by_name() {
    let (roles, bindings) = ([role("", "c", json!([]))], [binding("", "c", "ClusterRole", "c")]);
    let bundles = [("a.v1", &roles), ("b.v1", &bindings)]
        .map(|(name, objects)| BundleObjects { name, objects });
    let required = required(&bundles, "ns1", &Options::default()).unwrap();
    let right = Permission::on("bind", RBAC, "clusterroles", Some("c"));
    assert!(required.needed.covers("", &right));
}

// A bundle must not fill the memory.
#[test]
fn more_rights_than_can_be_counted_are_an_error() {
    let objects = [role_of_millions(), binding("ns1", "b", "ClusterRole", "many")];
    let bundle = BundleObjects { name: "test.v1", objects: &objects };
    let want = "bundle \"test.v1\": its roles and bindings give more than 100000 rights";
    let error = required(&[bundle], "ns1", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), want);
    let held = Held { rights: &Permissions::default(), roles: &BTreeMap::new() };
    let missing = missing(&bundle, "ns1", &[], &[], &held);
    assert_eq!(missing.errors, BTreeSet::from([want.to_owned()]));
}

// applying.md 5.4
#[test]
fn stable_rights_name_nothing_that_changes_between_versions() {
    for (namespace, group, resource, unnamed) in cases::<(&str, &str, &str, bool)>(
        CASES,
        "stable_rights_name_nothing_that_changes_between_versions",
    ) {
        let mut objects = small_bundle();
        objects.push(plain("v1", "Secret", "ns1", "s"));
        objects.push(plain("v1", "ConfigMap", "ns2", "c"));
        let options = Options { stable: true, ..Options::default() };
        let right = Permission::on("patch", group, resource, None);
        assert_eq!(compute(&objects, &options).all().covers(namespace, &right), unnamed);
        assert!(!compute(&objects, &Options::default()).all().covers(namespace, &right));
    }
}
