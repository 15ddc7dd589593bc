//! A CRD with objects of users never goes by a hand on a revision or on an extension's finalizers, by
//! a default, or by a bundle's own word.
//!
//! Source: applying.md 7.3.

use futures::join;
use olm_api::keys::policy::{ADOPT, PAUSED, UNINSTALL};
use olm_test::prelude::*;

use crate::plugin::decides_by_the_settings_that_the_controller_publishes;

const RETAINED_BY: &str = "policy.olm.operatorframework.io/retained-by";
/// An annotation that holds every removal.
const UNKNOWN: &str = "policy.olm.operatorframework.io/unheard-of";
/// A finalizer of a test.
const HELD: &str = "example.com/held";
const REVISION: &str = "clusterobjectset";
const CRD: &str = "customresourcedefinition";

/// Waits until the Deployment was applied by the revision with this number.
async fn applied(scene: &Scene, number: u32) {
    let number = json!(number.to_string());
    let is_applied = |found: &Value| {
        found["metadata"]["annotations"]["olm.operatorframework.io/revision"] == number
    };
    scene.until("it is applied", "deployment", &scene.package.deployment(), is_applied).await;
}

/// Waits until a CRD belongs to a revision other than those with these UIDs, and returns its number,
/// which depends on whether the controller had seen the last of the earlier ones go.
async fn taken_up(scene: &Scene, crd: &str, earlier: &[Value]) -> u32 {
    let is_taken_up = |found: &Value| {
        let owner = &found["metadata"]["ownerReferences"][0]["uid"];
        !owner.is_null()
            && !earlier.contains(owner)
            && found["metadata"]["labels"][RETAINED_BY].is_null()
    };
    let found = scene.until("the next revision has taken it up", CRD, crd, is_taken_up).await;
    let name = found["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
    let number = name.rsplit('-').next().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{name} has no number"))
}

/// Waits until the revision of this number and UID is gone; the next one may have its name by then.
async fn revision_is_gone(scene: &Scene, number: u32, uid: &Value) {
    let is_gone = |found: &Value| found["metadata"]["uid"] != *uid;
    scene.until("it is gone", REVISION, &scene.revision(number), is_gone).await;
}

/// Deletes everything, data included.
async fn clean_up(scene: &Scene, extension: &Extension) {
    scene.annotate(UNINSTALL, "Delete");
    extension.delete().await;
}

/// Without its account the revision waits rather than lose data.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_installation_that_is_deleted_by_hand_keeps_users_objects() {
    let bundles = [Bundle::new("1.0.0").broken()];
    let scene = Scene::shared_set("handstuck", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.shows("Progressing", "True", "RollingOut", "1.0.0").await;
    applied(&scene, 1).await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    let kept = scene.uid(CRD, &crd);
    scene.cluster.plane.run(&format!("delete serviceaccount {ACCOUNT} -n {}", scene.name));
    // Until the controller knows, it makes the next revision.
    extension.shows("Progressing", "True", "Retrying", "not found in namespace").await;
    let first = scene.uid(REVISION, &scene.revision(1));
    scene.delete_revision(1);
    scene.reports(&scene.revision(1), "the CRDs cannot be released").await;
    assert_eq!(scene.uid(&crd, "one"), one);
    scene.grant(&bundles);
    let survives = async |deleted: u32, uid: Value| {
        revision_is_gone(&scene, deleted, &uid).await;
        let next = taken_up(&scene, &crd, &[uid]).await;
        assert_eq!(scene.uid(CRD, &crd), kept, "the CRD is the same");
        assert_eq!(scene.uid(&crd, "one"), one, "its object is the same");
        next
    };
    let next = survives(1, first).await;
    applied(&scene, next).await;
    let second = scene.uid(REVISION, &scene.revision(next));
    scene.delete_revision(next);
    survives(next, second).await;
    clean_up(&scene, &extension).await;
}

/// Two revisions that are stuck, the first held by a finalizer, of a paused extension whose CRD has an
/// object: no revision comes to the rescue before the garbage collector has looked. Returns the UID of
/// that object, too.
async fn two_stuck(suffix: &str) -> (Scene, Extension, Value) {
    let mut second = Bundle::new("1.1.0").broken();
    second.data.insert("depth".to_owned(), "20".to_owned());
    let bundles = [Bundle::new("1.0.0").broken(), second];
    let scene = Scene::shared_set(suffix, &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    applied(&scene, 1).await;
    let one = scene.make_instance(&scene.package.crd(), &[]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    applied(&scene, 2).await;
    scene.annotate(PAUSED, "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    let first = scene.revision(1);
    let found = scene.get(REVISION, &first).expect("it is there");
    let mut held = found["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    held.push(json!(HELD));
    let held = json!({"metadata": {"finalizers": held}});
    scene.cluster.plane.requests().merge(REVISION, "", &first, &held);
    (scene, extension, one)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stuck_revisions_that_are_deleted_together_keep_users_objects() {
    let (scene, extension, one) = two_stuck("handboth").await;
    let crd = scene.package.crd();
    // The earlier one goes last: it must not count as somebody who keeps the CRD.
    let names = [1, 2].map(|number| scene.revision(number));
    let uids = names.each_ref().map(|name| scene.uid(REVISION, name));
    scene.cluster.plane.kubectl(&["delete", REVISION, &names[0], &names[1], "--wait=false"]);
    revision_is_gone(&scene, 2, &uids[1]).await;
    // Its own finalizer goes once it has released the CRD.
    let is_done = |found: &Value| found["metadata"]["finalizers"] == json!([HELD]);
    scene.until("the controller is done with it", REVISION, &names[0], is_done).await;
    scene.reports(&names[0], &format!("waiting for its finalizers [{HELD}]")).await;
    scene.let_go(REVISION, &names[0]);
    revision_is_gone(&scene, 1, &uids[0]).await;
    // The garbage collector has removed the rest.
    scene.gone("deployment", &scene.package.deployment()).await;
    assert_eq!(scene.uid(&crd, "one"), one, "its object stays");
    scene.annotate(PAUSED, "");
    taken_up(&scene, &crd, &uids).await;
    assert_eq!(scene.uid(&crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_archived_by_hand_beside_one_that_is_deleted_keeps_users_objects() {
    let (scene, extension, one) = two_stuck("handbeside").await;
    let crd = scene.package.crd();
    let names = [1, 2].map(|number| scene.revision(number));
    let uids = names.each_ref().map(|name| scene.uid(REVISION, name));
    scene.delete_revision(1);
    let is_done = |found: &Value| found["metadata"]["finalizers"] == json!([HELD]);
    scene.until("the controller is done with it", REVISION, &names[0], is_done).await;
    let archived = json!({"spec": {"lifecycleState": "Archived"}});
    scene.cluster.plane.requests().merge(REVISION, "", &names[1], &archived);
    // Also of the one that goes next: the garbage collector would delete it.
    let is_let_go = |found: &Value| {
        let owners = found["metadata"]["ownerReferences"].as_array();
        owners.is_none_or(|owners| owners.iter().all(|owner| !uids.contains(&owner["uid"])))
    };
    scene.until("its CRD is let go", CRD, &crd, is_let_go).await;
    scene.let_go(REVISION, &names[0]);
    revision_is_gone(&scene, 1, &uids[0]).await;
    scene.annotate(PAUSED, "");
    taken_up(&scene, &crd, &uids).await;
    assert_eq!(scene.uid(&crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_crd_keeps_its_objects_when_the_stuck_revision_is_deleted() {
    let bundles = [Bundle::new("1.0.0").broken()];
    let scene = Scene::shared_set("handadopted", &bundles, &chain(&["1.0.0"])).await;
    let crd = scene.make_crd(&bundles[0]);
    let one = scene.make_instance(&crd, &[]);
    let extension = scene.install(json!({})).await;
    scene.annotate(ADOPT, "all");
    applied(&scene, 1).await;
    let first = scene.uid(REVISION, &scene.revision(1));
    scene.delete_revision(1);
    revision_is_gone(&scene, 1, &first).await;
    taken_up(&scene, &crd, &[first]).await;
    assert_eq!(scene.uid(&crd, "one"), one, "its object is the same");
    clean_up(&scene, &extension).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_a_stuck_upgrade_brings_keeps_its_objects() {
    let crd = "buoys.new.handupgrade.example.com";
    let manifest = Package::new("handupgrade").further_crd("new");
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken().with_manifest(manifest)];
    let (scene, extension) = Scene::shared_first("handupgrade", &bundles).await;
    let old = scene.make_instance(&scene.package.crd(), &[]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    applied(&scene, 2).await;
    let one = scene.make_instance(crd, &[]);
    let second = scene.uid(REVISION, &scene.revision(2));
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    scene.delete_revision(2);
    revision_is_gone(&scene, 2, &second).await;
    extension.installed("1.0.0").await;
    assert_eq!(scene.uid(crd, "one"), one, "its object is the same");
    let kept = scene.get(CRD, crd).expect("it is there");
    assert_eq!(kept["metadata"]["labels"][RETAINED_BY], json!(scene.name));
    assert_eq!(scene.uid(&scene.package.crd(), "one"), old);
    clean_up(&scene, &extension).await;
    scene.cluster.plane.kubectl(&["delete", CRD, crd]);
}

/// Installs under a controller whose default is to delete, and makes an object.
async fn under_delete(cluster: &Cluster, suffix: &str, policy: Option<&str>) -> (Scene, Extension) {
    let scene = Scene::of(cluster.clone(), suffix, &["1.0.0"]).await;
    let extension = scene.install(json!({})).await;
    if let Some(policy) = policy {
        scene.annotate(UNINSTALL, policy);
    }
    extension.installed("1.0.0").await;
    scene.make_instance(&scene.package.crd(), &[]);
    (scene, extension)
}

/// Has an extension deleted, held, and rid of its finalizers by hand, so that it goes before what it
/// installed.
async fn extension_goes_first(scene: &Scene, extension: &Extension) {
    scene.annotate(UNKNOWN, "true");
    scene.delete("background");
    extension.shows("Ready", "False", "InvalidConfiguration", "unheard-of").await;
    scene.let_go("clusterextension", &scene.name);
    scene.gone("clusterextension", &scene.name).await;
}

/// Waits until the first revision records this policy of its extension.
async fn records(scene: &Scene, policy: &str) {
    let records = |set: &Value| set["metadata"]["annotations"][UNINSTALL] == policy;
    scene.until("it records the policy", REVISION, &scene.revision(1), records).await;
}

async fn crds_are_retained_although_the_extension_goes_first(cluster: &Cluster) {
    let (scene, extension) = under_delete(cluster, "gonekeep", Some("RetainCRDs")).await;
    records(&scene, "RetainCRDs").await;
    extension_goes_first(&scene, &extension).await;
    scene.gone(REVISION, &scene.revision(1)).await;
    scene.uid(CRD, &scene.package.crd());
    scene.uid(&scene.package.crd(), "one");
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
}

async fn objects_block_the_removal_of_revisions_without_an_extension(cluster: &Cluster) {
    let (scene, extension) = under_delete(cluster, "goneblock", None).await;
    let crd = scene.package.crd();
    let one = scene.uid(&crd, "one");
    extension_goes_first(&scene, &extension).await;
    explains_why_it_stays(&scene).await;
    assert_eq!(scene.uid(&crd, "one"), one);
    let (requests, name) = (scene.cluster.plane.requests(), scene.revision(1));
    let change = json!({"metadata": {"annotations": {UNINSTALL: "Delete"}}});
    requests.merge(REVISION, "", &name, &change);
    scene.gone(REVISION, &name).await;
    // One whose extension lives, and that no longer names it.
    scene.installed(json!({}), "1.0.0").await;
    let one = scene.make_instance(&crd, &[]);
    requests.merge(REVISION, "", &name, &json!({"metadata": {"ownerReferences": null}}));
    scene.delete_revision(1);
    explains_why_it_stays(&scene).await;
    assert_eq!(scene.uid(&crd, "one"), one);
}

/// Waits until the first revision reports that a user's object keeps it from being removed.
async fn explains_why_it_stays(scene: &Scene) {
    let text = format!("uninstall blocked: 1 instance of {}", scene.package.crd());
    scene.reports(&scene.revision(1), &text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_author_of_a_bundle_cannot_lift_the_default_of_the_administrator() {
    let bundles = [Bundle::new("1.0.0").with_uninstall_policy("Delete")];
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "authordelete", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    scene.delete("background");
    let text = format!("uninstall blocked: 1 instance of {crd}");
    extension.shows("Progressing", "False", "Blocked", &text).await;
    assert_eq!(scene.uid(&crd, "one"), one);
    scene.annotate(UNINSTALL, "Delete");
    extension.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_default_is_to_delete_what_is_asked_for_and_objects_of_revisions_count() {
    // The other default is about none of these but the last.
    let flags = ["--default-uninstall-policy=Delete", "--default-upgrade-policy=Any"];
    let (cluster, _controller) = cluster::started("", &flags).await;
    join!(
        is_kept(&cluster, "authorkeeps", "1.0.0"),
        is_kept(&cluster, "authorwillkeep", "1.1.0"),
        crds_are_retained_although_the_extension_goes_first(&cluster),
        objects_block_the_removal_of_revisions_without_an_extension(&cluster),
        decides_by_the_settings_that_the_controller_publishes(&cluster),
    );
}

/// Deletes an extension while a second version rolls out; one of the two asks to retain CRDs.
async fn is_kept(cluster: &Cluster, name: &str, asking: &str) {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()].map(|bundle| {
        let asks = bundle.version == asking;
        if asks { bundle.with_uninstall_policy("RetainCRDs") } else { bundle }
    });
    let (scene, extension) = Scene::first(cluster.clone(), name, &bundles).await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    applied(&scene, 2).await;
    scene.delete("background");
    extension.gone().await;
    assert_eq!(scene.uid(&crd, "one"), one, "{asking} asks");
}
