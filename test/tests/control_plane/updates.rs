//! Newer versions that are offered but not chosen: pinned, held, paused; and how they are released.

use olm_api::keys::policy::{APPROVE, PAUSED, UPDATE_WINDOW as WINDOW, UPGRADE};
use olm_test::prelude::*;

/// More catalogs than the plugin asks for at the same time.
const CROWD: usize = 8;

/// Makes more catalogs of the image of `scene`, which come before its own, and waits until they
/// are served.
async fn crowd(scene: &Scene) -> Vec<Catalog> {
    let plane = scene.cluster.plane;
    let image = Catalog::named(plane, &scene.name).get()["spec"]["source"]["image"].take();
    let image = image["ref"].as_str().expect("a reference");
    let names = (0..CROWD).map(|number| format!("{number}-{}", scene.name));
    let crowd: Vec<_> = names.map(|name| Catalog::create(plane, &name, image)).collect();
    for catalog in &crowd {
        catalog.served().await;
    }
    crowd
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_extension_shows_what_it_could_be() {
    let scene = Scene::shared("pinned", &["1.0.0", "1.0.1", "1.0.2"]).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    let installed = extension.installed("1.0.0").await;
    assert!(is(&installed, "Ready", "True", "Succeeded"));
    let update = extension.offers("1.0.1", "Pinned").await;
    assert_eq!(update.newest, "1.0.2");
    assert_eq!(update.catalog, scene.name);
    let told = scene.events("UpgradeAvailable");
    assert_eq!(told, ["1.0.1 is available, but version \"1.0.0\" excludes it"]);

    let table = scene.cluster.plane.kubectl(&["get", "clusterextension", &scene.name]);
    let columns = |table: &str| -> Vec<Vec<String>> {
        let lines = table.lines();
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let rows = columns(&table);
    let shows = |row: &[String], words: &[&str]| words.iter().all(|it| row.contains(&(*it).into()));
    assert!(shows(&rows[0], &["READY", "REASON", "UPDATE"]), "{table}");
    assert!(shows(&rows[1], &["Succeeded", "1.0.1"]), "{table}");
    let owner = format!("--selector={}={}", label::OWNER_NAME, scene.name);
    let table = scene.cluster.plane.kubectl(&["get", "clusterobjectsets", &owner]);
    let rows = columns(&table);
    assert!(shows(&rows[0], &["READY", "REASON"]), "{table}");
    assert!(shows(&rows[1], &["Succeeded"]), "{table}");

    let crowd = crowd(&scene).await;
    let why = plugin::ask(scene.cluster.plane, &["why", &scene.name]);
    assert!(why.contains("VersionOutOfRange: does not match 1.0.0"), "{why}");
    crowd.iter().for_each(Catalog::delete);
    let answer = plugin::answer(scene.cluster.plane, &["status", "--output=json"]).document();
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

/// No path leads to a version that is held, and the way out is named.
fn is_drawn_and_explained(scene: &Scene) {
    let drawn = plugin::ask(scene.cluster.plane, &["graph", &scene.name]);
    let rows: Vec<&str> = drawn.lines().map(str::trim).collect();
    for row in ["\u{25cb} 3.0.0  head", "\u{25cb} 2.0.0", "\u{25c9} 1.0.0  installed", "next: none"]
    {
        assert!(rows.contains(&row), "{row}: {drawn}");
    }
    let explained = plugin::ask(scene.cluster.plane, &["why", &scene.name, "2.0.0"]);
    for text in ["1.0.0 (installed)", "NextMajorHeld", "upgrade: Any"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
}

// decision 22
#[tokio::test(flavor = "multi_thread")]
async fn the_next_major_version_is_held_until_it_is_approved() {
    let (scene, extension) =
        Scene::shared_first("major", &["1.0.0", "2.0.0", "3.0.0"].map(Bundle::new)).await;
    extension.patch_catalog(json!({"version": null})).await;
    let text = "2.0.0 is available and held, because it is a new major version";
    extension.shows("Ready", "True", "NextMajorHeld", text).await;
    extension.offers("2.0.0", "NextMajorHeld").await;
    assert_eq!(scene.events("NextMajorHeld").len(), 1);
    is_drawn_and_explained(&scene);

    scene.annotate(APPROVE, "2.0.0");
    extension.installed("2.0.0").await;
    // Only that step was approved.
    extension.offers("3.0.0", "NextMajorHeld").await;
    scene.annotate(UPGRADE, "Any");
    extension.installed("3.0.0").await;

    scene.annotate(UPGRADE, "Sometimes");
    let text = format!("annotation {UPGRADE} is invalid: unknown update policy");
    extension.shows("Progressing", "False", "InvalidConfiguration", &text).await;
    extension.delete().await;
}

// applying.md j5
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_extension_is_left_alone_and_goes_on_afterwards() {
    let (scene, extension) =
        Scene::shared_first("paused", &["1.0.0", "1.1.0"].map(Bundle::new)).await;
    scene.annotate(PAUSED, "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied until annotation").await;
    extension.shows("Ready", "True", "Paused", "nothing is applied until annotation").await;
    extension.patch_catalog(json!({"version": "1.x"})).await;
    extension.offers("1.1.0", "Paused").await;
    let name = scene.package.config_map();
    scene.cluster.plane.kubectl(&["delete", "configmap", &name, "-n", &scene.name]);
    // The next reconcile of the extension comes after the deletion was observed.
    scene.annotate("example.com/look", "again");
    extension.offers("1.1.0", "Paused").await;
    assert!(scene.get("configmap", &name).is_none());
    assert_eq!(extension.revisions().await.len(), 1);

    scene.annotate(PAUSED, "");
    let installed = extension.installed("1.1.0").await;
    assert!(condition(&installed, "Paused").is_none());
    assert!(scene.get("configmap", &name).is_some());
    extension.delete().await;
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
async fn an_update_waits_until_its_window_opens() {
    let (scene, extension) =
        Scene::shared_first("window", &["1.0.0", "1.1.0"].map(Bundle::new)).await;
    let later = |seconds: i64| Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let window = |opens: Timestamp| {
        let closes = opens + jiff::SignedDuration::from_hours(2);
        format!("{}-{}", opens.strftime("%H:%M"), closes.strftime("%H:%M"))
    };
    scene.annotate(WINDOW, &window(later(3 * 60 * 60)));
    extension.patch_catalog(json!({"version": null})).await;
    let update = extension.offers("1.1.0", "OutsideWindow").await;
    let text = "1.1.0 is available and held until the update window opens at ";
    assert!(update.message.starts_with(text), "{}", update.message);
    extension.shows("Ready", "True", "OutsideWindow", text).await;
    let why = plugin::ask(scene.cluster.plane, &["why", &scene.name]);
    assert!(why.contains("OutsideWindow: is held until the update window opens"), "{why}");
    assert!(why.contains(text) && why.contains(APPROVE) && !why.contains(UPGRADE), "{why}");
    let (_, status, _) = plugin::answer(scene.cluster.plane, &["status", &scene.name]);
    assert!(status.contains("window"), "{status}");
    // Nothing else happens when the time comes: a full minute, in ten seconds or later.
    scene.annotate(WINDOW, &window(later(70)));
    let opened = extension.eventually("1.1.0 is taken", Duration::from_mins(5), |extension| {
        installed_version(extension) == Some("1.1.0")
    });
    opened.await;
    extension.delete().await;
}
