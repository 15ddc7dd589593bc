//! Plans: shown, approved by digest, and applied as approved or not at all.

use olm_api::UpgradeConstraintPolicy;
use olm_api::keys::policy::{
    CATALOG_MOVE as MOVE, PAUSED, PERMISSION_INCREASE as INCREASE, UPGRADE,
};
use olm_test::prelude::*;
use olm_test::scene::serve;

/// Runs `kubectl olm` with the CA of the catalog server.
pub(crate) fn olm(scene: &Scene, args: &[&str]) -> (Option<i32>, String, String) {
    plugin::read(scene.cluster.plane, args)
}

/// Makes the plan of the scene's extension, which something holds.
pub(crate) fn plan(scene: &Scene) -> Value {
    let (text, _) = olm(scene, &["plan", &scene.name, "-o", "json"]).ends(1);
    serde_json::from_str(&text).expect("a document")
}

pub(crate) fn digest(plan: &Value) -> &str {
    plan["digest"].as_str().expect("a digest")
}

/// Approves a plan, which is all that holds it.
fn approve(scene: &Scene, plan: &Value) {
    let (text, _) = olm(scene, &["approve", &scene.name, "--plan", digest(plan)]).good();
    assert!(!text.contains("still held"), "{text}");
}

// plugin.md U35, U38, U39, U40
#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_is_what_was_approved() {
    let (one, two) = (Bundle::new("1.0.0"), Bundle::new("1.1.0"));
    let other = Bundle::new("1.1.0").with_second_config_map();
    let bundles = [one.clone(), two.clone()];
    let (mut scene, extension) = Scene::shared_first("approved", &bundles).await;
    let name = scene.name.clone();
    scene.annotate(UPGRADE, "None");
    extension.patch_catalog(json!({"version": null})).await;
    extension.offers("1.1.0", "").await;

    // The controller may not have said yet what it makes of the change.
    let decided = || {
        let mut plan = plan(&scene);
        plan["controller"].take();
        plan
    };
    let first = decided();
    assert_eq!(first, decided(), "two plans of the same are equal");
    assert_eq!(first["heldBy"], json!(["policy"]));
    assert_eq!(first["from"]["version"], "1.0.0");
    assert_eq!(first["to"]["version"], "1.1.0");
    assert_eq!(first["unknown"], json!([]));
    let (_, errors) = olm(&scene, &["approve", &name, "--plan", "00000000", "--yes"]).ends(1);
    assert!(errors.contains(&format!("plan 00000000 is now {}", digest(&first))), "{errors}");

    // The catalog moves between the approval and the controller.
    scene.annotate(PAUSED, "true");
    let digits = &digest(&first)["sha256:".len()..][..8];
    let (text, _) = olm(&scene, &["approve", &name, "--plan", digits]).good();
    assert!(text.starts_with(&format!("{name}: 1.1.0 is approved by plan {digits}")), "{text}");
    let all = ["1.0.0", "1.1.0", "1.2.0"];
    let moved = [one.clone(), other, Bundle::new("1.2.0")];
    scene.grant(&moved);
    scene.publish(&moved, &chain(&all)).await;
    scene.annotate(PAUSED, "");
    let held = format!("but plan {} was approved; kubectl olm plan {name} shows", digest(&first));
    extension.shows("Ready", "False", "PlanChanged", &held).await;
    assert_eq!(extension.revisions().await.len(), 1);
    assert!(scene.events("PlanChanged")[0].contains(digest(&first)));
    olm(&scene, &["approve", &name, "--plan", digits]).ends(1);

    // What was approved is back, beside something newer.
    scene.annotate(PAUSED, "true");
    scene.publish(&[one, two, Bundle::new("1.2.0")], &chain(&all)).await;
    scene.annotate(PAUSED, "");
    extension.installed("1.1.0").await;
    extension.offers("1.2.0", "").await;
    assert!(scene.get("configmap", &scene.package.second_config_map()).is_none());
    extension.delete().await;
}

