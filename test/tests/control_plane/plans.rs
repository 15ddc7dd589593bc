//! Plans: shown, approved by digest, and applied as approved or not at all.

use olm_api::UpgradeConstraintPolicy;
use olm_test::cluster;
use olm_test::extension::{Extension, ROLLOUT};
use olm_test::package::{Bundle, Entry, chain};
use olm_test::plugin;
use olm_test::scene::{ACCOUNT, Scene, serve};
use serde_json::{Value, json};

use crate::flags::start;

const UPGRADE: &str = "policy.olm.operatorframework.io/upgrade";
const INCREASE: &str = "policy.olm.operatorframework.io/permission-increase";
const MOVE: &str = "policy.olm.operatorframework.io/catalog-move";
const PAUSED: &str = "policy.olm.operatorframework.io/paused";

/// Runs `kubectl olm` with the CA of the catalog server.
pub(crate) fn olm(scene: &Scene, args: &[&str]) -> (Option<i32>, String, String) {
    let plane = scene.cluster.plane;
    let ca = plane.addresses.controller_ca.to_string_lossy();
    plugin::answer(plane, &[args, &["--catalog-ca", &ca]].concat())
}

/// Makes the plan of the scene's extension, which something holds.
pub(crate) fn plan(scene: &Scene) -> Value {
    let (code, text, errors) = olm(scene, &["plan", &scene.name, "-o", "json"]);
    assert_eq!(code, Some(1), "it is held: {errors}");
    serde_json::from_str(&text).expect("a document")
}

pub(crate) fn digest(plan: &Value) -> &str {
    plan["digest"].as_str().expect("a digest")
}

/// Waits until an update to this version is offered.
pub(crate) async fn offers(extension: &Extension, version: &str) {
    let what = format!("{version} is offered");
    let offered = |found: &olm_api::ClusterExtension| {
        let update = found.status.as_ref().and_then(|it| it.update.as_ref());
        update.is_some_and(|update| update.version.as_deref() == Some(version))
    };
    extension.eventually(&what, ROLLOUT, offered).await;
}

// plugin.md U35, U38, U39, U40
#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_is_what_was_approved() {
    let cluster = cluster::with_controller().await;
    let (one, two) = (Bundle::new("1.0.0"), Bundle::new("1.1.0"));
    let other = Bundle::new("1.1.0").with_second_config_map();
    let bundles = [one.clone(), two.clone()];
    let mut scene = Scene::set(cluster, "approved", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let name = scene.name.clone();
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    scene.annotate(UPGRADE, "None");
    extension.patch_catalog(json!({"version": null})).await;
    offers(&extension, "1.1.0").await;

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
    let (code, _, errors) = olm(&scene, &["approve", &name, "--plan", "00000000", "--yes"]);
    assert_eq!(code, Some(1));
    let both = format!("plan 00000000 is now {}", digest(&first));
    assert!(errors.contains(&both), "{errors}");

    // The catalog moves between the approval and the controller.
    scene.annotate(PAUSED, "true");
    let digits = &digest(&first)["sha256:".len()..][..8];
    let (code, text, errors) = olm(&scene, &["approve", &name, "--plan", digits]);
    assert_eq!(code, Some(0), "{errors}");
    let released = format!("{name}: 1.1.0 is released by plan {digits}");
    assert!(text.starts_with(&released), "{text}");
    let all = ["1.0.0", "1.1.0", "1.2.0"];
    let moved = [one.clone(), other, Bundle::new("1.2.0")];
    scene.grant(&moved);
    scene.publish(&moved, &chain(&all)).await;
    scene.annotate(PAUSED, "");
    let held = format!("and approved is plan {}; kubectl olm plan {name} shows", digest(&first));
    extension.shows("Ready", "False", "Retrying", &held).await;
    assert_eq!(extension.revisions().await.len(), 1);
    assert!(scene.events("PlanChanged")[0].contains(digest(&first)));
    let (code, _, errors) = olm(&scene, &["approve", &name, "--plan", digits]);
    assert_eq!(code, Some(1), "{errors}");

    // What was approved is back, beside something newer.
    scene.annotate(PAUSED, "true");
    scene.publish(&[one, two, Bundle::new("1.2.0")], &chain(&all)).await;
    scene.annotate(PAUSED, "");
    extension.installed("1.1.0").await;
    offers(&extension, "1.2.0").await;
    assert!(scene.get("configmap", &scene.package.second_config_map()).is_none());
    extension.delete().await;
}

