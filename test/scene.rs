//! The setup of one test: a package in the registry, a served catalog, a namespace, and a service
//! account made by `kubectl olm rbac`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Method;
use kube::api::{Api, Patch, PatchParams, PostParams};
use olm_api::ClusterCatalog;
use serde_json::{Value, json};

use crate::catalog::current;
use crate::cluster::{self, Cluster, ControlPlane, SYSTEM_NAMESPACE};
use crate::extension::{COLLECTED, Extension, ROLLOUT};
use crate::package::{Bundle, Entry, Files, Package, chain};
use crate::{images, objects, paths, wait};

/// The service account that every scene installs with.
pub const ACCOUNT: &str = "installer";
/// Other tests have the same controller unpack what never ends.
const SERVED: Duration = Duration::from_mins(3);

/// A package, a catalog and a namespace of one test.
pub struct Scene {
    /// The control plane of the test.
    pub cluster: Cluster,
    /// The package of the test.
    pub package: Package,
    /// The namespace it is installed into, and the name of its catalog and its extension.
    pub name: String,
    published: u32,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Pushes `bundles`, serves a catalog with `entries`, and makes the namespace and a service
    /// account with the rights that all `bundles` need.
    pub async fn set(
        cluster: Cluster,
        suffix: &str,
        bundles: &[Bundle],
        entries: &[Entry],
    ) -> Self {
        Self::set_with(cluster, suffix, bundles, entries, &[]).await
    }

    /// The same, with additional properties in the catalog for each version.
    pub async fn set_with(
        cluster: Cluster,
        suffix: &str,
        bundles: &[Bundle],
        entries: &[Entry],
        properties: &[(&str, Value)],
    ) -> Self {
        let mut scene = Self::empty(cluster, suffix);
        scene.publish_with(bundles, entries, properties).await;
        scene.create_namespace();
        scene.grant(bundles);
        scene
    }

    /// The same with plain bundles of these versions, each of which replaces the one before.
    pub async fn of(cluster: Cluster, suffix: &str, versions: &[&str]) -> Self {
        let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
        Self::set(cluster, suffix, &bundles, &chain(versions)).await
    }

    /// The same without a namespace and an account.
    pub async fn served(cluster: Cluster, suffix: &str, versions: &[&str]) -> Self {
        let mut scene = Self::empty(cluster, suffix);
        let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
        scene.publish(&bundles, &chain(versions)).await;
        scene
    }

    /// [`Self::of`] on the control plane that tests share, with its controller.
    pub async fn shared(suffix: &str, versions: &[&str]) -> Self {
        Self::of(cluster::with_controller().await, suffix, versions).await
    }

    /// [`Self::set`] there.
    pub async fn shared_set(suffix: &str, bundles: &[Bundle], entries: &[Entry]) -> Self {
        Self::set(cluster::with_controller().await, suffix, bundles, entries).await
    }

    /// A package of bundles, each of which replaces the one before; the first is asked for by its version, and
    /// installed.
    pub async fn first(cluster: Cluster, suffix: &str, bundles: &[Bundle]) -> (Self, Extension) {
        let versions: Vec<&str> = bundles.iter().map(|one| one.version.as_str()).collect();
        let scene = Self::set(cluster, suffix, bundles, &chain(&versions)).await;
        let extension = scene.installed(json!({"version": versions[0]}), versions[0]).await;
        (scene, extension)
    }

    /// The same on the control plane that tests share, with its controller.
    pub async fn shared_first(suffix: &str, bundles: &[Bundle]) -> (Self, Extension) {
        Self::first(cluster::with_controller().await, suffix, bundles).await
    }

