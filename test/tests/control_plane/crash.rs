//! The controller is killed (SIGKILL), and started again.

use std::time::Duration;

use kube::api::{Api, ListParams};
use olm_api::ClusterObjectSet;
use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::Extension;
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::json;

const STEP: Duration = Duration::from_secs(30);

async fn wait_for_revision(client: &kube::Client, name: &str) {
    let api = Api::<ClusterObjectSet>::all(client.clone());
    wait::until(&format!("revision {name} is written"), STEP, || async {
        api.get(name).await.map_err(|error| error.to_string())
    })
    .await;
}

/// Every Secret of a revision belongs to a revision that exists, and no revision is duplicated.
async fn nothing_is_doubled(scene: &Scene, extension: &Extension, revisions: usize) {
    let found = extension.revisions().await;
    assert_eq!(found.len(), revisions, "revisions of {}", extension.name);
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::namespaced(
        scene.cluster.client.clone(),
        olm_test::cluster::SYSTEM_NAMESPACE,
    )
    .list(
        &ListParams::default()
            .labels(&format!("olm.operatorframework.io/owner-name={}", extension.name)),
    )
    .await
    .expect("Secrets can be listed");
    let named: Vec<_> = found
        .iter()
        .flat_map(|revision| &revision.spec.phases)
        .flat_map(|phase| &phase.objects)
        .filter_map(|object| object.ref_.as_ref())
        .map(|stored| stored.name.clone())
        .collect();
    for secret in secrets {
        let name = secret.metadata.name.unwrap_or_default();
        assert!(named.contains(&name), "Secret {name} belongs to no revision");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_install_and_of_upgrade_loses_and_doubles_nothing() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let mut controller =
        tokio::task::spawn_blocking(move || Controller::start(plane, ControllerOptions::default()))
            .await
            .expect("the controller starts");
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let mut scene = Scene::set(cluster, "crash", &bundles[..1], &chain(&["1.0.0"])).await;
    scene.grant(&bundles);
    let client = scene.cluster.client.clone();

    let extension = scene.install(json!({})).await;
    wait_for_revision(&client, "buoy-crash-1").await;
    controller.kill();
    controller.restart(plane);
    extension.installed("1.0.0").await;
    nothing_is_doubled(&scene, &extension, 1).await;

    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    wait_for_revision(&client, "buoy-crash-2").await;
    controller.kill();
    controller.restart(plane);
    extension.installed("1.1.0").await;
    nothing_is_doubled(&scene, &extension, 2).await;
    extension.delete().await;
}

// catalogs.md 5.1: nobody was there to remove the bundles of an extension that went meanwhile
#[tokio::test(flavor = "multi_thread")]
async fn bundles_of_extensions_that_went_meanwhile_leave_the_disk() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let mut controller = Controller::start(plane, ControllerOptions::default());
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, "crashdisk", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    let unpacked = plane.addresses.dir.join("controller-state/bundles/bundles");
    let (kept, gone) = (unpacked.join(&scene.name), unpacked.join("gone-meanwhile"));
    let count = || std::fs::read_dir(&kept).expect("a folder for the extension").count();
    assert_eq!(count(), 1);
    controller.kill();
    std::fs::create_dir(&gone).expect("a folder");
    std::fs::write(gone.join("sha256-0"), "a bundle").expect("a file");
    controller.restart(plane);
    wait::until("the bundles of the other one are gone", STEP, || async {
        if gone.exists() { Err(()) } else { Ok(()) }
    })
    .await;
    assert_eq!(count(), 1);
    extension.delete().await;
}
