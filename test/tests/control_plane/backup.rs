//! A cluster that is restored from a backup: etcd under a running controller, or objects that are
//! made anew without their owners (docs/backup.md).

use std::time::Duration;

use olm_api::keys::{annotation, label, policy};
use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::{condition, installed_version};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{etcd, wait};
use serde_json::json;

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
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "-f", "-"], &restored.to_string());
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
