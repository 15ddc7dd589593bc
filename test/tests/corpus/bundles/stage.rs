//! The setup for one package of the shared bundles.

use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use olm_core::object::Object;
use olm_test::extension;
use olm_test::prelude::*;
use olm_test::release::{self, Release};
use olm_test::scene;
use tempfile::NamedTempFile;
use tokio::sync::Mutex;

use super::figures;
use super::objects::Objects;

/// Versions of one package, with a catalog, a namespace and an extension that share a name, by
/// default that of the package.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
    package: String,
    pub(crate) releases: Vec<Release>,
    /// Image of each of them.
    images: Vec<String>,
    pub(crate) objects: Mutex<Objects>,
    /// `spec.config.inline` of the extension, and a file that holds it for the command line.
    configuration: Option<(Value, NamedTempFile)>,
}

impl Stage {
    /// Prepares `package`: its bundles in the registry, its catalog served, a service account with
    /// the rights that all of them need.
    pub(crate) async fn set(package: &str, versions: &[&str]) -> Self {
        Self::without_account(package, package, versions).await.with_account()
    }

    /// The same with a given name, for a bundle that is installed with this `spec.config.inline`.
    pub(crate) async fn configured(
        name: &str,
        package: &str,
        version: &str,
        inline: Value,
    ) -> Self {
        let stage = Self::without_account(name, package, &[version]).await;
        stage.with_configuration(inline).with_account()
    }

