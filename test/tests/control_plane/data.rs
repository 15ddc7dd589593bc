//! Users' data survives everything but the uninstall they asked for: an orphaning deletion whatever
//! fails, an upgrade that drops a CRD, unknown policy annotations.

use olm_test::package::definition;
use olm_test::prelude::*;

use crate::accounts::traffic::the_controller_and_the_garbage_collector_were_admitted;

/// Longer than an uninstall waits before it relies on the garbage collector.
const FALLBACK: Duration = Duration::from_secs(75);
const UNINSTALL: &str = "policy.olm.operatorframework.io/uninstall";
const FINALIZER: &str = "example.com/served-by-the-operator";

/// Installs 1.0.0 of a package and makes an instance of its CRD.
async fn installed(suffix: &str, bundles: &[Bundle]) -> (Scene, Extension) {
    let (scene, extension) = Scene::shared_first(suffix, bundles).await;
    scene.make_instance(&scene.package.crd(), &[]);
    (scene, extension)
}

/// Checks for `long` that nothing is removed.
async fn nothing_goes_for(scene: &Scene, long: Duration) {
    let end = Instant::now() + long;
    while Instant::now() < end {
        scene.is_whole();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until `Ready` is false and its message holds `text`.
async fn held(extension: &Extension, text: &str) {
    let is_said = |found: &Condition| found.status == "False" && found.message.contains(text);
    extension.has("Ready", &format!("Ready False with {text:?}"), is_said).await;
}

/// Waits until the extension is gone, and checks that what it installed stays, without an owner.
async fn left_behind(scene: &Scene, extension: &Extension) {
    extension.gone().await;
    scene.is_whole();
    for (kind, name) in scene.parts() {
        let found = scene.get(&kind, &name).expect("it was there just now");
        let metadata = &found["metadata"];
        assert_eq!(metadata["ownerReferences"], Value::Null, "{kind} {name}");
        let owner = &metadata["labels"]["olm.operatorframework.io/owner-name"];
        assert_eq!(*owner, Value::Null, "{kind} {name}");
    }
    let what = "the content of the revision is gone";
    wait::value(what, COLLECTED, || secrets(scene), Vec::is_empty).await;
}

/// Names of the Secrets with the content of the extension's revisions.
fn secrets(scene: &Scene) -> Vec<String> {
    scene.content("olm.operatorframework.io/owner-name", &scene.name)
}

// applying.md 7.3
#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_deletion_keeps_everything() {
    let (scene, extension) = installed("orphan", &[Bundle::new("1.0.0")]).await;
    scene.delete("orphan");
    left_behind(&scene, &extension).await;
    the_controller_and_the_garbage_collector_were_admitted(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_orphaning_deletion_without_the_account_waits_and_keeps_everything() {
    let bundles = [Bundle::new("1.0.0")];
    let (scene, extension) = installed("orphansa", &bundles).await;
    scene.cluster.plane.kubectl(&["delete", "serviceaccount", "installer", "-n", &scene.name]);
    scene.delete("orphan");
    held(&extension, "must be released first").await;
    nothing_goes_for(&scene, FALLBACK).await;
    scene.grant(&bundles);
    left_behind(&scene, &extension).await;
}

// ours: the Secret is really gone
#[tokio::test(flavor = "multi_thread")]
async fn an_orphaning_deletion_without_content_waits_and_keeps_everything() {
    let (scene, extension) = installed("orphancontent", &[Bundle::new("1.0.0")]).await;
    let plane = scene.cluster.plane;
    // Lost content is recreated, unless the extension is paused.
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    for secret in secrets(&scene) {
        plane.kubectl(&["delete", "-n", "olmv1-system", &secret]);
    }
    scene.delete("orphan");
    held(&extension, "must be released first").await;
    scene.is_whole();
    // Kubernetes was asked to orphan the dependents of the revision, so removing the finalizer by
    // hand loses nothing.
    let revision = scene.revision(1);
    let is_orphaned =
        |set: &Value| !set["metadata"]["finalizers"].to_string().contains("\"orphan\"");
    let what = "the garbage collector has let go";
    scene.until(what, "clusterobjectset", &revision, is_orphaned).await;
    scene.let_go("clusterobjectset", &revision);
    extension.gone().await;
    nothing_goes_for(&scene, Duration::from_secs(15)).await;
}

/// Takes the finalizer of the garbage collector off, which then lets go of nothing.
fn forget_to_orphan(scene: &Scene, kind: &str, name: &str) {
    let found = scene.get(kind, name).expect("it is there");
    let finalizers = found["metadata"]["finalizers"].as_array().expect("a list");
    let rest: Vec<_> = finalizers.iter().filter(|it| *it != "orphan").collect();
    let change = json!({"metadata": {"finalizers": rest}});
    scene.cluster.plane.requests().merge(kind, "", name, &change);
}

// ours: a garbage collector that does not know our kinds yet takes its finalizers off and lets go
// of nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_orphaning_deletion_is_remembered_without_the_garbage_collector() {
    let (scene, extension) = installed("orphanmark", &[Bundle::new("1.0.0")]).await;
    // It cannot be released as long as the account is gone.
    scene.cluster.plane.run(&format!("delete serviceaccount -n {} installer", scene.name));
    scene.delete("orphan");
    held(&extension, "must be released first").await;
    forget_to_orphan(&scene, "clusterextension", &scene.name);
    forget_to_orphan(&scene, "clusterobjectset", &scene.revision(1));
    nothing_goes_for(&scene, FALLBACK).await;
    scene.grant(&[Bundle::new("1.0.0")]);
    left_behind(&scene, &extension).await;
}

// applying.md 7.2, 7.3: `faults` has the same in the background
#[tokio::test(flavor = "multi_thread")]
async fn instances_go_while_their_operator_runs_also_in_the_foreground() {
    let (scene, extension) = installed("orderforeground", &[Bundle::new("1.0.0")]).await;
    let crd = scene.package.crd();
    scene.make_instance(&crd, &[FINALIZER]);
    scene.annotate(UNINSTALL, "Delete");
    scene.delete("foreground");
    let is_going = |one: &Value| one["metadata"]["deletionTimestamp"].is_string();
    scene.until("it is going", &crd, "one", is_going).await;
    held(&extension, &format!("waiting for 1 {crd}: {}/one [{FINALIZER}]", scene.name)).await;
    scene.uid("deployment", &scene.package.deployment());
    scene.let_go(&crd, "one");
    extension.gone().await;
    assert!(scene.get("deployment", &scene.package.deployment()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_annotation_asks_for_and_nobody_does_holds_the_removal() {
    for (how, key) in
        [("foreground", UNINSTALL), ("orphan", "policy.olm.operatorframework.io/uninstal")]
    {
        let (scene, extension) = installed(&format!("hold{how}"), &[Bundle::new("1.0.0")]).await;
        scene.annotate(key, "Cascade");
        extension.shows("Progressing", "False", "InvalidConfiguration", key).await;
        let still = extension.get().await;
        assert!(is(&still, "Installed", "True", "Succeeded"));
        scene.delete(how);
        let way_out = format!("kubectl annotate clusterextension {} {key}-", scene.name);
        held(&extension, &way_out).await;
        assert!(
            scene.events("RemovalHeld").iter().any(|note| note.contains(&way_out)),
            "an Event says it too"
        );
        nothing_goes_for(&scene, Duration::from_secs(5)).await;
        let goes = how != "orphan";
        scene.annotate(key, if goes { "Delete" } else { "" });
        if how == "orphan" {
            left_behind(&scene, &extension).await;
        } else {
            extension.gone().await;
            assert!(scene.get("deployment", &scene.package.deployment()).is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_installed_under_an_annotation_nobody_understands() {
    let scene = Scene::shared("nokey", &["1.0.0"]).await;
    let (name, package) = (&scene.name, scene.package.name());
    let mut extension = objects::extension(name, name, ACCOUNT, &package);
    extension["metadata"]["annotations"] =
        json!({"policy.olm.operatorframework.io/user-rights": "1"});
    extension["spec"]["source"]["catalog"]["selector"] =
        json!({"matchLabels": {"olm.operatorframework.io/metadata.name": name}});
    scene.cluster.plane.create(&extension);
    let extension = Extension::named(&scene.cluster.client, &scene.name);
    extension.shows("Progressing", "False", "InvalidConfiguration", "user-rights").await;
    assert!(extension.revisions().await.is_empty());
    scene.annotate("policy.olm.operatorframework.io/user-rights", "");
    extension.installed("1.0.0").await;
    extension.delete().await;
}

/// Gives the service account the right to count the objects of these CRDs.
pub(crate) fn let_count(scene: &Scene, crds: &[&str]) {
    let rule = |crd: &&str| {
        let (plural, group) = crd.split_once('.').expect("a CRD has a group");
        json!({"apiGroups": [group], "resources": [plural], "verbs": ["list"]})
    };
    let (rules, account) =
        (crds.iter().map(rule).collect(), objects::account(&scene.name, ACCOUNT));
    let granted = objects::grant(&format!("{}-counts", scene.name), None, &rules, &account);
    scene.cluster.plane.grant(&granted);
}

// applying.md g7: a version without a CRD that has objects is refused; when that is waived the CRD
// outlives the version that has it, and comes back. An empty one is removed.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_without_crds_keeps_the_one_that_has_objects() {
    let empty = Package::new("dropped").further_crd("empty");
    let old = Bundle::new("1.0.0")
        .with_manifest(definition("Float", "dropped.example.com"))
        .with_manifest(empty);
    let (scene, extension) = installed("dropped", &[old, Bundle::new("1.1.0")]).await;
    let [crd, empty] = ["floats.dropped.example.com", "buoys.empty.dropped.example.com"];
    scene.make_instance(crd, &[]);
    let_count(&scene, &[crd, empty]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let text = "definitionRemoval: not part of the new version, and 1 object of it exists";
    extension.shows("Progressing", "True", "Retrying", text).await;
    let policy = "policy.olm.operatorframework.io/crd-safety";
    scene.annotate(&format!("{policy}-reason"), "somebody looks after it");
    scene.annotate(&format!("{policy}-allow"), &format!("{crd}:definitionRemoval"));
    extension.installed("1.1.0").await;
    archived(&scene, 1).await;
    let kept = scene.get("customresourcedefinition", crd).expect("the CRD stays");
    assert_eq!(kept["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
    assert!(scene.get(crd, "one").is_some(), "its object stays");
    scene.told("CRDRetained", crd).await;
    assert!(scene.get("customresourcedefinition", empty).is_none());
    // A rollback takes it over again.
    extension.force("1.0.0").await;
    extension.installed("1.0.0").await;
    let again = scene.get("customresourcedefinition", crd).expect("the CRD stays");
    let owner = &again["metadata"]["ownerReferences"][0]["name"];
    assert_eq!(*owner, format!("{}-3", scene.name));
    let marked = &again["metadata"]["labels"]["policy.olm.operatorframework.io/retained-by"];
    assert_eq!(*marked, Value::Null, "the mark goes with the retention");
    assert!(scene.get(crd, "one").is_some(), "its object stays");
    extension.delete().await;
}

/// Waits until a revision is archived and has let go of everything.
pub(crate) async fn archived(scene: &Scene, revision: u32) {
    let has_let_go = |set: &Value| {
        set["spec"]["lifecycleState"] == "Archived" && set["metadata"]["finalizers"].is_null()
    };
    scene.until("it is archived", "clusterobjectset", &scene.revision(revision), has_let_go).await;
}
