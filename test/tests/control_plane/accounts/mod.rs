//! Who may name a service account: what `config/policy` admits and refuses, and what the controller
//! refuses whatever was admitted (deploying.md 6).

mod enforced;
mod limits;
mod people;
mod reserved;
mod sets;
pub(crate) mod traffic;

use olm_test::prelude::*;

const INSTALLER: &str = "operator-controller-clusterextension-installer-role";

/// A user with few rights.
pub(crate) struct Person {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
}

impl Person {
    /// Returns a user who has only the rights of `role`, once the policies are in force.
    async fn with_role(name: &str, role: &str) -> Self {
        let person = Self { cluster: cluster::shared().await, name: name.to_owned() };
        person.bind(role, None);
        person
    }

    /// Returns a user who only has the installer role.
    async fn installer(name: &str) -> Self {
        let person = Self::with_role(name, INSTALLER).await;
        person.is_refused("the policies are in force", extension(name, "boss", "boss")).await;
        person
    }

    /// Binds a cluster role to the user, in one namespace or everywhere.
    fn bind(&self, role: &str, namespace: Option<&str>) {
        let kind = namespace.map_or("ClusterRoleBinding", |_| "RoleBinding");
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": format!("{}-{role}", self.name), "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [objects::user(&self.name)],
        }));
    }

    /// Lets the user do `verb` on objects of this name, in one namespace or everywhere.
    pub(crate) fn grant(
        &self,
        verb: &str,
        resource: (&str, &str),
        name: Option<&str>,
        namespace: Option<&str>,
    ) {
        let (group, resource) = resource;
        let role = format!("{}-{verb}-{}", self.name, name.unwrap_or("all"));
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb],
            "resourceNames": name.map(|name| vec![name])}]);
        self.apply(&objects::role(&role, None, &rules));
        self.bind(&role, namespace);
    }

    fn apply(&self, object: &Value) {
        let plane = self.cluster.plane;
        plane.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &object.to_string());
    }

    /// Runs kubectl as the user.
    pub(crate) fn tries(&self, args: &[&str], input: &str) -> Result<String, String> {
        let user = format!("--as={}", self.name);
        let args = [&[user.as_str()], args].concat();
        self.cluster.plane.try_kubectl(&args, input)
    }

    /// Asks, with a dry run, whether the user may create the object.
    pub(crate) fn asks(&self, object: &Value) -> Result<String, String> {
        self.tries(&["create", "--dry-run=server", "-f", "-"], &object.to_string())
    }

    /// Merges `change` into an object, as the user.
    fn merges(&self, kind: &str, name: &str, change: &Value) -> Result<String, String> {
        let change = change.to_string();
        self.tries(&["patch", kind, name, "--type=merge", "-p", &change], "")
    }

    /// Waits until the user may not create the object, for lack of a right on its service account.
    async fn is_refused(&self, what: &str, object: Value) {
        wait::refused(what, SOON, || self.asks(&object), &refusal(&self.name)).await;
    }

    /// Waits until the user may create the object.
    pub(crate) async fn is_admitted(&self, what: &str, object: Value) {
        wait::done(what, SOON, || self.asks(&object)).await;
    }
}

/// The message of a policy for a user who may not use a service account.
fn refusal(user: &str) -> String {
    format!("denied request: user \"{user}\" may not use")
}

pub(crate) fn assert_refused(answer: &Result<String, String>, text: &str) {
    let refused = answer.as_ref().is_err_and(|error| error.contains(text));
    assert!(refused, "wanted {text:?}, got {answer:?}");
}

/// An extension that names a service account.
fn extension(name: &str, namespace: &str, account: &str) -> Value {
    objects::extension(name, namespace, account, "none-such")
}

/// A revision that applies a `ConfigMap` as the service account in its annotations.
fn object_set(name: &str, annotations: &Value) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}});
    let mut set = objects::object_set(name, 1, &map);
    set["metadata"]["annotations"] = annotations.clone();
    set
}

/// The annotations of a revision with its service account.
fn recorded(namespace: &str, account: &str) -> Value {
    json!({"olm.operatorframework.io/service-account-namespace": namespace,
        "olm.operatorframework.io/service-account-name": account})
}

/// An object created as the administrator, and deleted at the end.
struct Made {
    cluster: Cluster,
    kind: &'static str,
    name: String,
}

impl Made {
    fn new(cluster: &Cluster, kind: &'static str, object: &Value) -> Self {
        let plane = cluster.plane;
        plane.create(object);
        let name = object["metadata"]["name"].as_str().expect("it has a name");
        Self { cluster: cluster.clone(), kind, name: name.to_owned() }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let plane = self.cluster.plane;
        // If the test failed, the object is in an unknown state; the failure is reported already.
        let _ = plane.try_kubectl(&["delete", self.kind, &self.name, "--wait=false"], "");
    }
}
