//! Two catalogs, one of which cannot be read: what is still decided, and what is not (decision 3,
//! resolution.md 1.13).

use olm_test::prelude::*;

/// A label that both catalogs of a test have.
pub(crate) const SHELF: &str = "example.com/shelf";

/// Adds the label to the catalog of a scene.
pub(crate) fn shelve(scene: &Scene) {
    let label = format!("{SHELF}={}", scene.name);
    scene.cluster.plane.kubectl(&["label", "clustercatalog", &scene.name, &label]);
}

/// Installs from every catalog with the label.
pub(crate) async fn install(scene: &Scene, version: &str) -> Extension {
    let selector = json!({"matchLabels": {SHELF: scene.name}});
    scene.install(json!({"selector": selector, "version": version})).await
}

/// Adds a catalog with the label, whose image does not exist. Who sees the label of a catalog that gets it
/// afterwards has seen this one.
pub(crate) fn add_broken(scene: &Scene, priority: i32) -> String {
    let name = format!("{}-down", scene.name);
    add(scene, &name, priority);
    name
}

fn add(scene: &Scene, name: &str, priority: i32) {
    let image = format!("{}/nothing/here:v1", scene.cluster.registry);
    let mut catalog = objects::catalog(name, &image);
    catalog["metadata"]["labels"] = json!({SHELF: scene.name});
    catalog["spec"]["priority"] = json!(priority);
    scene.cluster.plane.create(&catalog);
}

/// Waits until it is told that a catalog cannot be read, and returns what is told.
async fn told(scene: &Scene) -> Vec<String> {
    scene.told("CatalogUnavailable", "").await;
    scene.events("CatalogUnavailable")
}

pub(crate) fn change(scene: &Scene, catalog: &str, spec: &Value) {
    Catalog::named(scene.cluster.plane, catalog).merge(&json!({"spec": spec}));
}

fn remove(scene: &Scene, catalog: &str) {
    scene.cluster.plane.kubectl(&["delete", "clustercatalog", catalog]);
}

/// The text of upstream, which reports any catalog that cannot be read.
fn strict_text(scene: &Scene, catalog: &str) -> String {
    format!(
        "error walking catalogs: error getting package \"{}\" from catalog \"{catalog}\": catalog \
         \"{catalog}\" is not being served",
        scene.name
    )
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_catalog_of_lower_priority_stops_nothing() {
    let scene = Scene::shared("lower", &["1.0.0"]).await;
    let broken = add_broken(&scene, -10);
    shelve(&scene);
    let extension = install(&scene, "1.0.0").await;
    extension.installed("1.0.0").await;
    assert_eq!(
        told(&scene).await,
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
    let scene = Scene::shared("equal", &["1.0.0", "1.1.0"]).await;
    let broken = add_broken(&scene, 0);
    shelve(&scene);
    let extension = install(&scene, "<1.1.0").await;
    extension.says("True", "Retrying", &strict_text(&scene, &broken)).await;
    assert!(extension.revisions().await.is_empty());

    change(&scene, &broken, &json!({"availabilityMode": "Unavailable"}));
    extension.installed("1.0.0").await;

    change(&scene, &broken, &json!({"availabilityMode": "Available", "priority": 10}));
    // The change that follows may be seen before this one.
    told(&scene).await;
    // What is installed stays the answer whatever breaks.
    let found = extension.get().await;
    assert!(is(&found, "Progressing", "True", "Succeeded"));
    assert!(is(&found, "Ready", "True", "Succeeded"));
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.says("True", "Retrying", &strict_text(&scene, &broken)).await;
    assert_eq!(installed_version(&extension.get().await), Some("1.0.0"));
    // Drift of installed objects is repaired nevertheless.
    scene.is_repaired().await;

    remove(&scene, &broken);
    extension.installed("1.1.0").await;
    extension.delete().await;
}

// resolution.md 1.13
#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_bundle_is_not_taken_while_a_better_one_may_be_missing() {
    let mut scene = Scene::shared("oldish", &["1.0.0"]).await;
    let image = format!("{}/{}-bundle:v1.0.0", scene.cluster.registry, scene.name);
    let mut files = scene.package.catalog_of(&image);
    scene.package.deprecate(&mut files, "1.0.0");
    scene.publish_catalog(files).await;
    let broken = add_broken(&scene, -10);
    shelve(&scene);
    let extension = install(&scene, "1.0.0").await;
    extension.says("True", "Retrying", &strict_text(&scene, &broken)).await;
    remove(&scene, &broken);
    extension.installed("1.0.0").await;
    extension.delete().await;
}

/// Starts the extension half; one with the same name finds the cache of the previous one.
async fn extensions_half(plane: &'static ControlPlane, policy: &str) -> Controller {
    let policy = format!("--catalog-unavailability-policy={policy}");
    start(plane, "unavailable-extensions", &["--components=extensions", &policy]).await
}

/// Changes the status of a catalog, which nothing else writes any more.
fn set_status(scene: &Scene, change: impl Fn(&mut Value)) {
    let catalog = Catalog::named(scene.cluster.plane, &scene.name);
    let mut status = catalog.get()["status"].take();
    change(&mut status);
    catalog.set_status(&status);
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
    let mut catalogs = start(plane, "unavailable-catalogs", &["--components=catalogs"]).await;
    let mut extensions = extensions_half(plane, "Provable").await;
    let versions = ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"];
    let scene = Scene::of(cluster, "copies", &versions).await;
    shelve(&scene);
    let extension = install(&scene, "1.0.0").await;
    extension.installed("1.0.0").await;
    catalogs.kill();

    // The content of the wanted digest is cached, whatever the server does.
    set_status(&scene, |status| serving(status, "False"));
    extension.moves_to("1.0.1").await;
    let told = told(&scene).await;
    assert!(told.iter().any(|note| note.ends_with("is not being served")), "{told:?}");

    // The same after a restart.
    extensions.kill();
    extensions.restart(plane);
    extension.moves_to("1.0.2").await;

    // If another digest cannot be fetched, the copy stays in use.
    set_status(&scene, |status| {
        serving(status, "True");
        resolved_to(status, "a");
    });
    extension.moves_to("1.0.3").await;

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
    // Nobody tells when the half has seen the one change before the other, but at its start.
    extensions.kill();
    change(&scene, &broken, &json!({"priority": 10}));
    extension.patch_catalog(json!({"version": "1.0.5"})).await;
    extensions.restart(plane);
    extension.says("True", "Retrying", &strict_text(&scene, &broken)).await;
    remove(&scene, &broken);
    extension.installed("1.0.5").await;

    // A recreated catalog does not inherit the copy of the previous one.
    let catalog = Catalog::named(plane, &scene.name);
    catalog.delete();
    catalog.merge(&json!({"metadata": {"finalizers": null}}));
    // Its end is seen although nothing else of it changed, and before the change that follows.
    extension.shows("Ready", "True", "CatalogGone", "was deleted").await;
    extension.force("1.0.0").await;
    // It will never be served.
    add(&scene, &scene.name, 0);
    extension.says("True", "Retrying", &strict_text(&scene, &scene.name)).await;
}
