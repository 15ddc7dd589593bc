//! Webhooks and their certificates, each difference from upstream beside what upstream does.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::bundle::fixture::{csv, csv_of, load, with};
use crate::error::Chain;

const NS: &str = "ops";

/// A bundle with one deployment per name and these webhook definitions.
fn bundle_of(deployments: &[&str], webhooks: &str, more: &[(&str, &str)]) -> Bundle {
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
    let mut files = vec![
        ("manifests/csv.yaml", csv.as_str()),
        ("manifests/crd.yaml", &crd),
    ];
    files.extend(more);
    load(&with(&files))
}

fn crd(annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: mugs.example.com, annotations: {annotations}}}\n\
         spec: {{<<: {spec}, group: example.com}}\n"
    )
}

fn options(certificates: Option<CertificateProvider>) -> RenderOptions {
    RenderOptions {
        install_namespace: NS.to_owned(),
        targets: vec![String::new()],
        role_placement: RolePlacement::default(),
        deployment: None,
        certificates,
    }
}

fn objects(bundle: &Bundle, certificates: Option<CertificateProvider>) -> Vec<Object> {
    render(bundle, &options(certificates)).unwrap().objects
}

fn find(objects: &[Object], kind: &str) -> Value {
    let mut found = objects.iter().filter(|object| object.kind() == kind);
    let object = found.next().unwrap();
    assert_eq!(found.next(), None, "more than one {kind}");
    object.clone().into_value()
}

fn self_signed(ca_bundle: &str) -> Option<CertificateProvider> {
    let ca_bundle = ca_bundle.to_owned();
    Some(CertificateProvider::SelfSigned { ca_bundle })
}

const CONVERSION: &str = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
    conversionCRDs: [mugs.example.com], admissionReviewVersions: [v1]}]";
const VALIDATING: &str =
    "[{type: ValidatingAdmissionWebhook, generateName: v.example.com, deploymentName: pot}]";

// rendering.md W1, 4.9
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

// rendering.md W2, R1: upstream writes port 0, which the API server refuses
#[test]
fn a_missing_port_is_443_everywhere() {
    let conversion = objects(&bundle_of(&["pot"], CONVERSION, &[]), None);
    let crd = find(&conversion, "CustomResourceDefinition");
    let service = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["port"], 443);
    let admission = objects(&bundle_of(&["pot"], VALIDATING, &[]), None);
    let configuration = find(&admission, "ValidatingWebhookConfiguration");
    assert_eq!(
        configuration["webhooks"][0]["clientConfig"]["service"]["port"],
        443
    );
    for objects in [conversion, admission] {
        assert_eq!(
            find(&objects, "Service")["spec"]["ports"],
            json!([{"name": "443", "port": 443, "targetPort": 443}])
        );
    }
}

// rendering.md D2, D3, 4.5
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
        &CONVERSION.replace(
            "deploymentName: pot",
            "deploymentName: my.pot, containerPort: 9443",
        ),
        &[
            ("manifests/crd.yaml", &foreign),
            ("manifests/cups.yaml", &cups),
        ],
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

// rendering.md D4
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

// rendering.md W3, W4, W6, 4.10: in the order of ports, labels only
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
    assert_eq!(
        service["metadata"],
        json!({"name": "pot-service", "namespace": NS})
    );
    assert_eq!(
        service["spec"],
        json!({"selector": {"app": "pot"}, "ports": [
            {"name": "443", "port": 443, "targetPort": 8443},
            {"name": "9443", "port": 9443, "targetPort": "https"},
        ]})
    );
}

// rendering.md W4, R18: upstream makes two ports of one name, which the API server refuses
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
        "webhooks of deployment 'pot' use port 443 with different target ports"
    );
}

// rendering.md W5, N6: the scope of a webhook follows the watched namespaces
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
    let options = RenderOptions {
        targets: vec![target.to_owned()],
        ..options(None)
    };
    let objects = render(&bundle, &options).unwrap().objects;
    let configuration = find(&objects, "ValidatingWebhookConfiguration");
    assert_eq!(configuration["webhooks"][0]["namespaceSelector"], want);
}

// rendering.md 4.2, N6, R4: upstream makes a Service name of 64 bytes from 56, which the API
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
    assert_eq!(
        unique(&"a".repeat(56), "service").len(),
        64,
        "upstream's rule"
    );
}

