//! What the pods of an operator can do, whichever way it comes: rules of roles, roles that are not part
//! of the bundle, accounts that are not, and the host.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::permission::{IMPERSONATE, Permission, Permissions};
use super::report::lines;
use super::required::role_reference;
use super::rule::{MAX_RIGHTS, PolicyRule, RBAC, is_rbac};
use crate::object::{Object, items};

/// The type of Secrets in which Kubernetes writes a token, and the annotation that says of which account.
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";
const TOKEN_OF: &str = "kubernetes.io/service-account.name";
/// The prefix of labels that add a role to one of Kubernetes' roles for users.
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// The account that Kubernetes makes in each namespace.
const DEFAULT_ACCOUNT: &str = "default";
/// Where the specs of pods are in the objects that make them.
const POD_SPECS: [&str; 2] = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
const HOST: [(&str, &str); 3] = [
    ("hostNetwork", "use the network of the host"),
    ("hostPID", "see the processes of the host"),
    ("hostIPC", "use the IPC namespace of the host"),
];

/// What makes containers processes of a Windows host, of a pod and of a container.
const HOST_PROCESS: &str = "/securityContext/windowsOptions/hostProcess";

impl Permissions {
    /// Returns the most powerful rights of the set, in words.
    pub fn strong(&self) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        for (_, right) in self.iter() {
            let Permission::Resource { group, resource, verb, .. } = right else { continue };
            let is = |groups: &[&str], resources: &[&str]| {
                groups.contains(&group.as_str()) && resources.contains(&resource.as_str())
            };
            match verb.as_str() {
                "*" if is(&["*"], &["*"]) => found.extend(["everything"]),
                // What they are about: on other resources they mean nothing.
                "*" => {
                    if is(&["*", RBAC], &["*", "clusterroles", "roles"]) {
                        found.extend(["bind", "escalate"]);
                    }
                    if is(&["*", ""], &["*", "groups", "serviceaccounts", "users"]) {
                        found.insert(IMPERSONATE);
                    }
                }
                "bind" => found.extend(["bind"]),
                "escalate" => found.extend(["escalate"]),
                IMPERSONATE => found.extend([IMPERSONATE]),
                _ => {}
            }
        }
        if found.contains("everything") {
            return found;
        }
        let may = |verb: &str, group: &str, resource: &str| {
            self.covers("", &Permission::on(verb, group, resource, None))
        };
        if ["get", "list", "watch"].iter().any(|verb| may(verb, "", "secrets")) {
            found.insert("reads every Secret");
        }
        if may("create", "", "serviceaccounts/token") {
            found.insert("makes tokens of any account");
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
    /// What these roles give accounts, users and groups that are not its own, by whom they name, and
    /// everyone who has a role that they are aggregated to. Their names are not compared: that of a role that
    /// was rendered changes with its rules.
    given: BTreeMap<String, Permissions>,
    /// One sentence for each of these bindings.
    givings: BTreeSet<String>,
    others: BTreeSet<String>,
    /// How many rights were added, or would have been.
    counted: usize,
}

impl Powers {
    /// Returns what these objects give.
    pub fn of<'a>(objects: impl Iterator<Item = &'a Object>) -> Self {
        let objects: Vec<&Object> = objects.collect();
        let mut powers = Self::default();
        for object in &objects {
            match object.kind() {
                "Role" | "ClusterRole" if is_rbac(object.group()) => powers.add_role(object),
                "RoleBinding" | "ClusterRoleBinding" if is_rbac(object.group()) => {
                    powers.add_binding(object, &objects);
                }
                "Secret" if object.group().is_empty() => powers.add_token(object, &objects),
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
        let nothing = Permissions::default();
        for (whom, given) in &self.given {
            let missing = given.missing(before.given.get(whom).unwrap_or(&nothing));
            added.extend(lines(&missing.reduced()).iter().map(|line| format!("{whom}: {line}")));
        }
        added.extend(self.others.difference(&before.others).cloned());
        added.extend(self.uncounted());
        added
    }

    /// Returns what the rules of roles give.
    pub fn into_rights(self) -> Permissions {
        self.rights
    }

    /// Returns what comes by another way than the rules of roles, one sentence each.
    pub fn others(&self) -> BTreeSet<String> {
        self.others.union(&self.givings).cloned().chain(self.uncounted()).collect()
    }

    /// Returns what is said of more rights than are compared.
    fn uncounted(&self) -> Option<String> {
        (self.counted > MAX_RIGHTS).then(|| format!("roles give more than {MAX_RIGHTS} rights"))
    }

    /// Returns the rules of a role; none once there are more rights than are compared.
    fn rules(&mut self, role: &Object) -> Vec<PolicyRule> {
        let rules: Vec<_> = role.list_at("/rules").map(PolicyRule::from_value).collect();
        let counts = rules.iter().map(PolicyRule::count);
        self.counted = counts.fold(self.counted, usize::saturating_add);
        if self.counted > MAX_RIGHTS { Vec::new() } else { rules }
    }

    fn add_role(&mut self, role: &Object) {
        let rules = self.rules(role);
        self.rights.insert_rules(role.namespace(), rules);
        // Of a Role they mean nothing.
        let labels = role.pointer("/metadata/labels").filter(|_| role.kind() == "ClusterRole");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        for (label, _) in labels.filter(|(_, value)| *value == "true") {
            let Some(level) = label.strip_prefix(AGGREGATE_TO) else { continue };
            let whom = format!("anyone bound to ClusterRole {level}");
            let rules = self.rules(role);
            self.given.entry(whom).or_default().insert_rules("", rules);
        }
        // Whose rules Kubernetes collects is known to the cluster alone.
        for selector in role.list_at("/aggregationRule/clusterRoleSelectors") {
            let name = role.name();
            self.others
                .insert(format!("ClusterRole {name} collects the rules of roles with {selector}"));
        }
    }

    fn add_binding(&mut self, binding: &Object, objects: &[&Object]) {
        let (kind, role) = role_reference(binding);
        let place = binding.namespace();
        let role_place = if kind == "Role" { place } else { "" };
        // The rules of one that aggregates are known to the cluster alone.
        let ours = find(objects, is_rbac, (kind, role_place, role));
        let ours = ours.filter(|role| role.pointer("/aggregationRule").is_none());
        let within = match place {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        for subject in binding.list_at("/subjects") {
            let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            let (whose, name) = (text("kind"), text("name"));
            // It is empty where the namespace of the bundle is not known yet.
            let namespace = subject.get("namespace").and_then(Value::as_str).unwrap_or(place);
            let is_own = whose == "ServiceAccount" && is_own_account(objects, namespace, name);
            if let Some(ours) = ours
                && is_own
            {
                let rules = self.rules(ours);
                self.bound.insert_rules(place, rules);
                continue;
            }
            let whom = match whose {
                "ServiceAccount" if namespace.is_empty() => format!("service account {name}"),
                "ServiceAccount" => format!("service account {namespace}/{name}"),
                _ => format!("{} {name}", whose.to_lowercase()),
            };
            let sentence = format!("{whom} is bound to {kind} {role}{within}");
            if let Some(ours) = ours {
                let rules = self.rules(ours);
                self.given.entry(whom).or_default().insert_rules(place, rules);
                self.givings.insert(sentence);
            } else {
                self.others.insert(sentence);
            }
        }
    }

    /// Adds the account of which Kubernetes writes a token into a Secret: pods that mount that act as it.
    fn add_token(&mut self, secret: &Object, objects: &[&Object]) {
        let account = secret.annotation(TOKEN_OF).unwrap_or_default();
        if secret.text_at("/type") == TOKEN_SECRET
            && !is_own_account(objects, secret.namespace(), account)
        {
            let name = secret.name();
            self.others.insert(format!("Secret {name} holds a token of service account {account}"));
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
        // The second is the old name of the field, which the API server still reads.
        let accounts = ["serviceAccountName", "serviceAccount"].into_iter();
        let mut accounts = accounts.filter_map(|key| spec.get(key)?.as_str());
        let account = accounts.find(|account| !account.is_empty());
        if let Some(account) = account
            && !is_own_account(objects, namespace, account)
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
        let containers = || items(&spec["initContainers"]).chain(items(&spec["containers"]));
        let is_on_host = |it: &Value| it.pointer(HOST_PROCESS) == Some(&Value::Bool(true));
        if is_on_host(spec) || containers().any(is_on_host) {
            self.others.insert(format!("{whose} run as processes of a Windows host"));
        }
        for container in containers() {
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

/// Says whether a service account is one of a bundle: among its objects, or the account `default`
/// beside its Deployments, which Kubernetes makes.
fn is_own_account(objects: &[&Object], namespace: &str, name: &str) -> bool {
    let beside = |object: &&Object| {
        object.group() == "apps" && object.kind() == "Deployment" && is_in(object, namespace)
    };
    find(objects, str::is_empty, ("ServiceAccount", namespace, name)).is_some()
        || name == DEFAULT_ACCOUNT && objects.iter().any(beside)
}

/// Says whether an object is in a namespace. Those of a bundle that was not rendered name none yet.
fn is_in(object: &Object, namespace: &str) -> bool {
    [namespace, ""].contains(&object.namespace())
}

/// Returns the object of such a group and of this kind, namespace and name among `objects`.
fn find<'a>(
    objects: &[&'a Object],
    is_of_group: fn(&str) -> bool,
    (kind, namespace, name): (&str, &str, &str),
) -> Option<&'a Object> {
    let mut objects = objects.iter().copied();
    objects.find(|object| {
        let is_named = object.kind() == kind && object.name() == name;
        is_named && is_of_group(object.group()) && is_in(object, namespace)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::role_of_millions;
    use super::*;
    use crate::fixture::{cases, object};

    const CASES: &str = include_str!("../testdata/rbac/cases.yaml");

    fn objects(all: &[Value]) -> Vec<Object> {
        let own = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "sa", "namespace": "ns"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "own"},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            binding("ClusterRole", "own", &own_account()),
        ];
        own.iter().chain(all).cloned().map(object).collect()
    }

    fn own_account() -> Value {
        json!({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"})
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

    // A bundle must not fill the memory, nor hide an increase behind more than can be compared.
    #[test]
    fn more_rights_than_can_be_compared_are_named_each_time() {
        let powers = Powers::of([role_of_millions()].iter());
        assert_eq!(powers.beyond(&powers), ["roles give more than 100000 rights"]);
        assert!(powers.others().contains("roles give more than 100000 rights"));
    }

    #[test]
    fn what_comes_by_another_way_than_rules_is_named() {
        let rows = "what_comes_by_another_way_than_rules_is_named";
        for (added, want) in cases::<(Value, &str)>(CASES, rows) {
            let before = Powers::of(objects(&[]).iter());
            let after = Powers::of(objects(&[added]).iter());
            assert_eq!(after.beyond(&before), [want]);
            assert_eq!(before.beyond(&after), [""; 0]);
        }
    }

    #[test]
    fn powerful_rights_are_named() {
        for (namespace, group, resource, verbs, names, want) in
            cases::<(&str, &str, &str, Vec<&str>, Vec<&str>, Vec<&str>)>(
                CASES,
                "powerful_rights_are_named",
            )
        {
            let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs,
                "resourceNames": names});
            let mut rights = Permissions::default();
            rights.insert_rule(namespace, &PolicyRule::from_value(&rule));
            assert_eq!(rights.strong().into_iter().collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn a_role_that_is_newly_bound_in_the_cluster_is_more() {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "wide"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]});
        let everywhere = binding("ClusterRole", "wide", &own_account());
        let mut narrow = everywhere.clone();
        narrow["kind"] = json!("RoleBinding");
        narrow["metadata"]["namespace"] = json!("ns");
        for before in [vec![role.clone()], vec![role.clone(), narrow]] {
            let before = Powers::of(objects(&before).iter());
            let after = Powers::of(objects(&[role.clone(), everywhere.clone()]).iter());
            let list = "Namespace:\"\" APIGroups:[] Resources:[secrets] Verbs:[list]";
            assert_eq!(after.beyond(&before), [list]);
            assert_eq!(before.beyond(&after), [""; 0]);
            assert_eq!(after.beyond(&after), [""; 0]);
        }
    }

    #[test]
    fn what_is_newly_aggregated_to_a_role_for_users_is_more() {
        let role = |label: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "wide", "labels": {(AGGREGATE_TO.to_owned() + "view"): label}},
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]})
        };
        let powers = |label: &str| Powers::of(objects(&[role(label)]).iter());
        let line = "anyone bound to ClusterRole view: Namespace:\"\" APIGroups:[] \
                    Resources:[secrets] Verbs:[list]";
        assert_eq!(powers("true").beyond(&powers("false")), [line]);
        assert_eq!(powers("true").beyond(&powers("true")), [""; 0]);
    }

    #[test]
    fn a_token_of_an_own_account_gives_nothing() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "t", "namespace": "ns", "annotations": {TOKEN_OF: "sa"}},
            "type": TOKEN_SECRET});
        assert_eq!(Powers::of(objects(&[secret]).iter()).others(), BTreeSet::new());
    }

    #[test]
    fn what_the_bundle_gives_its_own_account_is_counted_by_its_rules() {
        let nothing = Powers::default();
        let powers = Powers::of(objects(&[pods(&json!({"serviceAccountName": "sa"}))]).iter());
        let pods = "Namespace:\"\" APIGroups:[] Resources:[pods] Verbs:[get]";
        assert_eq!(powers.beyond(&nothing), [pods]);
    }

    fn role(name: &str, verbs: &[&str]) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": verbs}]})
    }

    // The name of a role that is rendered ends with a hash of its rules.
    #[test]
    fn the_name_of_a_role_is_not_compared() {
        let default = json!({"kind": "ServiceAccount", "name": "default", "namespace": "ns"});
        let list = "Namespace:\"\" APIGroups:[] Resources:[nodes] Verbs:[list]";
        let of_others = format!("group ops: {list}");
        for (subject, want) in [
            (default, vec![list]),
            (json!({"kind": "Group", "name": "ops"}), vec![list, of_others.as_str()]),
        ] {
            let of = |name: &str, verbs: &[&str]| {
                let binding = binding("ClusterRole", name, &subject);
                Powers::of(objects(&[pods(&json!({})), role(name, verbs), binding]).iter())
            };
            let (more, fewer) = (of("pot-1", &["get", "list"]), of("pot-2", &["get"]));
            assert_eq!(fewer.beyond(&more), [""; 0]);
            assert_eq!(more.beyond(&fewer), want);
        }
    }

    #[test]
    fn the_account_default_beside_the_deployments_is_of_the_bundle() {
        let account = json!({"kind": "ServiceAccount", "name": "default", "namespace": "ns"});
        let bound = binding("ClusterRole", "own", &account);
        let powers = |all: &[Value]| Powers::of(objects(all).iter()).others();
        let deployment = pods(&json!({"serviceAccountName": "default"}));
        assert_eq!(powers(&[bound.clone(), deployment]), [].into());
        let elsewhere = "service account ns/default is bound to ClusterRole own".to_owned();
        assert_eq!(powers(&[bound]), [elsewhere].into());
    }

    #[test]
    fn a_kind_of_another_group_is_another_kind() {
        let robot = pods(&json!({"serviceAccountName": "robot"}));
        let wide = binding("ClusterRole", "wide", &own_account());
        for (kind, name, namespace, object, want) in [
            (
                "ServiceAccount",
                "robot",
                "ns",
                robot,
                "pods of Deployment d run as service account robot",
            ),
            ("ClusterRole", "wide", "", wide, "service account ns/sa is bound to ClusterRole wide"),
        ] {
            let other = json!({"apiVersion": "example.com/v1", "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
                "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]});
            let powers = Powers::of(objects(&[other, object]).iter());
            assert_eq!(powers.beyond(&Powers::of(objects(&[]).iter())), [want]);
        }
    }
}
