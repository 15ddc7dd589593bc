//! Accounts and rights: of the operator, of its servers, and of those who use its kinds.

use olm_core::render::{hash, unique};
use serde_json::{Value, json};

use crate::objects;

use super::objects::{Making, merged, owner, text};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Fields of a rule, as Go writes them.
const RULE: [&str; 5] = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];

/// Makes the accounts and rights that the install strategy asks for.
pub(super) fn permissions(making: &Making<'_>) {
    let mut accounts: Vec<&str> = Vec::new();
    for scope in ["permissions", "clusterPermissions"] {
        let list = making.csv["spec"]["install"]["spec"][scope].as_array();
        for permission in list.into_iter().flatten() {
            let account = text(&permission["serviceAccountName"]);
            if !accounts.contains(&account) {
                accounts.push(account);
                let metadata = making.owned(account, &json!({}));
                making.make(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": metadata}));
            }
            if scope == "clusterPermissions" {
                cluster(making, permission);
                continue;
            }
            namespaced(making, permission, &making.namespace, &making.csv);
            if making.targets == [""] {
                lifted(making, permission);
            }
        }
    }
}

/// Copies the namespaced rights into a namespace that the operator watches, owned by the copy of its
/// `ClusterServiceVersion`.
pub(super) fn in_a_target(making: &Making<'_>, copy: &Value) {
    let list = making.csv["spec"]["install"]["spec"]["permissions"].as_array();
    for permission in list.into_iter().flatten() {
        namespaced(making, permission, text(&copy["metadata"]["namespace"]), copy);
    }
}

fn namespaced(making: &Making<'_>, permission: &Value, namespace: &str, csv: &Value) {
    let name = role_name(making, permission);
    let mut labels = making.owner_labels(namespace);
    if namespace != making.namespace {
        labels["olm.copiedFrom"] = json!(making.namespace);
    }
    let metadata = json!({"name": name, "namespace": namespace,
        "ownerReferences": [owner(csv, false)]});
    grant(making, ["Role", "RoleBinding"], &metadata, &labels, permission);
}

/// Makes the rights that an operator of all namespaces has besides its namespaced ones.
fn lifted(making: &Making<'_>, permission: &Value) {
    let mut permission = permission.clone();
    let metadata = json!({"name": role_name(making, &permission)});
    let read = json!({"verbs": ["get", "list", "watch"], "apiGroups": [""],
        "resources": ["namespaces"]});
    permission["rules"].as_array_mut().expect("rules").push(read);
    let labels = making.owner_labels(&making.namespace);
    grant(making, ["ClusterRole", "ClusterRoleBinding"], &metadata, &labels, &permission);
}

fn cluster(making: &Making<'_>, permission: &Value) {
    let csv = making.csv_name();
    let namespace = &making.namespace;
    let permitted = permitted(permission);
    let hashed =
        format!("{{\"name\":\"{csv}\",\"namespace\":\"{namespace}\",\"permission\":{permitted}}}");
    let metadata = json!({"name": unique(csv, &hash(&hashed))});
    let labels = making.owner_labels(namespace);
    grant(making, ["ClusterRole", "ClusterRoleBinding"], &metadata, &labels, permission);
}

fn role_name(making: &Making<'_>, permission: &Value) -> String {
    let csv = making.csv_name();
    let base = format!("{csv}-{}", text(&permission["serviceAccountName"]));
    let permitted = permitted(permission);
    unique(&base, &hash(&format!("{{\"name\":\"{csv}\",\"permission\":{permitted}}}")))
}

fn permitted(permission: &Value) -> String {
    let rules = permission["rules"].as_array().expect("rules").iter().map(|rule| {
        let given = RULE.iter().filter(|key| !rule[**key].is_null());
        let given: Vec<_> = given.map(|key| format!("\"{key}\":{}", rule[*key])).collect();
        format!("{{{}}}", given.join(","))
    });
    let rules: Vec<_> = rules.collect();
    let account = &permission["serviceAccountName"];
    format!("{{\"serviceAccountName\":{account},\"rules\":[{}]}}", rules.join(","))
}

/// Makes a role and its binding to the account of a permission.
fn grant(
    making: &Making<'_>,
    kinds: [&str; 2],
    metadata: &Value,
    labels: &Value,
    permission: &Value,
) {
    let name = &metadata["name"];
    let subjects =
        json!([objects::account(&making.namespace, text(&permission["serviceAccountName"]))]);
    let reference = json!({"apiGroup": RBAC, "kind": kinds[0], "name": name});
    for (kind, content) in [
        (kinds[0], json!({"rules": permission["rules"]})),
        (kinds[1], json!({"roleRef": reference, "subjects": subjects})),
    ] {
        let hashed = json!({"olm.permissions.hash": hash(&content.to_string())});
        let mut object = merged(
            &json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata}),
            &content,
        );
        object["metadata"]["labels"] = making.labels(&merged(labels, &hashed));
        making.make(&object);
    }
}

