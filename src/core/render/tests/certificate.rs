//! Certificates of webhooks; differences from upstream are noted at each case.

use rstest::rstest;
use serde_json::{Value, json};

use super::webhook::{CONVERSION, NS, VALIDATING, bundle_of, crd, find, objects, options};
use crate::bundle::fixture::{csv, load, with};
use crate::render::*;

fn self_signed(ca_bundle: &str) -> CertificateProvider {
    let ca_bundle = ca_bundle.to_owned();
    CertificateProvider { source: CertificateSource::SelfSigned, ca_bundle }
}

// rendering.md 4.11
#[test]
fn cert_manager_gets_an_issuer_and_a_certificate() {
    let stale = crd("{cert-manager.io/inject-ca-from: system/stale, other: kept}", "{}");
    let cups = stale.replace("mugs", "cups");
    let webhooks = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
        conversionCRDs: [mugs.example.com]}, {type: ValidatingAdmissionWebhook, generateName: v, \
        deploymentName: pot}]";
    let more = [("manifests/crd.yaml", stale.as_str()), ("manifests/cups.yaml", &cups)];
    let bundle = bundle_of(&["pot"], webhooks, &more);
    let rendered = render(&bundle, &options(Some(CertificateSource::CertManager.into()))).unwrap();
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

// rendering.md 4.11, R3: upstream always writes commonName, which cert-manager refuses beyond 64
#[rstest]
#[case(64, true)]
#[case(65, false)]
fn a_common_name_has_at_most_64_bytes(#[case] bytes: usize, #[case] kept: bool) {
    // "<deployment>-service.ops"
    let deployment = "a".repeat(bytes - "-service.ops".len());
    let bundle = bundle_of(&[&deployment], &VALIDATING.replace("pot", &deployment), &[]);
    let objects = objects(&bundle, Some(CertificateSource::CertManager.into()));
    let spec = &find(&objects, "Certificate")["spec"];
    assert_eq!(spec["dnsNames"][0].as_str().unwrap().len(), bytes);
    assert_eq!(spec.get("commonName").is_some(), kept);
}

// rendering.md 4.11, R5: upstream leaves the author's annotation, so that two sources fight
#[rstest]
#[case::service_ca(Some(CertificateSource::ServiceCa.into()),
    json!({"other": "kept", "service.beta.openshift.io/inject-cabundle": "true"}))]
#[case::self_signed(Some(self_signed("PEM")), json!({"other": "kept"}))]
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
    let more = [("manifests/crd.yaml", stale.as_str()), ("manifests/cups.yaml", &cups)];
    let bundle = bundle_of(&["pot"], CONVERSION, &more);
    let objects = objects(&bundle, provider);
    let annotations = |name| {
        let crd = objects.iter().find(|object| object.name() == name).unwrap();
        crd.0["metadata"]["annotations"].clone()
    };
    assert_eq!(annotations("mugs.example.com"), want);
    assert_eq!(annotations("cups.example.com").as_object().unwrap().len(), 4);
}

// rendering.md 4.11
#[test]
fn the_service_ca_is_asked_on_the_service() {
    let bundle = bundle_of(&["pot"], VALIDATING, &[]);
    let objects = objects(&bundle, Some(CertificateSource::ServiceCa.into()));
    let annotations = |kind| find(&objects, kind)["metadata"]["annotations"].clone();
    let serving = "service.beta.openshift.io/serving-cert-secret-name";
    assert_eq!(annotations("Service"), json!({serving: "pot-service-cert"}));
    assert_eq!(
        annotations("ValidatingWebhookConfiguration"),
        json!({"service.beta.openshift.io/inject-cabundle": "true"})
    );
    assert_eq!(objects.iter().filter(|object| object.kind() == "Secret").count(), 0);
}

