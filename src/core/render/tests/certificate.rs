//! Certificates of webhooks; differences from upstream are noted at each case.

use serde_json::json;

use super::webhook::{NS, VALIDATING, at, bundle_of, objects};
use crate::bundle::fixture::{csv, load, with};
use crate::fixture::cases;
use crate::render::*;

const CASES: &str = include_str!("../../testdata/render/cases.yaml");

fn source(name: &str) -> CertificateSource {
    name.parse().unwrap()
}

// rendering.md 4.11, R3: upstream always writes commonName, which cert-manager refuses beyond 64
#[test]
fn a_common_name_has_at_most_64_bytes() {
    for (bytes, kept) in [(64, true), (65, false)] {
        // "<deployment>-service.ops"
        let deployment = "a".repeat(bytes - "-service.ops".len());
        let bundle = bundle_of(&[&deployment], &VALIDATING.replace("pot", &deployment));
        let objects = objects(&bundle, Some(CertificateSource::CertManager.into()));
        let spec = &at(&objects, "Certificate")["spec"];
        assert_eq!(spec["dnsNames"][0].as_str().unwrap().len(), bytes);
        assert_eq!(spec.get("commonName").is_some(), kept);
    }
}

// rendering.md 4.11, R15: upstream's order is that of a Go map
#[test]
fn deployments_are_taken_by_name() {
    let webhooks = "[{type: ValidatingAdmissionWebhook, generateName: a, deploymentName: pot}, \
        {type: ValidatingAdmissionWebhook, generateName: b, deploymentName: lid}]";
    let bundle = bundle_of(&["pot", "lid", "spoon"], webhooks);
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

// rendering.md 4.11, R16: upstream chooses by feature gate
#[test]
fn the_source_is_what_was_asked_then_what_was_then_what_is_there() {
    for (want, asked, recorded, openshift, cert_manager) in
        cases::<(&str, Option<&str>, Option<&str>, bool, bool)>(
            CASES,
            "the_source_is_what_was_asked_then_what_was_then_what_is_there",
        )
    {
        let served = Served { openshift, cert_manager };
        let bundle = bundle_of(&["pot"], VALIDATING);
        let needs = certificate_needs(&bundle, NS);
        let chosen = choose_certificates(asked.map(source), recorded.map(source), served, &needs);
        assert_eq!(chosen, source(want));
        assert_eq!(chosen.to_string(), want);
    }
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