// applying.md j4
#[tokio::test(flavor = "multi_thread")]
async fn more_rights_wait_for_the_approval_of_their_plan() {
    let role = objects::reader("increased-reader", "secrets");
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").with_manifest(role)];
    let (scene, extension) = Scene::shared_first("increased", &bundles).await;
    scene.annotate(INCREASE, "RequireApproval");
    extension.patch_catalog(json!({"version": null})).await;
    extension.shows("Ready", "False", "PermissionIncrease", "gives more rights").await;
    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["increase"]));
    let (_, why, _) = olm(&scene, &["why", &scene.name]);
    assert!(why.contains(&format!("PermissionIncrease: plan {} gives", digest(&held))), "{why}");
    let added = held["operator"]["added"].to_string();
    assert!(added.contains("secrets"), "{added}");
    let event = scene.events("PermissionIncrease").remove(0);
    assert!(event.contains(digest(&held)), "{event}");
    assert_eq!(extension.revisions().await.len(), 1);
    approve(&scene, &held);
    extension.installed("1.1.0").await;
    extension.delete().await;
}

// applying.md 10, 11.3
#[tokio::test(flavor = "multi_thread")]
async fn an_update_from_another_catalog_is_told_and_can_be_held() {
    let cluster = cluster::with_controller().await;
    let client = cluster.client.clone();
    let (scene, extension) =
        Scene::first(cluster, "catalogmoved", &["1.0.0", "1.1.0"].map(Bundle::new)).await;
    let catalog = scene.get("clustercatalog", &scene.name).expect("it is served");
    let image = catalog["spec"]["source"]["image"]["ref"].as_str();
    let other = format!("{}-other", scene.name);
    serve(&client, &other, image.expect("a reference")).await;
    let selector = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": other}});
    scene.annotate(MOVE, "Hold");
    extension.patch_catalog(json!({"version": "1.1.0", "selector": selector})).await;
    // Who asks for a version has not said from whom.
    extension.offers("1.1.0", "").await;
    let said = format!("another catalog, {other}, than the installed bundle");
    extension
        .shows("Ready", "False", "Retrying", "held, because it comes from another catalog")
        .await;
    let (_, status, errors) = plugin::answer(scene.cluster.plane, &["status", &scene.name]);
    assert!(status.contains(&said), "{status}{errors}");
    let (_, why, _) = olm(&scene, &["why", &scene.name, "1.1.0"]);
    let told = format!(
        "OtherCatalogHeld: comes from another catalog than the installed bundle ({})",
        scene.name
    );
    assert!(why.contains(&told), "{why}");
    let to = ["--to", "1.1.0", "--yes", "--dry-run=server"];
    let (text, _) = olm(&scene, &[&["upgrade", &scene.name][..], &to].concat()).good();
    assert!(text.contains("operatorframework.io/approve=1.1.0"), "{text}");
    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["move"]));
    assert_eq!(held["catalog"], other);
    assert_eq!(extension.revisions().await.len(), 1);
    approve(&scene, &held);
    extension.installed("1.1.0").await;
    let note = format!(
        "{} comes from catalog {other}; the installed bundle came from catalog {}",
        scene.package.bundle_name("1.1.0"),
        scene.name
    );
    assert_eq!(scene.events("CatalogChanged"), [note]);
    let (text, _) = plugin::answer(scene.cluster.plane, &["history", &scene.name]).good();
    assert!(text.contains(&other), "{text}");
    extension.delete().await;
    scene.cluster.plane.kubectl(&["delete", "clustercatalog", &other]);
}

/// Of a package that nobody installed, with an account that is there and with one that is not.
fn plans_a_new_extension(scene: &Scene) {
    let package = scene.package.name();
    let (_, errors) = olm(scene, &["plan", &package]).ends(1);
    assert!(errors.contains("pass -n NAMESPACE"), "{errors}");
    let wanted = format!("{package}@1.0.0");
    let asked = ["plan", &wanted, "-n", &scene.name, "-o", "json"];
    let given = ["--service-account", ACCOUNT];
    for (account, noted) in [(&given[..], false), (&[], true)] {
        let (text, errors) = olm(scene, &[&asked[..], account].concat()).good();
        let plan: Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(plan["from"], json!(null));
        assert_eq!(plan["to"]["version"], "1.0.0");
        assert_eq!(plan["account"]["missing"] != json!([]), noted, "{text}");
        assert_eq!(errors.contains("install makes the account"), noted, "{errors}");
    }
}

/// Two versions of a package with a Secret.
pub(crate) async fn with_secrets(cluster: Cluster, suffix: &str) -> Scene {
    let secret = |version: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{suffix}-token")},
            "stringData": {"token": format!("hidden-{version}")}})
    };
    let bundles = ["1.0.0", "1.1.0"].map(|it| Bundle::new(it).with_manifest(secret(it)));
    Scene::set(cluster, suffix, &bundles, &chain(&["1.0.0", "1.1.0"])).await
}

