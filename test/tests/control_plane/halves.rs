//! Catalogs and extensions as two processes: the second reads catalogs over HTTPS only.

use olm_test::cluster::{self, ControlPlane, Controller, ControllerOptions};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use serde_json::json;

pub(crate) fn half(plane: &ControlPlane, name: &str, components: &str) -> Controller {
    let options = ControllerOptions {
        name: name.to_owned(),
        args: vec![format!("--components={components}")],
        ..ControllerOptions::default()
    };
    Controller::start(plane, options)
}

// catalogs.md 4.3
#[tokio::test(flavor = "multi_thread")]
async fn extension_half_installs_and_upgrades_over_https() {
    let cluster = cluster::own().await;
    let _catalogs = half(cluster.plane, "catalogs-half", "catalogs");
    let extensions = half(cluster.plane, "extensions-half", "extensions");
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let mut scene = Scene::set(cluster, "halves", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({"version": "1.x"})).await;
    extension.installed("1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    assert!(extensions.log().contains("catalog fetched"));
    extension.delete().await;
}
