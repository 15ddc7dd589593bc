//! What the pods of an operator can do, whichever way it comes: rules of roles, roles that are not part
//! of the bundle, accounts that are not, and the host.

use std::collections::BTreeSet;

use serde_json::Value;

use super::permission::{IMPERSONATE, Permission, Permissions};
use super::report::lines;
use super::rule::{PolicyRule, RBAC};
use crate::object::Object;

/// Where the specs of pods are in the objects that make them.
const POD_SPECS: [&str; 2] = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
const HOST: [(&str, &str); 3] = [
    ("hostNetwork", "use the network of the host"),
    ("hostPID", "see the processes of the host"),
    ("hostIPC", "use the IPC namespace of the host"),
];

impl Permissions {
    /// Returns the most powerful rights of the set, in words.
    pub fn strong(&self) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        for (_, right) in self.iter() {
            let Permission::Resource { group, resource, verb, .. } = right else {
                continue;
            };
            found.insert(match verb.as_str() {
                "*" if [group, resource].iter().all(|part| *part == "*") => "everything",
                "bind" => "bind",
                "escalate" => "escalate",
                IMPERSONATE => IMPERSONATE,
                _ => continue,
            });
        }
        if found.contains("everything") {
            return found;
        }
        let may = |verb: &str, group: &str, resource: &str| {
            self.covers("", &Permission::on(verb, group, resource, None))
        };
        if may("get", "", "secrets") || may("list", "", "secrets") {
            found.insert("reads every Secret");
        }
        if ["delete", "patch", "update"].iter().any(|verb| may(verb, RBAC, "clusterroles")) {
            found.insert("changes any ClusterRole");
        }
        found
    }
}

/// What the objects of a bundle let its pods do.
#[derive(Debug, Clone, Default)]
pub struct Powers {
    rights: Permissions,
    others: BTreeSet<String>,
}

