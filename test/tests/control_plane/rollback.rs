//! Going back to what was installed before.

use std::time::Duration;

use kube::ResourceExt as _;
use olm_api::keys::label::REVISION_NAME;
use olm_test::cluster::{self, Controller, ControllerOptions, SYSTEM_NAMESPACE};
use olm_test::extension::{Extension, ROLLOUT};
use olm_test::package::{Bundle, chain};
use olm_test::proxy::{Proxy, Rule};
use olm_test::scene::Scene;
use olm_test::{plugin, wait};
use serde_json::{Value, json};

use crate::plans::{digest, olm as plans_olm, plan};

const ROLLBACK_TO: &str = "policy.olm.operatorframework.io/rollback-to";
const ON_FAILURE: &str = "policy.olm.operatorframework.io/on-failure";
const INCREASE: &str = "policy.olm.operatorframework.io/permission-increase";
const CONTENT_OF: &str = "olm.operatorframework.io/content-of";
/// Longer than the shortest deadline of a rollout.
const PAST_DEADLINE: Duration = Duration::from_mins(12);

fn olm(scene: &Scene, args: &[&str]) -> (Option<i32>, String, String) {
    plugin::answer(scene.cluster.plane, args)
}

/// Waits until the update that is offered is held by this.
async fn held(extension: &Extension, version: &str, reason: &str) {
    let what = format!("{version} is held: {reason}");
    let offered = |found: &olm_api::ClusterExtension| {
        let update = found.status.as_ref().and_then(|it| it.update.as_ref());
        update.is_some_and(|it| it.version.as_deref() == Some(version) && it.reason == reason)
    };
    extension.eventually(&what, ROLLOUT, offered).await;
}

