//! Every state has a way out: what is deleted by hand comes back, `Installed` is right through
//! every upgrade, and what others write on revisions is kept.

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use olm_test::package::definition;
use olm_test::prelude::*;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::data::archived;

const REVISION: &str = "olm.operatorframework.io/revision";

/// Names of objects that still have the label of the extension, of the kinds in its bundle.
fn left_over(scene: &Scene) -> Vec<String> {
    let kinds = [
        "customresourcedefinitions",
        "clusterroles",
        "clusterrolebindings",
        "deployments",
        "configmaps",
        "serviceaccounts",
    ];
    let query = format!("?labelSelector={}%3D{}", label::OWNER_NAME, scene.name);
    let of = |kind| scene.cluster.plane.requests().list(kind, &scene.name, &query);
    let left = kinds.into_iter().flat_map(of);
    left.map(|object| object["metadata"]["name"].to_string()).collect()
}

/// Deletes an extension, and waits until nothing of it is left.
async fn leaves_nothing(scene: &Scene, extension: &Extension) {
    extension.delete().await;
    wait::value("nothing is left", COLLECTED, || left_over(scene), Vec::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_revision_deleted_by_hand_leads_back_and_leaves_nothing() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken(), Bundle::new("1.2.0")];
    let (scene, extension) = Scene::shared_first("handrolling", &bundles).await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let is_broken = |found: &Value| found["metadata"]["annotations"][REVISION] == "2";
    let deployment = scene.package.deployment();
    scene.until("the broken version is applied", "deployment", &deployment, is_broken).await;
    // The catalog no longer offers the broken bundle; the way out is to delete its revision.
    extension.force("1.2.0").await;
    scene.delete_revision(2);
    extension.installed("1.2.0").await;
    assert_eq!(scene.uid(&crd, "one"), one, "the instance is the same");
    leaves_nothing(&scene, &extension).await;
}

// ours: nothing follows at once
#[tokio::test(flavor = "multi_thread")]
async fn what_a_deleted_revision_took_over_goes_back_to_the_installed_one() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let (scene, extension) = rolling_out("handback", &bundles).await;
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    scene.delete_revision(2);
    extension.installed("1.0.0").await;
    // The Deployment is as before only some time after the revision that changed it is gone.
    extension.shows("Available", "True", "ProbesSucceeded", "").await;
    leaves_nothing(&scene, &extension).await;
}

// ours: upstream releases them at once, and the garbage collector deletes every instance
#[tokio::test(flavor = "multi_thread")]
async fn an_installed_revision_deleted_by_hand_keeps_what_it_installed() {
    let (scene, extension) = one_installed("handinstalled").await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    let life = Life::watch(&extension, &scene).await;
    scene.delete_revision(1);
    scene.gone("clusterobjectset", &scene.revision(1)).await;
    scene.there("clusterobjectset", &scene.revision(2)).await;
    extension.installed("1.0.0").await;
    assert_eq!(scene.uid(&crd, "one"), one, "the instance is the same");
    life.never_faltered(&extension).await;
    leaves_nothing(&scene, &extension).await;
}

