//! Requests to an API server as its administrator, without a process for each.
//!
//! kubectl takes a tenth of a second of processor time, which tests that poll pay many times.

use std::path::Path;
use std::sync::{LazyLock, mpsc};

use http::{Method, Request, header};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cluster;

/// Where requests run, so that a test waits for an answer in whatever it runs itself.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
});

/// The kinds that Kubernetes brings, and ours: the API, whether its objects are in a namespace, and the
/// plurals, each with the short name that kubectl takes for it.
const KINDS: &[(&str, bool, &str)] = &[
    ("/api/v1", true, "configmaps=cm secrets serviceaccounts=sa services pods"),
    ("/api/v1", false, "namespaces=ns nodes"),
    ("/apis/apps/v1", true, "deployments replicasets=rs"),
    ("/apis/coordination.k8s.io/v1", true, "leases"),
    (RBAC, true, "roles rolebindings"),
    (RBAC, false, "clusterroles clusterrolebindings"),
    (
        "/apis/apiextensions.k8s.io/v1",
        false,
        "customresourcedefinitions=crd customresourcedefinitions=crds",
    ),
    ("/apis/apiregistration.k8s.io/v1", false, "apiservices"),
    (ADMISSION, false, "validatingwebhookconfigurations mutatingwebhookconfigurations"),
    (ADMISSION, false, "validatingadmissionpolicies validatingadmissionpolicybindings"),
    (OURS, false, "clusterextensions clustercatalogs clusterobjectsets"),
];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Forms of answers and bodies.
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
/// Asks for the names of all resources at once.
pub(crate) const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const OURS: &str = "/apis/olm.operatorframework.io/v1";

/// Finds one of [`KINDS`] by its singular, plural or short name, in this API or in any: returns API and
/// plural, and whether its objects are in a namespace.
fn known(name: &str, root: &str) -> Option<(&'static str, &'static str, bool)> {
    let apis = KINDS.iter().filter(|(api, ..)| root.is_empty() || *api == root);
    let mut kinds = apis.flat_map(|(api, namespaced, plurals)| {
        let names = plurals.split(' ').map(|names| names.split_once('=').unwrap_or((names, names)));
        names.map(move |(plural, short)| (*api, plural, short, *namespaced))
    });
    let is = |plural: &str, short: &str| {
        let stem = plural.strip_suffix("ies").map(|stem| format!("{stem}y"));
        let singular = stem.as_deref().or(plural.strip_suffix('s'));
        [Some(plural), Some(short), singular].contains(&Some(name))
    };
    let (api, plural, _, namespaced) = kinds.find(|(_, plural, short, _)| is(plural, short))?;
    Some((api, plural, namespaced))
}

/// A client for one API server.
pub struct Requests {
    client: kube::Client,
}

