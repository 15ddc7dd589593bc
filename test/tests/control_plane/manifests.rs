//! The manifests, applied to an empty control plane, and the program started as they say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use olm_test::audit;
use olm_test::cluster::{self, Cluster, Controller, ControllerOptions, Manifest};
use olm_test::extension::{UNINSTALL, condition};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{paths, wait};
use serde_json::Value;

const READY: Duration = Duration::from_mins(1);
const CRDS: [&str; 3] = [
    "clustercatalogs.olm.operatorframework.io",
    "clusterextensions.olm.operatorframework.io",
    "clusterobjectsets.olm.operatorframework.io",
];

/// What one overlay makes, as one file, as it is released.
pub(crate) struct Install {
    pub(crate) cluster: Cluster,
    file: PathBuf,
}

impl Install {
    pub(crate) async fn of(overlay: &str) -> Self {
        let cluster = cluster::empty().await;
        let folder = paths::repository().join("config").join(overlay);
        let text = cluster
            .plane
            .kubectl(&["kustomize", &folder.to_string_lossy()]);
        let file = cluster.dir.join("install.yaml");
        std::fs::write(&file, text).expect("it is written");
        Self { cluster, file }
    }

    /// Applies the file as README says, and returns the resource version of each object.
    fn apply(&self) -> BTreeMap<String, String> {
        let file = self.file.to_string_lossy();
        let plane = self.cluster.plane;
        plane.kubectl(&["apply", "--server-side", "-f", &file]);
        let out = plane.kubectl(&["get", "-f", &file, "--output=json"]);
        let objects: Value = serde_json::from_str(&out).expect("kubectl prints JSON");
        let items = objects["items"].as_array().expect("a list");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        items
            .iter()
            .map(|object| {
                let kind = text(&object["kind"]);
                // Status is written by others all the time, which changes no generation.
                let metadata = &object["metadata"];
                let version = match (&metadata["generation"], kind.as_str()) {
                    (_, "ResourceQuota") => object["spec"].to_string(),
                    (Value::Null, _) => text(&metadata["resourceVersion"]),
                    (generation, _) => generation.to_string(),
                };
                (
                    format!("{kind}/{}", text(&object["metadata"]["name"])),
                    version,
                )
            })
            .collect()
    }

    /// Starts what the kubelet would start, one process for each Deployment.
    pub(crate) fn start(&self) -> Vec<Controller> {
        let plane = self.cluster.plane;
        let out = plane.kubectl(&["get", "deployments", "--all-namespaces", "--output=json"]);
        let list: Value = serde_json::from_str(&out).expect("kubectl prints JSON");
        let items = list["items"].as_array().expect("a list");
        let controllers = items.iter().map(|deployment| {
            let options = ControllerOptions {
                name: deployment["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                manifest: Some(Manifest::of(deployment)),
                ..ControllerOptions::default()
            };
            Controller::start(plane, options)
        });
        controllers.collect()
    }

    /// Returns the requests of the controller's own accounts that were refused.
    fn refused(&self) -> Vec<String> {
        let log = &self.cluster.plane.addresses.audit_log;
        audit::mentioning(log, "controller-manager")
            .into_iter()
            .filter(|request| request.user.ends_with("controller-manager"))
            .filter(|request| request.acted_as.is_none() && request.code == 403)
            .map(|request| format!("{} {}", request.verb, request.uri))
            .collect()
    }
}

/// Waits until the processes say that they are ready.
pub(crate) async fn ready(controllers: &[Controller]) {
    for controller in controllers {
        wait::until("the process is ready", READY, || async {
            match controller.health("readyz").await {
                200 => Ok(()),
                other => Err(format!(
                    "readyz answers {other}\n{}",
                    controller.last_words()
                )),
            }
        })
        .await;
    }
}

async fn installs(install: &Install, suffix: &str) -> (Scene, olm_test::extension::Extension) {
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(
        install.cluster.clone(),
        suffix,
        &bundles,
        &chain(&["1.0.0"]),
    )
    .await;
    let extension = scene.install(serde_json::json!({})).await;
    extension.installed("1.0.0").await;
    (scene, extension)
}

// deploying.md P7, P10, P12, P13, P15
#[tokio::test(flavor = "multi_thread")]
async fn one_apply_on_an_empty_cluster_is_all_it_takes() {
    let install = Install::of("default").await;
    let first = install.apply();
    assert!(first.contains_key("Deployment/operator-controller-controller-manager"));
    assert_eq!(install.apply(), first, "the second apply changes nothing");
    let controllers = install.start();
    ready(&controllers).await;
    let (scene, extension) = installs(&install, "deployed").await;
    assert_eq!(install.refused(), [""; 0]);

    // What was installed outlives a careless removal of the manifests.
    let plane = install.cluster.plane;
    for crd in CRDS {
        let error = plane
            .try_kubectl(&["delete", "crd", crd], "")
            .expect_err("it is refused");
        assert!(error.contains("allow-deletion"), "{error}");
    }
    let now = extension.get().await;
    assert!(condition(&now, "Ready").is_some_and(|ready| ready.status == "True"));
    extension.delete().await;
    extension.gone().await;
    drop(scene);
    let key = "policy.olm.operatorframework.io/allow-deletion=true";
    for crd in CRDS {
        plane.kubectl(&["annotate", "crd", crd, key]);
        plane.kubectl(&[
            "delete",
            "crd",
            crd,
            &format!("--timeout={}s", UNINSTALL.as_secs()),
        ]);
    }
}

// deploying.md P9, 2.6
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_accounts_of_their_own_install_as_upstream_does() {
    let install = Install::of("upstream-compatible").await;
    install.apply();
    let controllers = install.start();
    assert_eq!(controllers.len(), 2);
    ready(&controllers).await;
    let (_scene, extension) = installs(&install, "as-upstream").await;
    assert_eq!(install.refused(), [""; 0]);
    extension.delete().await;
    extension.gone().await;
}