// rendering.md W7
#[test]
fn cert_manager_gets_an_issuer_and_a_certificate() {
    let stale = crd(
        "{cert-manager.io/inject-ca-from: system/stale, other: kept}",
        "{}",
    );
    let cups = stale.replace("mugs", "cups");
    let webhooks = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
        conversionCRDs: [mugs.example.com]}, {type: ValidatingAdmissionWebhook, generateName: v, \
        deploymentName: pot}]";
    let more = [
        ("manifests/crd.yaml", stale.as_str()),
        ("manifests/cups.yaml", &cups),
    ];
    let bundle = bundle_of(&["pot"], webhooks, &more);
    let rendered = render(&bundle, &options(Some(CertificateProvider::CertManager))).unwrap();
    assert_eq!(rendered.certificate_requests, []);
    let objects = rendered.objects;
    assert_eq!(
        find(&objects, "Issuer"),
        json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
            "metadata": {"name": "pot-service-cert-selfsigned-issuer", "namespace": NS},
            "spec": {"selfSigned": {}}})
    );
    assert_eq!(
        find(&objects, "Certificate"),
        json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": "pot-service-cert", "namespace": NS},
            "spec": {"secretName": "pot-service-cert", "commonName": "pot-service.ops",
                "dnsNames": ["pot-service.ops", "pot-service.ops.svc",
                    "pot-service.ops.svc.cluster.local"],
                "usages": ["server auth"], "duration": "17520h0m0s", "renewBefore": "24h0m0s",
                "issuerRef": {"name": "pot-service-cert-selfsigned-issuer"}}})
    );
    let annotations = |name: &str| {
        let found = objects.iter().find(|object| object.name() == name).unwrap();
        found.0["metadata"].get("annotations").cloned()
    };
    let key = "cert-manager.io/inject-ca-from";
    let ours = json!({key: "ops/pot-service-cert", "other": "kept"});
    assert_eq!(annotations("mugs.example.com"), Some(ours));
    let theirs = json!({key: "system/stale", "other": "kept"});
    assert_eq!(annotations("cups.example.com"), Some(theirs));
    assert_eq!(annotations("v"), Some(json!({key: "ops/pot-service-cert"})));
    assert_eq!(annotations("pot-service"), None);
}

// rendering.md W8, R3: upstream always writes commonName, which cert-manager refuses beyond 64
#[rstest]
#[case(64, true)]
#[case(65, false)]
fn a_common_name_has_at_most_64_bytes(#[case] bytes: usize, #[case] kept: bool) {
    // "<deployment>-service.ops"
    let deployment = "a".repeat(bytes - "-service.ops".len());
    let bundle = bundle_of(&[&deployment], &VALIDATING.replace("pot", &deployment), &[]);
    let objects = objects(&bundle, Some(CertificateProvider::CertManager));
    let spec = &find(&objects, "Certificate")["spec"];
    assert_eq!(spec["dnsNames"][0].as_str().unwrap().len(), bytes);
    assert_eq!(spec.get("commonName").is_some(), kept);
}

// rendering.md W9, W11, R5: upstream leaves the author's annotation, so that two sources fight
#[rstest]
#[case::service_ca(Some(CertificateProvider::ServiceCa),
    json!({"other": "kept", "service.beta.openshift.io/inject-cabundle": "true"}))]
#[case::self_signed(self_signed("PEM"), json!({"other": "kept"}))]
fn stale_annotations_of_other_sources_go(
    #[case] provider: Option<CertificateProvider>,
    #[case] want: Value,
) {
    let stale = crd(
        "{cert-manager.io/inject-ca-from: s/c, cert-manager.io/inject-ca-from-secret: s/c, \
          service.beta.openshift.io/inject-cabundle: 'true', other: kept}",
        "{}",
    );
    let cups = stale.replace("mugs", "cups");
    let more = [
        ("manifests/crd.yaml", stale.as_str()),
        ("manifests/cups.yaml", &cups),
    ];
    let bundle = bundle_of(&["pot"], CONVERSION, &more);
    let objects = objects(&bundle, provider);
    let annotations = |name| {
        let crd = objects.iter().find(|object| object.name() == name).unwrap();
        crd.0["metadata"]["annotations"].clone()
    };
    assert_eq!(annotations("mugs.example.com"), want);
    assert_eq!(
        annotations("cups.example.com").as_object().unwrap().len(),
        4
    );
}

