use serde_json::json;

use super::*;
use crate::bundle::fixture::{csv, load, with};
use crate::catalog::lint::Pinned;
use crate::fixture::{cases, rows, text};

const CASES: &str = include_str!("../testdata/lint/bundles.yaml");

const DEPENDENCIES: &str = "metadata/dependencies.yaml";

fn image(text: &str) -> Result<Pinned, String> {
    if text.contains(' ') {
        return Err("invalid reference format".to_owned());
    }
    Ok(Pinned::Tag)
}

/// Returns what a catalog says of a bundle whose CSV has this `spec`, with one more file.
fn catalog(spec: &str, path: &str, content: &str) -> Findings {
    let mut files = with(&[("manifests/csv.yaml", &csv(spec))]);
    if !path.is_empty() {
        files.insert(path.to_owned(), content.as_bytes().to_vec());
    }
    in_catalog(&load(&files), &files, image).unwrap()
}

#[test]
fn what_a_catalog_refuses_is_an_error() {
    for row in rows(include_str!("../testdata/lint/refused_bundles.yaml")) {
        let (path, content) = (row["file"].as_str(), row["content"].as_str());
        let spec = row["spec"].to_string();
        let found = catalog(&spec, path.unwrap_or_default(), content.unwrap_or_default());
        assert_eq!(found.errors.len(), 1, "{found:?}: {row}");
        assert!(found.errors[0].starts_with(text(&row, "want")), "{found:?}: {row}");
    }
}

#[test]
fn a_sound_bundle_is_not_blamed() {
    let dependencies = "dependencies: [{type: olm.package, value: {packageName: q, version: '>=0.2.0'}}, \
         {type: olm.gvk, value: {group: q.example.com, version: v1, kind: Q}}]";
    assert_eq!(catalog("{version: 1.0.0}", DEPENDENCIES, dependencies), Findings::default());
}

#[test]
fn a_name_that_no_extension_can_install_is_told() {
    let text = csv("{version: 1.0.0}").replace("name: pot.v1", "name: pot.v1+2");
    let files = with(&[("manifests/csv.yaml", &text)]);
    let warned = ["\"pot.v1+2\" is not a DNS subdomain: no extension can install it".to_owned()];
    assert_eq!(in_catalog(&load(&files), &files, image).unwrap().warnings, warned);
}

/// Returns a bundle whose CSV has an annotation.
fn annotated(key: &str, value: &str) -> Files {
    let text = csv("{version: 1.0.0}")
        .replace("{name: pot.v1}", &format!("{{name: pot.v1, annotations: {{{key}: '{value}'}}}}"));
    with(&[("manifests/csv.yaml", &text)])
}

#[test]
fn the_range_of_a_csv_is_judged() {
    for (range, errors, warnings) in
        cases::<(&str, usize, usize)>(CASES, "the_range_of_a_csv_is_judged")
    {
        let files = annotated("olm.skipRange", range);
        let found = in_catalog(&load(&files), &files, image).unwrap();
        assert_eq!((found.errors.len(), found.warnings.len()), (errors, warnings), "{found:?}");
    }
}

#[test]
fn misspelt_annotations_are_named() {
    for (key, want) in cases::<(&str, Option<&str>)>(CASES, "misspelt_annotations_are_named") {
        let files = annotated(key, "<1.0.0");
        let found = doubts(&load(&files), &files);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(want));
    }
}

#[test]
fn owned_versions_and_types_of_webhooks_that_nothing_knows_are_named() {
    let spec = "{install: {spec: {deployments: [{name: d}]}}, webhookdefinitions: \
        [{type: ValidatingWebhook, generateName: a.b.c, deploymentName: d}], \
        customresourcedefinitions: {owned: [{name: pots.example.com, version: v1alpha1}, \
        {name: pots.example.com, version: v1beta1}]}}";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: pots.example.com}\nspec: {versions: [{name: v1beta1}]}\n";
    let files = with(&[("manifests/csv.yaml", &csv(spec)), ("manifests/crd.yaml", crd)]);
    insta::assert_snapshot!(doubts(&load(&files), &files).join("\n"), @r#"
    webhook "a.b.c" is left out: its type "ValidatingWebhook" is not one of ConversionWebhook, MutatingAdmissionWebhook, ValidatingAdmissionWebhook
    owned version "v1alpha1" of "pots.example.com" is not in the custom resource definition, which has: v1beta1
    "#);
}

/// Returns why an object is refused after one of its members was set; null removes nothing, but counts
/// as absent.
fn faults(mut object: Value, pointer: &str, value: &Value) -> Vec<String> {
    if let Some(member) = object.pointer_mut(pointer) {
        *member = value.clone();
    }
    let object = Object::from_value(object).unwrap();
    let about = format!("{} {}: ", object.kind(), quote(object.name()));
    let faults = refused([&object]).into_iter();
    faults.map(|fault| fault.strip_prefix(&about).unwrap().to_owned()).collect()
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}]})
}

fn crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pots.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "pots", "kind": "Pot"}, "preserveUnknownFields": false,
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "s", "namespace": "n"}}}},
            "versions": [version("v1", true), version("v1alpha1", false)]}})
}

#[test]
fn definitions_that_no_api_server_takes() {
    assert_eq!(faults(crd(), "", &crd()), [""; 0]);
    for row in rows(include_str!("../testdata/lint/definitions.yaml")) {
        let found = faults(crd(), text(&row, "field"), &row["value"]);
        assert!(found.iter().any(|fault| fault == text(&row, "want")), "{found:?}: {row}");
    }
}

fn webhook() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m.example.com"}, "webhooks": [{"name": "m.example.com",
            "sideEffects": "None", "failurePolicy": "Fail", "matchPolicy": "Exact",
            "reinvocationPolicy": "Never", "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1beta1"],
            "clientConfig": {"service": {"path": "/m", "port": 443}},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "scope": "*",
                "apiVersions": ["v1"], "resources": ["pods", "*"]}]}]})
}

#[test]
fn webhooks_that_no_api_server_takes() {
    assert_eq!(faults(webhook(), "", &webhook()), [""; 0]);
    // No path is one, too.
    assert_eq!(faults(webhook(), "/webhooks/0/clientConfig/service/path", &json!("")), [""; 0]);
    for row in rows(include_str!("../testdata/lint/webhooks.yaml")) {
        let found = faults(webhook(), text(&row, "field"), &row["value"]);
        assert_eq!(found, [text(&row, "want")], "{row}");
    }
}

#[test]
fn manifests_that_no_api_server_takes() {
    for row in rows(include_str!("../testdata/lint/objects.yaml")) {
        let object = json!({"apiVersion": row["apiVersion"], "kind": row["kind"],
            "metadata": {"name": row["object"]}});
        assert_eq!(faults(object.clone(), "", &object), Vec::from_iter(row["want"].as_str()));
    }
}

#[test]
fn an_api_service_has_a_port() {
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.example.com"}, "spec": {"service": {"port": 443}}});
    let of = |port: i64| faults(api.clone(), "/spec/service/port", &json!(port));
    assert_eq!(of(0), ["containerPort 0 is not between 1 and 65535"]);
    assert_eq!(of(5443), [""; 0]);
}
