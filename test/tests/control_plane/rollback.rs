//! Going back to what was installed before.

use kube::ResourceExt as _;
use olm_api::keys::label::REVISION_NAME;
use olm_api::keys::policy::{ON_FAILURE, PERMISSION_INCREASE as INCREASE, ROLLBACK_TO};
use olm_test::package;
use olm_test::prelude::*;

use crate::plans::{digest, olm as plans_olm, plan};

const CONTENT_OF: &str = "olm.operatorframework.io/content-of";
/// Longer than a deadline of one minute, with the rollout and its revert.
const PAST_DEADLINE: Duration = Duration::from_mins(3);
/// The garbage collector learns of a CRD every 30 seconds, and a migration waits for that.
const MIGRATED: Duration = Duration::from_mins(3);

fn olm(scene: &Scene, args: &[&str]) -> (Option<i32>, String, String) {
    plugin::answer(scene.cluster.plane, args)
}

// applying.md j3, plugin.md U45
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_revision_comes_back_without_catalog_and_registry() {
    let (cluster, _controller) =
        cluster::started("", &["--webhook-certificates=self-signed"]).await;
    let plane = cluster.plane;
    let mut scene = Scene::empty(cluster, "goback");
    let hook = scene.package.validating_webhook();
    let bundles = [
        Bundle::new("1.0.0").with_webhook(hook.clone()).with_second_config_map(),
        Bundle::new("1.1.0").with_webhook(hook),
    ];
    let versions = chain(&["1.0.0", "1.1.0"]);
    scene.publish(&bundles, &versions).await;
    scene.create_namespace();
    scene.grant_with(&bundles, &["--webhook-certificates=self-signed"]);
    let name = scene.name.clone();
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.1.0").await;
    let second = scene.package.second_config_map();
    scene.gone("configmap", &second).await;

    plane.kubectl(&["delete", "clustercatalog", &name]);
    plane.control("stop", "registry");
    let (text, _) = olm(&scene, &["rollback", &name, "--yes"]).good();
    assert!(text.contains(&format!("{name}: 1.0.0 ready after ")), "{text}");
    assert!(text.contains("  objects   +3 "), "{text}");
    assert!(scene.get("configmap", &second).is_some());
    let revisions = extension.revisions().await;
    let newest = revisions.last().expect("a revision");
    assert_eq!(newest.spec.revision, 3);
    assert_eq!(newest.annotations()[CONTENT_OF], "1");
    let hooks = plane.json(&["get", "validatingwebhookconfigurations", "-o", "json"]);
    let ca = &hooks["items"][0]["webhooks"][0]["clientConfig"]["caBundle"];
    assert!(ca.is_string(), "{hooks}");

    plane.control("start", "registry");
    scene.publish(&bundles, &versions).await;
    extension.offers("1.1.0", "RolledBack").await;
    assert_eq!(extension.revisions().await.len(), 3, "nothing undoes it");
    // What was rolled out last archives those before it, after it has said so.
    let is_archived = |set: &Value| set["spec"]["lifecycleState"] == "Archived";
    scene.until("it is archived", "clusterobjectset", &scene.revision(2), is_archived).await;
    let history = olm(&scene, &["history", &name, "-o", "json"]).document();
    let [third, second, first] = history["revisions"].as_array().expect("a list").as_slice() else {
        panic!("{history}");
    };
    assert_eq!((&third["state"], &third["note"]), (&json!("installed"), &json!("content of 1")));
    assert_eq!((&second["state"], &second["catalog"]), (&json!("archived"), &json!(name)));
    assert_eq!((&first["version"], &first["digest"]), (&json!("1.0.0"), &third["digest"]));

    stays_looked_after(&scene, newest).await;
    assert_eq!(extension.revisions().await.len(), 4, "one for the new CA");

    let ca = plane.addresses.controller_ca.to_string_lossy();
    olm(&scene, &["upgrade", &name, "--yes", "--catalog-ca", &ca]).good();
    extension.installed("1.1.0").await;
    extension.delete().await;
}