// rendering.md W9
#[test]
fn the_service_ca_is_asked_on_the_service() {
    let bundle = bundle_of(&["pot"], VALIDATING, &[]);
    let objects = objects(&bundle, Some(CertificateProvider::ServiceCa));
    let annotations = |kind| find(&objects, kind)["metadata"]["annotations"].clone();
    let serving = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(annotations("Service"), json!({serving: "pot-service-cert"}));
    assert_eq!(
        annotations("ValidatingWebhookConfiguration"),
        json!({"service.beta.openshift.io/inject-cabundle": "true"})
    );
    assert_eq!(
        objects
            .iter()
            .filter(|object| object.kind() == "Secret")
            .count(),
        0
    );
}

// rendering.md W10, R15: upstream's order is that of a Go map
#[test]
fn deployments_are_taken_by_name() {
    let webhooks = "[{type: ValidatingAdmissionWebhook, generateName: a, deploymentName: pot}, \
        {type: ValidatingAdmissionWebhook, generateName: b, deploymentName: lid}]";
    let bundle = bundle_of(&["pot", "lid", "spoon"], webhooks, &[]);
    let objects = objects(&bundle, Some(CertificateProvider::CertManager));
    let of_cert_manager = objects
        .iter()
        .filter(|object| object.group() == "cert-manager.io")
        .map(Object::name);
    assert_eq!(
        of_cert_manager.collect::<Vec<_>>(),
        [
            "lid-service-cert-selfsigned-issuer",
            "lid-service-cert",
            "pot-service-cert-selfsigned-issuer",
            "pot-service-cert",
        ]
    );
}

// rendering.md W11, R16: upstream knows no such source
#[test]
fn the_controller_as_source_writes_ca_bundles_and_asks_for_one_certificate_a_deployment() {
    let webhooks = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
        conversionCRDs: [mugs.example.com]}, {type: ValidatingAdmissionWebhook, generateName: v, \
        deploymentName: pot}, {type: MutatingAdmissionWebhook, generateName: m, \
        deploymentName: lid}]";
    let bundle = bundle_of(&["pot", "lid"], webhooks, &[]);
    let rendered = render(&bundle, &options(self_signed("PEM"))).unwrap();
    let again = render(&bundle, &options(self_signed("PEM"))).unwrap();
    assert_eq!(rendered, again, "the same CA gives the same objects");
    for (kind, pointer) in [
        (
            "CustomResourceDefinition",
            "/spec/conversion/webhook/clientConfig/caBundle",
        ),
        (
            "ValidatingWebhookConfiguration",
            "/webhooks/0/clientConfig/caBundle",
        ),
        (
            "MutatingWebhookConfiguration",
            "/webhooks/0/clientConfig/caBundle",
        ),
    ] {
        let object = find(&rendered.objects, kind);
        assert_eq!(object.pointer(pointer), Some(&json!("UEVN")), "{kind}");
    }
    let requests = rendered.certificate_requests;
    let secrets: Vec<_> = requests.iter().map(|request| &*request.secret).collect();
    assert_eq!(secrets, ["lid-service-cert", "pot-service-cert"]);
    assert_eq!(
        requests[1].dns_names,
        [
            "pot-service.ops",
            "pot-service.ops.svc",
            "pot-service.ops.svc.cluster.local"
        ]
    );
    let foreign = |object: &&Object| object.kind() == "Secret" || object.group().contains("cert");
    assert_eq!(rendered.objects.iter().find(foreign), None);
}

// rendering.md W12, R16: upstream chooses by feature gate
#[rstest]
#[case::openshift("ServiceCa", None, None, true, true)]
#[case::cert_manager("CertManager", None, None, false, true)]
#[case::nothing("SelfSigned", None, None, false, false)]
#[case::recorded("SelfSigned", None, Some(CertificateSource::SelfSigned), true, true)]
#[case::asked(
    "CertManager",
    Some(CertificateSource::CertManager),
    Some(CertificateSource::SelfSigned),
    true,
    false
)]
fn the_source_is_what_was_asked_then_what_was_then_what_is_there(
    #[case] want: &str,
    #[case] asked: Option<CertificateSource>,
    #[case] recorded: Option<CertificateSource>,
    #[case] openshift: bool,
    #[case] cert_manager: bool,
) {
    let served = Served {
        openshift,
        cert_manager,
    };
    let bundle = bundle_of(&["pot"], VALIDATING, &[]);
    let needs = certificate_needs(&bundle, NS);
    let chosen = choose_certificates(asked, recorded, served, &needs);
    assert_eq!(format!("{chosen:?}"), want);
    assert_eq!(chosen.to_string().parse(), Ok(chosen));
}

