//! Install, upgrade, force, repair, remove: the whole life, as a user sees it.

use std::time::Duration;

use olm_test::cluster;
use olm_test::package::{Bundle, Entry, chain};
use olm_test::scene::{ACCOUNT, Scene};
use olm_test::{plugin, wait};
use serde_json::json;

const REPAIR: Duration = Duration::from_secs(30);

// applying.md a1, f1
#[tokio::test(flavor = "multi_thread")]
async fn installs_and_removes_with_the_rights_rbac_printed() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, "plain", &bundles, &chain(&["1.0.0"])).await;

    let extension = scene.install(json!({})).await;
    let installed = extension.installed("1.0.0").await;

    assert_eq!(
        installed.metadata.finalizers.unwrap_or_default(),
        ["olm.operatorframework.io/cleanup-unpack-cache"]
    );
    let config_map =
        scene.get("configmap", &scene.package.config_map()).expect("the ConfigMap is there");
    let labels = &config_map["metadata"]["labels"];
    assert_eq!(labels["olm.operatorframework.io/owner-name"], scene.name);
    let owner = &config_map["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "ClusterObjectSet");
    assert_eq!(owner["name"], format!("{}-1", scene.name));
    assert_eq!(owner["controller"], true);
    assert!(!owner["blockOwnerDeletion"].as_bool().unwrap_or(false));

    extension.delete().await;
    for (kind, name) in [
        ("deployment", scene.package.deployment()),
        ("configmap", scene.package.config_map()),
        ("crd", scene.package.crd()),
        ("serviceaccount", scene.package.deployment()),
    ] {
        assert!(scene.get(kind, &name).is_none(), "{kind} {name} is left");
    }
}

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

// api.md R9, T9; applying.md d5, 3.6
#[tokio::test(flavor = "multi_thread")]
async fn upgrades_by_itself_when_the_catalog_moves() {
    let cluster = cluster::with_controller().await;
    let old = bound_to(Bundle::new("1.0.0").with_second_config_map(), "first");
    let new = bound_to(Bundle::new("1.1.0"), "second");
    let mut scene =
        Scene::set(cluster, "moves", std::slice::from_ref(&old), &chain(&["1.0.0"])).await;
    scene.grant(&[old.clone(), new.clone()]);
    let extension = scene.install(json!({"version": "1.x"})).await;
    extension.installed("1.0.0").await;
    let second = scene.package.second_config_map();
    assert!(scene.get("configmap", &second).is_some());

    scene.publish(&[old, new], &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;

    wait::until("the old revision is archived", REPAIR, || async {
        let states: Vec<_> = extension
            .revisions()
            .await
            .iter()
            .map(|revision| format!("{:?}", revision.spec.lifecycle_state))
            .collect();
        if states == ["Archived", "Active"] && scene.get("configmap", &second).is_none() {
            Ok(())
        } else {
            Err(states)
        }
    })
    .await;
    let deployment =
        scene.get("deployment", &scene.package.deployment()).expect("the Deployment is there");
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["name"], format!("{}-2", scene.name));
    // What the API server never changes was made anew.
    let bound = scene.get("rolebinding", "bound").expect("the RoleBinding is there");
    assert_eq!(bound["roleRef"]["name"], "second");
    extension.delete().await;
}

// api.md T3, resolution.md 1.6, decisions 22 and 30
#[tokio::test(flavor = "multi_thread")]
async fn refuses_what_no_edge_reaches_until_it_is_forced() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.2.0")];
    let entries =
        ["1.0.0", "1.2.0"].map(|version| Entry { version: version.to_owned(), replaces: None });
    let scene = Scene::set(cluster, "forced", &bundles, &entries).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;

    extension.patch_catalog(json!({"version": "1.2.0"})).await;
    let refused = extension.shows("Progressing", "True", "Retrying", "error upgrading").await;
    assert_eq!(
        olm_test::extension::condition(&refused, "Progressing").map(|found| found.message.as_str()),
        Some(
            "error upgrading from currently installed version \"1.0.0\": no bundles found for \
             package \"buoy-forced\" matching version \"1.2.0\""
        )
    );
    assert_eq!(olm_test::extension::installed_version(&refused), Some("1.0.0"));

    extension.patch_catalog(json!({"upgradeConstraintPolicy": "SelfCertified"})).await;
    extension.installed("1.2.0").await;
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.delete().await;
}

