//! Two catalogs, one of which cannot be read: what is still decided, and what is not (decision 3,
//! resolution.md 1.13).

use std::time::Duration;

use kube::api::{Api, PostParams};
use olm_api::ClusterCatalog;
use olm_test::cluster::{self, ControlPlane, Controller, ControllerOptions};
use olm_test::extension::{Extension, condition, installed_version, is};
use olm_test::package::{Bundle, Files, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
/// A label that both catalogs of a test have.
pub(crate) const SHELF: &str = "example.com/shelf";

/// Adds the label to the catalog of a scene.
pub(crate) fn shelve(scene: &Scene) {
    let label = format!("{SHELF}={}", scene.name);
    let plane = scene.cluster.plane;
    plane.kubectl(&["label", "clustercatalog", &scene.name, &label]);
}

/// Installs from every catalog with the label.
pub(crate) async fn install(scene: &Scene, version: &str) -> Extension {
    let selector = json!({"matchLabels": {SHELF: scene.name}});
    let filter = json!({"selector": selector, "version": version});
    scene.install(filter).await
}

/// Adds a catalog with the label, whose image does not exist.
pub(crate) fn add_broken(scene: &Scene, priority: i32) -> String {
    let name = format!("{}-down", scene.name);
    let image = format!("{}/nothing/here:v1", scene.cluster.registry);
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": name, "labels": {SHELF: scene.name}},
        "spec": {"priority": priority, "source": {"type": "Image", "image": {"ref": image}}},
    });
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "--filename", "-"], &catalog.to_string());
    name
}

pub(crate) fn change(scene: &Scene, catalog: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    let plane = scene.cluster.plane;
    plane.kubectl(&["patch", "clustercatalog", catalog, "--type=merge", "--patch", &patch]);
}

fn remove(scene: &Scene, catalog: &str) {
    let plane = scene.cluster.plane;
    plane.kubectl(&["delete", "clustercatalog", catalog]);
}

/// The text of upstream, which reports any catalog that cannot be read.
fn strict_text(scene: &Scene, catalog: &str) -> String {
    format!(
        "error walking catalogs: error getting package \"{}\" from catalog \"{catalog}\": catalog \
         \"{catalog}\" is not being served",
        scene.name
    )
}

async fn refuses(extension: &Extension, text: &str) {
    let found = extension.shows("Progressing", "True", "Retrying", text).await;
    let message = condition(&found, "Progressing").map(|found| found.message.as_str());
    assert_eq!(message, Some(text));
}