/// The oldest revision stays while what goes back to it cannot be written.
pub(crate) async fn the_oldest_revision_stays(cluster: Cluster, proxy: &Proxy) {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0"];
    let bundles = versions.map(|version| {
        let mut bundle = Bundle::new(version);
        bundle.data.insert("version".to_owned(), version.to_owned());
        bundle
    });
    let scene = Scene::set(cluster, "oldest", &bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": versions[0]})).await;
    for version in versions {
        extension.moves_to(version).await;
    }
    let cache = scene.cluster.dir.join("controller-state/bundles/bundles");
    let unpacked = std::fs::read_dir(cache.join(&scene.name)).expect("the unpacked bundles");
    // The one before the last may not have been archived yet when the last was pulled.
    assert!(unpacked.count() <= 3, "superseded bundles stay on disk");
    let revisions = extension.revisions().await;
    // One that is not kept may not be gone yet.
    let stays = |one: &&ClusterObjectSet| one.metadata.deletion_timestamp.is_none();
    let oldest = revisions.iter().find(stays).expect("a revision");
    let (number, name) = (oldest.spec.revision, oldest.name_any());
    let refused = Rule::on(&["create", "patch"], "clusterobjectsets").named("buoy-oldest-8");
    let refused = proxy.fail(refused.status(403));
    scene.annotate(ROLLBACK_TO, &number.to_string());
    proxy.struck(refused, 2).await;
    assert!(scene.get("clusterobjectset", &name).is_some(), "what was asked for is there");
    assert!(!scene.content(REVISION_NAME, &name).is_empty());
    proxy.stop(refused);
    extension.installed(versions[usize::try_from(number).expect("small") - 1]).await;
    assert!(scene.get("clusterobjectset", &name).is_some(), "the source of the newest stays");
    extension.delete().await;
}

/// Takes away the content of a revision that went back, and the CA of its webhook: both come back, and
/// callers trust the new CA.
async fn stays_looked_after(scene: &Scene, revision: &ClusterObjectSet) {
    let plane = scene.cluster.plane;
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let selector = format!("--selector={REVISION_NAME}={}", revision.name_any());
    let content = || plane.kubectl(&["get", "secrets", &namespace, &selector, "--output=name"]);
    let before = content();
    assert!(!before.is_empty());
    plane.kubectl(&["delete", "secrets", &namespace, &selector]);
    wait::value("the content is there again", ROLLOUT, content, |now| *now == before).await;

    let hook = format!("{}.example.com", scene.name);
    let trusted = || {
        let found = scene.get("validatingwebhookconfiguration", &hook);
        found.map(|found| found["webhooks"][0]["clientConfig"]["caBundle"].clone())
    };
    let before = trusted();
    plane.kubectl(&["delete", "secret", &namespace, &format!("{}-webhook-ca", scene.name)]);
    let is_new = |now: &Option<Value>| now.is_some() && *now != before;
    wait::value("callers trust the new CA", ROLLOUT, trusted, is_new).await;
}

// applying.md j4: a step back is asked about more rights as an update is
#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_to_more_rights_waits_for_the_approval_of_its_plan() {
    let role = objects::reader("regained-reader", "secrets");
    let bundles = [Bundle::new("1.0.0").with_manifest(role), Bundle::new("1.1.0")];
    let (scene, extension) = Scene::shared_first("regained", &bundles).await;
    let name = scene.name.clone();
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.1.0").await;
    scene.gone("clusterrole", "regained-reader").await;
    scene.annotate(INCREASE, "RequireApproval");
    let (_, errors) = olm(&scene, &["rollback", &name, "--yes", "--no-wait"]).good();
    assert!(errors.contains(&format!("kubectl olm approve {name} --plan ")), "{errors}");
    extension.shows("Ready", "False", "PermissionIncrease", "gives more rights").await;
    extension.shows("Ready", "False", "PermissionIncrease", "is to be installed again").await;
    assert!(scene.events("RolledBack").is_empty(), "it has not happened");
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    assert!(scene.get("clusterrole", "regained-reader").is_none());
    assert_eq!(installed_version(&extension.get().await), Some("1.1.0"));

    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["increase"]));
    assert_eq!(held["to"]["version"], "1.0.0");
    let event = scene.events("PermissionIncrease").remove(0);
    assert!(event.contains(digest(&held)), "the plugin makes the controller's plan: {event}");
    plans_olm(&scene, &["approve", &name, "--plan", digest(&held)]).good();
    extension.installed("1.0.0").await;
    extension.shows("Ready", "True", "RolledBack", "1.0.0 of revision 1 is installed again").await;
    assert!(scene.get("clusterrole", "regained-reader").is_some());
    extension.delete().await;
}

fn definition(suffix: &str, versions: &[(&str, bool)]) -> Value {
    let versions = versions.iter().map(|(name, storage)| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    });
    let mut crd = package::definition("Float", &format!("{suffix}.example.com"));
    crd["spec"]["versions"] = versions.collect();
    crd
}

