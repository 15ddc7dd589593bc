//! Newer versions that are offered but not chosen: pinned, held, paused; and how they are released.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, PostParams};
use olm_api::{ClusterCatalog, UpdateStatus};
use olm_core::status::is_true;
use olm_test::cluster;
use olm_test::extension::{Extension, ROLLOUT, is};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{plugin, wait};
use serde_json::{Value, json};

const APPROVE: &str = "policy.olm.operatorframework.io/approve";
const PAUSED: &str = "policy.olm.operatorframework.io/paused";
/// More catalogs than the catalog server gives connections to one address.
const CROWD: usize = 80;
const SOON: Duration = Duration::from_secs(30);
const WINDOW: &str = "policy.olm.operatorframework.io/update-window";
const UPGRADE: &str = "policy.olm.operatorframework.io/upgrade";

async fn stage(suffix: &str, versions: &[&str]) -> Scene {
    let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
    let cluster = cluster::with_controller().await;
    Scene::set(cluster, suffix, &bundles, &chain(versions)).await
}

/// Waits until the status has an update with this reason, and returns it.
async fn offers(extension: &Extension, version: &str, reason: &str) -> UpdateStatus {
    let what = format!("update {version} {reason}");
    let offered = |extension: &olm_api::ClusterExtension| {
        let status = extension.status.as_ref()?;
        status.update.clone()
    };
    let found = extension
        .eventually(&what, ROLLOUT, |extension| {
            offered(extension).is_some_and(|update| {
                update.version.as_deref() == Some(version) && update.reason == reason
            })
        })
        .await;
    offered(&found).expect("it was there")
}