    pub(crate) fn with_configuration(mut self, inline: Value) -> Self {
        let file = NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), inline.to_string()).expect("the file can be written");
        self.configuration = Some((inline, file));
        self
    }

    pub(crate) fn with_account(self) -> Self {
        let stage = self;
        let folders: Vec<_> = stage.releases.iter().map(|release| release.folder.clone()).collect();
        stage.grant(&folders);
        stage
    }

    /// The same with a given name and without a service account.
    pub(crate) async fn without_account(name: &str, package: &str, versions: &[&str]) -> Self {
        Self::on(cluster::with_controller().await, name, package, versions).await
    }

    /// The same on a cluster.
    pub(crate) async fn on(cluster: Cluster, name: &str, package: &str, versions: &[&str]) -> Self {
        let mut offered = Vec::new();
        for version in versions {
            let release = Release::read(&folder(package, version));
            assert_eq!((release.package.as_str(), release.version.as_str()), (package, *version));
            let tag = version.replace('+', "-");
            let image = format!("{}/{name}-bundle:v{tag}", cluster.registry);
            let image = images::push_bundle(&image, release.files()).await;
            offered.push((release, image));
        }
        let catalog = format!("{}/{name}-catalog:v1", cluster.registry);
        images::push_catalog(&catalog, release::catalog_files(&offered)).await;
        scene::serve(&cluster.client, name, &catalog).await;
        cluster.plane.kubectl(&["create", "namespace", name]);
        Self {
            objects: Mutex::new(Objects::new(&cluster.client)),
            cluster,
            name: name.to_owned(),
            package: package.to_owned(),
            configuration: None,
            images: offered.iter().map(|(_, image)| image.clone()).collect(),
            releases: offered.into_iter().map(|(release, _)| release).collect(),
        }
    }

    /// Makes the service account, with the rights that the bundles in `folders` need.
    pub(crate) fn grant(&self, folders: &[PathBuf]) {
        let flags = self.rendering_flags();
        scene::grant(self.cluster.plane, folders, &self.name, ACCOUNT, &flags);
    }

    /// Returns a client that acts as the service account.
    pub(crate) async fn account_client(&self) -> Client {
        let path = &self.cluster.plane.addresses.kubeconfig;
        let file = Kubeconfig::read_from(path).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let mut config = config.expect("a configuration");
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.name);
        config.auth_info.impersonate = Some(user);
        Client::try_from(config).expect("a client")
    }

    /// Flags with which `kubectl olm` renders as the controller does.
    fn rendering_flags(&self) -> Vec<&str> {
        let path = self.configuration.as_ref().map(|(_, file)| file.path());
        let path = path.map(|path| path.to_str().expect("a path of ASCII"));
        path.map_or_else(Vec::new, |path| vec!["--config", path])
    }

    /// Returns the release of a version.
    pub(crate) fn release(&self, version: &str) -> &Release {
        let found = self.releases.iter().find(|one| one.version == version);
        found.unwrap_or_else(|| panic!("{version} is not on the stage"))
    }

    /// Returns the image of a version, as the catalog names it.
    pub(crate) fn image(&self, version: &str) -> &str {
        let mut all = self.releases.iter().zip(&self.images);
        let found = all.find(|(release, _)| release.version == version);
        found.map_or_else(|| panic!("{version} is not on the stage"), |(_, image)| image)
    }

    /// Creates the extension, pinned to `version`; `spec` is merged into its spec.
    pub(crate) async fn install(&self, version: &str, spec: Value) -> Extension {
        let mut whole = json!({
            "namespace": self.name,
            "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": {
                "packageName": self.package,
                "version": version,
                "selector": {"matchLabels": {keys::label::METADATA_NAME: self.name}},
            }},
        });
        if let (Some(whole), Value::Object(spec)) = (whole.as_object_mut(), spec) {
            whole.extend(spec);
            if let Some((inline, _)) = &self.configuration {
                let config = json!({"configType": "Inline", "inline": inline});
                whole.insert("config".to_owned(), config);
            }
        }
        Extension::create_with_spec(&self.cluster.client, &self.name, whole).await
    }

    /// Annotates the extension.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        let change = format!("{key}={value}");
        self.cluster.plane.kubectl(&["annotate", "clusterextension", &self.name, &change]);
    }

    /// Makes a change that leads to `version` in revision `number`, and waits until it is installed and
    /// available with every object present and owned.
    pub(crate) async fn rolls_out<F>(&self, version: &str, number: i64, change: F) -> Extension
    where
        F: Future<Output = Extension>,
    {
        let extension = change.await;
        extension.installed(version).await;
        extension
            .eventually("available", SOON, |extension| {
                extension::is(extension, "Available", "True", "ProbesSucceeded")
            })
            .await;
        self.holds(&extension, number, &self.rendered(version)).await;
        extension
    }

    /// Waits until all `objects` exist and belong to revision `number`.
    pub(crate) async fn holds(&self, extension: &Extension, number: i64, objects: &[Object]) {
        let what = format!("revision {number} of {} owns its objects", self.name);
        wait::until(&what, SOON, || async {
            let revisions = extension.revisions().await;
            let revision = revisions
                .iter()
                .find(|revision| revision.spec.revision == number)
                .ok_or_else(|| vec!["no such revision".to_owned()])?;
            let mut live = self.objects.lock().await;
            let strays = live.strays(objects, &self.name, revision).await;
            if strays.is_empty() { Ok(()) } else { Err(strays) }
        })
        .await;
    }

    /// Deletes the extension and waits until nothing of any of the versions is left: no object, no
    /// CRD, no revision, no content Secret. Then asserts that no write of the service account was
    /// ever refused for lack of a right.
    pub(crate) async fn removed(&self, extension: &Extension, objects: &[Object]) {
        extension.delete().await;
        let left = self.objects.lock().await.left(objects).await;
        assert!(left.is_empty(), "{} left {left:#?}", self.name);
        let what = format!("no trace of {} is left", self.name);
        wait::read(&what, SOON, || self.traces(), Vec::is_empty).await;
        let log = &self.cluster.plane.addresses.audit_log;
        let denied: Vec<_> = figures::requests(log, &self.name)
            .into_iter()
            .filter(|request| request.is_write() && request.code == 403)
            .collect();
        assert!(denied.is_empty(), "rights are missing: {denied:#?}");
    }

    /// Says whether the namespace has a certificate that the controller issued.
    pub(crate) async fn has_certificate(&self) -> bool {
        let secrets = Api::<Secret>::namespaced(self.cluster.client.clone(), &self.name);
        let owned =
            ListParams::default().labels(&format!("{}={}", keys::label::OWNER_NAME, self.name));
        let secrets = secrets.list(&owned).await.expect("Secrets can be listed");
        let mut data = secrets.items.into_iter().filter_map(|secret| secret.data);
        data.any(|data| ["tls.crt", "tls.key", "ca.crt"].iter().all(|key| data.contains_key(*key)))
    }

    /// Returns the names of the revisions and Secrets of the extension: content and certificates.
    pub(crate) async fn traces(&self) -> Vec<String> {
        let owned =
            ListParams::default().labels(&format!("{}={}", keys::label::OWNER_NAME, self.name));
        let revisions = Api::<ClusterObjectSet>::all(self.cluster.client.clone());
        let secrets = Api::<Secret>::all(self.cluster.client.clone());
        let revisions = revisions.list_metadata(&owned).await;
        let secrets = secrets.list_metadata(&owned).await;
        let revisions = revisions.expect("revisions can be listed").items;
        let secrets = secrets.expect("Secrets can be listed").items;
        let names = revisions.into_iter().map(|found| found.metadata.name);
        let names = names.chain(secrets.into_iter().map(|found| found.metadata.name));
        names.flatten().collect()
    }

    /// Returns what `kubectl olm bundle render` prints for a version.
    pub(crate) fn rendered(&self, version: &str) -> Vec<Object> {
        let out = Command::new(paths::built("kubectl-olm"))
            .args(["bundle", "render"])
            .arg(&self.release(version).folder)
            .args(["--namespace", &self.name, "--output", "json"])
            .args(self.rendering_flags())
            .env_remove("KUBECONFIG")
            .output()
            .expect("kubectl-olm runs; build it with `cargo build`");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "kubectl olm bundle render: {errors}");
        let list: Value = serde_json::from_slice(&out.stdout).expect("it prints JSON");
        let items = list["items"].as_array().expect("it prints a List");
        let objects = items.iter().cloned().map(Object::from_value);
        objects.map(|object| object.expect("an object")).collect()
    }
}

/// Returns the folder of a shared bundle.
pub(crate) fn folder(package: &str, version: &str) -> PathBuf {
    let folder = paths::shared_data().join("bundles").join(package).join(version);
    assert!(folder.is_dir(), "{} is missing", folder.display());
    folder
}
