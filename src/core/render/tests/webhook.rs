//! Webhook configurations, conversion and Services; differences from upstream are noted at each
//! case.

use rstest::rstest;
use serde_json::{Value, json};

use crate::bundle::fixture::{csv, csv_of, load, with};
use crate::error::Chain;
use crate::render::*;

pub(super) const NS: &str = "ops";

/// A bundle with one deployment per name and these webhook definitions.
pub(super) fn bundle_of(deployments: &[&str], webhooks: &str, more: &[(&str, &str)]) -> Bundle {
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
    let crd = crd("{}", "{}");
    let mut files = vec![("manifests/csv.yaml", csv.as_str()), ("manifests/crd.yaml", &crd)];
    files.extend(more);
    load(&with(&files))
}

pub(super) fn crd(annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: mugs.example.com, annotations: {annotations}}}\n\
         spec: {{<<: {spec}, group: example.com}}\n"
    )
}

pub(super) fn options(certificates: Option<CertificateProvider>) -> RenderOptions {
    RenderOptions {
        install_namespace: NS.to_owned(),
        targets: vec![String::new()],
        role_placement: RolePlacement::default(),
        deployment: None,
        certificates,
    }
}

pub(super) fn objects(bundle: &Bundle, certificates: Option<CertificateProvider>) -> Vec<Object> {
    render(bundle, &options(certificates)).unwrap().objects
}

pub(super) fn find(objects: &[Object], kind: &str) -> Value {
    let mut found = objects.iter().filter(|object| object.kind() == kind);
    let object = found.next().unwrap();
    assert_eq!(found.next(), None, "more than one {kind}");
    object.clone().into_value()
}

pub(super) const CONVERSION: &str = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
    conversionCRDs: [mugs.example.com], admissionReviewVersions: [v1]}]";
pub(super) const VALIDATING: &str =
    "[{type: ValidatingAdmissionWebhook, generateName: v.example.com, deploymentName: pot}]";

// rendering.md 4.9
#[test]
fn a_configuration_has_what_the_api_knows_and_nothing_else() {
    let bundle = bundle_of(
        &["pot"],
        "[{type: MutatingAdmissionWebhook, generateName: m.example.com, deploymentName: pot, \
          containerPort: 9443, webhookPath: /mutate, failurePolicy: Fail, matchPolicy: Exact, \
          sideEffects: None, timeoutSeconds: 5, reinvocationPolicy: IfNeeded, \
          admissionReviewVersions: [v1], objectSelector: {matchLabels: {a: b}}, unknown: x, \
          rules: [{operations: [CREATE], apiGroups: [example.com], apiVersions: [v1], \
          resources: [mugs], scope: Namespaced, unknown: x}]}]",
        &[],
    );
    assert_eq!(
        find(&objects(&bundle, None), "MutatingWebhookConfiguration"),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "m.example.com", "namespace": NS},
            "webhooks": [{
                "name": "m.example.com",
                "clientConfig": {"service":
                    {"namespace": NS, "name": "pot-service", "path": "/mutate", "port": 9443}},
                "rules": [{"operations": ["CREATE"], "apiGroups": ["example.com"],
                    "apiVersions": ["v1"], "resources": ["mugs"], "scope": "Namespaced"}],
                "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "None",
                "timeoutSeconds": 5, "reinvocationPolicy": "IfNeeded",
                "admissionReviewVersions": ["v1"],
                "objectSelector": {"matchLabels": {"a": "b"}},
            }],
        })
    );
}

// rendering.md 4.9: only mutating webhooks are called again
#[test]
fn a_validating_configuration_has_no_reinvocation_policy() {
    let bundle = bundle_of(
        &["pot"],
        "[{type: ValidatingAdmissionWebhook, generateName: v, deploymentName: pot, \
          reinvocationPolicy: IfNeeded, failurePolicy: null}]",
        &[],
    );
    let webhook = &find(&objects(&bundle, None), "ValidatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(
        *webhook,
        json!({"name": "v", "clientConfig":
            {"service": {"namespace": NS, "name": "pot-service", "port": 443}}})
    );
}

// rendering.md 4.9, R1: upstream writes port 0, which the API server refuses
#[test]
fn a_missing_port_is_443_everywhere() {
    let conversion = objects(&bundle_of(&["pot"], CONVERSION, &[]), None);
    let crd = find(&conversion, "CustomResourceDefinition");
    let service = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["port"], 443);
    let admission = objects(&bundle_of(&["pot"], VALIDATING, &[]), None);
    let configuration = find(&admission, "ValidatingWebhookConfiguration");
    assert_eq!(configuration["webhooks"][0]["clientConfig"]["service"]["port"], 443);
    for objects in [conversion, admission] {
        assert_eq!(
            find(&objects, "Service")["spec"]["ports"],
            json!([{"name": "443", "port": 443, "targetPort": 443}])
        );
    }
}

