//! Declared dependencies, checked against the cluster: what is missing is waited for, and what
//! others need is not removed.

use olm_test::package::definition;
use olm_test::prelude::*;

fn package(name: &str, range: &str) -> Value {
    json!({"type": "olm.package.required", "value": {"packageName": name, "versionRange": range}})
}

fn kind(group: &str) -> Value {
    json!({"type": "olm.gvk.required", "value": {"group": group, "version": "v1", "kind": "Reef"}})
}

/// A package of these versions in a chain, some of which have constraints.
async fn stage(
    cluster: Cluster,
    suffix: &str,
    versions: &[&str],
    properties: &[(&str, Value)],
) -> Scene {
    let bundles: Vec<_> = versions.iter().map(|version| Bundle::new(version)).collect();
    Scene::set_with(cluster, suffix, &bundles, &chain(versions), properties).await
}

async fn waits(extension: &Extension, text: &str) -> i64 {
    let waiting = extension.says("True", "Retrying", text).await;
    waiting.metadata.generation.expect("a generation")
}

// resolution.md 5.2
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_package_is_waited_for_and_its_arrival_installs_the_rest() {
    let cluster = cluster::with_controller().await;
    let needed = stage(cluster, "needed", &["1.0.0"], &[]).await;
    let cluster = cluster::with_controller().await;
    let needs = package("buoy-needed", ">=1.0.0");
    let scene = stage(cluster, "needs", &["1.0.0"], &[("1.0.0", needs)]).await;

    let extension = scene.install(json!({})).await;
    let generation = waits(
        &extension,
        "validating bundle \"buoy-needs.v1.0.0\": unmet constraints: requires package \
         \"buoy-needed\" in version range \">=1.0.0\" (no installed ClusterExtension provides it)",
    )
    .await;
    assert_eq!(scene.events("ConstraintUnmet").len(), 1);
    assert!(extension.revisions().await.is_empty());

    needed.installed(json!({}), "1.0.0").await;
    let installed = extension.installed("1.0.0").await;
    // plugin.md U48
    let delete = ["delete", "buoy-needed", "--dry-run"];
    let (_, text, errors) = plugin::answer(needed.cluster.plane, &delete);
    let depends = "  its removal would break installed ClusterExtension \"buoy-needs\": requires package \
                   \"buoy-needed\"";
    assert!(text.contains(depends), "{text}{errors}");
    assert_eq!(installed.metadata.generation, Some(generation));
    // However often it was tried, it was reported once.
    assert_eq!(scene.events("ConstraintUnmet").len(), 1);
    let recorded = &extension.revisions().await[0];
    let recorded = recorded.metadata.annotations.as_ref().expect("annotations");
    assert_eq!(
        recorded["olm.operatorframework.io/bundle-constraints"],
        r#"[{"type":"olm.package.required","value":{"packageName":"buoy-needed","versionRange":">=1.0.0"}}]"#
    );
    // applying.md 7.3: what depends on it goes first, as the caller.
    let delete = ["delete", "buoy-needed", "--cascade", "--yes"];
    let (text, _) = plugin::answer(needed.cluster.plane, &delete).good();
    let gone = |name: &str| text.find(&format!("{name} deleted after"));
    let (first, second) = (gone("buoy-needs"), gone("buoy-needed"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(!text.contains("its removal"), "{text}");
}

// resolution.md 5.3, 5.2
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_kind_is_waited_for_whoever_brings_it() {
    let cluster = cluster::with_controller().await;
    let group = "kinds.example.com";
    let scene = stage(cluster, "kinds", &["1.0.0"], &[("1.0.0", kind(group))]).await;
    let extension = scene.install(json!({})).await;
    waits(
        &extension,
        "validating bundle \"buoy-kinds.v1.0.0\": unmet constraints: requires API \
         \"kinds.example.com/v1, Kind=Reef\" (not served by the cluster)",
    )
    .await;

    let crd = definition("Reef", group);
    let plane = scene.cluster.plane;
    plane.create(&crd);
    extension.installed("1.0.0").await;
    extension.delete().await;
    plane.kubectl(&["delete", "crd", &format!("reefs.{group}")]);
}

// resolution.md 1.10, decision 8
#[tokio::test(flavor = "multi_thread")]
async fn an_update_with_unmet_constraints_is_held_and_the_next_best_is_taken() {
    let cluster = cluster::with_controller().await;
    let needs = package("nowhere", ">=1.0.0");
    let versions = ["1.0.0", "1.1.0"];
    let scene = stage(cluster, "unmet", &versions, &[("1.1.0", needs)]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    let held =
        extension.shows("Ready", "True", "ConstraintUnmet", "requires package \"nowhere\"").await;
    let update = held.status.and_then(|status| status.update).expect("an update");
    assert_eq!(update.version.as_deref(), Some("1.1.0"));
    assert_eq!(update.reason, "ConstraintUnmet");

    scene.annotate("policy.olm.operatorframework.io/force", "constraints");
    extension.installed("1.1.0").await;
    extension.delete().await;
}

// resolution.md 5.6
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_would_break_a_dependent_is_held_until_that_is_gone() {
    let cluster = cluster::with_controller().await;
    let base = stage(cluster, "base", &["1.0.0", "1.1.0", "1.2.0"], &[]).await;
    let cluster = cluster::with_controller().await;
    let needs = [
        ("1.0.0", package("buoy-base", "<1.1.0")),
        ("1.1.0", package("buoy-base", ">=1.1.0 <1.2.0")),
    ];
    let dependent = stage(cluster, "leans", &["1.0.0", "1.1.0"], &needs).await;

    let extension = base.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    let leaning = dependent.installed(json!({"version": "1.0.0"}), "1.0.0").await;

    extension.patch_catalog(json!({"version": "<1.2.0"})).await;
    let held = breaks(&extension, "<1.1.0", "1.1.0").await;
    assert!(olm_test::extension::is(&held, "Progressing", "True", "Succeeded"));
    let update = held.status.and_then(|status| status.update).expect("an update");
    assert_eq!(
        (update.version.as_deref(), update.newest.as_str(), update.reason.as_str()),
        (Some("1.1.0"), "1.2.0", "BreaksInstalled")
    );
    assert_eq!(extension.revisions().await.len(), 1);

    // Its own update needs the one that is held: each names the other, and what ends that.
    leaning.patch_catalog(json!({"version": "1.x"})).await;
    let other = "requires package \"buoy-base\" in version range \">=1.1.0 <1.2.0\" (installed \
                 version is \"1.0.0\" from ClusterExtension \"buoy-base\")";
    leaning.shows("Ready", "True", "ConstraintUnmet", other).await;
    let force = "policy.olm.operatorframework.io/force";
    let way = format!("if each waits for the other, set {force}: constraints");
    assert!(update.message.contains(&way), "{}", update.message);
    base.annotate(force, "constraints");
    extension.installed("1.1.0").await;
    leaning.installed("1.1.0").await;
    base.annotate(force, "");

    extension.patch_catalog(json!({"version": "1.x"})).await;
    breaks(&extension, ">=1.1.0 <1.2.0", "1.2.0").await;
    leaning.delete().await;
    extension.installed("1.2.0").await;
    extension.delete().await;
}

/// Waits until an update is held because the other extension needs another version.
async fn breaks(extension: &Extension, range: &str, version: &str) -> ClusterExtension {
    let why = format!(
        "would break installed ClusterExtension \"buoy-leans\": requires package \"buoy-base\" in \
         version range \"{range}\" (version would become \"{version}\" from ClusterExtension \
         \"buoy-base\")"
    );
    extension.shows("Ready", "True", "BreaksInstalled", &why).await
}

// decision 9
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_for_a_newer_kubernetes_is_no_candidate() {
    let cluster = cluster::with_controller().await;
    let future = json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": "9.0.0"}});
    let versions = ["1.0.0", "1.1.0"];
    let scene = stage(cluster, "kube", &versions, &[("1.1.0", future)]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    extension.shows("Ready", "True", "ConstraintUnmet", "9.0.0").await;
    extension.delete().await;
}
