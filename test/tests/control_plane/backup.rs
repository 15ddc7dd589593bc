//! A cluster that is restored from a backup: etcd under a running controller, or objects that are
//! made anew without their owners (docs/backup.md).

use std::time::Duration;

use olm_api::keys::{annotation, label, manager, policy};
use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::{condition, installed_version};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{etcd, wait};
use serde_json::{Value, json};

use crate::flags::clear_leases;

const STEP: Duration = Duration::from_mins(1);

// deploying.md 4.1: what the process knows is not true any more, and its watches hear nothing
#[tokio::test(flavor = "multi_thread")]
async fn etcd_restored_under_a_running_controller_ends_it_and_the_backup_counts() {
    let cluster = cluster::new().await;
    let plane = cluster.plane;
    let args = vec!["--leader-elect".to_owned()];
    let options = ControllerOptions { args, ..ControllerOptions::default() };
    let mut controller = tokio::task::spawn_blocking(move || Controller::start(plane, options))
        .await
        .expect("the controller starts");
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let scene = Scene::set(cluster, "restored", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    etcd::back_up(plane).await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.installed("1.1.0").await;
    tokio::task::block_in_place(|| etcd::restore(plane, || ()));
    wait::until("the controller ends", STEP + STEP, || {
        let code = controller.exit_code();
        async move { code.ok_or("it runs") }
    })
    .await;
    assert_eq!(controller.exit_code(), Some(1));
    let said = "the API server went back to an earlier state";
    assert!(controller.log().contains(said), "{}", controller.last_words());
    let numbers = || async {
        let revisions = extension.revisions().await;
        revisions.iter().map(|set| set.spec.revision).collect::<Vec<_>>()
    };
    assert_eq!(numbers().await, [1], "nothing is made again that the backup does not have");
    clear_leases(&scene.cluster).await;
    controller.restart(plane);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension
        .eventually("the update is made again", STEP, |found| {
            installed_version(found) == Some("1.1.0")
        })
        .await;
    assert_eq!(numbers().await, [1, 2]);
    extension.installed("1.1.0").await;
    extension.delete().await;
}

/// Makes an object as Velero does (pkg/restore, `resetMetadata`): without owners, with two more
/// labels, and afterwards with the managed fields of the backup, who owned it among them.
fn velero_restores(scene: &Scene, object: &Value) {
    let (plane, mut object) = (scene.cluster.plane, object.clone());
    object["metadata"]["labels"]["velero.io/backup-name"] = json!("nightly");
    object["metadata"]["labels"]["velero.io/restore-name"] = json!("nightly-20260101");
    let as_velero = "--field-manager=velero-server";
    plane.kubectl_with_input(&["create", as_velero, "-f", "-"], &object.to_string());
    let owner = r#"k:{"uid":"0c8f0b2e-6f0e-4c38-9a55-7c9c0d1c7a11"}"#;
    let fields = json!({"f:data": {"f:depth": {}}, "f:metadata": {
        "f:annotations": {format!("f:{}", annotation::REVISION): {}},
        "f:labels": {format!("f:{}", label::OWNER_NAME): {}, format!("f:{}", label::OWNER_KIND): {}},
        "f:ownerReferences": {owner: {}}}});
    let ours = json!({"manager": manager::OBJECTS, "operation": "Apply", "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), format!("--namespace={}", text("namespace")));
    let patch = json!({"metadata": {"managedFields": [ours]}}).to_string();
    let args = ["patch", "configmap", &name, &namespace, "--type=merge", as_velero, "-p", &patch];
    plane.kubectl(&args);
}

// applying.md 2.4: as Velero leaves an object: its labels and number, and no owner
#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_without_its_owner_is_taken_over_as_ready_says() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, "anew", &bundles, &chain(&["1.0.0"])).await;
    let name = scene.package.config_map();
    let restored = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": scene.name,
        "labels": {label::OWNER_NAME: scene.name, label::OWNER_KIND: label::OWNER_KIND_EXTENSION},
        "annotations": {annotation::REVISION: "1"}}, "data": {"depth": "10"}});
    velero_restores(&scene, &restored);
    let uid = || scene.get("configmap", &name).unwrap_or_default()["metadata"]["uid"].clone();
    let before = uid();
    let extension = scene.install(json!({})).await;
    let way_out = format!("annotation {}: all", policy::ADOPT);
    extension
        .eventually("Ready names the way out", STEP, |found| {
            condition(found, "Ready").is_some_and(|ready| {
                ready.message.contains("revision object collisions")
                    && ready.message.contains(&way_out)
            })
        })
        .await;
    scene.annotate(policy::ADOPT, "all");
    extension.installed("1.0.0").await;
    assert_eq!(uid(), before, "it is taken over as it is");
    extension.delete().await;
}
