//! Extensions that cannot be installed as they are, and the changes that fix them.

use olm_test::audit;
use olm_test::cluster::{self, Cluster};
use olm_test::extension::{Extension, condition, is};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use serde_json::json;

use super::{controller_is_well, nothing_installed, says, status_writes};

/// Most status writes for a few conditions in a row; a hot loop makes hundreds.
const FEW: usize = 5;

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
    let found = says(
        &extension,
        "True",
        "Retrying",
        "error for resolved bundle \"buoy-nocsv.v1.0.0\" with version \"1.0.0\": no \
         ClusterServiceVersion found in \"manifests\"",
    )
    .await;
    nothing_installed(&extension, &found).await;
    reported_once(&scene.cluster, &extension);
    extension.delete().await;
}

// api.md row 12: the rule of the CRD accepts a leading zero in a prerelease, the language does not
#[tokio::test(flavor = "multi_thread")]
async fn range_that_is_none_is_terminal_until_it_is_edited() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, "norange", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({"version": "1.2.3-01"})).await;
    let message = "desired version range \"1.2.3-01\" is invalid: constraint parser error";
    let found = says(&extension, "False", "InvalidConfiguration", message).await;
    nothing_installed(&extension, &found).await;
    reported_once(&scene.cluster, &extension);

    extension.patch_catalog(json!({"version": "1.x"})).await;
    extension.installed("1.0.0").await;
    // What is installed stays, and is still reported.
    extension.patch_catalog(json!({"version": "1.2.3-01"})).await;
    let found = says(&extension, "False", "InvalidConfiguration", message).await;
    assert!(is(&found, "Installed", "True", "Succeeded"));
    extension.delete().await;
}

// api.md rows 6 and 7
#[tokio::test(flavor = "multi_thread")]
async fn missing_namespace_then_missing_account_are_named_and_waited_for() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::empty(cluster, "nons");
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    let account = "operation cannot proceed due to the following validation error(s): service \
        account \"installer\" not found in namespace \"buoy-nons\"";
    let namespace = format!("{account}: namespace \"buoy-nons\" does not exist");
    let found = says(&extension, "True", "Retrying", &namespace).await;
    nothing_installed(&extension, &found).await;

    scene.create_namespace();
    let found = says(&extension, "True", "Retrying", account).await;
    nothing_installed(&extension, &found).await;
    reported_once(&scene.cluster, &extension);

    scene.grant(&bundles);
    extension.installed("1.0.0").await;
    extension.delete().await;
}

// api.md row 29; applying.md 5.3, f10
#[tokio::test(flavor = "multi_thread")]
async fn account_without_rights_applies_nothing_until_they_are_granted() {
    let cluster = cluster::with_controller().await;
    let bundles = [Bundle::new("1.0.0")];
    let mut scene = Scene::empty(cluster, "norights");
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let in_namespace = ["--namespace", scene.name.as_str()];
    let account = ["create", "serviceaccount", "installer"];
    scene.cluster.plane.kubectl(&[&account[..], &in_namespace[..]].concat());

    let extension = scene.install(json!({})).await;
    let user = "system:serviceaccount:buoy-norights:installer";
    let found = extension
        .shows(
            "Progressing",
            "True",
            "Retrying",
            "Resources:[customresourcedefinitions] Verbs:[create]",
        )
        .await;
    assert!(is(&found, "Installed", "False", "Failed"), "{found:#?}");
    let progressing = condition(&found, "Progressing").expect("Progressing is reported");
    assert!(
        progressing.message.contains(": pre-authorization failed: "),
        "{}",
        progressing.message
    );
    for (kind, name) in [
        ("deployment", scene.package.deployment()),
        ("configmap", scene.package.config_map()),
        ("crd", scene.package.crd()),
    ] {
        assert!(scene.get(kind, &name).is_none(), "{kind} {name} is applied");
    }
    let tried = audit::writes(&scene.cluster.plane.addresses.audit_log);
    let succeeded: Vec<_> = tried
        .iter()
        .filter(|write| write.acted_as.as_deref() == Some(user) && write.code < 300)
        .collect();
    assert!(succeeded.is_empty(), "{succeeded:#?}");
    reported_once(&scene.cluster, &extension);

    scene.grant(&bundles);
    extension.installed("1.0.0").await;
    extension.delete().await;
}