/// Installs a bundle whose CRD stores v1, then one that stores v2; a third has v2 only.
async fn stores_v2(suffix: &str) -> (Scene, Extension) {
    let bundles = [
        Bundle::new("1.0.0").with_manifest(definition(suffix, &[("v1", true)])),
        Bundle::new("1.1.0").with_manifest(definition(suffix, &[("v1", false), ("v2", true)])),
        Bundle::new("1.2.0").with_manifest(definition(suffix, &[("v2", true)])),
    ];
    let versions = chain(&["1.0.0", "1.1.0", "1.2.0"]);
    let scene = Scene::shared_set(suffix, &bundles, &versions).await;
    let extension = scene.installed(json!({"version": "1.0.0"}), "1.0.0").await;
    extension.moves_to("1.1.0").await;
    (scene, extension)
}

/// Makes an object and asks for the version without v1, which is held.
async fn is_held_for_an_object(
    scene: &Scene,
    extension: &Extension,
    group: &str,
) -> ClusterExtension {
    // Its label shows in which version it was written.
    let float = json!({"apiVersion": format!("{group}/v1"), "kind": "Float",
        "metadata": {"name": "one", "namespace": scene.name, "labels": {"color": "red"}}});
    scene.cluster.plane.create(&float);
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    extension
        .patch_spec(json!({"install": none, "source": {"catalog": {"version": "1.2.0"}}}))
        .await;
    let lost = "storedVersionRemoval: stored versions removed : [v1]";
    extension.shows("Progressing", "True", "Retrying", lost).await
}

fn stored(scene: &Scene, crd: &str) -> String {
    scene.cluster.plane.run(&format!("get crd {crd} -o jsonpath={{.status.storedVersions}}"))
}