impl Powers {
    /// Returns what these objects give.
    pub fn of<'a>(objects: impl Iterator<Item = &'a Object>) -> Self {
        let objects: Vec<&Object> = objects.collect();
        let mut powers = Self::default();
        for object in &objects {
            match object.kind() {
                "Role" | "ClusterRole" => powers.add_role(object),
                "RoleBinding" | "ClusterRoleBinding" => powers.add_binding(object, &objects),
                _ => powers.add_pods(object, &objects),
            }
        }
        powers
    }

    /// Returns what goes beyond `before`, one line each.
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        let mut added = lines(&self.rights.missing(&before.rights));
        added.extend(self.others.difference(&before.others).cloned());
        added
    }

    /// Returns what the rules of roles give.
    pub fn into_rights(self) -> Permissions {
        self.rights
    }

    /// Returns what comes by another way than the rules of roles, one sentence each.
    pub fn others(&self) -> &BTreeSet<String> {
        &self.others
    }

    fn add_role(&mut self, role: &Object) {
        let given = role.0.get("rules").and_then(Value::as_array);
        for rule in given.into_iter().flatten() {
            self.rights.insert_rule(role.namespace(), &PolicyRule::from_value(rule));
        }
        // Whose rules Kubernetes collects is known to the cluster alone.
        let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
        for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
            let name = role.name();
            self.others
                .insert(format!("ClusterRole {name} collects the rules of roles with {selector}"));
        }
    }

    fn add_binding(&mut self, binding: &Object, objects: &[&Object]) {
        let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str);
        let (kind, role) = (text("/roleRef/kind"), text("/roleRef/name"));
        let (kind, role) = (kind.unwrap_or_default(), role.unwrap_or_default());
        let place = binding.namespace();
        let role_place = if kind == "Role" { place } else { "" };
        let is_ours = has(objects, (kind, role_place, role));
        let within = match place {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        let subjects = binding.0.get("subjects").and_then(Value::as_array);
        for subject in subjects.into_iter().flatten() {
            let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            let (whose, name) = (text("kind"), text("name"));
            // It is empty where the namespace of the bundle is not known yet.
            let namespace = subject.get("namespace").and_then(Value::as_str).unwrap_or(place);
            let is_own = whose == "ServiceAccount" && has(objects, (whose, namespace, name));
            if is_ours && is_own {
                continue;
            }
            let whom = match whose {
                "ServiceAccount" if namespace.is_empty() => format!("service account {name}"),
                "ServiceAccount" => format!("service account {namespace}/{name}"),
                _ => format!("{} {name}", whose.to_lowercase()),
            };
            self.others.insert(format!("{whom} is bound to {kind} {role}{within}"));
        }
    }

    fn add_pods(&mut self, object: &Object, objects: &[&Object]) {
        let own = if object.kind() == "Pod" { object.pointer("/spec") } else { None };
        let templates = POD_SPECS.iter().filter_map(|pointer| object.pointer(pointer));
        let whose = format!("pods of {} {}", object.kind(), object.name());
        for spec in own.into_iter().chain(templates) {
            self.add_pod(&whose, object.namespace(), spec, objects);
        }
    }

    fn add_pod(&mut self, whose: &str, namespace: &str, spec: &Value, objects: &[&Object]) {
        let account = ["serviceAccountName", "serviceAccount"];
        let account = account.iter().find_map(|key| spec.get(key)?.as_str());
        if let Some(account) = account
            && !has(objects, ("ServiceAccount", namespace, account))
        {
            self.others.insert(format!("{whose} run as service account {account}"));
        }
        for (key, what) in HOST {
            if spec.get(key) == Some(&Value::Bool(true)) {
                self.others.insert(format!("{whose} {what}"));
            }
        }
        for volume in list(spec, "volumes") {
            if let Some(path) = volume.pointer("/hostPath/path").and_then(Value::as_str) {
                self.others.insert(format!("{whose} mount {path} of the host"));
            }
        }
        for container in list(spec, "initContainers").chain(list(spec, "containers")) {
            if container.pointer("/securityContext/privileged") == Some(&Value::Bool(true)) {
                self.others.insert(format!("{whose} are privileged"));
            }
            let added = container.pointer("/securityContext/capabilities/add");
            for capability in added.and_then(Value::as_array).into_iter().flatten() {
                let capability = capability.as_str().unwrap_or_default();
                self.others.insert(format!("{whose} have capability {capability}"));
            }
        }
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Says whether an object of this kind, namespace and name is among `objects`. Those of a bundle that
/// was not rendered name no namespace yet.
fn has(objects: &[&Object], (kind, namespace, name): (&str, &str, &str)) -> bool {
    objects.iter().any(|object| {
        let here = [namespace, ""].contains(&object.namespace());
        object.kind() == kind && here && object.name() == name
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::rule::RBAC;
    use super::*;

    fn objects(all: &[Value]) -> Vec<Object> {
        let own = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "sa", "namespace": "ns"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "own"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            binding(
                "ClusterRole",
                "own",
                &json!({"kind": "ServiceAccount", "name": "sa",
                "namespace": "ns"}),
            ),
        ];
        let all = own.iter().chain(all).cloned();
        all.map(|value| Object::from_value(value).unwrap()).collect()
    }

    fn binding(kind: &str, role: &str, subject: &Value) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "b"}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
    }

    fn pods(spec: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "ns"}, "spec": {"template": {"spec": spec}}})
    }

    #[rstest]
    #[case::everything("", &["*"], &["*"], &["*"], &["everything"])]
    #[case::secrets("", &[""], &["secrets"], &["list"], &["reads every Secret"])]
    #[case::secrets_of_a_namespace("ns", &[""], &["secrets"], &["list"], &[])]
    #[case::writes_secrets("", &[""], &["secrets"], &["create"], &[])]
    #[case::leads_to_more("", &[RBAC], &["clusterroles"], &["bind", "get", "escalate"],
        &["bind", "escalate"])]
    fn strong_rights_have_words(
        #[case] namespace: &str,
        #[case] groups: &[&str],
        #[case] resources: &[&str],
        #[case] verbs: &[&str],
        #[case] want: &[&str],
    ) {
        let rule = json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let mut rights = Permissions::default();
        rights.insert_rule(namespace, &PolicyRule::from_value(&rule));
        assert_eq!(rights.strong().into_iter().collect::<Vec<_>>(), want);
    }

    #[rstest]
    #[case::admin(
        binding("ClusterRole", "cluster-admin",
            &json!({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"})),
        "service account ns/sa is bound to ClusterRole cluster-admin"
    )]
    #[case::everybody(
        binding("ClusterRole", "own", &json!({"kind": "Group", "name": "system:authenticated"})),
        "group system:authenticated is bound to ClusterRole own"
    )]
    #[case::account(
        pods(&json!({"serviceAccountName": "robot"})),
        "pods of Deployment d run as service account robot"
    )]
    #[case::privileged(
        pods(&json!({"containers": [{"securityContext": {"privileged": true}}]})),
        "pods of Deployment d are privileged"
    )]
    #[case::capability(
        pods(&json!({"initContainers": [
            {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]})),
        "pods of Deployment d have capability SYS_ADMIN"
    )]
    #[case::path(
        pods(&json!({"volumes": [{"hostPath": {"path": "/etc"}}]})),
        "pods of Deployment d mount /etc of the host"
    )]
    #[case::network(
        pods(&json!({"hostNetwork": true})),
        "pods of Deployment d use the network of the host"
    )]
    #[case::aggregated(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [
                {"matchLabels": {"a": "b"}}]}}),
        r#"ClusterRole all collects the rules of roles with {"matchLabels":{"a":"b"}}"#
    )]
    fn what_comes_by_another_way_than_rules_is_named(#[case] added: Value, #[case] want: &str) {
        let before = Powers::of(objects(&[]).iter());
        let after = Powers::of(objects(&[added]).iter());
        assert_eq!(after.beyond(&before), [want]);
        assert_eq!(before.beyond(&after), [""; 0]);
    }

    #[rstest]
    #[case::everything(("", json!(["*"]), json!(["*"]), json!([])), &["everything"])]
    #[case::secrets(("", json!(["secrets"]), json!(["list"]), json!([])), &["reads every Secret"])]
    #[case::one_secret(("", json!(["secrets"]), json!(["get"]), json!(["a"])), &[])]
    #[case::of_a_namespace(("ns", json!(["secrets"]), json!(["get"]), json!([])), &[])]
    #[case::roles(("", json!(["clusterroles"]), json!(["patch"]), json!([])), &["changes any ClusterRole"])]
    #[case::verbs(("", json!(["roles"]), json!(["escalate", "impersonate"]), json!(["a"])), &["escalate", "impersonate"])]
    fn powerful_rights_are_named(
        #[case] (namespace, resources, verbs, names): (&str, Value, Value, Value),
        #[case] want: &[&str],
    ) {
        let rule = json!({"apiGroups": ["*"], "resources": resources, "verbs": verbs,
            "resourceNames": names});
        let mut rights = Permissions::default();
        rights.insert_rule(namespace, &PolicyRule::from_value(&rule));
        assert_eq!(rights.strong().into_iter().collect::<Vec<_>>(), want);
    }

    #[test]
    fn what_the_bundle_gives_its_own_account_is_counted_by_its_rules() {
        let nothing = Powers::default();
        let powers = Powers::of(objects(&[pods(&json!({"serviceAccountName": "sa"}))]).iter());
        let pods = "Namespace:\"\" APIGroups:[] Resources:[pods] Verbs:[get]";
        assert_eq!(powers.beyond(&nothing), [pods]);
    }
}
