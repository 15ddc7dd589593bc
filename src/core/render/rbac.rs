//! Service accounts, roles and their bindings.
//!
//! Source: rendering.md 4.3 and 4.4.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{RenderOptions, RolePlacement, name, object};
use crate::bundle::{Csv, Permission, PolicyRule};
use crate::object::Object;
use crate::rbac::role_kind;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Returns the service accounts that get permissions, sorted by name; `default` exists already.
pub(super) fn service_accounts(csv: &Csv, namespace: &str) -> Vec<Object> {
    let permissions = csv.permissions.iter().chain(&csv.cluster_permissions);
    let names: BTreeSet<&str> = permissions.map(Permission::service_account).collect();
    names
        .into_iter()
        .filter(|name| *name != "default")
        .map(|name| object("v1", "ServiceAccount", name, namespace))
        .collect()
}

/// Returns the namespaced rights: nothing when every namespace is watched.
pub(super) fn roles(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    if watches_all(options) {
        return Vec::new();
    }
    let install = &options.install_namespace;
    let mut namespaces: Vec<&String> = options.targets.iter().collect();
    match options.role_placement {
        RolePlacement::TargetsAndInstall if !namespaces.contains(&install) => {
            namespaces.push(install);
        }
        RolePlacement::TargetsAndInstall | RolePlacement::TargetsOnly => {}
    }
    let pairs = namespaces.into_iter().flat_map(|namespace| {
        csv.permissions.iter().map(move |permission| (namespace, permission))
    });
    pairs.flat_map(|(namespace, permission)| grant(csv, permission, namespace, install)).collect()
}

/// Returns the cluster-wide rights; the namespaced ones are among them when every namespace is
/// watched, and then also let the operator list namespaces.
pub(super) fn cluster_roles(csv: &Csv, options: &RenderOptions) -> Vec<Object> {
    let promoted = csv.permissions.iter().filter(|_| watches_all(options));
    let promoted = promoted.map(|permission| Permission {
        service_account_name: permission.service_account_name.clone(),
        rules: Some(
            permission.rules.iter().flatten().cloned().chain([read_namespaces()]).collect(),
        ),
    });
    let permissions = csv.cluster_permissions.iter().cloned().chain(promoted);
    permissions
        .flat_map(|permission| grant(csv, &permission, "", &options.install_namespace))
        .collect()
}

fn watches_all(options: &RenderOptions) -> bool {
    matches!(options.targets.as_slice(), [all] if all.is_empty())
}

fn read_namespaces() -> PolicyRule {
    PolicyRule {
        verbs: Some(["get", "list", "watch"].map(str::to_owned).to_vec()),
        api_groups: vec![String::new()],
        resources: vec!["namespaces".to_owned()],
        ..PolicyRule::default()
    }
}

/// Makes a role and its binding, cluster-wide when the namespace is empty.
fn grant(csv: &Csv, permission: &Permission, namespace: &str, install: &str) -> [Object; 2] {
    let name = name::role_name(&csv.name, permission);
    let mut role = object(RBAC_VERSION, role_kind(namespace), &name, namespace);
    if let Some(rules) = &permission.rules {
        role = role.with("rules", rules.iter().map(rule).collect::<Value>());
    }
    let account = [permission.service_account()];
    [role, binding((namespace, &name), &name, install, account)]
}

/// Binds accounts of the namespace `place` to a role, cluster-wide when the namespace of the binding is
/// empty.
pub(super) fn binding<'a>(
    (namespace, name): (&str, &str),
    role: &str,
    place: &str,
    accounts: impl IntoIterator<Item = &'a str>,
) -> Object {
    let kind = role_kind(namespace);
    let subject = |name| json!({ "kind": "ServiceAccount", "namespace": place, "name": name });
    object(RBAC_VERSION, &format!("{kind}Binding"), name, namespace)
        .with("roleRef", json!({ "apiGroup": RBAC_GROUP, "kind": kind, "name": role }))
        .with("subjects", accounts.into_iter().map(subject).collect::<Value>())
}

fn rule(rule: &PolicyRule) -> Value {
    let mut rule = json!(rule);
    if let Value::Object(lists) = &mut rule {
        lists.retain(|_, list| !list.is_null());
    }
    rule
}
