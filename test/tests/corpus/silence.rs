//! The cost of a real catalog: the memory of the controller after it serves the one next to the
//! checkout.

use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::package::Files;
use olm_test::paths;
use olm_test::scene::Scene;
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
    let mut files = Files::new();
    collect(&paths::shared_data().join("catalogs/v4.19"), "configs", &mut files);
    let bytes: usize = files.values().map(Vec::len).sum();
    let count = files.len();
    let mut scene = Scene::empty(cluster, "real");
    scene.publish_catalog(files).await;
    let usage = Usage::of(controller.pid());
    println!("a catalog of {count} files, {bytes} bytes served: {usage}");
}

fn collect(folder: &std::path::Path, prefix: &str, files: &mut Files) {
    for entry in std::fs::read_dir(folder).expect("the shared catalog; set OLM_SHARED") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &name, files);
        } else {
            files.insert(name, std::fs::read(entry.path()).expect("a file"));
        }
    }
}
