//! The way of an administrator from an update of the platform that is blocked to one that is free,
//! with all that may happen on it.

use olm_api::keys::policy::{ON_FAILURE, UPGRADE};
use olm_test::prelude::*;

use crate::gate::{
    blocks_the_next_release, cluster_upgrade, in_the_way,
    only_its_removal_lets_the_next_release_in, set_cluster_version, wait_for_verdict,
};
use crate::plans::{digest, olm, plan};

const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];

/// Begins an update that never gets ready, and that would take itself back.
async fn begin_a_bad_update(scene: &Scene) {
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    scene.annotate(ON_FAILURE, "Rollback");
    extension.patch_catalog(json!({"version": null})).await;
}

/// Publishes an update of the scene that supports the next release.
async fn publish(scene: &mut Scene, update: Bundle) {
    let bundles =
        [Bundle::new("1.0.0").with_max_openshift("4.19"), update.with_max_openshift("4.20")];
    let max = |value: &str| json!({"type": "olm.maxOpenShiftVersion", "value": value});
    let properties = [("1.0.0", max("4.19")), ("1.1.0", max("4.20"))];
    scene.grant(&bundles);
    scene.publish_with(&bundles, &chain(&VERSIONS), &properties).await;
}

// plugin.md U39, U57; applying.md 9.7, 10 (F11)
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_cluster_is_led_to_its_next_release() {
    let cluster = cluster::own().await;
    let (plane, client) = (cluster.plane, cluster.client.clone());
    set_cluster_version(&client, "4.19.5").await;
    let _controller = start(plane, "walk", &["--webhook-certificates=self-signed"]).await;

    // Three extensions: one declares nothing, one gets a bad update, and one is in the way.
    let bad = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let bad = Scene::set(cluster.clone(), "walkbad", &bad, &chain(&VERSIONS)).await;
    begin_a_bad_update(&bad).await;
    let free = Scene::of(cluster.clone(), "walkfree", &VERSIONS[..1]).await;
    free.install(json!({})).await.installed("1.0.0").await;
    let mut scene = Scene::empty(cluster, "walkgated");
    scene.create_namespace();
    publish(&mut scene, Bundle::new("1.1.0")).await;
    let name = scene.name.clone();
    let package = format!("{}@1.0.0", scene.package.name());
    warns(&scene, &["install", &package, "-n", &name, "-o", "yaml"]);
    // What is installed before the release is known is told by the condition alone.
    wait_for_verdict(&client, "True", "").await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    blocks_the_next_release(&scene, &extension).await;
    scene.annotate(UPGRADE, "None");
    extension.patch_catalog(json!({"version": null})).await;
    extension.offers("1.1.0", "").await;

    // Which version unblocks.
    let row = in_the_way(plane, &name);
    assert_eq!(row["lift"]["version"], "1.1.0", "{row:#}");
    let document = cluster_upgrade(plane, 1);
    let extensions = document["extensions"].as_array().expect("a list");
    let in_the_way = extensions.iter().filter(|it| it["inTheWay"] == true);
    assert_eq!((extensions.len(), in_the_way.count()), (3, 1), "{document:#}");

    // Its plan is approved, the catalog moves, and nothing is applied.
    let approved = plan(&scene);
    let gate = json!({"from": "4.19", "to": "4.20"});
    assert_eq!(approved["gate"], gate, "{approved:#}");
    plugin::answer(plane, &["pause", &name]).good();
    approve(&scene, &approved);
    publish(&mut scene, Bundle::new("1.1.0").with_second_config_map()).await;
    plugin::answer(plane, &["resume", &name]).good();
    let held = format!("but plan {} was approved", digest(&approved));
    extension.shows("Ready", "False", "PlanChanged", &held).await;
    assert_eq!(extension.revisions().await.len(), 1);
    wait_for_verdict(&client, "False", "buoy-walkgated.v1.0.0").await;

    // What it would be now is approved and applied, and the gate opens.
    let changed = plan(&scene);
    assert_ne!(digest(&changed), digest(&approved));
    assert_eq!(changed["heldBy"], json!(["approval"]));
    approve(&scene, &changed);
    extension.installed("1.1.0").await;
    assert!(scene.get("configmap", &scene.package.second_config_map()).is_some());
    wait_for_verdict(&client, "True", "").await;
    assert_eq!(cluster_upgrade(plane, 0)["upgradeable"], true);
    let back = ["--to", "1.0.0", "--force", "--yes", "--dry-run=server"];
    warns(&scene, &[&["upgrade", &name][..], &back].concat());
    only_its_removal_lets_the_next_release_in(&scene, &extension).await;
}

/// What a command leads to closes the gate, and it says so.
fn warns(scene: &Scene, args: &[&str]) {
    let (_, errors) = olm(scene, args).good();
    let bundle = scene.package.bundle_name("1.0.0");
    let warning = format!(
        "warning: once it is installed, the cluster cannot be updated to 4.20: bundle \"{bundle}\" \
         supports OpenShift up to 4.19"
    );
    assert!(errors.contains(&warning), "{errors}");
}

fn approve(scene: &Scene, plan: &Value) {
    olm(scene, &["approve", &scene.name, "--plan", digest(plan)]).good();
}
