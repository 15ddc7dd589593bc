//! API services; upstream refuses bundles that own one (rendering.md R21).

use serde_json::json;

use super::webhook::{NS, objects};
use crate::bundle::fixture::{csv, load, with};
use crate::rbac::{BundleObjects, Options, Permission, Powers, required};
use crate::render::*;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A bundle whose deployment `pot` runs as `cook` and serves these APIs.
fn bundle_of(apis: &str) -> Bundle {
    let spec = format!(
        "{{install: {{spec: {{deployments: [{{name: lid}}, {{name: pot, spec: {{selector: \
         {{matchLabels: {{app: pot}}}}, template: {{spec: {{serviceAccountName: cook, containers: \
         [{{name: main}}]}}}}}}}}]}}}}, apiservicedefinitions: {{owned: {apis}}}}}"
    );
    load(&with(&[("manifests/csv.yaml", &csv(&spec))]))
}

/// Two kinds of one API.
const APIS: &str = "[{group: soup.example.com, version: v1, kind: Soup, name: soups, \
    deploymentName: pot, containerPort: 5443}, {group: soup.example.com, version: v1, kind: Broth, \
    name: broths, deploymentName: pot, containerPort: 5443}]";

// api.md 6.3; as OLM Classic did
#[test]
fn users_of_an_api_have_roles_as_those_of_a_crd() {
    let additions = Additions { user_roles: UserRoles::Create, ..Additions::default() };
    let mut roles = Vec::new();
    additions.add(&mut roles, &bundle_of(APIS), ("pot", NS), &ProxyVariables::default());
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
    let objects = objects(&bundle_of(APIS), None);
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