// rendering.md 4.5
#[test]
fn a_conversion_webhook_replaces_the_stanza_of_its_crd_alone() {
    let foreign = crd(
        "{}",
        "{conversion: {strategy: Webhook, webhook: {clientConfig: \
        {service: {name: theirs, namespace: system}}}}}",
    );
    let cups = foreign.replace("mugs", "cups");
    let bundle = bundle_of(
        &["my.pot"],
        &CONVERSION.replace("deploymentName: pot", "deploymentName: my.pot, containerPort: 9443"),
        &[("manifests/crd.yaml", &foreign), ("manifests/cups.yaml", &cups)],
    );
    let objects = objects(&bundle, None);
    let stanza = |name| {
        let crd = objects.iter().find(|object| object.name() == name).unwrap();
        crd.0["spec"]["conversion"].clone()
    };
    assert_eq!(
        stanza("mugs.example.com"),
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service":
                {"namespace": NS, "name": "my-pot-service", "path": "/", "port": 9443}},
            "conversionReviewVersions": ["v1"],
        }})
    );
    let theirs = json!({"strategy": "Webhook", "webhook":
        {"clientConfig": {"service": {"name": "theirs", "namespace": "system"}}}});
    assert_eq!(stanza("cups.example.com"), theirs);
}

// rendering.md 4.5
#[test]
fn a_crd_that_keeps_unknown_fields_is_not_converted() {
    let crd = crd("{}", "{preserveUnknownFields: true}");
    let bundle = bundle_of(&["pot"], CONVERSION, &[("manifests/crd.yaml", &crd)]);
    assert_eq!(
        render(&bundle, &options(None)).unwrap_err().to_string(),
        "custom resource definition 'mugs.example.com' must have .spec.preserveUnknownFields set \
         to false to let API Server call webhook to do the conversion"
    );
}

// rendering.md 4.10: in the order of ports, labels only
#[test]
fn a_service_leads_to_each_port_once() {
    let bundle = bundle_of(
        &["pot", "lid"],
        "[{type: ValidatingAdmissionWebhook, generateName: a, deploymentName: pot, \
           containerPort: 9443, targetPort: https}, \
          {type: ValidatingAdmissionWebhook, generateName: b, deploymentName: pot, \
           containerPort: 443, targetPort: 8443}, \
          {type: MutatingAdmissionWebhook, generateName: c, deploymentName: pot, \
           containerPort: 9443, targetPort: https}]",
        &[],
    );
    let service = find(&objects(&bundle, None), "Service");
    assert_eq!(service["metadata"], json!({"name": "pot-service", "namespace": NS}));
    assert_eq!(
        service["spec"],
        json!({"selector": {"app": "pot"}, "ports": [
            {"name": "443", "port": 443, "targetPort": 8443},
            {"name": "9443", "port": 9443, "targetPort": "https"},
        ]})
    );
}

// rendering.md R1: Go has no other word for no port
#[rstest]
#[case::validating(VALIDATING, "ValidatingWebhookConfiguration", "/webhooks/0/clientConfig")]
#[case::conversion(CONVERSION, "CustomResourceDefinition", "/spec/conversion/webhook/clientConfig")]
fn port_0_is_the_default_port(#[case] webhook: &str, #[case] kind: &str, #[case] client: &str) {
    let zero = webhook.replace("deploymentName: pot", "deploymentName: pot, containerPort: 0");
    let mugs = crd("{}", "{}");
    let objects = objects(&bundle_of(&["pot"], &zero, &[("manifests/crd.yaml", &mugs)]), None);
    let port = |kind, pointer: &str| find(&objects, kind).pointer(pointer).cloned();
    assert_eq!(port(kind, &format!("{client}/service/port")), Some(json!(443)));
    assert_eq!(port("Service", "/spec/ports/0/port"), Some(json!(443)));
}

// rendering.md 4.10, R18: upstream makes two ports of one name, which the API server refuses
#[test]
fn one_port_cannot_lead_to_two_places() {
    let bundle = bundle_of(
        &["pot"],
        "[{type: ValidatingAdmissionWebhook, generateName: a, deploymentName: pot}, \
          {type: ValidatingAdmissionWebhook, generateName: b, deploymentName: pot, \
           targetPort: 8443}]",
        &[],
    );
    assert_eq!(
        render(&bundle, &options(None)).unwrap_err().to_string(),
        "webhooks or API services of deployment 'pot' use port 443 with different target ports"
    );
}

