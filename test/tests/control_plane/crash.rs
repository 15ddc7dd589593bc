//! The controller is killed (SIGKILL), and started again.

use olm_test::prelude::*;

use crate::catalog::served_by;
use crate::cost::is_not_rendered_again;
use crate::operation::{is_forgotten, is_scraped};
use crate::plugin::settings;

/// Every Secret of a revision belongs to a revision that exists, and no revision is duplicated.
async fn nothing_is_doubled(scene: &Scene, extension: &Extension, revisions: usize) {
    let found = extension.revisions().await;
    assert_eq!(found.len(), revisions, "revisions of {}", extension.name);
    let named: Vec<_> = found
        .iter()
        .flat_map(|revision| &revision.spec.phases)
        .flat_map(|phase| &phase.objects)
        .filter_map(|object| object.ref_.as_ref())
        .map(|stored| format!("secret/{}", stored.name))
        .collect();
    for secret in scene.content(label::OWNER_NAME, &extension.name) {
        assert!(named.contains(&secret), "{secret} belongs to no revision");
    }
}

/// Kills it while an extension is installed, and while it is upgraded.
async fn a_kill_in_the_middle_loses_and_doubles_nothing(
    cluster: Cluster,
    controller: &mut Controller,
) {
    let plane = cluster.plane;
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let mut scene = Scene::set(cluster, "crash", &bundles[..1], &chain(&["1.0.0"])).await;
    scene.grant(&bundles);

    let extension = scene.install(json!({})).await;
    scene.there("clusterobjectset", "buoy-crash-1").await;
    controller.restart(plane);
    extension.installed("1.0.0").await;
    nothing_is_doubled(&scene, &extension, 1).await;

    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    scene.there("clusterobjectset", "buoy-crash-2").await;
    controller.restart(plane);
    extension.installed("1.1.0").await;
    nothing_is_doubled(&scene, &extension, 2).await;
    extension.delete().await;
}

// catalogs.md R5, R12, R13; 5.1: nobody was there to remove the bundles of an extension that went meanwhile
async fn a_catalog_is_served_again_from_disk_and_bundles_of_extensions_that_went_leave_it(
    cluster: &Cluster,
    controller: &mut Controller,
) {
    let plane = cluster.plane;
    let scene = Scene::of(cluster.clone(), "crashdisk", &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    is_scraped(controller, &scene.name).await;
    let settings_read = settings(plane, "get");
    let unpacked = plane.addresses.dir.join("controller-state/bundles/bundles");
    let (kept, gone) = (unpacked.join(&scene.name), unpacked.join("gone-meanwhile"));
    is_not_rendered_again(cluster, controller, (&scene.name, &kept)).await;
    let catalog = Catalog::named(plane, &scene.name);
    let before = catalog.reports("Ready", "Succeeded").await;
    let served = served_by(&catalog, &before).await;
    assert_eq!(served.0, 200);
    let count = || std::fs::read_dir(&kept).expect("a folder for the extension").count();
    assert_eq!(count(), 1);
    controller.kill();
    std::fs::create_dir(&gone).expect("a folder");
    std::fs::write(gone.join("sha256-0"), "a bundle").expect("a file");
    controller.restart(plane);
    assert_eq!(served_by(&catalog, &before).await, served);
    assert_eq!(catalog.reports("Ready", "Succeeded").await["status"], before["status"]);
    let what = "the bundles of the other one are gone";
    wait::value(what, SOON, || gone.exists(), |exists| !exists).await;
    assert_eq!(count(), 1);
    // Settings that are as before are compared and not written again (plugin.md U86).
    let read = || settings(plane, "get");
    wait::value("the settings are compared", SOON, read, |read| *read > settings_read).await;
    assert_eq!(settings(plane, "patch"), 1);
    extension.delete().await;
    is_forgotten(controller, &scene.name).await;
    assert_eq!(settings(plane, "patch"), 1, "nor later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_goes_on_where_it_was() {
    let (cluster, mut controller) = cluster::started("", &[]).await;
    // The first: what it counts is all that there is.
    a_catalog_is_served_again_from_disk_and_bundles_of_extensions_that_went_leave_it(
        &cluster,
        &mut controller,
    )
    .await;
    a_kill_in_the_middle_loses_and_doubles_nothing(cluster, &mut controller).await;
}
