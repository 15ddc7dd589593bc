//! A CRD with objects of users never goes by a hand on a revision or on an extension's finalizers, by
//! a default, or by a bundle's own word.
//!
//! Source: applying.md 7.3.

use std::fs;
use std::time::Duration;

use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::Extension;
use olm_test::package::{Bundle, chain};
use olm_test::scene::{ACCOUNT, Scene};
use olm_test::wait;
use serde_json::{Value, json};

const STEP: Duration = Duration::from_mins(1);
const ADOPT: &str = "policy.olm.operatorframework.io/adopt";
const PAUSED: &str = "policy.olm.operatorframework.io/paused";
const UNINSTALL: &str = "policy.olm.operatorframework.io/uninstall";
const RETAINED_BY: &str = "policy.olm.operatorframework.io/retained-by";
/// An annotation that holds every removal.
const UNKNOWN: &str = "policy.olm.operatorframework.io/unheard-of";
const REVISION: &str = "clusterobjectset";
const CRD: &str = "customresourcedefinition";

/// An extension whose first version does not become ready, applied as far as it gets.
async fn stuck(scene: &Scene) -> Extension {
    let extension = scene.install(json!({})).await;
    extension.shows("Progressing", "True", "RollingOut", "1.0.0").await;
    applied(scene, &scene.package.deployment(), 1).await;
    extension
}

/// Waits until a Deployment was applied by the revision with this number.
async fn applied(scene: &Scene, deployment: &str, number: u32) {
    wait::until("the Deployment is applied", STEP, || async {
        let found = scene.get("deployment", deployment).unwrap_or_default();
        let revision = &found["metadata"]["annotations"]["olm.operatorframework.io/revision"];
        if *revision == json!(number.to_string()) { Ok(()) } else { Err(found) }
    })
    .await;
}

fn make_instance(scene: &Scene, crd: &str) -> Value {
    let (_, group) = crd.split_once('.').expect("a CRD has a group");
    let instance = json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": scene.name}});
    let args = ["apply", "--server-side", "-f", "-"];
    scene.cluster.plane.kubectl_with_input(&args, &instance.to_string());
    uid(scene, crd, "one")
}

/// The UID of an object that is there and stays.
fn uid(scene: &Scene, kind: &str, name: &str) -> Value {
    let found = scene.get(kind, name);
    let found = found.unwrap_or_else(|| panic!("{kind} {name} is gone"));
    assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null, "{kind} {name}");
    found["metadata"]["uid"].clone()
}

fn delete_revision(scene: &Scene, number: u32) {
    let name = format!("{}-{number}", scene.name);
    scene.cluster.plane.kubectl(&["delete", REVISION, &name, "--wait=false"]);
}

/// Waits until a CRD belongs to the revision with this number.
async fn belongs_to(scene: &Scene, crd: &str, number: u32) {
    let revision = format!("{}-{number}", scene.name);
    wait::until("the next revision has taken up the CRD", STEP, || async {
        let found = scene.get(CRD, crd).unwrap_or_default();
        let owned = found["metadata"]["ownerReferences"][0]["name"] == json!(revision);
        let marked = !found["metadata"]["labels"][RETAINED_BY].is_null();
        if owned && !marked { Ok(()) } else { Err(found["metadata"].clone()) }
    })
    .await;
}

async fn revision_is_gone(scene: &Scene, number: u32) {
    let name = format!("{}-{number}", scene.name);
    wait::until("the revision is gone", STEP, || async {
        scene.get(REVISION, &name).map_or(Ok(()), |left| Err(left["status"].to_string()))
    })
    .await;
}

