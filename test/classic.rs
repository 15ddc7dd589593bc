//! Operators as OLM Classic leaves them on a cluster: every object that its own code makes for one,
//! with names, labels, owners and finalizers, and the part that it takes in the deletion of a
//! `ClusterServiceVersion`.
//!
//! Source: operator-lifecycle-manager v0.46, `pkg/controller`. Hashes are SHA-224 over the same texts,
//! but in base 36.

mod access;
mod objects;
mod subscription;

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::cluster::ControlPlane;
use crate::package::{self, Bundle};
use crate::paths;
use crate::scene::Scene;

pub use objects::FINALIZER;

/// The API group of Classic.
pub const GROUP: &str = "operators.coreos.com";
/// The namespace of its catalogs.
pub const CATALOGS: &str = "olm";
const POLL: Duration = Duration::from_millis(50);

/// Kinds of Classic whose CRDs are made here, with plural and version.
const KINDS: [(&str, &str, &str); 5] = [
    ("CatalogSource", "catalogsources", "v1alpha1"),
    ("Subscription", "subscriptions", "v1alpha1"),
    ("InstallPlan", "installplans", "v1alpha1"),
    ("ClusterServiceVersion", "clusterserviceversions", "v1alpha1"),
    ("OperatorGroup", "operatorgroups", "v1"),
];

/// An operator that Classic is to have installed.
pub struct Operator<'a> {
    /// Its package, its catalog and the namespace that it runs in.
    pub scene: &'a Scene,
    /// The installed bundle.
    pub bundle: &'a Bundle,
    /// Namespaces that its `OperatorGroup` targets; without any, all of them.
    pub targets: &'a [&'a str],
    /// The operator wrote its `OperatorCondition`.
    pub conditions: bool,
    /// Variables in the Subscription.
    pub variables: &'a [(&'a str, &'a str)],
    /// The cluster proxies, for operators whose Subscription sets none.
    pub proxies: &'a [(&'a str, &'a str)],
    /// Upgrades are approved by a person, and one to this version waits for that.
    pub waiting: Option<&'a str>,
}

impl<'a> Operator<'a> {
    /// An operator with nothing besides.
    pub fn new(scene: &'a Scene, bundle: &'a Bundle, targets: &'a [&'a str]) -> Self {
        let (variables, proxies) = (&[], &[]);
        Self { scene, bundle, targets, conditions: false, variables, proxies, waiting: None }
    }
}

/// Puts the CRDs of Classic on a cluster, and the namespace of its catalogs.
pub fn prepare(plane: &ControlPlane) {
    let requests = plane.requests();
    for (kind, _, version) in KINDS {
        requests.apply(&definition(kind, version));
    }
    let file = "config/components/operator-conditions/operators.coreos.com_operatorconditions.yaml";
    apply_file(plane, &paths::repository().join(file));
    established(plane);
}

/// The same with Classic's own CRDs, each in a file of this folder.
pub fn prepare_with(plane: &ControlPlane, crds: &Path) {
    for file in paths::inside(crds) {
        apply_file(plane, &file);
    }
    established(plane);
}

fn apply_file(plane: &ControlPlane, file: &Path) {
    let text = std::fs::read_to_string(file).expect("a CRD");
    let crds = olm_core::yaml::to_json(&text).expect("YAML");
    for crd in &crds {
        plane.requests().apply(crd);
    }
}

/// Makes the namespace of catalogs, and waits until the kinds are served.
fn established(plane: &ControlPlane) {
    let requests = plane.requests();
    let name = json!({"name": CATALOGS});
    requests.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": name}));
    let plurals = KINDS.map(|(_, plural, _)| plural);
    for plural in plurals.into_iter().chain(["operatorconditions"]) {
        plane.established(&format!("{plural}.{GROUP}"));
    }
}

fn definition(kind: &str, version: &str) -> Value {
    let mut crd = package::definition(kind, GROUP);
    crd["spec"]["names"]["categories"] = json!(["olm"]);
    crd["spec"]["versions"][0]["name"] = json!(version);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd
}