// applying.md d6, d8
#[tokio::test(flavor = "multi_thread")]
async fn repairs_drift_and_keeps_what_the_bundle_does_not_declare() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, "drift", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;

    let name = scene.package.config_map();
    let in_namespace = ["--namespace", &scene.name];
    let kubectl = |args: &[&str]| {
        let args: Vec<_> = args.iter().chain(&in_namespace).copied().collect();
        scene.cluster.plane.kubectl(&args)
    };
    kubectl(&["label", "configmap", &name, "mine=stays"]);
    kubectl(&["patch", "configmap", &name, "--type=merge", "--patch", r#"{"data":{"depth":"3"}}"#]);
    kubectl(&["delete", "deployment", &scene.package.deployment()]);

    wait::until("drift is repaired", REPAIR, || async {
        let config_map = scene.get("configmap", &name).ok_or("no ConfigMap")?;
        if config_map["data"]["depth"] != "10" {
            return Err("the ConfigMap is not repaired");
        }
        if config_map["metadata"]["labels"]["mine"] != "stays" {
            return Err("the user's label is lost");
        }
        scene
            .get("deployment", &scene.package.deployment())
            .map(|_| ())
            .ok_or("the Deployment is not back")
    })
    .await;
    extension.delete().await;
}

// api.md S4, S5; applying.md a3, f2
#[tokio::test(flavor = "multi_thread")]
async fn installs_as_soon_as_namespace_account_and_rights_are_there() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::empty(cluster, "waits");
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension
        .shows(
            "Progressing",
            "True",
            "Retrying",
            "operation cannot proceed due to the following validation error(s): service account \
             \"installer\" not found in namespace \"buoy-waits\"",
        )
        .await;

    scene.create_namespace();
    scene.cluster.plane.kubectl(&[
        "create",
        "serviceaccount",
        "installer",
        "--namespace",
        &scene.name,
    ]);
    extension.shows("Progressing", "True", "Retrying", "pre-authorization failed").await;

    scene.grant(&bundles);
    extension.installed("1.0.0").await;
    extension.delete().await;
}

// api.md T11; applying.md a8
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_cannot_finish_gives_way_to_another_version() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0").broken(), Bundle::new("1.0.1")];
    let scene = Scene::set(cluster, "stuck", &bundles, &chain(&["1.0.0", "1.0.1"])).await;
    let account = format!("--serviceaccount={}:{ACCOUNT}", scene.name);
    for args in [
        ["create", "role", "pods", "--verb=list", "--resource=pods", "-n", &scene.name],
        ["create", "rolebinding", "pods", "--role=pods", &account, "-n", &scene.name],
    ] {
        scene.cluster.plane.kubectl(&args);
    }
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    let rolling = extension.shows("Installed", "False", "Absent", "No bundle installed").await;
    assert!(olm_test::extension::is(&rolling, "Progressing", "True", "RollingOut"));
    let image = "image wrong/image:v1 of container manager cannot be pulled";
    extension.shows("Ready", "False", "RollingOut", image).await;
    status_shows(&scene, image);

    extension.patch_catalog(json!({"version": "1.0.1"})).await;
    extension.installed("1.0.1").await;
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
    let cluster = cluster::with_controller().await;
    let scene = Scene::set(cluster, "refused", &[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
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
    let cluster = cluster::with_controller().await;
    let mut bundle = Bundle::new("1.0.0");
    let mut scene =
        Scene::set(cluster, "altered", std::slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;

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
    scene.cluster.plane.kubectl(&[
        "annotate",
        "clusterextension",
        &scene.name,
        &format!("policy.olm.operatorframework.io/accept-image={digest}"),
    ]);
    wait::until("the accepted content is installed", REPAIR, || async {
        let found = depth();
        (found == Some(json!("20"))).then_some(()).ok_or(found)
    })
    .await;
    extension.delete().await;
}
