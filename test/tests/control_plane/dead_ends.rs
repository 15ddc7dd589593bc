//! Every state has a way out: what is deleted by hand comes back, `Installed` is right through
//! every upgrade, and what others write on revisions is kept.

use std::time::Duration;

use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use olm_api::ClusterExtension;
use olm_core::status::find;
use olm_test::extension::{Extension, condition, installed_version, is};
use olm_test::package::{Bundle, Entry, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use olm_test::{cluster, images};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const STEP: Duration = Duration::from_mins(1);

async fn stage(suffix: &str, bundles: &[Bundle], entries: &[Entry]) -> Scene {
    Scene::set(cluster::with_controller().await, suffix, bundles, entries).await
}

/// Names of objects that still have the label of the extension, of the kinds in its bundle.
fn left_over(scene: &Scene) -> Vec<String> {
    let kinds = "customresourcedefinitions,clusterroles,clusterrolebindings,deployments,\
                 configmaps,serviceaccounts";
    let label = format!("olm.operatorframework.io/owner-name={}", scene.name);
    let args = ["get", kinds, "-A", "-l", &label, "-o", "name"];
    let names = scene.cluster.plane.kubectl(&args);
    names.lines().map(str::to_owned).collect()
}

async fn nothing_is_left(scene: &Scene) {
    wait::until("nothing is left", STEP, || async {
        let left = left_over(scene);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

fn delete_revision(scene: &Scene, number: i64) {
    let name = format!("{}-{number}", scene.name);
    let args = ["delete", "clusterobjectset", &name, "--wait=false"];
    scene.cluster.plane.kubectl(&args);
}

fn make_instance(scene: &Scene) {
    let group = format!("{}.example.com", scene.package.suffix);
    let instance = json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "one", "namespace": scene.name}});
    let args = ["apply", "--server-side", "-f", "-"];
    scene.cluster.plane.kubectl_with_input(&args, &instance.to_string());
}

fn instance_uid(scene: &Scene) -> Option<String> {
    let found = scene.get(&scene.package.crd(), "one")?;
    found["metadata"]["uid"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_revision_deleted_by_hand_leads_back_and_leaves_nothing() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken(), Bundle::new("1.2.0")];
    let scene = stage("handrolling", &bundles, &chain(&["1.0.0", "1.1.0", "1.2.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    make_instance(&scene);
    let uid = instance_uid(&scene);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let wanted = scene.package.deployment();
    wait::until("the broken version is applied", STEP, || async {
        let found = scene.get("deployment", &wanted).unwrap_or_default();
        match found["metadata"]["annotations"]["olm.operatorframework.io/revision"].as_str() {
            Some("2") => Ok(()),
            other => Err(other.map(str::to_owned)),
        }
    })
    .await;
    // The catalog no longer offers the broken bundle; the way out is to delete its revision.
    let any = json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"});
    extension.patch_catalog(any).await;
    delete_revision(&scene, 2);
    extension.installed("1.2.0").await;
    assert_eq!(instance_uid(&scene), uid, "the instance is the same");
    extension.delete().await;
    nothing_is_left(&scene).await;
}

// ours: nothing follows at once
#[tokio::test(flavor = "multi_thread")]
async fn what_a_deleted_revision_took_over_goes_back_to_the_installed_one() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let (scene, extension) = rolling_out("handback", &bundles, &["1.0.0", "1.1.0"]).await;
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    delete_revision(&scene, 2);
    let settled = extension.installed("1.0.0").await;
    assert!(is(&settled, "Available", "True", "ProbesSucceeded"));
    extension.delete().await;
    nothing_is_left(&scene).await;
}

// ours: upstream releases them at once, and the garbage collector deletes every instance
#[tokio::test(flavor = "multi_thread")]
async fn an_installed_revision_deleted_by_hand_keeps_what_it_installed() {
    let bundles = [Bundle::new("1.0.0")];
    let scene = stage("handinstalled", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    make_instance(&scene);
    let uid = instance_uid(&scene);
    let life = Life::watch(&extension, &scene).await;
    delete_revision(&scene, 1);
    wait::until("another revision follows", STEP, || async {
        let revisions = extension.revisions().await;
        let numbers: Vec<i64> = revisions.iter().map(|one| one.spec.revision).collect();
        if numbers == [2] { Ok(()) } else { Err(numbers) }
    })
    .await;
    extension.installed("1.0.0").await;
    assert_eq!(instance_uid(&scene), uid, "the instance is the same");
    life.never_faltered();
    extension.delete().await;
    nothing_is_left(&scene).await;
}

/// An extension with 1.0.0 installed, with a second `ConfigMap` that only 1.0.0 has, and 1.1.0 that
/// does not become ready; 1.2.0 will.
async fn between_two_versions(suffix: &str) -> (Scene, Extension) {
    let bundles = [
        Bundle::new("1.0.0").with_second_config_map(),
        Bundle::new("1.1.0").broken(),
        Bundle::new("1.2.0"),
    ];
    rolling_out(suffix, &bundles, &["1.0.0", "1.1.0", "1.2.0"]).await
}

/// An extension with 1.0.0 installed and 1.1.0 being rolled out.
async fn rolling_out(suffix: &str, bundles: &[Bundle], versions: &[&str]) -> (Scene, Extension) {
    let scene = stage(suffix, bundles, &chain(versions)).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.shows("Progressing", "True", "RollingOut", "1.1.0").await;
    (scene, extension)
}

/// While nothing has taken over what is installed, it is kept like any other: repaired and probed.
#[tokio::test(flavor = "multi_thread")]
async fn an_installed_revision_deleted_by_hand_is_kept_while_the_next_is_stuck() {
    let (scene, extension) = between_two_versions("handkept").await;
    delete_revision(&scene, 1);
    let text = "stays until another revision has taken it over";
    wait::until("the revision says what it waits for", STEP, || async {
        let mut revisions = extension.revisions().await;
        let status = revisions.swap_remove(0).status.unwrap_or_default();
        let found = find(&status.conditions, "Progressing").map(|it| it.message.clone());
        let says = found.as_ref().is_some_and(|it| it.contains(text));
        says.then_some(()).ok_or(found)
    })
    .await;
    let name = scene.package.second_config_map();
    let uid = |found: Option<Value>| found.map(|found| found["metadata"]["uid"].clone());
    let before = uid(scene.get("configmap", &name));
    scene.cluster.plane.kubectl(&["delete", "configmap", &name, "-n", &scene.name]);
    wait::until("what only 1.0.0 has comes back", STEP, || async {
        let now = uid(scene.get("configmap", &name));
        (now.is_some() && now != before).then_some(()).ok_or(now)
    })
    .await;
    extension.shows("Available", "False", "ProbeFailure", "Deployment").await;
    go_on(&extension).await;
    second_config_map_goes(&scene).await;
    extension.delete().await;
    nothing_is_left(&scene).await;
}

/// What the next revision made anew goes back to the installed one when the next one is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn the_installed_revision_owns_what_the_next_one_controls() {
    let (scene, extension) = between_two_versions("bothown").await;
    let name = scene.package.config_map();
    let names = ["1", "2"].map(|number| format!("{}-{number}", scene.name));
    let both_own = async || {
        wait::until("both revisions own it", STEP, || async {
            let found = scene.get("configmap", &name).unwrap_or_default();
            let mut owners = owners(&found);
            owners.sort_unstable();
            (owners == names).then_some(()).ok_or(found)
        })
        .await;
    };
    both_own().await;
    let found = scene.get("configmap", &name).unwrap_or_default();
    let references = found["metadata"]["ownerReferences"].as_array().cloned();
    let mut controlling = references.unwrap_or_default();
    controlling.retain(|reference| reference["controller"] == true);
    set_owners(&scene, &name, &json!(controlling));
    both_own().await;
    go_on(&extension).await;
    extension.delete().await;
    nothing_is_left(&scene).await;
}

/// Names of the content Secrets of a revision.
fn content(scene: &Scene, number: i64) -> Vec<String> {
    let revision = format!("{}-{number}", scene.name);
    scene.content("olm.operatorframework.io/revision-name", &revision)
}

fn lose_content(scene: &Scene, number: i64) -> Vec<String> {
    let lost = content(scene, number);
    for secret in &lost {
        let args = ["delete", "-n", "olmv1-system", secret];
        scene.cluster.plane.kubectl(&args);
    }
    assert!(!lost.is_empty());
    lost
}

/// Upgrades to 1.2.0, whatever the catalog says about such a step.
async fn go_on(extension: &Extension) {
    let any = json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"});
    extension.patch_catalog(any).await;
    extension.installed("1.2.0").await;
}

async fn second_config_map_goes(scene: &Scene) {
    let name = scene.package.second_config_map();
    wait::until("what only 1.0.0 had is gone", STEP, || async {
        scene.get("configmap", &name).map_or(Ok(()), Err)
    })
    .await;
}

// ours: found by killing and deleting at random
#[tokio::test(flavor = "multi_thread")]
async fn content_of_an_earlier_revision_is_made_anew_while_it_is_needed() {
    let (scene, extension) = between_two_versions("lostearlier").await;
    let lost = lose_content(&scene, 1);
    wait::until("the content is back", STEP, || async {
        let found = content(&scene, 1);
        if found == lost { Ok(()) } else { Err(found) }
    })
    .await;
    go_on(&extension).await;
    second_config_map_goes(&scene).await;
    extension.delete().await;
    nothing_is_left(&scene).await;
}

// ours: found by killing and deleting at random. A revision that somebody deletes in the second in
// which it is made may not own its content yet.
#[tokio::test(flavor = "multi_thread")]
async fn content_without_an_owner_goes_with_its_revision() {
    let (scene, extension) = between_two_versions("unowned").await;
    let namespace = "olmv1-system";
    let patch = json!({"metadata": {"ownerReferences": null}}).to_string();
    let secrets = content(&scene, 2);
    assert!(!secrets.is_empty());
    // A paused revision gets no finalizer, and without one nobody is asked about its end.
    wait::until("the revision has its finalizer", STEP, || async {
        let found = scene.get("clusterobjectset", &format!("{}-2", scene.name)).unwrap_or_default();
        if found["metadata"]["finalizers"].is_array() { Ok(()) } else { Err(found) }
    })
    .await;
    // The extension would give it back its owner.
    scene.annotate("policy.olm.operatorframework.io/paused", "true");
    extension.shows("Paused", "True", "Paused", "nothing is applied").await;
    for secret in &secrets {
        let args = ["patch", secret, "-n", namespace, "-p", &patch];
        scene.cluster.plane.kubectl(&args);
    }
    delete_revision(&scene, 2);
    wait::until("the content is gone", STEP, || async {
        let left = content(&scene, 2);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    extension.delete().await;
    nothing_is_left(&scene).await;
}

/// Waits until a revision is archived and has let go of everything; returns it.
async fn archived(scene: &Scene, revision: &str) -> Value {
    wait::until("it is archived", STEP, || async {
        let found = scene.get("clusterobjectset", revision).unwrap_or_default();
        let archived = found["spec"]["lifecycleState"] == "Archived";
        if archived && found["metadata"]["finalizers"].is_null() { Ok(found) } else { Err(found) }
    })
    .await
}

// ours: found by killing and deleting at random. Nothing else would call for a pass of a settled
// extension.
#[tokio::test(flavor = "multi_thread")]
async fn content_that_lost_its_owner_gets_it_back() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let (scene, extension) = rolling_out("ownerless", &bundles, &["1.0.0", "1.1.0"]).await;
    extension.installed("1.1.0").await;
    archived(&scene, &format!("{}-1", scene.name)).await;
    let patch = json!({"metadata": {"ownerReferences": null}}).to_string();
    let secrets = content(&scene, 2);
    assert!(!secrets.is_empty());
    for secret in &secrets {
        let args = ["patch", secret, "-n", "olmv1-system", "-p", &patch];
        scene.cluster.plane.kubectl(&args);
    }
    let revision = format!("{}-2", scene.name);
    for secret in &secrets {
        let name = secret.rsplit('/').next().unwrap_or_default();
        wait::until("it has its owner", STEP, || async {
            let args = ["get", "secret", name, "-n", "olmv1-system", "-o", "json"];
            let found = scene.cluster.plane.kubectl(&args);
            let found: Value = serde_json::from_str(&found).unwrap_or_default();
            if owners(&found) == [revision.as_str()] { Ok(()) } else { Err(found) }
        })
        .await;
    }
    extension.delete().await;
    nothing_is_left(&scene).await;
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

// ours: found by killing and deleting at random. A write that was decided before an archived
// revision let go of an object may bring its reference back.
#[tokio::test(flavor = "multi_thread")]
async fn a_reference_to_an_archived_revision_does_not_stay() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let (scene, extension) = rolling_out("stalereference", &bundles, &["1.0.0", "1.1.0"]).await;
    extension.installed("1.1.0").await;
    let (old, new) = (format!("{}-1", scene.name), format!("{}-2", scene.name));
    let archived = archived(&scene, &old).await;
    let name = scene.package.config_map();
    let mut references = scene.get("configmap", &name).unwrap_or_default();
    let references = references["metadata"]["ownerReferences"].take();
    let stale = json!({"apiVersion": archived["apiVersion"], "kind": "ClusterObjectSet",
        "name": old, "uid": archived["metadata"]["uid"], "controller": false});
    let both = json!([stale, references[0]]);
    set_owners(&scene, &name, &both);
    wait::until("only the installed revision owns it", STEP, || async {
        let found = scene.get("configmap", &name).unwrap_or_default();
        if owners(&found) == [new.as_str()] { Ok(()) } else { Err(found["metadata"].clone()) }
    })
    .await;
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
    let revision = format!("{}-1", scene.name);
    wait::until("the revision says what it waits for", STEP, || async {
        let set = scene.get("clusterobjectset", &revision).unwrap_or_default();
        let text = set["status"].to_string();
        let says = text.contains("what only this revision installed stays")
            && text.contains("may not list")
            && text.contains("ConfigMap");
        if says { Ok(()) } else { Err(text) }
    })
    .await;
    assert!(scene.get("configmap", &scene.package.second_config_map()).is_some());
    let plane = scene.cluster.plane;
    let lists = format!("{}-lists", scene.name);
    let account = format!("--serviceaccount={}:installer", scene.name);
    let role = ["create", "clusterrole", &lists, "--verb=list", "--resource=*.*"];
    plane.kubectl(&role);
    let role = format!("--clusterrole={lists}");
    plane.kubectl(&["create", "clusterrolebinding", &lists, &role, &account]);
    second_config_map_goes(&scene).await;
    extension.delete().await;
    nothing_is_left(&scene).await;
}

/// All values of `Installed` and `status.install` of one extension so far.
struct Life {
    seen: mpsc::UnboundedReceiver<(String, Option<String>)>,
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
                let installed = condition(&extension, "Installed");
                let status = installed.map(|found| found.status.clone());
                let version = installed_version(&extension).map(str::to_owned);
                if told.send((status.unwrap_or_default(), version)).is_err() {
                    break;
                }
            }
        });
        Self { seen }
    }

    /// Fails if there was a moment without an installed bundle.
    fn never_faltered(mut self) {
        let mut count = 0;
        while let Ok((status, version)) = self.seen.try_recv() {
            count += 1;
            assert!(
                status == "True" && version.is_some(),
                "Installed was {status:?} with version {version:?}"
            );
        }
        assert!(count > 0, "the watch saw nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn installed_never_falters_through_ten_upgrades() {
    let versions: Vec<String> = (0..=10).map(|minor| format!("1.{minor}.0")).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let bundles: Vec<Bundle> = versions.iter().map(|version| Bundle::new(version)).collect();
    let scene = stage("tenupgrades", &bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    let life = Life::watch(&extension, &scene).await;
    for version in &versions[1..] {
        extension.patch_catalog(json!({"version": version})).await;
        extension.installed(version).await;
    }
    life.never_faltered();
    let cache = scene.cluster.dir.join("controller-state/bundles/bundles");
    let unpacked = std::fs::read_dir(cache.join(&scene.name)).expect("the unpacked bundles");
    assert!(unpacked.count() <= 2, "superseded bundles stay on disk");
    extension.delete().await;
}

// ours: annotations that users put on a revision are kept
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_paused_by_hand_stays_paused() {
    let paused = "policy.olm.operatorframework.io/paused";
    let scene = stage("handpaused", &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    let revision = format!("{}-1", scene.name);
    let plane = scene.cluster.plane;
    plane.kubectl(&["annotate", "clusterobjectset", &revision, &format!("{paused}=true")]);
    // Two reconciles of the extension: each change of its annotations triggers one.
    for value in ["false", ""] {
        scene.annotate(paused, value);
        let generation = extension.get().await.metadata.generation;
        extension
            .eventually("a pass", STEP, |extension| {
                condition(extension, "Progressing")
                    .is_some_and(|found| found.observed_generation == generation)
            })
            .await;
    }
    plane.kubectl(&["delete", "configmap", &scene.package.config_map(), "-n", &scene.name]);
    let set = scene.get("clusterobjectset", &revision).unwrap_or_default();
    assert_eq!(set["metadata"]["annotations"][paused], "true");
    plane.kubectl(&["annotate", "clusterobjectset", &revision, &format!("{paused}-")]);
    wait::until("it is repaired when it goes on", STEP, || async {
        scene.get("configmap", &scene.package.config_map()).ok_or(())
    })
    .await;
    extension.delete().await;
}

// ours: a label does not make an object set a revision of an extension
#[tokio::test(flavor = "multi_thread")]
async fn a_set_made_by_hand_with_the_label_of_an_extension_takes_nothing() {
    let scene = stage("handmade", &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    let before = scene.get("configmap", &scene.package.config_map()).unwrap_or_default();
    let content = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": scene.package.config_map(), "namespace": scene.name},
        "data": {"depth": "taken"}});
    let name = format!("{}-99", scene.name);
    let set = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": name,
            "labels": {"olm.operatorframework.io/owner-name": scene.name,
                "olm.operatorframework.io/owner-kind": "ClusterExtension"}},
        "spec": {"lifecycleState": "Active", "revision": 99, "collisionProtection": "Prevent",
            "phases": [{"name": "one", "objects": [{"object": content}]}]}});
    let plane = scene.cluster.plane;
    plane.kubectl_with_input(&["create", "-f", "-"], &set.to_string());
    // It has no service account: that of the extension is not used for it.
    wait::until("the set is refused", STEP, || async {
        let set = scene.get("clusterobjectset", &name).unwrap_or_default();
        let text = set["status"].to_string();
        if text.contains("missing required annotations") { Ok(()) } else { Err(text) }
    })
    .await;
    // With the service account it has the rights, but still may not take the objects over.
    for (key, value) in [("name", "installer"), ("namespace", scene.name.as_str())] {
        let note = format!("olm.operatorframework.io/service-account-{key}={value}");
        plane.kubectl(&["annotate", "clusterobjectset", &name, &note]);
    }
    wait::until("it collides", STEP, || async {
        let set = scene.get("clusterobjectset", &name).unwrap_or_default();
        let text = set["status"].to_string();
        if text.contains("revision object collisions") { Ok(()) } else { Err(text) }
    })
    .await;
    let after = scene.get("configmap", &scene.package.config_map()).unwrap_or_default();
    let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
    assert_eq!(owners(&after), owners(&before));
    assert_eq!(after["data"], before["data"]);
    let revisions = extension.revisions().await;
    assert_eq!(revisions[0].spec.lifecycle_state, olm_api::LifecycleState::Active);
    plane.kubectl(&["delete", "clusterobjectset", &name]);
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_whose_kind_is_taken_names_the_crd_that_has_it() {
    let scene = stage("taken", &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    let (crd, plane) = (scene.package.crd(), scene.cluster.plane);
    let (_, group) = crd.split_once('.').expect("a group");
    let other = format!("floats.{group}");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": other}, "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Buoy", "plural": "floats"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    plane.kubectl_with_input(&["create", "-f", "-"], &object.to_string());
    plane.kubectl(&["wait", "crd", &other, "--for=condition=Established"]);
    let extension = scene.install(json!({})).await;
    let told = extension.shows("Ready", "False", "RollingOut", "ListKindConflict: ").await;
    let message = &condition(&told, "Ready").expect("it is there").message;
    assert!(message.contains(&format!(", by CustomResourceDefinition {other}")), "{message}");
    plane.kubectl(&["delete", "crd", &other]);
    extension.installed("1.0.0").await;
    extension.delete().await;
}