/// Deletes everything, data included.
async fn clean_up(scene: &Scene, extension: &Extension) {
    scene.annotate(UNINSTALL, "Delete");
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_installation_that_is_deleted_by_hand_keeps_users_objects() {
    let bundles = [Bundle::new("1.0.0").broken()];
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "handstuck", &bundles, &chain(&["1.0.0"])).await;
    let extension = stuck(&scene).await;
    let crd = scene.package.crd();
    let one = make_instance(&scene, &crd);
    let kept = uid(&scene, CRD, &crd);
    delete_revision(&scene, 1);
    revision_is_gone(&scene, 1).await;
    belongs_to(&scene, &crd, 2).await;
    assert_eq!(uid(&scene, CRD, &crd), kept, "the CRD is the same");
    assert_eq!(uid(&scene, &crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stuck_revisions_that_are_deleted_together_keep_users_objects() {
    let mut second = Bundle::new("1.1.0").broken();
    second.data.insert("depth".to_owned(), "20".to_owned());
    let bundles = [Bundle::new("1.0.0").broken(), second];
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "handboth", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    applied(&scene, &scene.package.deployment(), 1).await;
    let crd = scene.package.crd();
    let one = make_instance(&scene, &crd);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    applied(&scene, &scene.package.deployment(), 2).await;
    // No revision comes to the rescue before the garbage collector has looked.
    scene.annotate(PAUSED, "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    // The earlier one goes last: it must not count as somebody who keeps the CRD.
    let requests = scene.cluster.plane.requests();
    let names = [1, 2].map(|number| format!("{}-{number}", scene.name));
    let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
    let first = scene.get(REVISION, &names[0]).expect("it is there");
    let mut held = first["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    held.push(json!("example.com/held"));
    requests.merge(REVISION, "", &names[0], &finalizers(json!(held)));
    let args = ["delete", REVISION, &names[0], &names[1], "--wait=false"];
    scene.cluster.plane.kubectl(&args);
    revision_is_gone(&scene, 2).await;
    requests.merge(REVISION, "", &names[0], &finalizers(Value::Null));
    revision_is_gone(&scene, 1).await;
    wait::until("the garbage collector has removed the rest", STEP, || async {
        scene.get("deployment", &scene.package.deployment()).map_or(Ok(()), Err)
    })
    .await;
    assert_eq!(uid(&scene, &crd, "one"), one, "its object stays");
    scene.annotate(PAUSED, "");
    belongs_to(&scene, &crd, 1).await;
    assert_eq!(uid(&scene, &crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_crd_keeps_its_objects_when_the_stuck_revision_is_deleted() {
    let bundles = [Bundle::new("1.0.0").broken()];
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "handadopted", &bundles, &chain(&["1.0.0"])).await;
    let file = scene.folder(&bundles[0]).join("manifests/crd.yaml");
    let manifest = fs::read_to_string(file).expect("the bundle has a CRD");
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "-f", "-"], &manifest);
    let crd = scene.package.crd();
    plane.kubectl(&["wait", "--for=condition=Established", &format!("crd/{crd}")]);
    let one = make_instance(&scene, &crd);
    let extension = scene.install(json!({})).await;
    scene.annotate(ADOPT, "all");
    applied(&scene, &scene.package.deployment(), 1).await;
    delete_revision(&scene, 1);
    revision_is_gone(&scene, 1).await;
    belongs_to(&scene, &crd, 2).await;
    assert_eq!(uid(&scene, &crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_a_stuck_upgrade_brings_keeps_its_objects() {
    let mut scene = Scene::empty(cluster::with_controller().await, "handupgrade");
    let group = "new.handupgrade.example.com";
    let crd = format!("buoys.{group}");
    let manifest = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": crd},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Buoy", "listKind": "BuoyList", "plural": "buoys", "singular": "buoy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}]},
    });
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken().with_manifest(manifest)];
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    scene.create_namespace();
    scene.grant(&bundles);
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let old = make_instance(&scene, &scene.package.crd());
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    applied(&scene, &scene.package.deployment(), 2).await;
    let one = make_instance(&scene, &crd);
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    delete_revision(&scene, 2);
    revision_is_gone(&scene, 2).await;
    extension.installed("1.0.0").await;
    assert_eq!(uid(&scene, &crd, "one"), one, "its object is the same");
    let kept = scene.get(CRD, &crd).expect("it is there");
    assert_eq!(kept["metadata"]["labels"][RETAINED_BY], json!(scene.name));
    assert_eq!(uid(&scene, &scene.package.crd(), "one"), old);
    clean_up(&scene, &extension).await;
    scene.cluster.plane.kubectl(&["delete", CRD, &crd]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_account_a_stuck_revision_waits_rather_than_lose_data() {
    let bundles = [Bundle::new("1.0.0").broken()];
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "handaccount", &bundles, &chain(&["1.0.0"])).await;
    let extension = stuck(&scene).await;
    let crd = scene.package.crd();
    let one = make_instance(&scene, &crd);
    let plane = scene.cluster.plane;
    plane.kubectl(&["delete", "serviceaccount", ACCOUNT, "-n", &scene.name]);
    delete_revision(&scene, 1);
    let name = format!("{}-1", scene.name);
    let text = "the CRDs cannot be released";
    wait::until("the revision explains why it waits", STEP, || async {
        let found = scene.get(REVISION, &name).unwrap_or_default();
        let status = found["status"].to_string();
        if status.contains(text) { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(uid(&scene, &crd, "one"), one);
    scene.grant(&bundles);
    revision_is_gone(&scene, 1).await;
    belongs_to(&scene, &crd, 2).await;
    assert_eq!(uid(&scene, &crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

/// Installs under a controller whose default is to delete, and makes an object.
async fn under_delete(suffix: &str, policy: Option<&str>) -> (Scene, Extension, Controller) {
    let cluster = cluster::own().await;
    let options = ControllerOptions {
        args: vec!["--default-uninstall-policy=Delete".to_owned()],
        ..ControllerOptions::default()
    };
    let controller = Controller::start(cluster.plane, options);
    let scene = Scene::set(cluster, suffix, &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    if let Some(policy) = policy {
        scene.annotate(UNINSTALL, policy);
    }
    extension.installed("1.0.0").await;
    make_instance(&scene, &scene.package.crd());
    (scene, extension, controller)
}

/// Has an extension deleted, held, and rid of its finalizers by hand, so that it goes before what it
/// installed.
async fn extension_goes_first(scene: &Scene, extension: &Extension) {
    let plane = scene.cluster.plane;
    scene.annotate(UNKNOWN, "true");
    plane.kubectl(&["delete", "clusterextension", &scene.name, "--wait=false"]);
    extension.shows("Ready", "False", "InvalidConfiguration", "unheard-of").await;
    let none = json!({"metadata": {"finalizers": null}});
    plane.requests().merge("clusterextension", "", &scene.name, &none);
    wait::until("the extension is gone", STEP, || async {
        scene.get("clusterextension", &scene.name).map_or(Ok(()), Err)
    })
    .await;
}

/// Waits until a revision records this policy of its extension.
async fn records(scene: &Scene, policy: &str) {
    let name = format!("{}-1", scene.name);
    wait::until("the revision records the policy", STEP, || async {
        let found = scene.get(REVISION, &name).unwrap_or_default();
        let recorded = &found["metadata"]["annotations"][UNINSTALL];
        if *recorded == json!(policy) { Ok(()) } else { Err(recorded.clone()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_are_retained_although_the_extension_goes_first() {
    let (scene, extension, _controller) = under_delete("gonekeep", Some("RetainCRDs")).await;
    records(&scene, "RetainCRDs").await;
    extension_goes_first(&scene, &extension).await;
    revision_is_gone(&scene, 1).await;
    uid(&scene, CRD, &scene.package.crd());
    uid(&scene, &scene.package.crd(), "one");
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_block_the_removal_of_revisions_whose_extension_went_first() {
    let (scene, extension, _controller) = under_delete("goneblock", None).await;
    let crd = scene.package.crd();
    let one = uid(&scene, &crd, "one");
    extension_goes_first(&scene, &extension).await;
    let name = format!("{}-1", scene.name);
    let text = format!("uninstall blocked: 1 instance of {crd}");
    wait::until("the revision explains why it stays", STEP, || async {
        let found = scene.get(REVISION, &name).unwrap_or_default();
        let status = found["status"].to_string();
        if status.contains(&text) { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(uid(&scene, &crd, "one"), one);
    let change = json!({"metadata": {"annotations": {UNINSTALL: "Delete"}}});
    scene.cluster.plane.requests().merge(REVISION, "", &name, &change);
    revision_is_gone(&scene, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_author_of_a_bundle_cannot_lift_the_default_of_the_administrator() {
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::empty(cluster::with_controller().await, "authordelete");
    let word = json!({"type": "olm.uninstallPolicy", "value": "Delete"});
    scene.publish_with(&bundles, &chain(&["1.0.0"]), &[("1.0.0", word)]).await;
    scene.create_namespace();
    scene.grant(&bundles);
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    let crd = scene.package.crd();
    let one = make_instance(&scene, &crd);
    let plane = scene.cluster.plane;
    plane.kubectl(&["delete", "clusterextension", &scene.name, "--wait=false"]);
    let text = format!("uninstall blocked: 1 instance of {crd}");
    extension.shows("Progressing", "False", "Blocked", &text).await;
    assert_eq!(uid(&scene, &crd, "one"), one);
    scene.annotate(UNINSTALL, "Delete");
    extension.gone().await;
}
