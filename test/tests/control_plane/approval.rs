//! Where an administrator makes approval obligatory, nobody who owns only the extension gets past it.
//!
//! Source: applying.md 10 (F11).

use olm_test::prelude::*;

use crate::plans::{digest, olm, plan};

const TEXT: &str = "every step requires approval";

/// Labels the namespace of a scene; a value that ends in `-` removes the label.
fn require(scene: &Scene, value: &str) {
    let change = match value {
        "-" => format!("{}-", label::REQUIRE_APPROVAL),
        value => format!("{}={value}", label::REQUIRE_APPROVAL),
    };
    scene.cluster.plane.kubectl(&["label", "namespace", &scene.name, "--overwrite", &change]);
}

/// Waits until the extension, as it is, waits for the approval of a plan.
async fn waits(extension: &Extension) {
    let holds = |found: &ClusterExtension| {
        let ready = condition(found, "Ready");
        ready.is_some_and(|ready| {
            ready.message.contains(TEXT) && ready.observed_generation == found.metadata.generation
        })
    };
    extension.eventually("it waits for an approval", ROLLOUT, holds).await;
}

/// Makes the plan of a scene, which waits for nothing but its approval.
fn held(scene: &Scene) -> Value {
    let held = plan(scene);
    assert_eq!(held["heldBy"], json!(["approval"]), "{held:#}");
    held
}

/// Approves the plan that the plugin makes, and no other.
fn approve(scene: &Scene) {
    let held = held(scene);
    let (text, _) = olm(scene, &["approve", &scene.name, "--plan", digest(&held)]).good();
    assert!(!text.contains("still held"), "{text}");
}

/// Moves the extension to what its plan leads to, by a lock of that.
fn move_by_lock(scene: &Scene) {
    let next = held(scene);
    let (text, _) = olm(scene, &["lock", "write", &scene.name]).good();
    let runs = text.split_once("@sha256:").and_then(|(_, rest)| rest.get(..64));
    let runs = format!("sha256:{}", runs.expect("a digest"));
    let locked = text.replace("1.0.0", "1.1.0");
    let locked = locked.replace(&runs, next["to"]["digest"].as_str().expect("a digest"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("next.lock");
    std::fs::write(&path, locked).expect("it is written");
    olm(scene, &["lock", "apply", &path.to_string_lossy(), "--yes"]).good();
}

/// Tries everything that an owner may write, and the approval of a version alone.
async fn is_not_got_past(scene: &Scene, extension: &Extension, version: &str) {
    let before = extension.revisions().await.len();
    for (key, value) in [
        (policy::UPGRADE, "Any"),
        (policy::PERMISSION_INCREASE, "Allow"),
        (policy::CATALOG_MOVE, "Allow"),
        (policy::ON_FAILURE, "Rollback"),
        (policy::FORCE, "constraints"),
        (policy::ADOPT, "all"),
        (policy::APPROVE, version),
    ] {
        scene.annotate(key, value);
    }
    extension.force(version).await;
    waits(extension).await;
    assert_eq!(extension.revisions().await.len(), before, "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_in_a_labelled_namespace_waits_for_its_approval() {
    let scene = Scene::shared("foureyes", &["1.0.0", "1.1.0"]).await;
    let name = scene.name.clone();
    require(&scene, "true");

    // The first installation.
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    waits(&extension).await;
    is_not_got_past(&scene, &extension, "1.0.0").await;
    assert!(scene.get("configmap", &scene.package.config_map()).is_none());
    let table = scene.cluster.plane.kubectl(&["get", "clusterextension", &name]);
    assert!(table.contains("False") && table.contains("ApprovalRequired"), "{table}");
    let first = held(&scene);
    let told = scene.events("ApprovalRequired");
    assert!(told.iter().any(|note| note.contains(digest(&first))), "{told:?}");
    let (_, why, errors) = olm(&scene, &["why", &name]);
    let said = format!("ApprovalRequired: nothing is applied: {TEXT}, and this one is plan");
    assert!(why.contains(&said), "{why}{errors}");
    let (_, status, errors) = olm_test::plugin::answer(scene.cluster.plane, &["status"]);
    let mut rows = status.lines().filter(|row| row.split_whitespace().next() == Some(&*name));
    assert!(rows.any(|row| row.contains("approval")), "{status}{errors}");
    approve(&scene);
    extension.installed("1.0.0").await;

    // An update: a lock approves the plan, not the version.
    is_not_got_past(&scene, &extension, "1.1.0").await;
    move_by_lock(&scene);
    extension.installed("1.1.0").await;

    // Another configuration of the same version.
    let env = json!([{"name": "DEPTH", "value": "7"}]);
    let inline = json!({"deploymentConfig": {"env": env}});
    extension.patch_spec(json!({"config": {"configType": "Inline", "inline": inline}})).await;
    waits(&extension).await;
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    approve(&scene);
    extension.installed("1.1.0").await;
    assert_eq!(extension.revisions().await.len(), 3);

    // A step back, until nobody requires its approval any more.
    scene.annotate(policy::ROLLBACK_TO, "1");
    let is_said = |ready: &Condition| ready.message.contains(TEXT);
    extension.has("Ready", "the step back waits", is_said).await;
    assert_eq!(held(&scene)["to"]["version"], "1.0.0");
    assert_eq!(extension.revisions().await.len(), 3, "nothing is written");
    require(&scene, "-");
    extension.installed("1.0.0").await;
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_may_require_approval_of_every_extension() {
    let args = ["--require-approval", "--account-policy=require"];
    let (cluster, controller) = cluster::started("approvals", &args).await;
    let plane = cluster.plane;
    let scene = Scene::of(cluster, "foureyesall", &["1.0.0"]).await;
    // What the namespace says does not loosen it.
    require(&scene, "false");
    let extension = scene.install(json!({})).await;
    waits(&extension).await;
    wait::until("the plugin knows it from the settings", ROLLOUT, || async {
        let (_, text, errors) = olm(&scene, &["plan", &scene.name, "-o", "json"]);
        let plan: Value = serde_json::from_str(&text).unwrap_or_default();
        if plan["heldBy"] == json!(["approval"]) { Ok(()) } else { Err(format!("{text}{errors}")) }
    })
    .await;
    let (_, errors) = olm(&scene, &["approve", &scene.name, "--version", "1.0.0"]).good();
    assert!(errors.contains("the plan of each step must be approved as well"), "{errors}");
    is_not_got_past(&scene, &extension, "1.0.0").await;
    // While nobody is asked who approves, no approval counts.
    let policy = "clusterextension-approve";
    plane.kubectl(&["delete", "validatingadmissionpolicybinding", policy]);
    let line = format!("olm_account_policy_enforced{{policy=\"{policy}\"}} 0");
    controller.measures(&[line]).await;
    approve(&scene);
    let text = format!("admission policy \"{policy}\" is not in force");
    extension.shows("Progressing", "True", "Retrying", &text).await;
    plane.apply_policies();
    extension.installed("1.0.0").await;
    extension.delete().await;
}
