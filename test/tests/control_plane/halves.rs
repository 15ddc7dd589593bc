//! Catalogs and extensions as two processes: the second reads catalogs over HTTPS only.

use olm_test::prelude::*;

pub(crate) fn half(plane: &ControlPlane, name: &str, components: &str) -> Controller {
    Controller::start(plane, ControllerOptions::of(name, &[&format!("--components={components}")]))
}

// catalogs.md 4.3
#[tokio::test(flavor = "multi_thread")]
async fn extension_half_installs_and_upgrades_over_https() {
    let cluster = cluster::own().await;
    let _catalogs = half(cluster.plane, "catalogs-half", "catalogs");
    let extensions = half(cluster.plane, "extensions-half", "extensions");
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let mut scene = Scene::set(cluster, "halves", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({"version": "1.x"}), "1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    assert!(extensions.log().contains("catalog fetched"));
    extension.delete().await;
}