/// A step that drops a version is held, whatever is switched off, while objects may be stored in it.
async fn drops_a_version_without_objects_only(scene: &Scene, extension: &Extension) {
    let (plane, crd) = (scene.cluster.plane, "floats.stored.example.com");
    let found = is_held_for_an_object(scene, extension, "stored.example.com").await;
    let ready = condition(&found, "Ready").expect("Ready");
    for text in [format!("kubectl olm crd migrate {crd}"), format!("in v1 ({}/one)", scene.name)] {
        assert!(ready.message.contains(&text), "{}", ready.message);
    }
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    assert_eq!(plan(scene)["heldBy"], json!(["crds"]));
    plane.kubectl(&["delete", crd, "one", "-n", &scene.name]);
    scene.annotate("example.com/look", "again");
    extension.installed("1.2.0").await;
    assert_eq!(stored(scene, crd), r#"["v2"]"#);
}

// decision 51, applying.md 6.7
#[tokio::test(flavor = "multi_thread")]
#[ignore = "time: make test-full"]
async fn a_storage_version_migration_of_kubernetes_ends_the_hold() {
    let (scene, extension) = stores_v2("migrated").await;
    let (plane, group) = (scene.cluster.plane, "migrated.example.com");
    is_held_for_an_object(&scene, &extension, group).await;
    let (crd, kind) = (format!("floats.{group}"), "storageversionmigrations");
    plane.create(&json!({"apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration", "metadata": {"name": crd},
        "spec": {"resource": {"group": group, "resource": "floats"}}}));
    let begun = |found: &Option<Value>| {
        found.as_ref().is_some_and(|it| it["status"]["resourceVersion"].is_string())
    };
    wait::value("the migration begins", MIGRATED, || scene.get(kind, &crd), begun).await;
    // It waits until the garbage collector has seen a later version of the resource.
    plane.kubectl(&["label", &crd, "one", "-n", &scene.name, "size=big"]);
    let trimmed = |stored: &String| stored == r#"["v2"]"#;
    wait::value("the list is trimmed", MIGRATED, || stored(&scene, &crd), trimmed).await;
    extension.installed("1.2.0").await;
    assert!(scene.get(&crd, "one").is_some(), "no object is lost");
    plane.kubectl(&["delete", kind, &crd]);
    plane.kubectl(&["delete", &crd, "one", "-n", &scene.name]);
    extension.delete().await;
}

// applying.md j3, 6.7, plugin.md U45
#[tokio::test(flavor = "multi_thread")]
async fn no_way_leads_back_from_a_stored_version() {
    let (scene, extension) = stores_v2("stored").await;
    let lost = "storedVersionRemoval: stored versions removed : [v2]";
    let (_, errors) = olm(&scene, &["rollback", &scene.name, "--yes"]).ends(1);
    let refused = "error: cannot go back to revision 1 (1.0.0): validating upgrade for CRD \
                   \"floats.stored.example.com\": ";
    assert!(errors.contains(&format!("{refused}{lost}")), "{errors}");
    let first = "kubectl olm crd migrate floats.stored.example.com";
    assert!(errors.contains(first) && !errors.contains("crd-safety-allow"), "{errors}");

    scene.annotate(ROLLBACK_TO, "1");
    let found = extension.shows("Progressing", "True", "Retrying", lost).await;
    let ready = condition(&found, "Ready").expect("Ready");
    assert!(ready.message.contains(first), "{}", ready.message);
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    scene.annotate(ROLLBACK_TO, "7");
    let unknown = "there is no revision 7: kept are 1, 2";
    extension.shows("Progressing", "False", "InvalidConfiguration", unknown).await;
    scene.annotate(ROLLBACK_TO, "");
    extension.shows("Ready", "True", "Succeeded", "").await;
    drops_a_version_without_objects_only(&scene, &extension).await;
    extension.delete().await;
}

// applying.md F23: once, with the evidence kept
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for a deadline: make test-full"]
async fn a_roll_out_that_fails_is_taken_back_once() {
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let cluster = cluster::new().await;
    cluster.plane.allow_short_deadlines();
    let _controller = start(cluster.plane, "reverted", &[]).await;
    let (scene, extension) = Scene::first(cluster, "reverted", &bundles).await;
    scene.annotate(ON_FAILURE, "Rollback");
    extension.patch_spec(json!({"progressDeadlineMinutes": 1})).await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let noted = |found: &ClusterExtension| is(found, "Ready", "True", "RolloutReverted");
    let found = extension.eventually("it is reverted", PAST_DEADLINE, noted).await;
    let ready = condition(&found, "Ready").expect("Ready");
    assert!(ready.message.contains(&scene.package.deployment()), "{}", ready.message);
    assert_eq!(installed_version(&found), Some("1.0.0"));
    assert_eq!(scene.events("RolloutReverted").len(), 1);

    // It is not tried again until somebody changes something.
    scene.annotate("example.com/look", "again");
    extension.shows("Ready", "True", "RolloutReverted", "1.1.0").await;
    assert_eq!(extension.revisions().await.len(), 3);
    let ca = scene.cluster.plane.addresses.controller_ca.to_string_lossy();
    let asked = ["upgrade", &scene.name, "--to", "1.1.0", "--yes", "--catalog-ca", &ca];
    let (_, errors) = olm(&scene, &asked).ends(1);
    let hint = format!(
        "hint: to try it again: kubectl annotate clusterextension {} {ON_FAILURE}-\n",
        scene.name
    );
    assert!(errors.contains(" is held by rollback: ") && errors.ends_with(&hint), "{errors}");
    scene.annotate(ON_FAILURE, "");
    let again = |found: &ClusterExtension| {
        found.status.as_ref().is_some_and(|it| it.active_revisions.len() == 2)
    };
    extension.eventually("it is tried again", ROLLOUT, again).await;

    // By hand it goes back to what is installed, too, not to what was before that.
    let (text, _) = olm(&scene, &["rollback", &scene.name, "--yes"]).good();
    assert!(text.contains(&format!("{}: 1.0.0 ready after ", scene.name)), "{text}");
    let revisions = extension.revisions().await;
    assert_eq!(revisions.last().expect("a revision").annotations()[CONTENT_OF], "3");
    extension.delete().await;
}

// decision 6, applying.md F23
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for a deadline: make test-full"]
async fn a_changed_spec_is_followed_where_a_roll_out_cannot_be_taken_back() {
    let (suffix, both) = ("norevert", [("v1", false), ("v2", true)]);
    let bundles = [
        Bundle::new("1.0.0").with_manifest(definition(suffix, &[("v1", true)])),
        Bundle::new("1.1.0").with_manifest(definition(suffix, &both)).broken(),
        Bundle::new("1.2.0").with_manifest(definition(suffix, &both)),
    ];
    let cluster = cluster::new().await;
    cluster.plane.allow_short_deadlines();
    let _controller = start(cluster.plane, suffix, &[]).await;
    let (scene, extension) = Scene::first(cluster, suffix, &bundles).await;
    scene.annotate(ON_FAILURE, "Rollback");
    extension.patch_spec(json!({"progressDeadlineMinutes": 1})).await;
    let group = format!("{suffix}.example.com");
    scene.make_instance(&format!("floats.{group}"), &[]);
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    let is_refused = |found: &ClusterExtension| {
        let lost = "storedVersionRemoval: stored versions removed : [v2]";
        condition(found, "Progressing").is_some_and(|it| it.message.contains(lost))
    };
    extension.eventually("the way back is refused", PAST_DEADLINE, is_refused).await;
    let further = json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"});
    extension.patch_catalog(further).await;
    extension.installed("1.2.0").await;
    scene.cluster.plane.kubectl(&["delete", &format!("floats.{group}"), "one", "-n", &scene.name]);
    extension.delete().await;
}