// applying.md j4
#[tokio::test(flavor = "multi_thread")]
async fn more_rights_wait_for_the_approval_of_their_plan() {
    let cluster = cluster::with_controller().await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "increased-reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").with_manifest(role)];
    let scene = Scene::set(cluster, "increased", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    scene.annotate(INCREASE, "RequireApproval");
    extension.patch_catalog(json!({"version": null})).await;
    extension.shows("Ready", "False", "Retrying", "gives the operator more rights").await;
    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["increase"]));
    let (_, why, _) = olm(&scene, &["why", &scene.name]);
    let told = format!("PermissionIncrease: plan {} gives", digest(&held));
    assert!(why.contains(&told), "{why}");
    let added = held["operator"]["added"].to_string();
    assert!(added.contains("secrets"), "{added}");
    let event = scene.events("PermissionIncrease").remove(0);
    assert!(event.contains(digest(&held)), "{event}");
    assert_eq!(extension.revisions().await.len(), 1);
    let args = ["approve", &scene.name, "--plan", digest(&held)];
    let (code, text, errors) = olm(&scene, &args);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(!text.contains("still held"), "{text}");
    extension.installed("1.1.0").await;
    extension.delete().await;
}

// applying.md 10, 11.3
#[tokio::test(flavor = "multi_thread")]
async fn an_update_from_another_catalog_is_told_and_can_be_held() {
    let cluster = cluster::with_controller().await;
    let client = cluster.client.clone();
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let scene = Scene::set(cluster, "catalogmoved", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let catalog = scene.get("clustercatalog", &scene.name).expect("it is served");
    let image = catalog["spec"]["source"]["image"]["ref"].as_str();
    let other = format!("{}-other", scene.name);
    serve(&client, &other, image.expect("a reference")).await;
    let selector = json!({"matchLabels": {"olm.operatorframework.io/metadata.name": other}});
    scene.annotate(MOVE, "Hold");
    extension.patch_catalog(json!({"version": "1.1.0", "selector": selector})).await;
    // Who asks for a version has not said from whom.
    offers(&extension, "1.1.0").await;
    let said = format!("another catalog, {other}, than what is installed");
    extension.shows("Ready", "False", "Retrying", "held, because it is of another catalog").await;
    let (_, status, errors) = plugin::answer(scene.cluster.plane, &["status", &scene.name]);
    assert!(status.contains(&said), "{status}{errors}");
    let (_, why, _) = olm(&scene, &["why", &scene.name, "1.1.0"]);
    let told =
        format!("OtherCatalogHeld: is of another catalog than what is installed, {}", scene.name);
    assert!(why.contains(&told), "{why}");
    let to = ["--to", "1.1.0", "--yes", "--dry-run=server"];
    let (code, text, errors) = olm(&scene, &[&["upgrade", &scene.name][..], &to].concat());
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(text.contains("operatorframework.io/approve=1.1.0"), "{text}");
    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["move"]));
    assert_eq!(held["catalog"], other);
    assert_eq!(extension.revisions().await.len(), 1);
    let args = ["approve", &scene.name, "--plan", digest(&held)];
    let (code, text, errors) = olm(&scene, &args);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(!text.contains("still held"), "{text}");
    extension.installed("1.1.0").await;
    let note = format!(
        "{} comes from catalog {other}; what is installed came from catalog {}",
        scene.package.bundle_name("1.1.0"),
        scene.name
    );
    assert_eq!(scene.events("CatalogChanged"), [note]);
    let (code, text, errors) = plugin::answer(scene.cluster.plane, &["history", &scene.name]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains(&other), "{text}");
    extension.delete().await;
    scene.cluster.plane.kubectl(&["delete", "clustercatalog", &other]);
}