/// Makes a role of a namespace and its binding to an account, with this metadata.
fn role(making: &Making<'_>, metadata: &Value, rules: &Value, account: &str) {
    let subjects = json!([objects::account(&making.namespace, account)]);
    let reference = json!({"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]});
    let api = format!("{RBAC}/v1");
    making.make(&json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules}));
    making.make(&json!({"apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": reference, "subjects": subjects}));
}

/// Makes what lets the pods of a server read its certificate and ask about callers. The last binding
/// names no owner.
pub(super) fn of_a_server(making: &Making<'_>, service: &str, account: &str) {
    let certificate = format!("{service}-cert");
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": [certificate]}]);
    role(making, &making.owned(&certificate, &json!({})), &rules, account);
    let subjects = json!([objects::account(&making.namespace, account)]);
    let api = format!("{RBAC}/v1");
    making.make(&json!({"apiVersion": api, "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{service}-system:auth-delegator"),
            "labels": making.labels(&making.owner_labels(&making.namespace))},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": subjects}));
    making.make(&json!({"apiVersion": api, "kind": "RoleBinding",
        "metadata": {"name": format!("{service}-auth-reader"), "namespace": "kube-system",
            "labels": {"olm.managed": "true"}},
        "roleRef": {"apiGroup": RBAC, "kind": "Role",
            "name": "extension-apiserver-authentication-reader"},
        "subjects": subjects}));
}

/// Makes what lets the operator write its `OperatorCondition`.
pub(super) fn of_a_condition(making: &Making<'_>, condition: &Value, account: &str) {
    let name = making.csv_name();
    let metadata = json!({"name": name, "namespace": making.namespace,
        "labels": {"olm.managed": "true"}, "ownerReferences": [owner(condition, true)]});
    let rules = json!([{"verbs": ["get", "update", "patch"], "apiGroups": ["operators.coreos.com"],
        "resources": ["operatorconditions"], "resourceNames": [name]}]);
    role(making, &metadata, &rules, account);
}

/// Makes the roles for users: of each CRD, which owns them, and of the `OperatorGroup`.
pub(super) fn of_users(making: &Making<'_>, group: &Value) {
    let api = format!("{RBAC}/v1");
    let owned = making.csv["spec"]["customresourcedefinitions"]["owned"].as_array();
    for owned in owned.into_iter().flatten() {
        let name = text(&owned["name"]);
        let Some((plural, kind_group)) = name.split_once('.') else { continue };
        let crd = making.plane.requests().read("crd", "", name).expect("the CRD");
        let key = format!("{}{kind_group}{}", text(&owned["kind"]), text(&owned["version"]));
        for (level, verbs) in [
            ("admin", json!(["*"])),
            ("edit", json!(["create", "update", "patch", "delete"])),
            ("view", json!(["get", "list", "watch"])),
        ] {
            let aggregated =
                format!("olm.opgroup.permissions/aggregate-to-{}-{level}", &hash(&key)[..16]);
            let labels = json!({format!("{RBAC}/aggregate-to-{level}"): "true",
                aggregated.clone(): "true", "olm.managed": "true"});
            making.make(&json!({"apiVersion": api, "kind": "ClusterRole",
                "metadata": {"name": format!("{name}-{}-{level}", text(&owned["version"])),
                    "labels": labels, "ownerReferences": [owner(&crd, false)]},
                "rules": [{"verbs": verbs, "apiGroups": [kind_group], "resources": [plural]}]}));
            let metadata = &group["metadata"];
            let (name, namespace) = (text(&metadata["name"]), text(&metadata["namespace"]));
            let end = hash(&format!("{namespace}/{name}/{level}"));
            making.make(&json!({"apiVersion": api, "kind": "ClusterRole",
                "metadata": {"name": format!("olm.og.{name}.{level}-{end}"),
                    "labels": {"olm.managed": "true", "olm.owner": name,
                        "olm.owner.namespace": namespace, "olm.owner.kind": "OperatorGroup"}},
                "aggregationRule": {"clusterRoleSelectors":
                    [{"matchLabels": {aggregated: "true"}}]}}));
        }
    }
}
