//! Catalogs and extensions as two processes: the second reads catalogs over HTTPS only.

use std::sync::OnceLock;

use olm_test::cluster::{Cluster, ControlPlane, Controller, ControllerOptions};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use serde_json::json;

/// A control plane for these tests only, because the shared one has a controller of all parts.
async fn plane() -> Cluster {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    let plane = tokio::task::spawn_blocking(|| PLANE.get_or_init(ControlPlane::start))
        .await
        .expect("the control plane starts");
    Cluster::of(plane).await
}

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
    let cluster = plane().await;
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