/// An extension with its only version installed.
async fn one_installed(suffix: &str) -> (Scene, Extension) {
    let scene = Scene::shared(suffix, &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    (scene, extension)
}

/// An extension with 1.0.0 installed, with a second `ConfigMap` that only 1.0.0 has, and 1.1.0 that
/// does not become ready; 1.2.0 will.
async fn between_two_versions(suffix: &str) -> (Scene, Extension) {
    let bundles = [
        Bundle::new("1.0.0").with_second_config_map(),
        Bundle::new("1.1.0").broken(),
        Bundle::new("1.2.0"),
    ];
    rolling_out(suffix, &bundles).await
}

/// An extension with 1.0.0 installed that is asked for 1.1.0.
async fn updating(suffix: &str, bundles: &[Bundle]) -> (Scene, Extension) {
    let (scene, extension) = Scene::shared_first(suffix, bundles).await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    (scene, extension)
}

/// The same once 1.1.0 is being rolled out, which does not become ready.
async fn rolling_out(suffix: &str, bundles: &[Bundle]) -> (Scene, Extension) {
    let (scene, extension) = updating(suffix, bundles).await;
    extension.shows("Progressing", "True", "RollingOut", "1.1.0").await;
    (scene, extension)
}

// applying.md 1.2
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_whose_label_is_taken_off_or_changed_gets_it_back() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let scene = Scene::shared_set("unlabelled", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    let first = scene.revision(1);
    for other in [Value::Null, json!("another")] {
        let change = json!({"metadata": {"labels": {label::OWNER_NAME: other}}});
        scene.cluster.plane.requests().merge("clusterobjectset", "", &first, &change);
        let is_back = |set: &Value| set["metadata"]["labels"][label::OWNER_NAME] == scene.name;
        scene.until("it has its label", "clusterobjectset", &first, is_back).await;
    }
    extension.moves_to("1.1.0").await;
    archived(&scene, 1).await;
    leaves_nothing(&scene, &extension).await;
}

// applying.md 2.4
#[tokio::test(flavor = "multi_thread")]
async fn what_a_revision_without_its_extension_owns_is_taken_over_as_ready_says() {
    let scene = Scene::shared("disowned", &["1.0.0"]).await;
    let extension = scene.installed(json!({}), "1.0.0").await;
    let crd = scene.package.crd();
    let one = scene.make_instance(&crd, &[]);
    let (first, plane) = (scene.revision(1), scene.cluster.plane);
    let unowned = json!({"metadata": {"ownerReferences": null}});
    plane.requests().merge("clusterobjectset", "", &first, &unowned);
    let command = ["delete", "clusterobjectset", &first, "--cascade=orphan"];
    let way_out = format!("kubectl {} releases them", command.join(" "));
    extension.shows("Ready", "False", "Retrying", &way_out).await;
    plane.kubectl(&command);
    let way_out = format!("taken over with annotation {}: all", policy::ADOPT);
    extension.shows("Ready", "False", "Retrying", &way_out).await;
    scene.annotate(policy::ADOPT, "all");
    extension.installed("1.0.0").await;
    assert_eq!(scene.uid(&crd, "one"), one, "the object is the same");
    scene.annotate(policy::UNINSTALL, "Delete");
    leaves_nothing(&scene, &extension).await;
}

// applying.md 3.9
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_revision_archived_by_hand_leaves_what_the_installed_one_owns() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let (scene, extension) = rolling_out("handarchived", &bundles).await;
    let deployment = scene.package.deployment();
    let is_broken = |found: &Value| found["metadata"]["annotations"][REVISION] == "2";
    scene.until("the broken version is applied", "deployment", &deployment, is_broken).await;
    scene.make_instance(&scene.package.crd(), &[]);
    let parts = || scene.parts().map(|(kind, name)| scene.uid(&kind, &name));
    let before = parts();
    // No further revision is made meanwhile.
    scene.annotate(policy::PAUSED, "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    let requests = scene.cluster.plane.requests();
    requests.merge("clusterobjectset", "", &scene.revision(2), &archive);
    archived(&scene, 2).await;
    assert_eq!(parts(), before, "everything is as it was");
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    scene.annotate(policy::PAUSED, "");
    extension.installed("1.0.0").await;
    extension.shows("Available", "True", "ProbesSucceeded", "").await;
    scene.annotate(policy::UNINSTALL, "Delete");
    leaves_nothing(&scene, &extension).await;
}

/// Names of the content Secrets of a revision.
fn content(scene: &Scene, number: u32) -> Vec<String> {
    scene.content("olm.operatorframework.io/revision-name", &scene.revision(number))
}

fn lose_content(scene: &Scene, number: u32) -> Vec<String> {
    let lost = content(scene, number);
    for secret in &lost {
        scene.cluster.plane.kubectl(&["delete", "-n", SYSTEM_NAMESPACE, secret]);
    }
    assert!(!lost.is_empty());
    lost
}

/// Takes the owners off the content Secrets of a revision, and returns their names.
fn disown_content(scene: &Scene, number: u32) -> Vec<String> {
    let patch = json!({"metadata": {"ownerReferences": null}}).to_string();
    let secrets = content(scene, number);
    assert!(!secrets.is_empty());
    for secret in &secrets {
        scene.cluster.plane.kubectl(&["patch", secret, "-n", SYSTEM_NAMESPACE, "-p", &patch]);
    }
    secrets
}

/// Upgrades to 1.2.0, whatever the catalog says about such a step.
async fn go_on(extension: &Extension) {
    extension.force("1.2.0").await;
    extension.installed("1.2.0").await;
}

async fn second_config_map_goes(scene: &Scene) {
    scene.gone("configmap", &scene.package.second_config_map()).await;
}

// ours: found by killing and deleting at random
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_revision_is_whole_while_it_is_needed_also_when_it_is_deleted() {
    let (scene, extension) = between_two_versions("lostearlier").await;
    let lost = lose_content(&scene, 1);
    wait::value("the content is back", SOON, || content(&scene, 1), |found| *found == lost).await;
    // What the next revision made anew would go back to the installed one.
    let name = scene.package.config_map();
    let names = [scene.revision(1), scene.revision(2)];
    let both_own = |found: &Value| {
        let mut owners = owners(found);
        owners.sort_unstable();
        owners == names
    };
    let found = scene.until("both revisions own it", "configmap", &name, both_own).await;
    let references = found["metadata"]["ownerReferences"].as_array().cloned();
    let mut controlling = references.unwrap_or_default();
    controlling.retain(|reference| reference["controller"] == true);
    set_owners(&scene, &name, &json!(controlling));
    scene.until("both revisions own it again", "configmap", &name, both_own).await;
    // While nothing has taken it over it is kept like any other: repaired and probed.
    scene.delete_revision(1);
    scene.reports(&scene.revision(1), "stay until another revision has taken them over").await;
    let name = scene.package.second_config_map();
    let before = scene.uid("configmap", &name);
    scene.cluster.plane.kubectl(&["delete", "configmap", &name, "-n", &scene.name]);
    // What only 1.0.0 has comes back.
    let is_new = |found: &Value| !found.is_null() && found["metadata"]["uid"] != before;
    scene.until("it is made anew", "configmap", &name, is_new).await;
    extension.shows("Available", "False", "ProbeFailure", "Deployment").await;
    go_on(&extension).await;
    second_config_map_goes(&scene).await;
    leaves_nothing(&scene, &extension).await;
}

// ours: found by killing and deleting at random. A revision that somebody deletes in the second in
// which it is made may not own its content yet.
#[tokio::test(flavor = "multi_thread")]
async fn content_without_an_owner_goes_with_its_revision() {
    let (scene, extension) = between_two_versions("unowned").await;
    // A paused revision gets no finalizer, and without one nobody is asked about its end.
    let (set, revision) = ("clusterobjectset", scene.revision(2));
    let has_finalizer = |found: &Value| found["metadata"]["finalizers"].is_array();
    scene.until("it has its finalizer", set, &revision, has_finalizer).await;
    // The extension would give it back its owner.
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    disown_content(&scene, 2);
    scene.delete_revision(2);
    wait::value("the content is gone", SOON, || content(&scene, 2), Vec::is_empty).await;
    leaves_nothing(&scene, &extension).await;
}

/// Names of the owners of an object.
fn owners(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.into_iter().flatten();
    owners.filter_map(|owner| owner["name"].as_str()).collect()
}

/// Writes the owners of a `ConfigMap` as the manager of all revisions does.
fn set_owners(scene: &Scene, name: &str, owners: &Value) {
    let patch = json!({"metadata": {"ownerReferences": owners}}).to_string();
    let (namespace, manager) = ("--namespace", "--field-manager=olm.operatorframework.io");
    let object = ["patch", "configmap", name, namespace, &scene.name];
    let args = [&object[..], &["--type=merge", manager, "-p", &patch]].concat();
    scene.cluster.plane.kubectl(&args);
}

// ours: found by killing and deleting at random. Nothing else would call for a pass of a settled
// extension; and a write that was decided before an archived revision let go of an object may bring
// its reference back.
#[tokio::test(flavor = "multi_thread")]
async fn a_settled_revision_owns_its_content_and_alone_what_it_installed() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let (scene, extension) = updating("ownerless", &bundles).await;
    extension.installed("1.1.0").await;
    archived(&scene, 1).await;
    let (old, new) = (scene.revision(1), scene.revision(2));
    let is_its_own = |found: &Value| owners(found) == [new.as_str()];
    for secret in disown_content(&scene, 2) {
        let name = secret.rsplit('/').next().unwrap_or_default();
        let requests = scene.cluster.plane.requests();
        let read = || requests.read("secret", SYSTEM_NAMESPACE, name).unwrap_or_default();
        wait::value("the content has its owner", SOON, read, is_its_own).await;
    }
    let archived = scene.get("clusterobjectset", &old).expect("it is archived");
    let name = scene.package.config_map();
    let mut references = scene.get("configmap", &name).unwrap_or_default();
    let references = references["metadata"]["ownerReferences"].take();
    let stale = json!({"apiVersion": archived["apiVersion"], "kind": "ClusterObjectSet",
        "name": old, "uid": archived["metadata"]["uid"], "controller": false});
    set_owners(&scene, &name, &json!([stale, references[0]]));
    scene.until("only the installed revision owns it", "configmap", &name, is_its_own).await;
    leaves_nothing(&scene, &extension).await;
}