impl Requests {
    /// Makes a client with the credentials of a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Self {
        let kubeconfig = kubeconfig.to_owned();
        let (send, receive) = mpsc::channel();
        RUNTIME.spawn(async move { send.send(cluster::client_from(&kubeconfig).await) });
        Self { client: receive.recv().expect("a client is made") }
    }

    /// Sends a request and waits for the answer; a body is a merge patch where the method is PATCH.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let content = if method == Method::PATCH { MERGE } else { JSON };
        self.exchange(None, method, path, (JSON, content), body)
    }

    /// The same in forms of its own, that of the answer and that of the body, for somebody else where
    /// `user` is one.
    pub(crate) fn exchange(
        &self,
        user: Option<&str>,
        method: Method,
        path: &str,
        (accept, content): (&str, &str),
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content);
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
        }
        let request = request.body(bytes).expect("a request");
        let client = self.client.clone();
        let (send, receive) = mpsc::channel();
        RUNTIME.spawn(async move { send.send(client.request::<Value>(request).await) });
        receive.recv().expect("it is answered")
    }

    /// Reads an object; `None` when there is none, or no such CRD. Panics when it cannot be read.
    pub fn read(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let path = format!("{}/{name}", self.collection(kind, namespace)?);
        match self.send(Method::GET, &path, None) {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Lists the objects of a kind; `query` begins with `?`, or is empty.
    pub fn list(&self, kind: &str, namespace: &str, query: &str) -> Vec<Value> {
        let path = format!("{}{query}", self.path(kind, namespace));
        let mut list = self.send(Method::GET, &path, None);
        match list.as_mut().map(|list| list["items"].take()) {
            Ok(Value::Array(items)) => items,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Creates an object; panics when it is refused.
    pub fn create(&self, kind: &str, namespace: &str, object: &Value) -> Value {
        let path = self.path(kind, namespace);
        let made = self.send(Method::POST, &path, Some(object));
        made.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Applies an object as kubectl does with `--server-side`; panics when it is refused.
    pub fn apply(&self, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let path = self.path(&kind, text("namespace"));
        let path = format!("{path}/{}?fieldManager=kubectl&force=true", text("name"));
        let made = self.exchange(None, Method::PATCH, &path, (JSON, APPLY), Some(object));
        made.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Merges a change into an object; panics when it is refused.
    pub fn merge(&self, kind: &str, namespace: &str, name: &str, change: &Value) {
        let path = format!("{}/{name}", self.path(kind, namespace));
        let made = self.send(Method::PATCH, &path, Some(change));
        made.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Returns a token of a service account.
    pub fn token(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let day = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": 86400}});
        let made = self.send(Method::POST, &path, Some(&day));
        let made = made.unwrap_or_else(|error| panic!("{path}: {error}"));
        made["status"]["token"].as_str().expect("a token").to_owned()
    }

    fn path(&self, kind: &str, namespace: &str) -> String {
        self.collection(kind, namespace).unwrap_or_else(|| panic!("there is no CRD {kind}"))
    }

    /// Returns the path of the objects of a kind that is named as in a manifest; `None` where it is not
    /// served.
    pub(crate) fn serving(&self, api: &str, kind: &str, namespace: &str) -> Option<String> {
        let root = if api.contains('/') { "/apis" } else { "/api" };
        let root = format!("{root}/{api}");
        let name = kind.to_lowercase();
        let (plural, namespaced) = if let Some((_, plural, namespaced)) = known(&name, &root) {
            (plural.to_owned(), namespaced)
        } else {
            let all = self.send(Method::GET, &root, None).ok()?;
            let found = all["resources"].as_array()?.iter().find(|one| {
                let name = one["name"].as_str().unwrap_or_default();
                one["kind"] == kind && !name.contains('/')
            })?;
            (found["name"].as_str()?.to_owned(), found["namespaced"] == true)
        };
        let namespace = if namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        Some(format!("{root}/{namespace}{plural}"))
    }

    /// Returns the path of the objects of a kind: one of [`KINDS`], or `plural.group` of a CRD.
    pub(crate) fn collection(&self, kind: &str, namespace: &str) -> Option<String> {
        let (api, plural, namespaced) = match (known(kind, ""), kind.split_once('.')) {
            (Some((api, plural, namespaced)), _) => (api.to_owned(), plural, namespaced),
            (None, Some((plural, group))) => {
                let (api, namespaced) = self.served(kind, group)?;
                (api, plural, namespaced)
            }
            (None, None) => return self.discovered(kind, namespace),
        };
        let namespace = if namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        Some(format!("{api}/{namespace}{plural}"))
    }

    /// Looks for a kind by its plural or singular name, as kubectl does; `None` where it is not served.
    fn discovered(&self, kind: &str, namespace: &str) -> Option<String> {
        let all = self
            .exchange(None, Method::GET, "/apis", (DISCOVERY, JSON), None)
            .expect("discovery answers");
        for group in all["items"].as_array()? {
            let name = group["metadata"]["name"].as_str()?;
            let version = &group["versions"][0];
            let api = format!("/apis/{name}/{}", version["version"].as_str()?);
            for resource in version["resources"].as_array().into_iter().flatten() {
                if [&resource["resource"], &resource["singularResource"]].contains(&&json!(kind)) {
                    let plural = resource["resource"].as_str()?;
                    return Some(if resource["scope"] == "Namespaced" {
                        format!("{api}/namespaces/{namespace}/{plural}")
                    } else {
                        format!("{api}/{plural}")
                    });
                }
            }
        }
        None
    }

    /// Asks in which version a CRD serves its objects, and whether they are in a namespace.
    fn served(&self, crd: &str, group: &str) -> Option<(String, bool)> {
        let crd = self.read("crd", "", crd)?;
        let versions = crd["spec"]["versions"].as_array().expect("versions");
        let version = versions.iter().find(|version| version["served"] == true);
        let version = version.and_then(|version| version["name"].as_str()).expect("one is served");
        Some((format!("/apis/{group}/{version}"), crd["spec"]["scope"] == "Namespaced"))
    }
}
