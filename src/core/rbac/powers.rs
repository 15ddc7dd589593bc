//! What the pods of an operator can do, whichever way it comes: rules of roles, roles that are not part
//! of the bundle, accounts that are not, and the host.

use std::collections::BTreeSet;

use serde_json::Value;

use super::permission::{IMPERSONATE, Permission, Permissions};
use super::report::lines;
use super::rule::{PolicyRule, RBAC};
use crate::object::{Object, items};

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
            let Permission::Resource { group, resource, verb, .. } = right else { continue };
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
    /// What the roles give, bound or not.
    rights: Permissions,
    /// The roles that the bundle binds to its own accounts, and where.
    bound: Permissions,
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

    /// Returns what goes beyond `before`, one line each: new rules, and those that are bound where they
    /// were not.
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        let mut missing = self.rights.missing(&before.rights);
        missing.extend(&self.bound.missing(&before.bound));
        let mut added = lines(&missing.reduced());
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
        add_rules(&mut self.rights, role.namespace(), role);
        // Whose rules Kubernetes collects is known to the cluster alone.
        for selector in role.list_at("/aggregationRule/clusterRoleSelectors") {
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
        let ours = find(objects, (kind, role_place, role));
        let within = match place {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        for subject in binding.list_at("/subjects") {
            let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            let (whose, name) = (text("kind"), text("name"));
            // It is empty where the namespace of the bundle is not known yet.
            let namespace = subject.get("namespace").and_then(Value::as_str).unwrap_or(place);
            let is_own =
                whose == "ServiceAccount" && find(objects, (whose, namespace, name)).is_some();
            if let Some(ours) = ours
                && is_own
            {
                add_rules(&mut self.bound, place, ours);
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
            && find(objects, ("ServiceAccount", namespace, account)).is_none()
        {
            self.others.insert(format!("{whose} run as service account {account}"));
        }
        for (key, what) in HOST {
            if spec.get(key) == Some(&Value::Bool(true)) {
                self.others.insert(format!("{whose} {what}"));
            }
        }
        for volume in items(&spec["volumes"]) {
            if let Some(path) = volume.pointer("/hostPath/path").and_then(Value::as_str) {
                self.others.insert(format!("{whose} mount {path} of the host"));
            }
        }
        for container in items(&spec["initContainers"]).chain(items(&spec["containers"])) {
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

/// Adds what the rules of a role give in a namespace, or cluster-wide when it is empty.
fn add_rules(rights: &mut Permissions, namespace: &str, role: &Object) {
    for rule in role.list_at("/rules") {
        rights.insert_rule(namespace, &PolicyRule::from_value(rule));
    }
}

/// Returns the object of this kind, namespace and name among `objects`. Those of a bundle that was not
/// rendered name no namespace yet.
fn find<'a>(
    objects: &[&'a Object],
    (kind, namespace, name): (&str, &str, &str),
) -> Option<&'a Object> {
    let mut objects = objects.iter().copied();
    objects.find(|object| {
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
        own.iter().chain(all).cloned().map(|value| Object::from_value(value).unwrap()).collect()
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
    #[case::everything("", "*", "*", &["*"], &[], &["everything"])]
    #[case::secrets("", "", "secrets", &["list"], &[], &["reads every Secret"])]
    #[case::secrets_among_others("", "*", "secrets", &["list"], &[], &["reads every Secret"])]
    #[case::writes_secrets("", "", "secrets", &["create"], &[], &[])]
    #[case::one_secret("", "*", "secrets", &["get"], &["a"], &[])]
    #[case::of_a_namespace("ns", "", "secrets", &["list", "get"], &[], &[])]
    #[case::roles("", "*", "clusterroles", &["patch"], &[], &["changes any ClusterRole"])]
    #[case::leads_to_more("", RBAC, "clusterroles", &["bind", "get", "escalate"], &[],
        &["bind", "escalate"])]
    #[case::verbs("", "*", "roles", &["escalate", "impersonate"], &["a"],
        &["escalate", "impersonate"])]
    fn powerful_rights_are_named(
        #[case] namespace: &str,
        #[case] group: &str,
        #[case] resource: &str,
        #[case] verbs: &[&str],
        #[case] names: &[&str],
        #[case] want: &[&str],
    ) {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs,
            "resourceNames": names});
        let mut rights = Permissions::default();
        rights.insert_rule(namespace, &PolicyRule::from_value(&rule));
        assert_eq!(rights.strong().into_iter().collect::<Vec<_>>(), want);
    }

    #[rstest]
    #[case::unbound(None)]
    #[case::bound_in_a_namespace(Some("ns"))]
    fn a_role_that_is_newly_bound_in_the_cluster_is_more(#[case] place: Option<&str>) {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "wide"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]});
        let account = json!({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"});
        let everywhere = binding("ClusterRole", "wide", &account);
        let narrow = place.map(|namespace| {
            let mut binding = everywhere.clone();
            binding["kind"] = json!("RoleBinding");
            binding["metadata"]["namespace"] = json!(namespace);
            binding
        });
        let before: Vec<_> = [role.clone()].into_iter().chain(narrow).collect();
        let before = Powers::of(objects(&before).iter());
        let after = Powers::of(objects(&[role, everywhere]).iter());
        let list = "Namespace:\"\" APIGroups:[] Resources:[secrets] Verbs:[list]";
        assert_eq!(after.beyond(&before), [list]);
        assert_eq!(before.beyond(&after), [""; 0]);
        assert_eq!(after.beyond(&after), [""; 0]);
    }

    #[test]
    fn what_the_bundle_gives_its_own_account_is_counted_by_its_rules() {
        let nothing = Powers::default();
        let powers = Powers::of(objects(&[pods(&json!({"serviceAccountName": "sa"}))]).iter());
        let pods = "Namespace:\"\" APIGroups:[] Resources:[pods] Verbs:[get]";
        assert_eq!(powers.beyond(&nothing), [pods]);
    }
}