// rendering.md 4.11, R15: upstream's order is that of a Go map
#[test]
fn deployments_are_taken_by_name() {
    let webhooks = "[{type: ValidatingAdmissionWebhook, generateName: a, deploymentName: pot}, \
        {type: ValidatingAdmissionWebhook, generateName: b, deploymentName: lid}]";
    let bundle = bundle_of(&["pot", "lid", "spoon"], webhooks, &[]);
    let objects = objects(&bundle, Some(CertificateSource::CertManager.into()));
    let of_cert_manager =
        objects.iter().filter(|object| object.group() == "cert-manager.io").map(Object::name);
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

// rendering.md 4.11, R16: upstream knows no such source
#[test]
fn the_controller_as_source_writes_ca_bundles_and_asks_for_one_certificate_a_deployment() {
    let webhooks = "[{type: ConversionWebhook, generateName: c, deploymentName: pot, \
        conversionCRDs: [mugs.example.com]}, {type: ValidatingAdmissionWebhook, generateName: v, \
        deploymentName: pot}, {type: MutatingAdmissionWebhook, generateName: m, \
        deploymentName: lid}]";
    let bundle = bundle_of(&["pot", "lid"], webhooks, &[]);
    let rendered = render(&bundle, &options(Some(self_signed("PEM")))).unwrap();
    let again = render(&bundle, &options(Some(self_signed("PEM")))).unwrap();
    assert_eq!(rendered, again, "the same CA gives the same objects");
    for (kind, pointer) in [
        ("CustomResourceDefinition", "/spec/conversion/webhook/clientConfig/caBundle"),
        ("ValidatingWebhookConfiguration", "/webhooks/0/clientConfig/caBundle"),
        ("MutatingWebhookConfiguration", "/webhooks/0/clientConfig/caBundle"),
    ] {
        let object = find(&rendered.objects, kind);
        assert_eq!(object.pointer(pointer), Some(&json!("UEVN")), "{kind}");
    }
    let requests = rendered.certificate_requests;
    let secrets: Vec<_> = requests.iter().map(|request| &*request.secret).collect();
    assert_eq!(secrets, ["lid-service-cert", "pot-service-cert"]);
    assert_eq!(
        requests[1].dns_names,
        ["pot-service.ops", "pot-service.ops.svc", "pot-service.ops.svc.cluster.local"]
    );
    let foreign = |object: &&Object| object.kind() == "Secret" || object.group().contains("cert");
    assert_eq!(rendered.objects.iter().find(foreign), None);
}

// rendering.md 4.11, R16: upstream chooses by feature gate
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
    let served = Served { openshift, cert_manager };
    let bundle = bundle_of(&["pot"], VALIDATING, &[]);
    let needs = certificate_needs(&bundle, NS);
    let chosen = choose_certificates(asked, recorded, served, &needs);
    assert_eq!(format!("{chosen:?}"), want);
    assert_eq!(chosen.to_string().parse(), Ok(chosen));
}

// rendering.md 4.11: its own certificates would be waited for before it runs
#[test]
fn the_bundle_of_cert_manager_does_not_wait_for_itself() {
    let served = Served { openshift: false, cert_manager: true };
    let spec = "{customresourcedefinitions: {owned: [{name: certificates.cert-manager.io}]}}";
    let bundle = load(&with(&[("manifests/csv.yaml", &csv(spec))]));
    let needs = certificate_needs(&bundle, NS);
    let chosen = choose_certificates(None, None, served, &needs);
    assert_eq!(chosen, CertificateSource::SelfSigned);
}

// rendering.md 4.7
#[test]
fn certificates_replace_what_is_mounted_in_their_place() {
    let mut pod = json!({
        "volumes": [
            {"name": "cert", "secret": {"secretName": "webhook-server-cert"}},
            {"name": "data"},
            {"name": "webhook-cert", "emptyDir": {}},
        ],
        "initContainers": [{"name": "i", "volumeMounts": [
            {"name": "apiservice-cert"}, {"name": "cert", "mountPath": "/c"}, {"name": "data"}]}],
        "containers": [
            {"name": "main", "volumeMounts": [
                {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
                {"name": "data", "mountPath": "/data"}]},
            {"name": "car"},
        ],
    });
    volume::mount(pod.as_object_mut().unwrap(), "pot-service-cert");
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
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "apiservice-cert"},
                {"name": "webhook-cert", "mountPath": "/c"}, {"name": "data"}]}],
            "containers": [
                {"name": "main", "volumeMounts": [
                    {"name": "data", "mountPath": "/data"}, mounts[0], mounts[1]]},
                {"name": "car", "volumeMounts": mounts},
            ],
        })
    );
}

// rendering.md 4.7
#[rstest]
#[case::nobody(None, &[])]
#[case::somebody(Some(CertificateSource::ServiceCa.into()), &["pot"])]
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