// ours: what nobody knows any more is not called removed
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn an_archived_revision_without_content_says_what_it_waits_for() {
    let (scene, extension) = between_two_versions("lostforgood").await;
    // Another bundle under the same tag: the content cannot be recreated.
    let image = format!("{}/{}-bundle:v1.0.0", scene.cluster.registry, scene.name);
    let other = scene.package.bundle_files(&Bundle::new("1.0.0"));
    images::push_bundle(&image, other).await;
    lose_content(&scene, 1);
    go_on(&extension).await;
    for text in ["objects of this revision cannot be removed", "may not list", "ConfigMap"] {
        scene.reports(&scene.revision(1), text).await;
    }
    assert!(scene.get("configmap", &scene.package.second_config_map()).is_some());
    let plane = scene.cluster.plane;
    let lists = format!("{}-lists", scene.name);
    let account = format!("--serviceaccount={}:installer", scene.name);
    plane.kubectl(&["create", "clusterrole", &lists, "--verb=list", "--resource=*.*"]);
    let role = format!("--clusterrole={lists}");
    plane.kubectl(&["create", "clusterrolebinding", &lists, &role, &account]);
    second_config_map_goes(&scene).await;
    leaves_nothing(&scene, &extension).await;
}

/// An extension as it was after each of its changes so far.
struct Life {
    seen: mpsc::UnboundedReceiver<ClusterExtension>,
}

