//! Webhook configurations, conversion and Services; differences from upstream are noted at each
//! case.

use serde_json::{Value, json};

use crate::bundle::fixture::{csv, csv_of, load, with};
use crate::error::Chain;
use crate::fixture::{cases, rows};
use crate::render::*;

const CASES: &str = include_str!("../../testdata/render/cases.yaml");

pub(super) const NS: &str = "ops";

/// A bundle with one deployment per name and these webhook definitions.
pub(super) fn bundle_of(deployments: &[&str], webhooks: &str) -> Bundle {
    let deployments: Vec<_> = deployments
        .iter()
        .map(|name| {
            format!(
                "{{name: {name}, spec: {{selector: {{matchLabels: {{app: {name}}}, \
                 matchExpressions: [{{key: x, operator: Exists}}]}}, template: {{spec: \
                 {{containers: [{{name: main}}]}}}}}}}}"
            )
        })
        .collect();
    let spec = format!(
        "{{install: {{spec: {{deployments: [{}]}}}}, webhookdefinitions: {webhooks}, \
         customresourcedefinitions: {{owned: [{{name: mugs.example.com}}]}}}}",
        deployments.join(", ")
    );
    let csv = csv(&spec);
    load(&with(&[("manifests/csv.yaml", &csv), ("manifests/crd.yaml", CRD)]))
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
    metadata: {name: mugs.example.com, annotations: {}}\nspec: {group: example.com}\n";

fn options(certificates: Option<CertificateProvider>) -> RenderOptions {
    RenderOptions { certificates, ..super::options("") }
}

pub(super) fn objects(bundle: &Bundle, certificates: Option<CertificateProvider>) -> Vec<Object> {
    render(bundle, &options(certificates)).unwrap().objects
}

pub(super) const VALIDATING: &str =
    "[{type: ValidatingAdmissionWebhook, generateName: v.example.com, deploymentName: pot}]";

/// Returns what stands at `<kind or name> <pointer>`: null if there is no such object or member.
pub(super) fn at(objects: &[Object], place: &str) -> Value {
    let (of, pointer) = place.split_once(' ').unwrap_or((place, ""));
    let mut found = objects.iter().filter(|object| object.kind() == of || object.name() == of);
    let object = found.next().map_or(Value::Null, |object| object.clone().into_value());
    assert_eq!(found.next(), None, "more than one {of}");
    object.pointer(pointer).cloned().unwrap_or_default()
}

// rendering.md 4.5, 4.7, 4.9 to 4.13, R1, R2, R5, R16, R18, R21
#[test]
fn what_is_served_becomes_the_objects_of_its_row() {
    for row in rows(include_str!("../../testdata/render/served.yaml")) {
        let csv = csv(&json!({
            "install": {"spec": {"deployments": row["deployments"]}},
            "webhookdefinitions": row.get("webhooks").unwrap_or(&json!([])),
            "apiservicedefinitions": {"owned": row.get("apis").unwrap_or(&json!([]))},
            "customresourcedefinitions": {"owned": [{"name": "mugs.example.com"}]},
        })
        .to_string());
        let mut files = vec![("manifests/csv.yaml", csv.as_str()), ("manifests/crd.yaml", CRD)];
        let more = row["files"].as_object().into_iter().flatten();
        files.extend(more.map(|(path, text)| (path.as_str(), text.as_str().unwrap())));
        let provider = row["certificates"].as_str().map(|source| CertificateProvider {
            source: source.parse().unwrap(),
            ca_bundle: if source == "self-signed" { "PEM" } else { "" }.to_owned(),
        });
        let made = render(&load(&with(&files)), &options(provider));
        let error = made.as_ref().err().map(ToString::to_string);
        assert_eq!(error.as_deref(), row["error"].as_str(), "{row}");
        let Ok(made) = made else { continue };
        for (place, want) in row["want"].as_object().unwrap() {
            assert_eq!(&at(&made.objects, place), want, "{place} of {row}");
        }
        let requests = made.certificate_requests.iter();
        let requests = requests.map(|it| (it.secret.clone(), json!(it.dns_names)));
        let requests = Value::Object(requests.collect());
        assert_eq!(row.get("requests").unwrap_or(&requests), &requests, "{row}");
    }
}

// rendering.md 4.9: the scope of a webhook follows the watched namespaces
#[test]
fn webhooks_see_what_the_operator_watches() {
    let modes =
        "[{type: AllNamespaces, supported: true}, {type: SingleNamespace, supported: true}]";
    let spec = format!(
        "{{install: {{spec: {{deployments: [{{name: pot}}]}}}}, \
        webhookdefinitions: {VALIDATING}}}"
    );
    let bundle = load(&with(&[("manifests/csv.yaml", &csv_of(modes, &spec))]));
    let dev = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["dev"]}]});
    for (target, want) in [("", Value::Null), ("dev", dev)] {
        let objects = render(&bundle, &super::options(target)).unwrap().objects;
        let selector = "ValidatingWebhookConfiguration /webhooks/0/namespaceSelector";
        assert_eq!(at(&objects, selector), want);
    }
}

// rendering.md 4.2, R4: upstream makes a Service name of 64 bytes from 56, which the API
// server refuses
#[test]
fn names_of_webhook_objects() {
    for (deployment, want) in cases::<(&str, [&str; 3])>(CASES, "names_of_webhook_objects") {
        let service = name::service_name(deployment);
        let certificate = name::certificate_name(&service);
        let issuer = name::issuer_name(&certificate);
        assert_eq!([&*service, &certificate, &issuer], want);
        assert!(service.len() <= 63);
    }
    assert_eq!(unique(&"a".repeat(56), "service").len(), 64, "upstream's rule");
}

// rendering.md R17: what is used of a definition is type-checked
#[test]
fn wrong_types_in_definitions_are_named() {
    for (field, want) in cases::<(&str, &str)>(CASES, "wrong_types_in_definitions_are_named") {
        let spec = format!("{{webhookdefinitions: [{{{field}}}]}}");
        let error = Bundle::from_files(&with(&[("manifests/csv.yaml", &csv(&spec))])).unwrap_err();
        let text = Chain(&error).to_string();
        assert!(text.ends_with(&format!("spec.webhookdefinitions[0].{want}")), "{text}");
    }
}