    /// Returns a scene without any objects.
    pub fn empty(cluster: Cluster, suffix: &str) -> Self {
        let package = Package::new(suffix);
        Self {
            name: package.name(),
            cluster,
            package,
            published: 0,
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn plane(&self) -> &ControlPlane {
        self.cluster.plane
    }

    /// Pushes `bundles` and a catalog with `entries`, and waits until the catalog serves it.
    pub async fn publish(&mut self, bundles: &[Bundle], entries: &[Entry]) {
        self.publish_with(bundles, entries, &[]).await;
    }

    /// The same, with additional properties in the catalog for each version.
    pub async fn publish_with(
        &mut self,
        bundles: &[Bundle],
        entries: &[Entry],
        properties: &[(&str, Value)],
    ) {
        let images = self.push(bundles).await;
        let mut files = self.package.catalog_files(entries, &images);
        for (version, property) in properties {
            self.package.add_property(&mut files, version, property);
        }
        self.publish_catalog(files).await;
    }

    /// Pushes these files as the bundle of version 1.0.0, serves a catalog with it alone, and makes the
    /// namespace and a service account with the rights that such a bundle usually needs.
    pub async fn publish_files(&mut self, files: Files) {
        let image = format!("{}/{}-bundle:v1.0.0", self.cluster.registry, self.name);
        images::push_bundle(&image, files).await;
        self.publish_catalog(self.package.catalog_of(&image)).await;
        self.create_namespace();
        self.grant(&[Bundle::new("1.0.0")]);
    }

    /// Pushes `bundles` and returns the image of each version.
    pub async fn push(&self, bundles: &[Bundle]) -> BTreeMap<String, String> {
        let registry = self.cluster.registry.clone();
        let mut pushed = BTreeMap::new();
        for bundle in bundles {
            let image =
                format!("{registry}/{}-bundle:v{}", self.name, bundle.version.replace('+', "-"));
            images::push_bundle(&image, self.package.bundle_files(bundle)).await;
            pushed.insert(bundle.version.clone(), image);
        }
        pushed
    }

    /// Pushes a catalog image and waits until the ClusterCatalog of this scene serves it.
    pub async fn publish_catalog(&mut self, files: Files) {
        self.published += 1;
        let image = format!("{}/{}-catalog:v{}", self.cluster.registry, self.name, self.published);
        images::push_catalog(&image, files).await;
        serve(&self.cluster.client, &self.name, &image).await;
    }

    /// Creates the namespace of the scene.
    pub fn create_namespace(&self) {
        let namespace = json!({"metadata": {"name": self.name}});
        self.plane().requests().create("namespace", "", &namespace);
    }

    /// Writes the files of a bundle into a folder and returns it.
    pub fn folder(&self, bundle: &Bundle) -> PathBuf {
        let folder = self.folder.path().join(&bundle.version);
        write_files(&folder, &self.package.bundle_files(bundle));
        folder
    }

    /// Makes the service account with the rights that `bundles` need, with `kubectl olm rbac`.
    pub fn grant(&self, bundles: &[Bundle]) {
        self.grant_with(bundles, &[]);
    }

    /// Makes the service account with the rights that `bundles` need when rendered with `flags`.
    pub fn grant_with(&self, bundles: &[Bundle], flags: &[&str]) {
        let folders: Vec<_> = bundles.iter().map(|bundle| self.folder(bundle)).collect();
        grant(self.plane(), &folders, &self.name, ACCOUNT, flags);
    }

    /// Creates the extension; `catalog` is merged into `spec.source.catalog`.
    pub async fn install(&self, catalog: Value) -> Extension {
        let mut filter = json!({
            "packageName": self.package.name(),
            "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": self.name}},
        });
        if let (Some(filter), Value::Object(catalog)) = (filter.as_object_mut(), catalog) {
            filter.extend(catalog);
        }
        Extension::create(&self.cluster.client, &self.name, &self.name, ACCOUNT, filter).await
    }

    /// The same, and waits until this version is installed.
    pub async fn installed(&self, catalog: Value, version: &str) -> Extension {
        let extension = self.install(catalog).await;
        extension.installed(version).await;
        extension
    }

    /// Waits until an Event about the extension with this reason contains `part`.
    pub async fn told(&self, reason: &str, part: &str) {
        let what = format!("Event {reason} with {part:?}");
        let is_told = |notes: &Vec<String>| notes.iter().any(|note| note.contains(part));
        wait::value(&what, ROLLOUT, || self.events(reason), is_told).await;
    }