impl Life {
    async fn watch(extension: &Extension, scene: &Scene) -> Self {
        let (told, seen) = mpsc::unbounded_channel();
        let api = Api::<ClusterExtension>::all(scene.cluster.client.clone());
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", extension.name));
        let mut events = watcher(api, config).default_backoff().touched_objects().boxed();
        let first = events.next().await;
        assert!(first.is_some(), "the watch has begun");
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Ok(extension) = event else { continue };
                if told.send(extension).is_err() {
                    break;
                }
            }
        });
        Self { seen }
    }

    /// Fails if there was a moment without an installed bundle until now.
    async fn never_faltered(mut self, extension: &Extension) {
        let version = |found: &ClusterExtension| {
            let version = found.metadata.resource_version.as_deref();
            version.and_then(|text| text.parse::<u64>().ok()).expect("a number")
        };
        let now = version(&extension.get().await);
        loop {
            let next =
                timeout(SOON, self.seen.recv()).await.expect("the watch sees what it is now");
            let seen = next.expect("the watch goes on");
            let installed = condition(&seen, "Installed").map(|found| found.status.as_str());
            let bundle = installed_version(&seen);
            assert!(
                installed == Some("True") && bundle.is_some(),
                "Installed was {installed:?} with version {bundle:?}"
            );
            // A watch that began again does not bring every version.
            if version(&seen) >= now {
                return;
            }
        }
    }
}

