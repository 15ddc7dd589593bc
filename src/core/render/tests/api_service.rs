//! API services; upstream refuses bundles that own one (rendering.md R21).

use rstest::rstest;
use serde_json::{Value, json};

use super::webhook::{NS, VALIDATING, find, objects, options};
use crate::bundle::fixture::{csv, load, with};
use crate::rbac::{BundleObjects, Options, Permission, Powers, required};
use crate::render::*;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A bundle whose deployment `pot` runs as `cook` and serves webhooks and these APIs.
fn bundle_of(webhooks: &str, apis: &str) -> Bundle {
    let spec = format!(
        "{{install: {{spec: {{deployments: [{{name: lid}}, {{name: pot, spec: {{selector: \
         {{matchLabels: {{app: pot}}}}, template: {{spec: {{serviceAccountName: cook, containers: \
         [{{name: main}}]}}}}}}}}]}}}}, webhookdefinitions: {webhooks}, \
         apiservicedefinitions: {{owned: {apis}}}}}"
    );
    load(&with(&[("manifests/csv.yaml", &csv(&spec))]))
}

/// Two kinds of one API.
const APIS: &str = "[{group: soup.example.com, version: v1, kind: Soup, name: soups, \
    deploymentName: pot, containerPort: 5443}, {group: soup.example.com, version: v1, kind: Broth, \
    name: broths, deploymentName: pot, containerPort: 5443}]";

fn self_signed() -> CertificateProvider {
    CertificateProvider { source: CertificateSource::SelfSigned, ca_bundle: "PEM".to_owned() }
}

// rendering.md 4.13, 4.10, R21
#[test]
fn an_api_becomes_its_service_and_the_rights_of_its_server() {
    let bundle = bundle_of("[]", APIS);
    let rendered = render(&bundle, &options(Some(self_signed()))).unwrap();
    let objects = rendered.objects;
    assert_eq!(
        find(&objects, "APIService"),
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.soup.example.com"},
            "spec": {"group": "soup.example.com", "version": "v1",
                "groupPriorityMinimum": 2000, "versionPriority": 15, "caBundle": "UEVN",
                "service": {"namespace": NS, "name": "pot-service", "port": 5443}}})
    );
    assert_eq!(
        find(&objects, "Service")["spec"],
        json!({"selector": {"app": "pot"},
            "ports": [{"name": "5443", "port": 5443, "targetPort": 5443}]})
    );
    let cook = json!([{"kind": "ServiceAccount", "namespace": NS, "name": "cook"}]);
    assert_eq!(
        find(&objects, "ClusterRoleBinding"),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "pot-service-system:auth-delegator"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": cook})
    );
    assert_eq!(
        find(&objects, "RoleBinding"),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "pot-service-auth-reader", "namespace": "kube-system"},
            "roleRef": {"apiGroup": RBAC, "kind": "Role",
                "name": "extension-apiserver-authentication-reader"},
            "subjects": cook})
    );
    let secrets: Vec<_> =
        rendered.certificate_requests.iter().map(|request| &*request.secret).collect();
    assert_eq!(secrets, ["pot-service-cert"]);
    let mounting: Vec<_> = objects
        .iter()
        .filter(|object| object.pointer("/spec/template/spec/volumes").is_some())
        .map(Object::name)
        .collect();
    assert_eq!(mounting, ["pot"]);
}

// rendering.md 4.11
#[rstest]
#[case::nobody(None, Value::Null)]
#[case::cert_manager(Some(CertificateSource::CertManager.into()),
    json!({"cert-manager.io/inject-ca-from": "ops/pot-service-cert"}))]
#[case::service_ca(Some(CertificateSource::ServiceCa.into()),
    json!({"service.beta.openshift.io/inject-cabundle": "true"}))]
fn others_write_the_ca(#[case] provider: Option<CertificateProvider>, #[case] want: Value) {
    let api = find(&objects(&bundle_of("[]", APIS), provider), "APIService");
    assert_eq!(api["metadata"]["annotations"], want);
    assert_eq!(api["spec"].get("caBundle"), None);
}

// rendering.md 4.10, R18: what one deployment serves has one Service
#[test]
fn webhooks_and_apis_share_a_service() {
    let service = find(&objects(&bundle_of(VALIDATING, APIS), None), "Service");
    let ports: Vec<_> = service["spec"]["ports"].as_array().unwrap().iter().collect();
    assert_eq!(ports.len(), 2, "{ports:?}");
    let clash = VALIDATING
        .replace("deploymentName: pot", "deploymentName: pot, containerPort: 5443, targetPort: 1");
    let error = render(&bundle_of(&clash, APIS), &options(None)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "webhooks or API services of deployment 'pot' use port 5443 with different target ports"
    );
}

// rendering.md R1
#[test]
fn port_0_of_an_api_is_the_default_port() {
    let apis = APIS.replace("containerPort: 5443", "containerPort: 0");
    let api = find(&objects(&bundle_of("[]", &apis), None), "APIService");
    assert_eq!(api.pointer("/spec/service/port"), Some(&json!(443)));
}

// rendering.md 4.12, 4.13: kinds of one API have one server
#[test]
fn one_api_cannot_lead_to_two_places() {
    let apis = APIS.replacen("deploymentName: pot", "deploymentName: lid", 1);
    assert_eq!(
        render(&bundle_of("[]", &apis), &options(None)).unwrap_err().to_string(),
        "bundle contains two different objects of kind APIService named \"v1.soup.example.com\""
    );
}

// api.md 6.3; as OLM Classic did
#[test]
fn users_of_an_api_have_roles_as_those_of_a_crd() {
    let additions = Additions { user_roles: UserRoles::Create, ..Additions::default() };
    let mut roles = Vec::new();
    additions.add(&mut roles, &bundle_of("[]", APIS), ("pot", NS), &ProxyVariables::default());
    let rule = |resource: &str| {
        json!({"apiGroups": ["soup.example.com"], "resources": [resource],
            "verbs": ["get", "list", "watch"]})
    };
    assert_eq!(roles.len(), 3);
    assert_eq!(roles[0].pointer("/rules"), Some(&json!([rule("broths"), rule("soups")])));
}

// rendering.md 4.13, applying.md 5.1
#[test]
fn the_rights_of_the_server_are_counted() {
    let objects = objects(&bundle_of("[]", APIS), None);
    let bundle = BundleObjects { name: "pot.v1", objects: &objects };
    let needed = required(&[bundle], NS, &Options::default()).unwrap().needed;
    let reader = "extension-apiserver-authentication-reader";
    for (namespace, verb, group, resource, name) in [
        ("", "create", "apiregistration.k8s.io", "apiservices", None),
        ("", "delete", "apiregistration.k8s.io", "apiservices", Some("v1.soup.example.com")),
        ("", "bind", RBAC, "clusterroles", Some("system:auth-delegator")),
        ("kube-system", "create", RBAC, "rolebindings", None),
        ("kube-system", "bind", RBAC, "roles", Some(reader)),
    ] {
        let right = Permission::on(verb, group, resource, name);
        assert!(needed.covers(namespace, &right), "{namespace} {right:?}");
    }
    let powers = Powers::of(objects.iter());
    let others = powers.others();
    let bound: Vec<_> = others.iter().filter(|it| it.contains("is bound")).collect();
    assert_eq!(
        bound,
        [
            "service account ops/cook is bound to ClusterRole system:auth-delegator",
            "service account ops/cook is bound to Role extension-apiserver-authentication-reader in \
             namespace kube-system",
        ]
    );
}