    /// Returns the notes of the Events about the extension with this reason.
    pub fn events(&self, reason: &str) -> Vec<String> {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let events = self.plane().requests().send(Method::GET, path, None);
        let events = events.expect("Events can be read");
        let items = events["items"].as_array().expect("a list");
        items
            .iter()
            .filter(|event| event["reason"] == reason && event["regarding"]["name"] == self.name)
            .map(|event| event["note"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Names of the content Secrets with this label.
    pub fn content(&self, label: &str, value: &str) -> Vec<String> {
        let query = format!("?labelSelector={label}%3D{value}");
        let secrets = self.plane().requests().list("secret", SYSTEM_NAMESPACE, &query);
        secrets
            .iter()
            .map(|secret| {
                format!("secret/{}", secret["metadata"]["name"].as_str().unwrap_or_default())
            })
            .collect()
    }

    /// Sets an annotation of the extension; an empty value removes it.
    pub fn annotate(&self, key: &str, value: &str) {
        let value = if value.is_empty() { Value::Null } else { json!(value) };
        let change = json!({"metadata": {"annotations": {key: value}}});
        self.plane().requests().merge("clusterextension", "", &self.name, &change);
    }

    /// Reads an object of the namespace, or one that is in none; `None` when there is no such
    /// object.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let mut object = self.plane().requests().read(kind, &self.name, name)?;
        // As kubectl shows it.
        object["metadata"].as_object_mut()?.remove("managedFields");
        Some(object)
    }

    /// Reads an object until it is as `wanted`, for as long as the garbage collector may take, and returns it;
    /// one that is not there is null.
    pub async fn until(
        &self,
        what: &str,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{kind} {name}: {what}");
        wait::value(&what, COLLECTED, || self.get(kind, name).unwrap_or_default(), wanted).await
    }

    /// Waits until an object is there, and returns it.
    pub async fn there(&self, kind: &str, name: &str) -> Value {
        self.until("it is there", kind, name, |object| !object.is_null()).await
    }

    /// Deletes its `ConfigMap`, and waits until it is there again.
    pub async fn is_repaired(&self) {
        let name = self.package.config_map();
        self.plane().kubectl(&["delete", "configmap", &name, "--namespace", &self.name]);
        self.there("configmap", &name).await;
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &str, name: &str) {
        self.until("it is gone", kind, name, Value::is_null).await;
    }

    /// Waits until the status of a revision contains `text`.
    pub async fn reports(&self, revision: &str, text: &str) {
        let contains = |set: &Value| set["status"].to_string().contains(text);
        self.until(text, "clusterobjectset", revision, contains).await;
    }

    /// Returns the name of a revision of the extension.
    pub fn revision(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Has a revision deleted, and does not wait for its end.
    pub fn delete_revision(&self, number: u32) {
        let name = self.revision(number);
        self.plane().kubectl(&["delete", "clusterobjectset", &name, "--wait=false"]);
    }

    /// Makes the CRD of a bundle as somebody else does, and returns its name.
    pub fn make_crd(&self, bundle: &Bundle) -> String {
        let file = self.folder(bundle).join("manifests/crd.yaml");
        let manifest = std::fs::read_to_string(file).expect("the bundle has a CRD");
        self.plane().kubectl_with_input(&["create", "-f", "-"], &manifest);
        let crd = self.package.crd();
        self.plane().established(&crd);
        crd
    }

    /// Makes an object `one` of a CRD with these finalizers, and returns its UID. The CRD is one of
    /// [`definition`](crate::package::definition).
    pub fn make_instance(&self, crd: &str, finalizers: &[&str]) -> Value {
        let (plural, group) = crd.split_once('.').expect("a CRD has a group");
        let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..plural.len() - 1]);
        let instance = json!({"apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": {"name": "one", "namespace": self.name, "finalizers": finalizers}});
        let args = ["apply", "--server-side", "-f", "-"];
        self.plane().kubectl_with_input(&args, &instance.to_string());
        self.uid(crd, "one")
    }

    /// Removes the finalizers of an object.
    pub fn let_go(&self, kind: &str, name: &str) {
        let none = json!({"metadata": {"finalizers": null}});
        self.plane().requests().merge(kind, &self.name, name, &none);
    }

    /// Has the extension deleted, and does not wait for its end.
    pub fn delete(&self, cascade: &str) {
        let cascade = format!("--cascade={cascade}");
        self.plane().kubectl(&["delete", "clusterextension", &self.name, &cascade, "--wait=false"]);
    }

    /// Returns every object that a user would miss, as (kind, name).
    pub fn parts(&self) -> [(String, String); 5] {
        let package = &self.package;
        [
            ("customresourcedefinition", package.crd()),
            (&*package.crd(), "one".to_owned()),
            ("deployment", package.deployment()),
            ("configmap", package.config_map()),
            ("serviceaccount", package.deployment()),
        ]
        .map(|(kind, name)| (kind.to_owned(), name))
    }

    /// Fails if one of these is gone or being deleted.
    #[track_caller]
    pub fn is_whole(&self) {
        for (kind, name) in self.parts() {
            self.uid(&kind, &name);
        }
    }

    /// Returns the UID of an object, which is there and is not being deleted.
    #[track_caller]
    pub fn uid(&self, kind: &str, name: &str) -> Value {
        let found = self.get(kind, name);
        let found = found.unwrap_or_else(|| panic!("{kind} {name} is gone"));
        assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null, "{kind} {name}");
        found["metadata"]["uid"].clone()
    }
}

