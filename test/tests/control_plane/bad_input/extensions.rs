//! Extensions that cannot be installed as they are, and the changes that fix them.

use olm_test::prelude::*;

use super::{FEW, controller_is_well, nothing_installed, status_writes, waits, waits_for_bundle};

/// Asserts that the status was only written a few times.
fn reported_once(cluster: &Cluster, extension: &Extension) {
    let writes = status_writes(cluster, "clusterextensions", &extension.name).len();
    assert!(writes <= FEW, "{writes} writes of the status");
    controller_is_well(cluster);
}

// api.md row 26
#[tokio::test(flavor = "multi_thread")]
async fn bundle_without_a_csv_is_refused() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "nocsv");
    let mut files = scene.package.bundle_files(&Bundle::new("1.0.0"));
    files.remove("manifests/csv.yaml").expect("it had a CSV");
    scene.publish_files(files).await;

    let extension = scene.install(json!({})).await;
    waits_for_bundle(&extension, "1.0.0", "no ClusterServiceVersion found in \"manifests\"").await;
    reported_once(&scene.cluster, &extension);
    extension.delete().await;
}

// api.md row 12: the rule of the CRD accepts a leading zero in a prerelease, the language does not
#[tokio::test(flavor = "multi_thread")]
async fn range_that_is_none_is_terminal_until_it_is_edited() {
    let scene = Scene::shared("norange", &["1.0.0"]).await;
    let extension = scene.install(json!({"version": "1.2.3-01"})).await;
    let message = "desired version range \"1.2.3-01\" is invalid: constraint parser error";
    let found = extension.says("False", "InvalidConfiguration", message).await;
    nothing_installed(&extension, &found).await;
    reported_once(&scene.cluster, &extension);

    extension.patch_catalog(json!({"version": "1.x"})).await;
    extension.installed("1.0.0").await;
    // What is installed stays, and is still reported.
    extension.patch_catalog(json!({"version": "1.2.3-01"})).await;
    let found = extension.says("False", "InvalidConfiguration", message).await;
    assert!(is(&found, "Installed", "True", "Succeeded"));
    extension.delete().await;
}

// api.md rows 6, 7 and 29, S4, S5; applying.md 5.3, a3, f2, f10
#[tokio::test(flavor = "multi_thread")]
async fn namespace_account_and_rights_are_named_one_after_another_and_waited_for() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::empty(cluster, "nons");
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    let account = "operation cannot proceed due to the following validation error(s): service \
        account \"installer\" not found in namespace \"buoy-nons\"";
    let namespace = format!("{account}: namespace \"buoy-nons\" does not exist");
    waits(&extension, &namespace).await;

    scene.create_namespace();
    waits(&extension, account).await;

    let plane = scene.cluster.plane;
    plane.kubectl(&["create", "serviceaccount", ACCOUNT, "--namespace", &scene.name]);
    let missing = "Resources:[customresourcedefinitions] Verbs:[create]";
    let found = extension.shows("Progressing", "True", "Retrying", missing).await;
    assert!(is(&found, "Installed", "False", "Failed"), "{found:#?}");
    let message = &condition(&found, "Progressing").expect("it is reported").message;
    assert!(message.contains(": pre-authorization failed: "), "{message}");
    for (kind, name) in scene.parts() {
        assert!(scene.get(&kind, &name).is_none(), "{kind} {name} is applied");
    }
    let user = format!("system:serviceaccount:buoy-nons:{ACCOUNT}");
    let mut tried = audit::writes(&plane.addresses.audit_log, &user);
    tried.retain(|write| write.acted_as.as_ref() == Some(&user) && write.code < 300);
    assert!(tried.is_empty(), "{tried:#?}");
    reported_once(&scene.cluster, &extension);

    scene.grant(&bundles);
    extension.installed("1.0.0").await;
    extension.delete().await;
}