// plugin.md U36, U37
pub(crate) async fn a_plan_shows_what_changes_whoever_asks(scene: &Scene) {
    plans_a_new_extension(scene);
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    let (text, _) = olm(scene, &["plan", &scene.name, "--to", "1.1.0", "--diff"]).good();
    assert!(text.contains("  objects   +2 ~1 -2\n"), "{text}");
    assert!(text.contains("    .stringData.token\n    -   \"(masked)\"\n"), "{text}");
    assert!(!text.contains("hidden-"), "{text}");
    let (plan, errors) = olm(scene, &["plan", &scene.name, "--to", "9.9.9"]).ends(1);
    assert!(plan.is_empty() && errors.contains("9.9.9"), "{plan}{errors}");
    let as_page = ["plan", &scene.name, "--to", "1.1.0", "-o", "html"];
    let (page, _) = olm(scene, &as_page).good();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("<span class=\"line\">+2 ~1 -2</span>"), "{page}");
    assert!(page.contains(".stringData.token\n- &#34;(masked)&#34;"), "{page}");
    for never in ["hidden-", "<script", "://"] {
        assert!(!page.contains(never), "{never}: {page}");
    }

    // Who may read neither Secrets nor roles sees the same objects.
    let plane = scene.cluster.plane;
    let (user, role) = ("planner", "operator-controller-clusterextension-viewer-role");
    let role = ("ClusterRole", role);
    plane.grant(&[objects::binding("planner-views", None, role, &objects::user(user))]);
    let asked = ["plan", &scene.name, "--to", "1.1.0", "-o", "json"];
    let (_, all, _) = olm(scene, &asked);
    let (code, few, errors) = olm(scene, &[&asked[..], &["--as", user]].concat());
    let package = format!("package:{}@1.1.0", scene.package.name());
    let (_, by_package, _) = olm(scene, &["plan", &package, "-o", "json"]);
    assert_eq!(by_package, all, "the package stands for its extension");
    let (all, few): (Value, Value) = (
        serde_json::from_str(&all).expect("a document"),
        serde_json::from_str(&few).unwrap_or_else(|_| panic!("{errors}")),
    );
    assert_eq!(code, Some(3), "{errors}");
    assert_eq!(all["objects"], few["objects"]);
    assert_eq!(all["digest"], few["digest"]);
    assert!(errors.contains("its content cannot be read"), "{errors}");
    assert_eq!(few["unknown"][0]["what"], "account");
    let note = few["notes"][0].as_str().expect("a note");
    assert!(note.contains("its content cannot be read"), "{note}");
    extension.delete().await;
}

// plugin.md U42, api.md T3, resolution.md 1.6, decisions 22 and 30
#[tokio::test(flavor = "multi_thread")]
async fn what_no_edge_reaches_is_refused_and_a_forced_move_takes_its_permission_back() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.2.0")];
    let entries =
        ["1.0.0", "1.2.0"].map(|version| Entry { version: version.to_owned(), replaces: None });
    let scene = Scene::shared_set("moved", &bundles, &entries).await;
    let name = scene.name.clone();
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    extension.patch_catalog(json!({"version": "1.2.0"})).await;
    let text = "error upgrading from currently installed version \"1.0.0\": no bundles found for \
                package \"buoy-moved\" matching version \"1.2.0\"";
    let refused = extension.says("True", "Retrying", text).await;
    assert_eq!(installed_version(&refused), Some("1.0.0"));
    extension.moves_to("1.0.0").await;
    for (version, reason) in [("1.2.0", "ForcedUpgrade"), ("1.0.0", "ForcedRollback")] {
        olm(&scene, &["upgrade", &name, "--to", version, "--force", "--yes"]).good();
        let now = extension.installed(version).await;
        let catalog = now.spec.and_then(|spec| spec.source.catalog);
        let policy = catalog.and_then(|catalog| catalog.upgrade_constraint_policy);
        assert_ne!(policy, Some(UpgradeConstraintPolicy::SelfCertified));
        assert_eq!(scene.events(reason).len(), 1);
    }
    let (_, history, _) = plugin::answer(scene.cluster.plane, &["history", &name]);
    assert!(history.contains("forced from 1.2.0"), "{history}");
    extension.delete().await;
}