/// Makes the ClusterCatalog `name` serve `image`, and waits until it does.
pub async fn serve(client: &kube::Client, name: &str, image: &str) {
    let api = Api::<ClusterCatalog>::all(client.clone());
    let change = json!({"spec": {"source": {"image": {"ref": image}}}});
    if api.get_opt(name).await.expect("catalogs can be read").is_none() {
        let catalog = serde_json::from_value(objects::catalog(name, image));
        let catalog = catalog.expect("a ClusterCatalog");
        api.create(&PostParams::default(), &catalog).await.expect("the catalog is admitted");
    } else {
        let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        changed.expect("the change is admitted");
    }
    wait::object(&api, name, &format!("catalog {name} serves {image}"), SERVED, |catalog| {
        let catalog = serde_json::to_value(catalog.ok_or("it is not there")?).unwrap_or_default();
        let is_served = [("Progressing", "Succeeded"), ("Serving", "Available")]
            .iter()
            .all(|(type_, reason)| current(&catalog, type_)["reason"] == *reason);
        is_served.then_some(()).ok_or_else(|| format!("{:#}", catalog["status"]))
    })
    .await;
}

/// Makes a service account in `namespace` with only the rights that the bundles in `folders` need,
/// with `kubectl olm rbac` and these additional `flags`.
pub fn grant(
    plane: &ControlPlane,
    folders: &[PathBuf],
    namespace: &str,
    account: &str,
    flags: &[&str],
) {
    let out = Command::new(paths::built("kubectl-olm"))
        .arg("rbac")
        .args(folders)
        .args(["--namespace", namespace, "--service-account", account])
        .args(flags)
        .env_remove("KUBECONFIG")
        .output()
        .expect("kubectl-olm runs; build it with `cargo build`");
    assert!(out.status.success(), "kubectl olm rbac: {}", String::from_utf8_lossy(&out.stderr));
    let objects = String::from_utf8_lossy(&out.stdout);
    plane.grant(&olm_core::yaml::to_json(&objects).expect("YAML"));
}

/// Writes files below `folder`.
pub fn write_files(folder: &Path, files: &Files) {
    for (path, bytes) in files {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().expect("files stand in folders"))
            .expect("the folder is made");
        std::fs::write(file, bytes).expect("the file is written");
    }
}
