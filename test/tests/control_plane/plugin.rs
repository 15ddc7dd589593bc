//! `kubectl olm graph` and `why` of an extension: with the catalogs and the installed bundle of the
//! cluster.

use std::process::Command;

use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{cluster, paths};
use serde_json::json;

/// Runs the plugin on the cluster of a scene and returns its output.
fn ask(scene: &Scene, arguments: &[&str]) -> String {
    let addresses = &scene.cluster.plane.addresses;
    let answer = Command::new(paths::built("kubectl-olm"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&addresses.kubeconfig)
        .arg("--catalog-ca")
        .arg(&addresses.controller_ca)
        .env_remove("KUBECONFIG")
        .output()
        .expect("kubectl-olm runs; build it with `cargo build`");
    let errors = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{errors}");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_drawn_and_explained_with_what_is_installed_and_what_comes_next() {
    let cluster = cluster::with_controller().await;
    let versions = ["1.0.0", "1.0.1", "2.0.0"];
    let bundles = versions.map(Bundle::new);
    let scene = Scene::set(cluster, "drawn", &bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.0.1").await;

    // The next major version is held back, so no path leads to it.
    let drawn = ask(&scene, &["graph", &scene.name]);
    let rows: Vec<&str> = drawn.lines().map(str::trim).collect();
    for row in [
        "\u{25cb} 2.0.0  head",
        "\u{25c9} 1.0.1  installed",
        "\u{25cb} 1.0.0",
        "next: none",
    ] {
        assert!(rows.contains(&row), "{row}: {drawn}");
    }
    let explained = ask(&scene, &["why", &scene.name, "2.0.0"]);
    for text in ["1.0.1 (installed)", "NextMajorHeld", "upgrade: Any"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }

    // The suggested way out leads there.
    scene.annotate(olm_api::keys::policy::UPGRADE, "Any");
    extension.installed("2.0.0").await;
    extension.delete().await;
}
