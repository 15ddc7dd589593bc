//! The cost of a real catalog: the memory of the controller after it serves the one next to the
//! checkout.

use olm_test::bundles::below;
use olm_test::prelude::*;
use olm_test::usage::Usage;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: make silence-corpus"]
async fn memory_after_a_real_catalog() {
    let cluster = cluster::new().await;
    let plane = cluster.plane;
    let controller =
        tokio::task::spawn_blocking(move || Controller::start(plane, ControllerOptions::default()))
            .await
            .expect("the controller starts");
    println!("started: {}", Usage::of(controller.pid()));
    let files = below(&paths::shared_data().join("catalogs/v4.19"), "configs");
    let bytes: usize = files.values().map(Vec::len).sum();
    let count = files.len();
    let mut scene = Scene::empty(cluster, "real");
    scene.publish_catalog(files).await;
    let usage = Usage::of(controller.pid());
    println!("a catalog of {count} files, {bytes} bytes served: {usage}");
}