/// Makes many more catalogs of the image of `scene`, which come before its own, and waits until they
/// are served.
async fn crowd(scene: &Scene) -> Vec<String> {
    let api = Api::<ClusterCatalog>::all(scene.cluster.client.clone());
    let catalog = api.get(&scene.name).await.expect("it exists");
    let names: Vec<_> = (0..CROWD).map(|number| format!("{number}-{}", scene.name)).collect();
    for name in &names {
        let copy = ClusterCatalog::new(name, catalog.spec.clone());
        let made = api.create(&PostParams::default(), &copy).await;
        made.expect("the catalog is admitted");
    }
    for name in &names {
        wait::until(&format!("{name} is served"), SOON, || async {
            let catalog = api.get(name).await.map_err(|error| error.to_string())?;
            let status = catalog.status.unwrap_or_default();
            is_true(&status.conditions, "Serving")
                .then_some(())
                .ok_or_else(|| format!("{:?}", status.conditions))
        })
        .await;
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_extension_shows_what_it_could_be() {
    let scene = stage("pinned", &["1.0.0", "1.0.1", "1.0.2"]).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    let installed = extension.installed("1.0.0").await;
    assert!(is(&installed, "Ready", "True", "Succeeded"));
    let update = offers(&extension, "1.0.1", "Pinned").await;
    assert_eq!(update.newest, "1.0.2");
    assert_eq!(update.catalog, scene.name);
    let told = scene.events("UpgradeAvailable");
    assert_eq!(told, ["1.0.1 is available; version \"1.0.0\" does not admit it"]);

    let table = scene.cluster.plane.kubectl(&["get", "clusterextension", &scene.name]);
    let columns = |table: &str| -> Vec<Vec<String>> {
        let lines = table.lines();
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let rows = columns(&table);
    let shows = |row: &[String], words: &[&str]| words.iter().all(|it| row.contains(&(*it).into()));
    assert!(shows(&rows[0], &["READY", "REASON", "UPDATE"]), "{table}");
    assert!(shows(&rows[1], &["Succeeded", "1.0.1"]), "{table}");

    let crowd = crowd(&scene).await;
    let why = plugin::ask(scene.cluster.plane, &["why", &scene.name]);
    assert!(why.contains("VersionOutOfRange: is not 1.0.0"), "{why}");
    for name in crowd {
        let plane = &scene.cluster.plane;
        plane.kubectl(&["delete", "--wait=false", "clustercatalog", &name]);
    }
    let (_, answer, _) = plugin::answer(scene.cluster.plane, &["status", "--output=json"]);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let mut all = answer["extensions"].as_array().expect("a list").iter();
    let row = all.find(|one| one["name"] == scene.name).expect("its row");
    assert_eq!(row["installed"]["version"], "1.0.0");
    assert_eq!(row["update"]["version"], "1.0.1");
    assert_eq!(row["update"]["newest"], "1.0.2");

    extension.patch_catalog(json!({"version": "1.0.x"})).await;
    let installed = extension.installed("1.0.2").await;
    assert_eq!(installed.status.and_then(|status| status.update), None);
    extension.delete().await;
}

// decision 22
#[tokio::test(flavor = "multi_thread")]
async fn the_next_major_version_is_held_until_it_is_approved() {
    let scene = stage("major", &["1.0.0", "2.0.0", "3.0.0"]).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    let text = "2.0.0 is available and held, because it is of the next major version";
    extension.shows("Ready", "True", "NextMajorHeld", text).await;
    offers(&extension, "2.0.0", "NextMajorHeld").await;
    assert_eq!(scene.events("NextMajorHeld").len(), 1);

    scene.annotate(APPROVE, "2.0.0");
    extension.installed("2.0.0").await;
    // Only that step was approved.
    offers(&extension, "3.0.0", "NextMajorHeld").await;
    scene.annotate(UPGRADE, "Any");
    extension.installed("3.0.0").await;

    scene.annotate(UPGRADE, "Sometimes");
    extension
        .shows(
            "Progressing",
            "False",
            "InvalidConfiguration",
            "annotation policy.olm.operatorframework.io/upgrade is invalid: unknown update policy",
        )
        .await;
    extension.delete().await;
}

// applying.md j5
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_extension_is_left_alone_and_goes_on_afterwards() {
    let scene = stage("paused", &["1.0.0", "1.1.0"]).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    scene.annotate(PAUSED, "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied until annotation").await;
    extension.patch_catalog(json!({"version": "1.x"})).await;
    offers(&extension, "1.1.0", "Paused").await;
    let in_namespace = ["--namespace", &scene.name];
    let name = scene.package.config_map();
    let delete = ["delete", "configmap", &name, in_namespace[0], in_namespace[1]];
    scene.cluster.plane.kubectl(&delete);
    // The next reconcile of the extension comes after the deletion was observed.
    scene.annotate("example.com/look", "again");
    offers(&extension, "1.1.0", "Paused").await;
    assert!(scene.get("configmap", &name).is_none());
    assert_eq!(extension.revisions().await.len(), 1);

    scene.annotate(PAUSED, "");
    let installed = extension.installed("1.1.0").await;
    assert!(olm_test::extension::condition(&installed, "Paused").is_none());
    assert!(scene.get("configmap", &name).is_some());
    extension.delete().await;
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
async fn an_update_waits_until_its_window_opens() {
    let scene = stage("window", &["1.0.0", "1.1.0"]).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let in_minutes = |minutes: i64| Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
    let window = |opens: Timestamp| {
        let closes = opens + jiff::SignedDuration::from_hours(2);
        format!("{}-{}", opens.strftime("%H:%M"), closes.strftime("%H:%M"))
    };
    scene.annotate(WINDOW, &window(in_minutes(180)));
    extension.patch_catalog(json!({"version": null})).await;
    let update = offers(&extension, "1.1.0", "OutsideWindow").await;
    let text = "1.1.0 is available and held until the update window opens at ";
    assert!(update.message.starts_with(text), "{}", update.message);
    let why = plugin::ask(scene.cluster.plane, &["why", &scene.name]);
    assert!(why.contains("OutsideWindow: is held until the update window opens"), "{why}");
    let status = plugin::run(scene.cluster.plane, &["status", &scene.name]).stdout;
    let status = String::from_utf8_lossy(&status);
    assert!(status.contains("window"), "{status}");
    // Nothing else happens when the time comes.
    scene.annotate(WINDOW, &window(in_minutes(2)));
    let opened = extension.eventually("1.1.0 is taken", Duration::from_secs(200), |extension| {
        olm_test::extension::installed_version(extension) == Some("1.1.0")
    });
    opened.await;
    extension.delete().await;
}