// rendering.md 4.9: the scope of a webhook follows the watched namespaces
#[rstest]
#[case("", Value::Null)]
#[case("dev", json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["dev"]}]}))]
fn webhooks_see_what_the_operator_watches(#[case] target: &str, #[case] want: Value) {
    let modes =
        "[{type: AllNamespaces, supported: true}, {type: SingleNamespace, supported: true}]";
    let spec = format!(
        "{{install: {{spec: {{deployments: [{{name: pot}}]}}}}, \
        webhookdefinitions: {VALIDATING}}}"
    );
    let bundle = load(&with(&[("manifests/csv.yaml", &csv_of(modes, &spec))]));
    let options = RenderOptions { targets: vec![target.to_owned()], ..options(None) };
    let objects = render(&bundle, &options).unwrap().objects;
    let configuration = find(&objects, "ValidatingWebhookConfiguration");
    assert_eq!(configuration["webhooks"][0]["namespaceSelector"], want);
}

// rendering.md 4.2, R4: upstream makes a Service name of 64 bytes from 56, which the API
// server refuses
#[rstest]
#[case::short("webhook-operator-controller-manager", [
    "webhook-operator-controller-manager-service",
    "webhook-operator-controller-manager-service-cert",
    "webhook-operator-controller-manager-service-c-selfsigned-issuer"])]
#[case::dotted("my.dotted.operator", ["my-dotted-operator-service",
    "my-dotted-operator-service-cert", "my-dotted-operator-service-cert-selfsigned-issuer"])]
#[case::long("my.object.thing.has.a.really.really.really.really.really.long.name", [
    "my-object-thing-has-a-really-really-really-really-reall-service",
    "my-object-thing-has-a-really-really-really-really-reall-se-cert",
    "my-object-thing-has-a-really-really-really-re-selfsigned-issuer"])]
#[case::boundary(&"a".repeat(56), [&*format!("{}-service", "a".repeat(55)),
    &*format!("{}-se-cert", "a".repeat(55)), &*format!("{}-selfsigned-issuer", "a".repeat(45))])]
fn names_of_webhook_objects(#[case] deployment: &str, #[case] want: [&str; 3]) {
    let service = name::service_name(deployment);
    let certificate = name::certificate_name(&service);
    let issuer = name::issuer_name(&certificate);
    assert_eq!([&*service, &certificate, &issuer], want);
    assert!(service.len() <= 63);
    assert_eq!(unique(&"a".repeat(56), "service").len(), 64, "upstream's rule");
}

// rendering.md 4.12, R2: upstream emits the Service twice and then refuses the revision
#[test]
fn a_manifest_of_the_webhook_service_keeps_only_its_labels() {
    let manifest = "apiVersion: v1\nkind: Service\n\
        metadata: {name: pot-service, labels: {theirs: a}, annotations: {theirs: a, \
        service.beta.openshift.io/serving-cert-secret-name: x}}\n\
        spec: {selector: {app: other}, ports: [{port: 1}]}\n";
    let bundle = bundle_of(&["pot"], VALIDATING, &[("manifests/s.yaml", manifest)]);
    let service = find(&objects(&bundle, Some(CertificateSource::ServiceCa.into())), "Service");
    assert_eq!(service["spec"]["selector"], json!({"app": "pot"}));
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
    assert_eq!(service["metadata"]["labels"], json!({"theirs": "a"}));
    let serving = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(
        service["metadata"]["annotations"],
        json!({"theirs": "a", serving: "pot-service-cert"})
    );
}

// rendering.md R17: what is used of a definition is type-checked
#[rstest]
#[case("containerPort: '443'", "containerPort: expected integer, found string")]
#[case("targetPort: [1]", "targetPort: expected integer or string, found array")]
#[case("timeoutSeconds: x", "timeoutSeconds: expected integer, found string")]
#[case("objectSelector: x", "objectSelector: expected object, found string")]
fn wrong_types_in_definitions_are_named(#[case] field: &str, #[case] want: &str) {
    let spec = format!("{{webhookdefinitions: [{{{field}}}]}}");
    let error = Bundle::from_files(&with(&[("manifests/csv.yaml", &csv(&spec))])).unwrap_err();
    let text = Chain(&error).to_string();
    assert!(text.ends_with(&format!("spec.webhookdefinitions[0].{want}")), "{text}");
}