/// Of a package that nobody installed, with an account that is there and with one that is not.
fn plans_a_new_extension(scene: &Scene) {
    let package = scene.package.name();
    let (code, _, errors) = olm(scene, &["plan", &package]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("takes -n NAMESPACE"), "{errors}");
    let wanted = format!("{package}@1.0.0");
    let asked = ["plan", &wanted, "-n", &scene.name, "-o", "json"];
    let given = ["--service-account", ACCOUNT];
    for (account, noted) in [(&given[..], false), (&[], true)] {
        let (code, text, errors) = olm(scene, &[&asked[..], account].concat());
        assert_eq!(code, Some(0), "{text}{errors}");
        let plan: Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(plan["from"], json!(null));
        assert_eq!(plan["to"]["version"], "1.0.0");
        assert_eq!(plan["account"]["missing"] != json!([]), noted, "{text}");
        assert_eq!(errors.contains("install makes the account"), noted, "{errors}");
    }
}

// plugin.md U36, U37
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_what_changes_whoever_asks() {
    // What a package gets is not known while any catalog of the cluster is not served.
    let cluster = cluster::own().await;
    let _controller = start(cluster.plane, "plans", &[]).await;
    let secret = |version: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "planned-token"},
            "stringData": {"token": format!("hidden-{version}")}})
    };
    let bundles = ["1.0.0", "1.1.0"].map(|it| Bundle::new(it).with_manifest(secret(it)));
    let scene = Scene::set(cluster, "planned", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    plans_a_new_extension(&scene);
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let (code, text, errors) = olm(&scene, &["plan", &scene.name, "--to", "1.1.0", "--diff"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(text.contains("  objects   +2 ~1 -2\n"), "{text}");
    assert!(text.contains("    .stringData.token\n    -   \"(masked)\"\n"), "{text}");
    assert!(!text.contains("hidden-"), "{text}");
    let as_page = ["plan", &scene.name, "--to", "1.1.0", "-o", "html"];
    let (code, page, errors) = olm(&scene, &as_page);
    assert_eq!(code, Some(0), "{errors}");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("<span class=\"line\">+2 ~1 -2</span>"), "{page}");
    assert!(page.contains(".stringData.token\n- &#34;(masked)&#34;"), "{page}");
    for never in ["hidden-", "<script", "://"] {
        assert!(!page.contains(never), "{never}: {page}");
    }

    // Who may read neither Secrets nor roles sees the same objects.
    let plane = scene.cluster.plane;
    let (user, role) = ("planner", "operator-controller-clusterextension-viewer-role");
    let roles = format!("--clusterrole={role}");
    plane.kubectl(&["create", "clusterrolebinding", "planner-views", &roles, "--user=planner"]);
    let asked = ["plan", &scene.name, "--to", "1.1.0", "-o", "json"];
    let (_, all, _) = olm(&scene, &asked);
    let (code, few, errors) = olm(&scene, &[&asked[..], &["--as", user]].concat());
    let package = format!("package:{}@1.1.0", scene.package.name());
    let (_, by_package, _) = olm(&scene, &["plan", &package, "-o", "json"]);
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

// plugin.md U42
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_move_takes_its_permission_back() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.2.0")];
    let entries =
        ["1.0.0", "1.2.0"].map(|version| Entry { version: version.to_owned(), replaces: None });
    let scene = Scene::set(cluster, "moved", &bundles, &entries).await;
    let name = scene.name.clone();
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    for (version, reason) in [("1.2.0", "ForcedUpgrade"), ("1.0.0", "ForcedRollback")] {
        let args = ["upgrade", &name, "--to", version, "--force", "--yes"];
        let (code, text, errors) = olm(&scene, &args);
        assert_eq!(code, Some(0), "{text}{errors}");
        let now = extension.installed(version).await;
        let catalog = now.spec.and_then(|spec| spec.source.catalog);
        let policy = catalog.and_then(|catalog| catalog.upgrade_constraint_policy);
        assert_ne!(policy, Some(UpgradeConstraintPolicy::SelfCertified));
        assert_eq!(scene.events(reason).len(), 1);
    }
    let plane = scene.cluster.plane;
    let (_, history, _) = plugin::answer(plane, &["history", &name]);
    assert!(history.contains("forced from 1.2.0"), "{history}");
    extension.delete().await;
}