// rendering.md W12: its own certificates would be waited for before it runs
#[test]
fn the_bundle_of_cert_manager_does_not_wait_for_itself() {
    let served = Served {
        openshift: false,
        cert_manager: true,
    };
    let spec = "{customresourcedefinitions: {owned: [{name: certificates.cert-manager.io}]}}";
    let bundle = load(&with(&[("manifests/csv.yaml", &csv(spec))]));
    let needs = certificate_needs(&bundle, NS);
    let chosen = choose_certificates(None, None, served, &needs);
    assert_eq!(chosen, CertificateSource::SelfSigned);
}

// rendering.md E8, E10, E12, 4.7
#[test]
fn certificates_replace_what_is_mounted_in_their_place() {
    let mut pod = json!({
        "volumes": [
            {"name": "cert", "secret": {"secretName": "webhook-server-cert"}},
            {"name": "data"},
            {"name": "webhook-cert", "emptyDir": {}},
        ],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "apiservice-cert"}]}],
        "containers": [
            {"name": "main", "volumeMounts": [
                {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
                {"name": "data", "mountPath": "/data"}]},
            {"name": "car"},
        ],
    });
    let Value::Object(map) = &mut pod else {
        unreachable!()
    };
    volume::mount(map, "pot-service-cert");
    let mounts = json!([
        {"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
        {"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"},
    ]);
    assert_eq!(
        pod,
        json!({
            "volumes": [
                {"name": "data"},
                {"name": "webhook-cert", "secret": {"secretName": "pot-service-cert", "items": [
                    {"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"}]}},
                {"name": "apiservice-cert", "secret": {"secretName": "pot-service-cert", "items": [
                    {"key": "tls.crt", "path": "apiserver.crt"},
                    {"key": "tls.key", "path": "apiserver.key"}]}},
            ],
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "apiservice-cert"}]}],
            "containers": [
                {"name": "main", "volumeMounts": [
                    {"name": "data", "mountPath": "/data"}, mounts[0], mounts[1]]},
                {"name": "car", "volumeMounts": mounts},
            ],
        })
    );
}

// rendering.md E9, E11, E13
#[rstest]
#[case::nobody(None, &[])]
#[case::somebody(Some(CertificateProvider::ServiceCa), &["pot"])]
fn only_webhook_servers_get_certificates(
    #[case] provider: Option<CertificateProvider>,
    #[case] want: &[&str],
) {
    let objects = objects(&bundle_of(&["lid", "pot"], VALIDATING, &[]), provider);
    let mounted: Vec<_> = objects
        .iter()
        .filter(|object| object.pointer("/spec/template/spec/volumes").is_some())
        .map(Object::name)
        .collect();
    assert_eq!(mounted, want);
}

// rendering.md D11, R2: upstream emits the Service twice and then refuses the revision
#[test]
fn a_manifest_of_the_webhook_service_keeps_only_its_labels() {
    let manifest = "apiVersion: v1\nkind: Service\n\
        metadata: {name: pot-service, labels: {theirs: a}, annotations: {theirs: a, \
        service.beta.openshift.io/serving-cert-secret-name: x}}\n\
        spec: {selector: {app: other}, ports: [{port: 1}]}\n";
    let bundle = bundle_of(&["pot"], VALIDATING, &[("manifests/s.yaml", manifest)]);
    let service = find(
        &objects(&bundle, Some(CertificateProvider::ServiceCa)),
        "Service",
    );
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
#[case(
    "containerPort: '443'",
    "containerPort: expected integer, found string"
)]
#[case(
    "targetPort: [1]",
    "targetPort: expected integer or string, found array"
)]
#[case("timeoutSeconds: x", "timeoutSeconds: expected integer, found string")]
#[case("objectSelector: x", "objectSelector: expected object, found string")]
fn wrong_types_in_definitions_are_named(#[case] field: &str, #[case] want: &str) {
    let spec = format!("{{webhookdefinitions: [{{{field}}}]}}");
    let error = Bundle::from_files(&with(&[("manifests/csv.yaml", &csv(&spec))])).unwrap_err();
    let text = Chain(&error).to_string();
    assert!(
        text.ends_with(&format!("spec.webhookdefinitions[0].{want}")),
        "{text}"
    );
}
