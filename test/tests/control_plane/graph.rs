//! `kubectl olm graph` of an extension: the catalogs and the installed bundle are the cluster's.

use std::process::Command;

use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{cluster, paths};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_drawn_with_what_is_installed_and_what_comes_next() {
    let cluster = cluster::with_controller().await;
    let versions = ["1.0.0", "1.0.1", "2.0.0"];
    let bundles = versions.map(Bundle::new);
    let scene = Scene::set(cluster, "drawn", &bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.0.1").await;

    let addresses = &scene.cluster.plane.addresses;
    let drawn = Command::new(paths::built("kubectl-olm"))
        .args(["graph", &scene.name, "--kubeconfig"])
        .arg(&addresses.kubeconfig)
        .arg("--catalog-ca")
        .arg(&addresses.controller_ca)
        .env_remove("KUBECONFIG")
        .output()
        .expect("kubectl-olm runs; build it with `cargo build`");
    let (text, errors) = (
        String::from_utf8_lossy(&drawn.stdout),
        String::from_utf8_lossy(&drawn.stderr),
    );
    assert!(drawn.status.success(), "{errors}");
    let rows: Vec<&str> = text.lines().map(str::trim).collect();
    // The next major version is held back, so that no way leads there.
    for row in [
        "\u{25cb} 2.0.0  head",
        "\u{25c9} 1.0.1  installed",
        "\u{25cb} 1.0.0",
        "next: none",
    ] {
        assert!(rows.contains(&row), "{row}: {text}");
    }
    extension.delete().await;
}