async fn stage(suffix: &str, versions: &[&str]) -> Scene {
    let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, suffix, &bundles, &chain(versions)).await;
    shelve(&scene);
    scene
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_catalog_of_lower_priority_stops_nothing() {
    let scene = stage("lower", &["1.0.0"]).await;
    let broken = add_broken(&scene, -10);
    let extension = install(&scene, "1.0.0").await;
    extension.installed("1.0.0").await;
    assert_eq!(
        scene.events("CatalogUnavailable"),
        [format!(
            "resolved without catalog(s) \"{broken}\": catalog \"{broken}\" is not being served"
        )]
    );
    remove(&scene, &broken);
    // decision 5: what only lacks its catalog is ready, and says so.
    remove(&scene, &scene.name);
    extension.shows("Ready", "True", "CatalogGone", "was deleted").await;
    assert!(is(&extension.get().await, "Progressing", "True", "Succeeded"));
    extension.delete().await;
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_catalog_of_equal_or_higher_priority_holds_what_is_installed() {
    let scene = stage("equal", &["1.0.0", "1.1.0"]).await;
    let broken = add_broken(&scene, 0);
    let extension = install(&scene, "1.0.0").await;
    refuses(&extension, &strict_text(&scene, &broken)).await;
    assert!(extension.revisions().await.is_empty());

    change(&scene, &broken, &json!({"availabilityMode": "Unavailable"}));
    extension.installed("1.0.0").await;

    change(&scene, &broken, &json!({"availabilityMode": "Available", "priority": 10}));
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    refuses(&extension, &strict_text(&scene, &broken)).await;
    assert_eq!(installed_version(&extension.get().await), Some("1.0.0"));
    // Drift of what is installed is repaired nevertheless.
    let name = scene.package.config_map();
    let plane = scene.cluster.plane;
    plane.kubectl(&["delete", "configmap", &name, "--namespace", &scene.name]);
    wait::until("the ConfigMap is back", SOON, || async {
        scene.get("configmap", &name).map(drop).ok_or("it is gone")
    })
    .await;

    remove(&scene, &broken);
    extension.installed("1.1.0").await;
    extension.delete().await;
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_bundle_is_not_taken_while_a_better_one_may_be_missing() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::set(cluster, "oldish", &bundles, &chain(&["1.0.0"])).await;
    let image = format!("{}/{}-bundle:v1.0.0", scene.cluster.registry, scene.name);
    let images = [("1.0.0".to_owned(), image)].into();
    let mut files = scene.package.catalog_files(&chain(&["1.0.0"]), &images);
    deprecate(&scene, &mut files);
    scene.publish_catalog(files).await;
    shelve(&scene);
    let broken = add_broken(&scene, -10);
    let extension = install(&scene, "1.0.0").await;
    refuses(&extension, &strict_text(&scene, &broken)).await;
    remove(&scene, &broken);
    extension.installed("1.0.0").await;
    extension.delete().await;
}

fn deprecate(scene: &Scene, files: &mut Files) {
    let name = scene.package.bundle_name("1.0.0");
    let blob = json!({"schema": "olm.deprecations", "package": scene.name, "entries": [
        {"reference": {"schema": "olm.bundle", "name": name}, "message": "old"},
    ]});
    for text in files.values_mut() {
        text.extend(format!("\n{blob}").into_bytes());
    }
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_stays_the_answer_whatever_breaks() {
    let scene = stage("stays", &["1.0.0"]).await;
    let extension = install(&scene, "1.x").await;
    extension.installed("1.0.0").await;
    let broken = add_broken(&scene, 10);
    wait::until("the broken catalog is told of", SOON, || async {
        let told = scene.events("CatalogUnavailable");
        (!told.is_empty()).then_some(()).ok_or(told)
    })
    .await;
    let found = extension.get().await;
    assert!(is(&found, "Progressing", "True", "Succeeded"));
    assert!(is(&found, "Ready", "True", "Succeeded"));
    remove(&scene, &broken);
    extension.delete().await;
}

/// Starts the extension half; one with the same name finds the cache of the previous one.
async fn extensions_half(plane: &'static ControlPlane, policy: &str) -> Controller {
    let options = ControllerOptions {
        name: "unavailable-extensions".to_owned(),
        args: vec![
            "--components=extensions".to_owned(),
            format!("--catalog-unavailability-policy={policy}"),
        ],
        ..ControllerOptions::default()
    };
    tokio::task::spawn_blocking(move || Controller::start(plane, options))
        .await
        .expect("the controller starts")
}

/// Changes the status of a catalog, which nothing else writes any more.
async fn set_status(scene: &Scene, change: impl Fn(&mut Value)) {
    let api = Api::<ClusterCatalog>::all(scene.cluster.client.clone());
    let catalog = api.get(&scene.name).await.expect("it exists");
    let mut value = serde_json::to_value(&catalog).expect("it is JSON");
    change(&mut value["status"]);
    let catalog = serde_json::from_value(value).expect("a ClusterCatalog");
    api.replace_status(&scene.name, &PostParams::default(), &catalog)
        .await
        .expect("the status is written");
}

fn serving(status: &mut Value, serving: &str) {
    let conditions = status["conditions"].as_array_mut().expect("conditions");
    for condition in conditions {
        if condition["type"] == "Serving" {
            condition["status"] = json!(serving);
        }
    }
}

fn resolved_to(status: &mut Value, digit: &str) {
    let image = &mut status["resolvedSource"]["image"]["ref"];
    let (name, _) = image.as_str().and_then(|it| it.split_once('@')).expect("a digest");
    *image = json!(format!("{name}@sha256:{}", digit.repeat(64)));
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn content_that_was_read_once_is_used_as_the_policy_says() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let options = ControllerOptions {
        name: "unavailable-catalogs".to_owned(),
        args: vec!["--components=catalogs".to_owned()],
        ..ControllerOptions::default()
    };
    let mut catalogs = tokio::task::spawn_blocking(move || Controller::start(plane, options))
        .await
        .expect("the controller starts");
    let mut extensions = extensions_half(plane, "Provable").await;
    let versions = ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"];
    let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
    let scene = Scene::set(cluster, "copies", &bundles, &chain(&versions)).await;
    shelve(&scene);
    let extension = install(&scene, "1.0.0").await;
    extension.installed("1.0.0").await;
    let upgrade = async |version: &str| {
        extension.patch_catalog(json!({"version": version})).await;
        extension.installed(version).await;
    };
    catalogs.kill();

    // The content of the wanted digest is cached, whatever the server does.
    set_status(&scene, |status| serving(status, "False")).await;
    upgrade("1.0.1").await;
    let told = scene.events("CatalogUnavailable");
    assert!(told.iter().any(|note| note.ends_with("is not being served")), "{told:?}");

    // The same after a restart.
    extensions.kill();
    extensions.restart(plane);
    upgrade("1.0.2").await;

    // If another digest cannot be fetched, the copy stays in use.
    set_status(&scene, |status| {
        serving(status, "True");
        resolved_to(status, "a");
    })
    .await;
    upgrade("1.0.3").await;

    // Unless only the wanted digest counts.
    extensions.kill();
    extensions = extensions_half(plane, "Strict").await;
    extension.patch_catalog(json!({"version": "1.0.4"})).await;
    let text = format!(
        "error walking catalogs: error getting package \"{0}\" from catalog \"{0}\": error \
         retrieving cache for catalog \"{0}\": error performing request: ",
        scene.name
    );
    extension.shows("Progressing", "True", "Retrying", &text).await;
    assert_eq!(installed_version(&extension.get().await), Some("1.0.3"));

    // A catalog that was never read blocks an install unless the policy is BestEffort.
    let broken = add_broken(&scene, 0);
    extensions.kill();
    extensions = extensions_half(plane, "BestEffort").await;
    extension.installed("1.0.4").await;
    change(&scene, &broken, &json!({"priority": 10}));
    extension.patch_catalog(json!({"version": "1.0.5"})).await;
    refuses(&extension, &strict_text(&scene, &broken)).await;
    remove(&scene, &broken);
    extension.installed("1.0.5").await;

    // A recreated catalog does not inherit the copy of the previous one.
    let status = json!({"metadata": {"finalizers": null}}).to_string();
    plane.kubectl(&["delete", "clustercatalog", &scene.name, "--wait=false"]);
    plane.kubectl(&["patch", "clustercatalog", &scene.name, "--type=merge", "--patch", &status]);
    extension
        .patch_catalog(json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}))
        .await;
    add_anew(&scene);
    refuses(&extension, &strict_text(&scene, &scene.name)).await;
    extensions.kill();
}

/// Adds a catalog with the name of the deleted one, which will never be served.
fn add_anew(scene: &Scene) {
    let image = format!("{}/nothing/here:v1", scene.cluster.registry);
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
        "metadata": {"name": scene.name, "labels": {SHELF: scene.name}},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}},
    });
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "--filename", "-"], &catalog.to_string());
}