// applying.md j3, plugin.md U45
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_revision_comes_back_without_catalog_and_registry() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let options = ControllerOptions {
        args: vec!["--webhook-certificates=self-signed".to_owned()],
        ..ControllerOptions::default()
    };
    let _controller = Controller::start(plane, options);
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
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.1.0").await;
    let second = scene.package.second_config_map();
    wait::until("what 1.1.0 has not is gone", ROLLOUT, || async {
        scene.get("configmap", &second).map_or(Ok(()), Err)
    })
    .await;

    plane.kubectl(&["delete", "clustercatalog", &name]);
    plane.control("stop", "registry");
    let (code, text, errors) = olm(&scene, &["rollback", &name, "--yes"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(text.contains(&format!("{name}: 1.0.0 ready after ")), "{text}");
    assert!(text.contains("  objects   +3 "), "{text}");
    assert!(scene.get("configmap", &second).is_some());
    let revisions = extension.revisions().await;
    let newest = revisions.last().expect("a revision");
    assert_eq!(newest.spec.revision, 3);
    assert_eq!(newest.annotations()[CONTENT_OF], "1");
    let hooks = plane.kubectl(&["get", "validatingwebhookconfigurations", "-o", "json"]);
    let hooks: Value = serde_json::from_str(&hooks).expect("JSON");
    let ca = &hooks["items"][0]["webhooks"][0]["clientConfig"]["caBundle"];
    assert!(ca.is_string(), "{hooks}");

    plane.control("start", "registry");
    scene.publish(&bundles, &versions).await;
    held(&extension, "1.1.0", "RolledBack").await;
    assert_eq!(extension.revisions().await.len(), 3, "nothing undoes it");
    let (_, history, _) = olm(&scene, &["history", &name, "-o", "json"]);
    let history: Value = serde_json::from_str(&history).expect("a document");
    let [third, second, first] = history["revisions"].as_array().expect("a list").as_slice() else {
        panic!("{history}");
    };
    assert_eq!((&third["state"], &third["note"]), (&json!("installed"), &json!("content of 1")));
    assert_eq!((&second["state"], &second["catalog"]), (&json!("archived"), &json!(name)));
    assert_eq!((&first["version"], &first["digest"]), (&json!("1.0.0"), &third["digest"]));

    stays_looked_after(&scene, newest).await;
    assert_eq!(extension.revisions().await.len(), 4, "one for the new CA");

    let ca = plane.addresses.controller_ca.to_string_lossy();
    let upgrade = ["upgrade", &name, "--yes", "--catalog-ca", &ca];
    let (code, text, errors) = olm(&scene, &upgrade);
    assert_eq!(code, Some(0), "{text}{errors}");
    extension.installed("1.1.0").await;
    extension.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_revision_stays_while_what_goes_back_to_it_cannot_be_written() {
    let cluster = cluster::own().await;
    let proxy = Proxy::start(cluster.plane);
    let _controller =
        Controller::start_through(cluster.plane, &proxy, ControllerOptions::default());
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0"];
    let bundles = versions.map(|version| {
        let mut bundle = Bundle::new(version);
        bundle.data.insert("version".to_owned(), version.to_owned());
        bundle
    });
    let scene = Scene::set(cluster, "oldest", &bundles, &chain(&versions)).await;
    let extension = scene.install(json!({"version": versions[0]})).await;
    for version in versions {
        extension.patch_catalog(json!({"version": version})).await;
        extension.installed(version).await;
    }
    let revisions = extension.revisions().await;
    let oldest = revisions.first().expect("a revision");
    let (number, name) = (oldest.spec.revision, oldest.name_any());
    let refused = Rule::on(&["create", "patch"], "clusterobjectsets").named("buoy-oldest-8");
    let refused = proxy.fail(refused.status(403));
    scene.annotate(ROLLBACK_TO, &number.to_string());
    wait::until("the write was refused", ROLLOUT, || async {
        let strikes = proxy.strikes(refused);
        if strikes > 1 { Ok(()) } else { Err(strikes) }
    })
    .await;
    assert!(scene.get("clusterobjectset", &name).is_some(), "what was asked for is there");
    assert!(!scene.content(REVISION_NAME, &name).is_empty());
    proxy.stop(refused);
    extension.installed(versions[usize::try_from(number).expect("small") - 1]).await;
    assert!(scene.get("clusterobjectset", &name).is_some(), "the source of the newest stays");
    extension.delete().await;
}

/// Takes away the content of a revision that went back, and the CA of its webhook: both come back, and
/// callers trust the new CA.
async fn stays_looked_after(scene: &Scene, revision: &olm_api::ClusterObjectSet) {
    let plane = scene.cluster.plane;
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let selector = format!("--selector={REVISION_NAME}={}", revision.name_any());
    let content = || plane.kubectl(&["get", "secrets", &namespace, &selector, "--output=name"]);
    let before = content();
    assert!(!before.is_empty());
    plane.kubectl(&["delete", "secrets", &namespace, &selector]);
    wait::until("the content is there again", ROLLOUT, || async {
        (content() == before).then_some(()).ok_or_else(&content)
    })
    .await;

    let hook = format!("{}.example.com", scene.name);
    let trusted = || {
        let found = scene.get("validatingwebhookconfiguration", &hook);
        found.map(|found| found["webhooks"][0]["clientConfig"]["caBundle"].clone())
    };
    let before = trusted();
    let authority = format!("{}-webhook-ca", scene.name);
    plane.kubectl(&["delete", "secret", &namespace, &authority]);
    wait::until("callers trust the new CA", ROLLOUT, || async {
        let now = trusted();
        let other = now.is_some() && now != before;
        other.then_some(()).ok_or_else(|| format!("{now:?}"))
    })
    .await;
}

// applying.md j4: a step back is asked about more rights as an update is
#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_to_more_rights_waits_for_the_approval_of_its_plan() {
    let cluster = cluster::with_controller().await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "regained-reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let bundles = [Bundle::new("1.0.0").with_manifest(role), Bundle::new("1.1.0")];
    let scene = Scene::set(cluster, "regained", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let name = scene.name.clone();
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": null})).await;
    extension.installed("1.1.0").await;
    scene.annotate(INCREASE, "RequireApproval");
    let (code, text, errors) = olm(&scene, &["rollback", &name, "--yes", "--no-wait"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    assert!(errors.contains(&format!("kubectl olm approve {name} --plan ")), "{errors}");
    extension.shows("Ready", "False", "PermissionIncrease", "gives the operator more rights").await;
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    assert!(scene.get("clusterrole", "regained-reader").is_none());
    assert_eq!(olm_test::extension::installed_version(&extension.get().await), Some("1.1.0"));

    let held = plan(&scene);
    assert_eq!(held["heldBy"], json!(["increase"]));
    assert_eq!(held["to"]["version"], "1.0.0");
    let event = scene.events("PermissionIncrease").remove(0);
    assert!(event.contains(digest(&held)), "the plugin makes the controller's plan: {event}");
    let approve = ["approve", &name, "--plan", digest(&held)];
    let (code, text, errors) = plans_olm(&scene, &approve);
    assert_eq!(code, Some(0), "{text}{errors}");
    extension.installed("1.0.0").await;
    assert!(scene.get("clusterrole", "regained-reader").is_some());
    extension.delete().await;
}

fn definition(suffix: &str, versions: &[(&str, bool)]) -> Value {
    let versions = versions.iter().map(|(name, storage)| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("floats.{suffix}.example.com")},
        "spec": {"group": format!("{suffix}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Float", "listKind": "FloatList", "plural": "floats", "singular": "float"},
            "versions": versions.collect::<Vec<_>>()},
    })
}

/// A step that drops a version is held, whatever is switched off, while objects may be stored in it.
async fn drops_a_version_without_objects_only(scene: &Scene, extension: &Extension) {
    let (plane, crd) = (scene.cluster.plane, "floats.stored.example.com");
    let float = json!({"apiVersion": "stored.example.com/v1", "kind": "Float",
        "metadata": {"name": "one", "namespace": scene.name, "labels": {"color": "red"}}});
    plane.kubectl_with_input(&["create", "-f", "-"], &float.to_string());
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    extension
        .patch_spec(json!({"install": none, "source": {"catalog": {"version": "1.2.0"}}}))
        .await;
    let lost = "storedVersionRemoval: stored versions removed : [v1]";
    let found = extension.shows("Progressing", "True", "Retrying", lost).await;
    let ready = olm_test::extension::condition(&found, "Ready").expect("Ready");
    for text in [format!("kubectl olm crd migrate {crd}"), format!("in v1 ({}/one)", scene.name)] {
        assert!(ready.message.contains(&text), "{}", ready.message);
    }
    assert_eq!(extension.revisions().await.len(), 2, "nothing is written");
    assert_eq!(plan(scene)["heldBy"], json!(["crds"]));
    plane.kubectl(&["delete", crd, "one", "-n", &scene.name]);
    scene.annotate("example.com/look", "again");
    extension.installed("1.2.0").await;
    let stored = ["get", "crd", crd, "-o", "jsonpath={.status.storedVersions}"];
    assert_eq!(plane.kubectl(&stored), r#"["v2"]"#);
}

// applying.md j3, 6.7, plugin.md U45
#[tokio::test(flavor = "multi_thread")]
async fn no_way_leads_back_from_a_stored_version() {
    let suffix = "stored";
    let bundles = [
        Bundle::new("1.0.0").with_manifest(definition(suffix, &[("v1", true)])),
        Bundle::new("1.1.0").with_manifest(definition(suffix, &[("v1", false), ("v2", true)])),
        Bundle::new("1.2.0").with_manifest(definition(suffix, &[("v2", true)])),
    ];
    let cluster = cluster::with_controller().await;
    let versions = chain(&["1.0.0", "1.1.0", "1.2.0"]);
    let scene = Scene::set(cluster, suffix, &bundles, &versions).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.installed("1.1.0").await;
    let lost = "storedVersionRemoval: stored versions removed : [v2]";
    let (code, _, errors) = olm(&scene, &["rollback", &scene.name, "--yes"]);
    assert_eq!(code, Some(1));
    let refused = "error: cannot go back to revision 1 (1.0.0): CRD floats.stored.example.com: ";
    assert!(errors.contains(&format!("{refused}{lost}")), "{errors}");
    let first = "kubectl olm crd migrate floats.stored.example.com";
    assert!(errors.contains(first) && !errors.contains("crd-safety-allow"), "{errors}");

    scene.annotate(ROLLBACK_TO, "1");
    let found = extension.shows("Progressing", "True", "Retrying", lost).await;
    let ready = olm_test::extension::condition(&found, "Ready").expect("Ready");
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
#[ignore = "waits for a deadline, which is ten minutes at least"]
async fn a_roll_out_that_fails_is_taken_back_once() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0").broken()];
    let scene = Scene::set(cluster, "reverted", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    scene.annotate(ON_FAILURE, "Rollback");
    extension.patch_spec(json!({"progressDeadlineMinutes": 10})).await;
    extension.patch_catalog(json!({"version": null})).await;
    let noted = |found: &olm_api::ClusterExtension| {
        olm_test::extension::is(found, "Ready", "True", "RolloutReverted")
    };
    let found = extension.eventually("it is reverted", PAST_DEADLINE, noted).await;
    let ready = olm_test::extension::condition(&found, "Ready").expect("Ready");
    assert!(ready.message.contains(&scene.package.deployment()), "{}", ready.message);
    assert_eq!(olm_test::extension::installed_version(&found), Some("1.0.0"));
    assert_eq!(scene.events("RolloutReverted").len(), 1);

    // It is not tried again until somebody changes something.
    scene.annotate("example.com/look", "again");
    extension.shows("Ready", "True", "RolloutReverted", "1.1.0").await;
    assert_eq!(extension.revisions().await.len(), 3);
    scene.annotate(ON_FAILURE, "");
    let again = |found: &olm_api::ClusterExtension| {
        found.status.as_ref().is_some_and(|it| it.active_revisions.len() == 2)
    };
    extension.eventually("it is tried again", ROLLOUT, again).await;
    extension.delete().await;
}