/// ours: a label does not make an object set a revision of an extension.
async fn a_set_made_by_hand_with_the_label_of_an_extension_takes_nothing(
    scene: &Scene,
    extension: &Extension,
) {
    let before = scene.get("configmap", &scene.package.config_map()).unwrap_or_default();
    let content = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": scene.package.config_map(), "namespace": scene.name},
        "data": {"depth": "taken"}});
    let name = scene.revision(99);
    let mut set = objects::object_set(&name, 99, &content);
    set["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": scene.name,
        "olm.operatorframework.io/owner-kind": "ClusterExtension"});
    let plane = scene.cluster.plane;
    plane.create(&set);
    // It has no service account: that of the extension is not used for it.
    scene.reports(&name, "missing required annotations").await;
    // With the service account it has the rights, but still may not take the objects over.
    for (key, value) in [("name", "installer"), ("namespace", scene.name.as_str())] {
        let note = format!("olm.operatorframework.io/service-account-{key}={value}");
        plane.kubectl(&["annotate", "clusterobjectset", &name, &note]);
    }
    scene.reports(&name, "revision object collisions").await;
    let after = scene.get("configmap", &scene.package.config_map()).unwrap_or_default();
    let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
    assert_eq!(owners(&after), owners(&before));
    assert_eq!(after["data"], before["data"]);
    let revisions = extension.revisions().await;
    assert_eq!(revisions[0].spec.lifecycle_state, olm_api::LifecycleState::Active);
    plane.kubectl(&["delete", "clusterobjectset", &name]);
}

// ours: annotations that users put on a revision are kept
#[tokio::test(flavor = "multi_thread")]
async fn a_set_made_by_hand_takes_nothing_and_a_revision_paused_by_hand_stays_paused() {
    let paused = "policy.olm.operatorframework.io/paused";
    let (scene, extension) = one_installed("handmade").await;
    a_set_made_by_hand_with_the_label_of_an_extension_takes_nothing(&scene, &extension).await;
    let revision = scene.revision(1);
    let plane = scene.cluster.plane;
    plane.kubectl(&["annotate", "clusterobjectset", &revision, &format!("{paused}=true")]);
    // Two reconciles of the extension, of which its status tells only with another generation.
    for (value, version) in [("false", ">=1.0.0"), ("", "1.0.0")] {
        scene.annotate(paused, value);
        extension.patch_catalog(json!({"version": version})).await;
        let generation = extension.get().await.metadata.generation;
        let is_seen = |found: &Condition| found.observed_generation == generation;
        extension.has("Progressing", "a pass", is_seen).await;
    }
    plane.kubectl(&["delete", "configmap", &scene.package.config_map(), "-n", &scene.name]);
    let set = scene.get("clusterobjectset", &revision).unwrap_or_default();
    assert_eq!(set["metadata"]["annotations"][paused], "true");
    // Its objects are read all the same.
    let is_told = |set: &Value| {
        let conditions = set["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|it| {
            it["type"] == "Available"
                && it["status"] == "False"
                && it["message"].as_str().is_some_and(|text| text.ends_with(": not found"))
        })
    };
    scene.until("the missing object is told", "clusterobjectset", &revision, is_told).await;
    plane.kubectl(&["annotate", "clusterobjectset", &revision, &format!("{paused}-")]);
    scene.there("configmap", &scene.package.config_map()).await;
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_whose_kind_is_taken_names_the_crd_that_has_it() {
    let scene = Scene::shared("taken", &["1.0.0"]).await;
    let (crd, plane) = (scene.package.crd(), scene.cluster.plane);
    let (_, group) = crd.split_once('.').expect("a group");
    let other = format!("floats.{group}");
    let mut object = definition("Float", group);
    object["spec"]["names"] = json!({"kind": "Buoy", "plural": "floats"});
    plane.create(&object);
    plane.established(&other);
    let extension = scene.install(json!({})).await;
    let told = extension.shows("Ready", "False", "RollingOut", "ListKindConflict: ").await;
    let message = &condition(&told, "Ready").expect("it is there").message;
    assert!(message.contains(&format!(", by CustomResourceDefinition {other}")), "{message}");
    plane.kubectl(&["delete", "crd", &other]);
    extension.installed("1.0.0").await;
    extension.delete().await;
}
