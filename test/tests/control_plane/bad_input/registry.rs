//! A registry that is gone for a while.

use std::time::Duration;

use olm_test::extension::is;
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{images, wait};
use serde_json::json;

use super::{Catalog, GOOD, apart, nothing_installed, says, serving};

// catalogs.md R2, R4, R13; api.md rows 23 and 25
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_stops_nothing_that_runs_and_is_found_again() {
    let apart = apart::turn("registry").await;
    let _controller = apart.start().await;
    let bundles = [Bundle::new("1.0.0")];
    let runs = Scene::set(apart.handle(), "runs", &bundles, &chain(&["1.0.0"])).await;
    let running = runs.install(json!({})).await;
    running.installed("1.0.0").await;
    let waits = Scene::set(apart.handle(), "comes", &bundles, &chain(&["1.0.0"])).await;
    let image = format!("{}/bad/outage:v1", apart.cluster.registry);
    let files = [("configs/c.json".to_owned(), GOOD.as_bytes().to_vec())];
    images::push_catalog(&image, files.into_iter().collect()).await;

    apart.cluster.plane.control("stop", "registry");
    let registry = &apart.cluster.registry;
    let refused = format!(
        "error creating image source: pinging container registry {registry}: Get \
         \"http://{registry}/v2/\": Connection refused"
    );
    let catalog = Catalog::create(&apart.cluster, "bad-outage", &image).await;
    let message = format!("source catalog content: {refused}");
    let found = catalog.says("True", "Retrying", &message).await;
    assert_eq!(serving(&found).0, "Unavailable");
    let waiting = waits.install(json!({})).await;
    let message = format!(
        "error for resolved bundle \"buoy-comes.v1.0.0\" with version \"1.0.0\": {refused}"
    );
    let found = says(&waiting, "True", "Retrying", &message).await;
    nothing_installed(&waiting, &found).await;

    // What runs is still repaired.
    let config_map = runs.package.config_map();
    let delete = [
        "delete",
        "configmap",
        &config_map,
        "--namespace",
        &runs.name,
    ];
    runs.cluster.plane.kubectl(&delete);
    wait::until("it is repaired", Duration::from_secs(30), || async {
        runs.get("configmap", &config_map).ok_or("no ConfigMap")
    })
    .await;
    assert!(is(&running.get().await, "Installed", "True", "Succeeded"));
    let failing = [
        ("clustercatalogs", "bad-outage"),
        ("clusterextensions", "buoy-comes"),
    ];
    apart.is_calm(&failing, Duration::from_secs(10)).await;

    apart.cluster.plane.control("start", "registry");
    catalog.served().await;
    waiting.installed("1.0.0").await;
    apart.is_well();
    catalog.delete().await;
    waiting.delete().await;
    running.delete().await;
}
