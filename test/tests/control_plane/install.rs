//! Install, upgrade, force, repair, remove: the whole life, as a user sees it.

use olm_test::prelude::*;

use crate::data::archived;
use crate::identity::every_write_of_a_bundle_object_was_the_accounts;

/// Adds two Roles, and a binding that names one of them.
fn bound_to(bundle: Bundle, role: &str) -> Bundle {
    let api = "rbac.authorization.k8s.io";
    let of = |kind: &str, name: &str| json!({"apiVersion": format!("{api}/v1"), "kind": kind, "metadata": {"name": name}});
    let (mut first, mut second) = (of("Role", "first"), of("Role", "second"));
    for role in [&mut first, &mut second] {
        role["rules"] = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    }
    let mut binding = of("RoleBinding", "bound");
    binding["roleRef"] = json!({"apiGroup": api, "kind": "Role", "name": role});
    binding["subjects"] = json!([{"apiGroup": api, "kind": "User", "name": "nobody"}]);
    bundle.with_manifest(first).with_manifest(second).with_manifest(binding)
}

/// What is installed has the mark of its extension, and its revision controls it.
fn is_owned(scene: &Scene) {
    let config_map =
        scene.get("configmap", &scene.package.config_map()).expect("the ConfigMap is there");
    let labels = &config_map["metadata"]["labels"];
    assert_eq!(labels["olm.operatorframework.io/owner-name"], scene.name);
    let owner = &config_map["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "ClusterObjectSet");
    assert_eq!(owner["name"], format!("{}-1", scene.name));
    assert_eq!(owner["controller"], true);
    assert!(!owner["blockOwnerDeletion"].as_bool().unwrap_or(false));
}

/// Whoever waits by kstatus knows that what is said is about the objects as they are (`kstatus` has the
/// rest).
async fn is_observed(scene: &Scene, extension: &Extension) {
    for revision in extension.revisions().await {
        let status = revision.status.expect("the revision has a status");
        assert_eq!(status.observed_generation, revision.metadata.generation);
    }
    for (kind, name) in [("clustercatalog", &scene.name), ("clusterextension", &extension.name)] {
        let found = scene.get(kind, name).expect("it exists");
        let observed = &found["status"]["observedGeneration"];
        assert_eq!(*observed, found["metadata"]["generation"], "{kind}");
    }
}

// api.md R9, T9; applying.md a1, d5, f1, 3.6
#[tokio::test(flavor = "multi_thread")]
async fn installs_upgrades_by_itself_and_removes_with_the_rights_rbac_printed() {
    let old = bound_to(Bundle::new("1.0.0").with_second_config_map(), "first");
    let new = bound_to(Bundle::new("1.1.0"), "second");
    let mut scene =
        Scene::shared_set("moves", std::slice::from_ref(&old), &chain(&["1.0.0"])).await;
    scene.grant(&[old.clone(), new.clone()]);
    let extension = scene.install(json!({"version": "1.x"})).await;
    let finalizers = extension.installed("1.0.0").await.metadata.finalizers;
    assert_eq!(finalizers.unwrap_or_default(), ["olm.operatorframework.io/cleanup-unpack-cache"]);
    is_owned(&scene);
    is_observed(&scene, &extension).await;
    let second = scene.package.second_config_map();
    assert!(scene.get("configmap", &second).is_some());

    scene.publish(&[old, new], &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;

    archived(&scene, 1).await;
    assert!(scene.get("configmap", &second).is_none());
    assert_eq!(extension.revisions().await.len(), 2);
    let deployment =
        scene.get("deployment", &scene.package.deployment()).expect("the Deployment is there");
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["name"], format!("{}-2", scene.name));
    // What the API server never changes was made anew.
    let bound = scene.get("rolebinding", "bound").expect("the RoleBinding is there");
    assert_eq!(bound["roleRef"]["name"], "second");
    extension.delete().await;
    for (kind, name) in scene.parts() {
        assert!(scene.get(&kind, &name).is_none(), "{kind} {name} is left");
    }
    every_write_of_a_bundle_object_was_the_accounts(&scene);
}

// api.md T11; applying.md a8
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_cannot_finish_gives_way_to_another_version() {
    let bundles = [Bundle::new("1.0.0").broken(), Bundle::new("1.0.1")];
    let scene = Scene::shared_set("stuck", &bundles, &chain(&["1.0.0", "1.0.1"])).await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let account = objects::account(&scene.name, ACCOUNT);
    scene.cluster.plane.grant(&objects::grant("pods", Some(&scene.name), &rules, &account));
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    let rolling = extension.shows("Progressing", "True", "RollingOut", "1.0.0").await;
    assert!(olm_test::extension::is(&rolling, "Installed", "False", "Absent"));
    let told = olm_test::extension::condition(&rolling, "Installed");
    assert_eq!(told.map(|it| it.message.as_str()), Some("No bundle installed"));
    let image = "image wrong/image:v1 of container manager cannot be pulled";
    extension.shows("Ready", "False", "RollingOut", image).await;
    status_shows(&scene, image);

    extension.moves_to("1.0.1").await;
    extension.delete().await;
}

/// Shown to who may read pods, whatever the account may.
fn status_shows(scene: &Scene, text: &str) {
    for output in ["table", "tree"] {
        let args = ["status", &scene.name, "-o", output];
        let shown = plugin::answer(scene.cluster.plane, &args);
        assert!(shown.1.contains(text), "{shown:?}");
    }
}

// applying.md 3.7
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_refused_are_told_with_the_reason() {
    let scene = Scene::shared("refused", &["1.0.0"]).await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    scene.cluster.plane.kubectl(&["label", "namespace", &scene.name, restricted]);
    let extension = scene.install(json!({})).await;
    let reason = "violates PodSecurity";
    extension.shows("Ready", "False", "RollingOut", reason).await;
    status_shows(&scene, reason);
    extension.delete().await;
}

// decision 29
#[tokio::test(flavor = "multi_thread")]
async fn content_that_changes_under_the_same_version_waits_to_be_accepted() {
    let mut bundle = Bundle::new("1.0.0");
    let mut scene =
        Scene::shared_set("altered", std::slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    let extension = scene.installed(json!({}), "1.0.0").await;

    bundle.data.insert("depth".to_owned(), "20".to_owned());
    let mut entries = chain(&["1.0.0"]);
    // The catalog image must differ too, or there is no new reconcile.
    entries[0].replaces = Some("0.9.0".to_owned());
    scene.publish(&[bundle], &entries).await;
    let reported =
        extension.shows("Ready", "True", "ContentChanged", "accept-image: sha256:").await;
    let depth = || {
        scene
            .get("configmap", &scene.package.config_map())
            .map(|found| found["data"]["depth"].clone())
    };
    assert_eq!(depth(), Some(json!("10")));

    let message = &olm_test::extension::condition(&reported, "Ready").expect("it is there").message;
    let digest = message.rsplit(' ').next().expect("the digest ends the message");
    scene.annotate("policy.olm.operatorframework.io/accept-image", digest);
    let is_accepted = |found: &Option<Value>| *found == Some(json!("20"));
    wait::value("the accepted content is installed", SOON, depth, is_accepted).await;
    extension.delete().await;
}
