//! `kubectl olm crd check` as a user runs it.

use std::fs;

use serde_json::{Value, json};

use super::olm;

/// Runs the program and returns exit code, stdout and stderr.
fn check(arguments: &[&str]) -> (i32, String, String) {
    olm(&[&["crd", "check"], arguments].concat())
}

fn crd(name: &str, field: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"scope": "Namespaced", "versions": [{"name": "v1", "schema": {
            "openAPIV3Schema": {"properties": {"a": field}}}}]},
    })
}

/// A folder with a file of old CRDs, and a bundle with new ones: one narrowed, one loosened, one
/// more.
fn stage() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("bundle/manifests")).unwrap();
    let old = json!({"kind": "List", "items": [
        crd("pots.example.com", &json!({"maximum": 3})),
        crd("lids.example.com", &json!({"format": "int32"})),
    ]});
    fs::write(root.join("old.yaml"), old.to_string()).unwrap();
    let new = [
        crd("pots.example.com", &json!({"maximum": 2})),
        crd("lids.example.com", &json!({})),
        crd("cups.example.com", &json!({})),
    ];
    let new = new.map(|crd| format!("{crd}\n---\n")).concat();
    fs::write(root.join("bundle/manifests/crds.yaml"), new).unwrap();
    folder
}

const NARROWED: &str = "v1: ^.a: maximum: maximum decreased : 3 -> 2";
const LOOSENED: &str = "v1: ^.a: unhandled: unhandled changes found (Format \"int32\" -> \"\")";

// applying.md 6.2, 6.4
#[test]
fn findings_are_listed_and_end_the_program_with_1() {
    let folder = stage();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (path("old.yaml"), path("bundle"));
    let (code, text, _) = check(&[&old, &new]);
    assert_eq!(
        text,
        format!(
            "cups.example.com: ok\nlids.example.com: ok\npots.example.com: 1 finding\n  {NARROWED}\n"
        )
    );
    assert_eq!(code, 1);
    let (code, text, _) = check(&[&old, &new, "--crd-safety-compat"]);
    assert!(text.contains(&format!("lids.example.com: 1 finding\n  {LOOSENED}\n")), "{text}");
    assert_eq!(code, 1);
    assert_eq!(check(&[&new, &new, "--crd-safety-compat"]).0, 0);
}

#[test]
fn json_holds_upstreams_text_and_each_finding() {
    let folder = stage();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (code, text, _) = check(&[&path("old.yaml"), &path("bundle"), "-o", "json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let passed = |name| json!({"crd": name, "ok": true, "error": null, "findings": []});
    let want = json!({"crds": [
        passed("cups.example.com"),
        passed("lids.example.com"),
        {
            "crd": "pots.example.com", "ok": false,
            "error": format!("validating upgrade for CRD \"pots.example.com\": {NARROWED}"),
            "findings": [{"check": "maximum", "versions": "v1", "path": "^.a",
                "text": "maximum decreased : 3 -> 2"}],
        },
    ]});
    assert_eq!((code, answer), (1, want));
}

// applying.md 6.4: a file counts as written, so what it stores is stored
#[test]
fn a_version_that_goes_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let write = |names: &[&str]| {
        let versions = names.iter().enumerate().map(|(index, name)| {
            json!({"name": name, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": {"type": "object"}}})
        });
        let mut crd = crd("pots.example.com", &json!({}));
        crd["spec"]["versions"] = versions.collect();
        let file = folder.path().join(format!("{}.json", names.join("-")));
        fs::write(&file, crd.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (alpha, both, stable) = (write(&["v1alpha1"]), write(&["v2", "v1"]), write(&["v1"]));
    let stored = "storedVersionRemoval: stored versions removed : ";
    let served = "servedVersionRemoval: served versions removed : ";
    for (old, new, want) in [
        (&alpha, &stable, format!("1 finding\n  {stored}[v1alpha1]")),
        (&both, &stable, format!("1 finding\n  {stored}[v2]")),
        (&both, &write(&["v2"]), format!("1 finding\n  {served}[v1]")),
    ] {
        let (code, text, error) = check(&[old, new]);
        assert_eq!((code, text), (1, format!("pots.example.com: {want}\n")));
        let first = error.contains("then kubectl olm crd migrate pots.example.com");
        assert_eq!(first, want.contains(stored), "{error}");
        assert_eq!(check(&[old, new, "--crd-safety-compat"]).0, 0);
    }
}

// applying.md 6.3, 6.4: rendering gives a CRD its conversion webhook
#[test]
fn the_conversion_that_a_bundle_declares_counts_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = |name: &str, types: &[&str], webhooks: &Value| {
        let versions = types.iter().enumerate().map(|(index, type_)| {
            let field = json!({"type": type_});
            json!({"name": format!("v{}", index + 1), "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": field}}}})
        });
        let mut crd = crd("pots.example.com", &json!({}));
        crd["spec"]["versions"] = versions.collect();
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion", "metadata": {"name": "pot.v1"},
            "spec": {"webhookdefinitions": webhooks}});
        let manifests = folder.path().join(name).join("manifests");
        fs::create_dir_all(&manifests).unwrap();
        fs::write(manifests.join("all.yaml"), format!("{crd}\n---\n{csv}\n")).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let converts = json!([{"type": "ConversionWebhook", "conversionCRDs": ["pots.example.com"]}]);
    let (one, both) = (["string"], ["string", "integer"]);
    let old = bundle("old", &one, &json!([]));
    let pair = "1 finding\n  v1 -> v2: ^.a: type: type changed : \"string\" -> \"integer\"";
    let lost = "conversionRemoval: conversion webhook removed although v1 and v2 differ";
    let ok = "pots.example.com: ok\n".to_owned();
    let converted = bundle("converted", &both, &converts);
    assert_eq!(check(&[&old, &converted]), (0, ok, String::new()));
    let plain = bundle("plain", &both, &json!([]));
    let (code, text, _) = check(&[&old, &plain]);
    assert_eq!((code, text), (1, format!("pots.example.com: {pair}\n")));
    let (code, text, _) = check(&[&converted, &plain]);
    assert_eq!(code, 1);
    assert!(text.contains(lost), "{text}");
}

#[test]
fn what_cannot_be_compared_is_named() {
    let folder = stage();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (code, _, error) = check(&[&path("bundle"), "cluster"]);
    assert_eq!(code, 2);
    assert!(error.contains("`cluster` can only be the first"), "{error}");
    let empty = path("empty.yaml");
    fs::write(&empty, "kind: Pot\n").unwrap();
    let (code, _, error) = check(&[&path("old.yaml"), &empty]);
    assert_eq!(code, 1);
    assert!(error.contains("empty.yaml holds no CustomResourceDefinition"), "{error}");
}
