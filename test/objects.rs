//! Objects that many tests make.

use std::time::{Duration, Instant};

use http::Method;
use olm_api::keys::annotation;
use serde_json::{Value, json};

use crate::cluster::ControlPlane;

const OURS: &str = "olm.operatorframework.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The longest time until the API server goes by a binding, and how often it is asked.
const BOUND: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

impl ControlPlane {
    /// Creates an object as the administrator; panics when it is refused.
    pub fn create(&self, object: &Value) {
        self.kubectl_with_input(&["create", "-f", "-"], &object.to_string());
    }

    /// Applies objects, and waits until the API server, which watches roles and bindings like everybody,
    /// goes by the bindings among them.
    pub fn grant(&self, objects: &[Value]) {
        for object in objects {
            self.requests().apply(object);
        }
        let deadline = Instant::now() + BOUND;
        for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
            while !self.goes_by(binding) {
                assert!(Instant::now() < deadline, "without effect: {binding}");
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Makes a namespace with the account `mine`, which may write `ConfigMaps` there, and lets the user of
    /// that name make ClusterObjectSets and use the account.
    pub fn settle(&self, tenant: &str) {
        self.requests()
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant}}));
        self.requests().apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "mine", "namespace": tenant}}));
        let rule = |group: &str, resource: &str, verb: &str| json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb]}]);
        let [writes, has] = [rule("", "configmaps", "*"), rule("", "serviceaccounts", "use")];
        let makes = rule("olm.operatorframework.io", "clusterobjectsets", "create");
        let (user, account) = (user(tenant), account(tenant, "mine"));
        let granted = [
            grant("mine", Some(tenant), &writes, &account),
            grant("user", Some(tenant), &has, &user),
            grant(tenant, None, &makes, &user),
        ];
        self.grant(granted.as_flattened());
    }

    /// Says whether the first subject of a binding may do what the last rule of its role allows.
    fn goes_by(&self, binding: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (role, subject) = (&binding["roleRef"], &binding["subjects"][0]);
        let place = text(&binding["metadata"]["namespace"]);
        let kind = text(&role["kind"]).to_lowercase();
        let role = self.requests().read(&kind, &place, &text(&role["name"]));
        let rules = role.as_ref().and_then(|role| role["rules"].as_array());
        let mut rules = rules.into_iter().flatten();
        let Some(allowed) = rules.rfind(|one| one["resources"].is_array()) else { return true };
        let first = |key: &str| text(&allowed[key][0]);
        let resource = first("resources");
        let (resource, part) = resource.split_once('/').unwrap_or((resource.as_str(), ""));
        let name = text(&subject["name"]);
        let (user, groups) = match subject["kind"].as_str() {
            Some("ServiceAccount") => {
                let namespace = text(&subject["namespace"]);
                (format!("system:serviceaccount:{namespace}:{name}"), json!([]))
            }
            Some("Group") => (String::new(), json!([name])),
            _ => (name, json!([])),
        };
        let asked = json!({"namespace": place, "verb": first("verbs"), "group": first("apiGroups"),
            "resource": resource, "subresource": part, "name": first("resourceNames")});
        self.allows(&user, &groups, &asked)
    }

    /// Says whether the API server lets somebody do something, as a `SubjectAccessReview` asks it.
    pub fn allows(&self, user: &str, groups: &Value, asked: &Value) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": asked}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.requests().send(Method::POST, path, Some(&review));
        let answer = answer.unwrap_or_else(|error| panic!("{asked}: {error}"));
        answer["status"]["allowed"].as_bool().expect("yes or no")
    }
}

/// A ClusterExtension of a package, whatever catalog has it.
pub fn extension(name: &str, namespace: &str, account: &str, package: &str) -> Value {
    json!({"apiVersion": OURS, "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": account},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": package}}}})
}

/// A ClusterCatalog of an image.
pub fn catalog(name: &str, image: &str) -> Value {
    json!({"apiVersion": OURS, "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}}})
}

/// A ClusterObjectSet of one object.
pub fn object_set(name: &str, number: i64, object: &Value) -> Value {
    json!({"apiVersion": OURS, "kind": "ClusterObjectSet", "metadata": {"name": name},
        "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent",
            "phases": [{"name": "one", "objects": [{"object": object}]}]}})
}

/// One of a tenant, who has [settled](ControlPlane::settle), of a `ConfigMap` there.
pub fn set_of_tenant(name: &str, number: i64, tenant: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": tenant}});
    let mut set = object_set(name, number, &map);
    set["metadata"]["annotations"] = json!({
        annotation::SERVICE_ACCOUNT_NAMESPACE: tenant, annotation::SERVICE_ACCOUNT_NAME: "mine"});
    set
}

/// A role of a namespace, or of the cluster.
pub fn role(name: &str, namespace: Option<&str>, rules: &Value) -> Value {
    let mut role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules});
    if let Some(namespace) = namespace {
        role["kind"] = json!("Role");
        role["metadata"]["namespace"] = json!(namespace);
    }
    role
}

/// A role of the cluster that reads objects of the core group.
pub fn reader(name: &str, resource: &str) -> Value {
    role(name, None, &json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]))
}

/// A role, and its binding to somebody, of the same name.
pub fn grant(name: &str, namespace: Option<&str>, rules: &Value, subject: &Value) -> [Value; 2] {
    let role = role(name, namespace, rules);
    let kind = role["kind"].as_str().unwrap_or_default();
    let binding = binding(name, namespace, (kind, name), subject);
    [role, binding]
}

/// A binding of a role, given by kind and name, to somebody.
pub fn binding(
    name: &str,
    namespace: Option<&str>,
    (kind, role): (&str, &str),
    subject: &Value,
) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"),
        "kind": namespace.map_or("ClusterRoleBinding", |_| "RoleBinding"),
        "metadata": {"name": name, "namespace": namespace}, "subjects": [subject],
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}})
}

/// A service account, as bindings name it.
pub fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

/// A user, as bindings name them.
pub fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": RBAC, "name": name})
}
