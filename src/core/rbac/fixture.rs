//! Hand-written objects for the tests of this module.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::object;
use crate::object::Object;

use super::{Permissions, PolicyRule};

/// An object with nothing but its identity.
pub(super) fn plain(api_version: &str, kind: &str, namespace: &str, name: &str) -> Object {
    crate::object::object(api_version, kind, name, namespace)
}

/// A Role, or a `ClusterRole` when the namespace is empty.
pub(super) fn role(namespace: &str, name: &str, rules: Value) -> Object {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    plain("rbac.authorization.k8s.io/v1", kind, namespace, name).with("rules", rules)
}

/// A binding to a role of the given kind; a `ClusterRoleBinding` when the namespace is empty.
pub(super) fn binding(namespace: &str, name: &str, role_kind: &str, role: &str) -> Object {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let mut binding = plain("rbac.authorization.k8s.io/v1", kind, namespace, name);
    let reference =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role});
    binding.0.insert("roleRef".to_owned(), reference);
    binding
}

/// A `CustomResourceDefinition` of `example.com`.
pub(super) fn crd(plural: &str, kind: &str, scope: &str) -> Object {
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": scope, "names": {"kind": kind, "plural": plural}},
    }))
}

/// The bundle of the worked example of applying.md 5.3, in `ns1`.
pub(super) fn small_bundle() -> Vec<Object> {
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
    vec![
        plain("apps/v1", "Deployment", "ns1", "op"),
        plain("v1", "ServiceAccount", "ns1", "op-sa"),
        role("", "op-x", pods),
        binding("", "op-x", "ClusterRole", "op-x"),
        crd("foos", "Foo", "Namespaced"),
    ]
}

/// A role with millions of rights, in a few kilobytes.
pub(super) fn role_of_millions() -> Object {
    let many: Vec<_> = (0..500).map(|at| format!("a{at}")).collect();
    role("", "many", json!([{"verbs": many, "apiGroups": many, "resources": many}]))
}

/// Reads the rules of a role.
pub(super) fn rules(role: &Object) -> Vec<PolicyRule> {
    let rules = role.0["rules"].as_array().unwrap();
    rules.iter().map(PolicyRule::from_value).collect()
}

/// What roles among `objects` grant, whatever they are bound to.
pub(super) fn granted(objects: &[Object]) -> Permissions {
    let mut granted = Permissions::default();
    for role in objects {
        if matches!(role.kind(), "Role" | "ClusterRole") {
            for rule in rules(role) {
                granted.insert_rule(role.namespace(), &rule);
            }
        }
    }
    granted
}

/// Small bundles, with objects in two namespaces.
pub(super) fn any_objects() -> impl Strategy<Value = Vec<Object>> {
    let few = |items: &'static [&'static str]| proptest::sample::subsequence(items, 1..=2);
    let rules = (few(&["", "apps", "*"]), few(&["pods", "secrets", "*"]), few(&["get", "*"]))
        .prop_map(|(groups, resources, verbs)| {
            json!([{"apiGroups": groups, "resources": resources, "verbs": verbs}])
        });
    let namespace = proptest::sample::select(&["ns1", "ns2"][..]);
    let name = proptest::sample::select(&["a", "b", "c"][..]);
    let one =
        (0..6, namespace, name, rules).prop_map(|(kind, namespace, name, rules)| match kind {
            0 => plain("v1", "Secret", namespace, name),
            1 => plain("apps/v1", "Deployment", namespace, name),
            2 => role(namespace, name, rules),
            3 => role("", name, rules),
            4 => binding(namespace, name, "Role", "a"),
            _ => binding("", name, "ClusterRole", "b"),
        });
    proptest::collection::vec(one, 0..8)
}