/// Creates an object with its status, and returns it; panics when it is refused.
pub fn create(plane: &ControlPlane, object: &Value) -> Value {
    let path = collection(object);
    let made = plane.requests().send(Method::POST, &path, Some(object));
    let made = made.unwrap_or_else(|error| panic!("{path}: {error}\n{object:#}"));
    let status = &object["status"];
    if status.is_null() {
        return made;
    }
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{path}/{name}/status");
    let status = json!({"status": status});
    let written = plane.requests().send(Method::PATCH, &path, Some(&status));
    written.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the path of the objects of a kind.
fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api, kind) = (text(&object["apiVersion"]), text(&object["kind"]).to_lowercase());
    let root = if api.contains('/') { "apis" } else { "api" };
    let namespace = text(&object["metadata"]["namespace"]);
    let place =
        if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    format!("/{root}/{api}/{place}{kind}s")
}

/// Lists what Classic keeps of its own: objects of its kinds, those in the namespaces of catalogs and
/// `OperatorCondition`s excepted, as `kind namespace/name`.
pub fn left(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let mut left = Vec::new();
    for (kind, plural, version) in KINDS.iter().filter(|(kind, ..)| *kind != "CatalogSource") {
        let path = format!("/apis/{GROUP}/{version}/{plural}");
        let list = plane.requests().send(Method::GET, &path, None).expect("a list");
        for item in list["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let of = &metadata["labels"]["olm.copiedFrom"];
            if metadata["namespace"] == namespace || *of == namespace {
                left.push(format!("{kind} {}/{}", metadata["namespace"], metadata["name"]));
            }
        }
    }
    left
}

/// The part of Classic that acts when a `ClusterServiceVersion` is deleted; it ends when this is
/// dropped.
pub struct CleanUp(tokio::task::JoinHandle<()>);

impl Drop for CleanUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CleanUp {
    /// Begins: what carries the owner labels of a `ClusterServiceVersion` that is being deleted is
    /// deleted, then its finalizer is removed; copies go with it. An `APIService` whose labels name one
    /// that is gone is deleted, and the label of an `OperatorGroup` that is gone is removed. One that
    /// becomes a copy is gone for Classic, and its conversions end as those of any that is.
    pub fn start(plane: &'static ControlPlane) -> Self {
        Self(tokio::spawn(async move {
            let mut seen = Vec::new();
            loop {
                let cleaned = tokio::task::spawn_blocking(move || clean_up(plane, seen));
                seen = cleaned.await.expect("it is asked");
                tokio::time::sleep(POLL).await;
            }
        }))
    }
}

/// Returns what a `ClusterServiceVersion` is copied from, null unless it is a copy.
fn copied_from(csv: &Value) -> &Value {
    &csv["metadata"]["labels"]["olm.copiedFrom"]
}

/// Says whether a `ClusterServiceVersion` is a copy of one that is gone.
fn dangles(csv: &Value, originals: &[Value]) -> bool {
    let from = copied_from(csv);
    let is = |it: &Value| {
        it["metadata"]["namespace"] == *from && it["metadata"]["name"] == csv["metadata"]["name"]
    };
    !from.is_null() && !originals.iter().any(is)
}

/// Ends the conversions that a `ClusterServiceVersion` names which Classic takes for deleted.
fn end_conversions(plane: &ControlPlane, csv: &Value) {
    let webhooks = csv["spec"]["webhookdefinitions"].as_array().into_iter().flatten();
    let crds = webhooks.filter_map(|it| it["conversionCRDs"].as_array()).flatten();
    for crd in crds.filter_map(Value::as_str) {
        let change = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
        let _ = plane.requests().send(Method::PATCH, &path, Some(&change));
    }
}

