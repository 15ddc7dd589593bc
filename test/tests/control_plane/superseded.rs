//! A bad release never pins an extension: what the catalogs have withdrawn, or what cannot progress,
//! gives way to what they choose then; what progresses is left alone.
//!
//! Source: applying.md 1.3.

use olm_test::prelude::*;

const NOTED: &str = "RolloutSuperseded";

fn entry(version: &str, replaces: Option<&str>) -> Entry {
    Entry { version: version.to_owned(), replaces: replaces.map(str::to_owned) }
}

/// Serves these entries, and says of the package that it is deprecated, so that the status tells when
/// the controller has asked the catalog.
async fn publish_marked(scene: &mut Scene, bundles: &[Bundle], entries: &[Entry]) {
    let images = scene.push(bundles).await;
    let mut files: Files = scene.package.catalog_files(entries, &images);
    let mark = json!({"schema": "olm.deprecations", "package": scene.package.name(), "entries": [
        {"reference": {"schema": "olm.package"}, "message": "read"}]});
    for text in files.values_mut() {
        text.extend(format!("\n{mark}").into_bytes());
    }
    scene.publish_catalog(files).await;
}

async fn rolls_out(extension: &Extension, version: &str) {
    let text = format!("Revision {version} is rolling out.");
    extension.shows("Progressing", "True", "RollingOut", &text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_withdrawn_gives_way_to_the_next() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken(), Bundle::new("1.2.0")];
    let mut scene = Scene::shared_set("withdrawn", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    rolls_out(&extension, "1.1.0").await;

    // A newer version alone changes nothing, and the plugin says so.
    let both = [entry("1.0.0", None), entry("1.1.0", Some("1.0.0")), entry("1.2.0", Some("1.0.0"))];
    publish_marked(&mut scene, &bundles, &both).await;
    extension.shows("PackageDeprecated", "True", "Deprecated", "read").await;
    rolls_out(&extension, "1.1.0").await;
    assert_eq!(extension.revisions().await.len(), 2, "what progresses is left alone");
    let ca = scene.cluster.plane.addresses.controller_ca.to_string_lossy();
    let plan = ["plan", &scene.name, "-o", "json", "--catalog-ca", &ca];
    let plan = plugin::answer(scene.cluster.plane, &plan).document();
    assert_eq!(plan["to"]["version"], "1.1.0", "the plugin decides so, too");
    // `upgrade` asks for another one, and that rollout does not go on then.
    let other = ["plan", &scene.name, "--to", "1.0.0", "-o", "json", "--catalog-ca", &ca];
    let other = plugin::answer(scene.cluster.plane, &other).document();
    assert_eq!(other["to"]["version"], "1.0.0", "{other}");
    let why = plugin::ask(scene.cluster.plane, &["why", &scene.name]);
    let alone = format!("{} is rolling out, and is left alone", scene.package.bundle_name("1.1.0"));
    assert!(why.contains(&alone), "{why}");

    scene.publish(&bundles, &chain(&["1.0.0", "1.2.0"])).await;
    extension.installed("1.2.0").await;
    assert_eq!(extension.revisions().await.len(), 3);
    let [next, given_up] = ["1.2.0", "1.1.0"].map(|version| scene.package.bundle_name(version));
    let want = format!(
        "{next} supersedes the rollout of {given_up}, because no catalog offers {given_up} any longer"
    );
    assert_eq!(scene.events(NOTED), [want]);
    extension.delete().await;
}

// applying.md 1.3: requesting the next version early does not undo the present rollout
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_goes_on_when_a_version_is_asked_for_that_does_not_follow_yet() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken(), Bundle::new("1.2.0")];
    let (_scene, extension) = Scene::shared_first("early", &bundles).await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    rolls_out(&extension, "1.1.0").await;
    extension.patch_catalog(json!({"version": "1.2.0"})).await;
    let wanted = extension.get().await.metadata.generation;
    let is_known = |set: &ClusterObjectSet| {
        let recorded = set.annotation(annotation::EXTENSION_GENERATION);
        recorded.and_then(|text| text.parse().ok()) == wanted
    };
    let what = "the newest revision is that of the new spec";
    let newest = |all: &Vec<ClusterObjectSet>| all.last().is_some_and(is_known);
    let all = wait::read(what, SOON, || extension.revisions(), newest).await;
    assert_eq!(all.len(), 2, "nothing goes back");
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    assert_eq!(extension.revisions().await.len(), 3, "unless that is asked for");
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_release_that_is_withdrawn_gives_way_to_the_next() {
    let bundles = [Bundle::new("1.1.0").broken(), Bundle::new("1.2.0").broken()];
    let mut scene = Scene::shared_set("withdrawnfirst", &bundles, &chain(&["1.1.0"])).await;
    let extension = scene.install(json!({})).await;
    rolls_out(&extension, "1.1.0").await;
    scene.publish(&bundles, &chain(&["1.2.0"])).await;
    let found = extension.shows("Ready", "False", "RollingOut", "supersedes the rollout of").await;
    assert_eq!(installed_version(&found), None);
    rolls_out(&extension, "1.2.0").await;
    let ready = condition(&extension.get().await, "Ready").expect("Ready").message.clone();
    let given_up = scene.package.bundle_name("1.1.0");
    assert!(ready.contains(&format!("because no catalog offers {given_up} any longer")), "{ready}");
    scene.publish(&[Bundle::new("1.3.0")], &chain(&["1.3.0"])).await;
    extension.installed("1.3.0").await;
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_progress_gives_way_and_what_was_chosen_again_stays() {
    let mut stuck = Bundle::new("1.1.0").broken();
    stuck.progress_deadline = Some(5);
    let bundles = [Bundle::new("1.0.0"), stuck, Bundle::new("1.2.0")];
    let mut scene = Scene::shared_set("stalled", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({})).await;
    rolls_out(&extension, "1.1.0").await;
    let text = format!("{} cannot progress: ", scene.package.deployment());
    extension.shows("Ready", "False", "RollingOut", &text).await;
    let stays = extension.revisions().await;
    scene.reports(&scene.revision(1), r#""status":"True","type":"Stalled""#).await;
    assert_eq!(extension.revisions().await.len(), stays.len(), "it was chosen again");

    let both = [entry("1.0.0", None), entry("1.1.0", Some("1.0.0")), entry("1.2.0", Some("1.0.0"))];
    scene.publish(&bundles, &both).await;
    extension.installed("1.2.0").await;
    let event = scene.events(NOTED).remove(0);
    assert!(event.contains(&text), "{event}");
    extension.delete().await;
}