/// Deletes an `APIService` if its labels still name a `ClusterServiceVersion` that is gone.
fn clean_up_service(plane: &ControlPlane, name: &str, csvs: &[Value]) {
    let Some(found) = plane.requests().read("apiservice", "", name) else { return };
    let labels = &found["metadata"]["labels"];
    let is = |csv: &Value| {
        csv["metadata"]["name"] == labels["olm.owner"]
            && csv["metadata"]["namespace"] == labels["olm.owner.namespace"]
    };
    if labels["olm.owner.kind"] == "ClusterServiceVersion" && !csvs.iter().any(is) {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let _ = plane.requests().send(Method::DELETE, &path, None);
    }
}

/// Removes the labels of groups that are gone from namespaces.
fn clean_up_labels(plane: &ControlPlane) {
    const LABEL: &str = "olm.operatorgroup.uid/";
    let get = |path: &str| {
        let list = plane.requests().send(Method::GET, path, None).ok()?;
        list["items"].as_array().cloned()
    };
    // The namespaces first: a group is there before its label.
    let Some(namespaces) = get("/api/v1/namespaces") else { return };
    let Some(groups) = get(&format!("/apis/{GROUP}/v1/operatorgroups")) else { return };
    for namespace in namespaces {
        let labels = namespace["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        let gone = labels.keys().filter(|label| {
            let uid = label.strip_prefix(LABEL);
            uid.is_some_and(|uid| groups.iter().all(|group| group["metadata"]["uid"] != uid))
        });
        let gone: Map<String, Value> = gone.map(|label| (label.clone(), Value::Null)).collect();
        if gone.is_empty() {
            continue;
        }
        let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
        let change = json!({"metadata": {"labels": gone}});
        let path = format!("/api/v1/namespaces/{name}");
        let _ = plane.requests().send(Method::PATCH, &path, Some(&change));
    }
}

/// Cleans up once; `seen` are the originals that were there before. Returns those that are there now.
fn clean_up(plane: &ControlPlane, seen: Vec<Value>) -> Vec<Value> {
    let requests = plane.requests();
    let services = "/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=olm.owner";
    let services = requests.send(Method::GET, services, None).unwrap_or_default();
    let all = format!("/apis/{GROUP}/v1alpha1/clusterserviceversions");
    // The control plane may be ending.
    let Ok(list) = requests.send(Method::GET, &all, None) else { return seen };
    let csvs = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let originals: Vec<_> = csvs.iter().filter(|it| copied_from(it).is_null()).cloned().collect();
    let same = |one: &Value, other: &Value| one["metadata"]["uid"] == other["metadata"]["uid"];
    for gone in seen.iter().filter(|csv| !originals.iter().any(|it| same(it, csv))) {
        end_conversions(plane, csvs.iter().find(|it| same(it, gone)).unwrap_or(gone));
    }
    for service in services["items"].as_array().into_iter().flatten() {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        clean_up_service(plane, name, &originals);
    }
    clean_up_labels(plane);
    for csv in csvs {
        let metadata = &csv["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let (name, namespace) = (text("name"), text("namespace"));
        let path = format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/clusterserviceversions");
        let path = format!("{path}/{name}");
        if dangles(csv, &originals) {
            let _ = requests.send(Method::DELETE, &path, None);
        }
        let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        if metadata["deletionTimestamp"].is_null() || !finalizers.contains(&json!(FINALIZER)) {
            continue;
        }
        let selector = format!(
            "?labelSelector=olm.owner%3D{name}%2Colm.owner.namespace%3D{namespace}%2C\
             olm.owner.kind%3DClusterServiceVersion"
        );
        for (api, plural) in [
            ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
            ("rbac.authorization.k8s.io/v1", "clusterroles"),
            ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
            ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
        ] {
            let labelled = format!("/apis/{api}/{plural}{selector}");
            let _ = requests.send(Method::DELETE, &labelled, None);
        }
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        let change = json!({"metadata": {"finalizers": finalizers}});
        let _ = requests.send(Method::PATCH, &path, Some(&change));
    }
    originals
}
