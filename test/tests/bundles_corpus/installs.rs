//! Bundles that install: every object present and owned, drift repaired, nothing left at the end.

use olm_core::object::Object;
use serde_json::json;

use crate::drift;
use crate::stage::Stage;

async fn installs_is_repaired_and_leaves_nothing(package: &str, version: &str) {
    let stage = Stage::set(package, &[version]).await;
    installs_on(stage, version).await;
}

/// The operator watches its own namespace alone, which has the name of the package.
async fn installs_for_its_own_namespace(package: &str, version: &str) {
    let inline = json!({"watchNamespace": package});
    let stage = Stage::configured(package, version, inline).await;
    installs_on(stage, version).await;
}

/// The operator watches one other namespace.
async fn installs_for_another_namespace(package: &str, version: &str) {
    let watched = format!("{package}-watched");
    let inline = json!({"watchNamespace": watched});
    let plane = olm_test::cluster::with_controller().await.plane;
    plane.kubectl(&["create", "namespace", &watched]);
    let stage = Stage::configured(package, version, inline).await;
    installs_on(stage, version).await;
}

async fn installs_on(stage: Stage, version: &str) {
    let creation = stage.install(version, json!({}));
    let extension = stage.rolls_out(version, 1, creation).await;
    drift::is_repaired(&stage, &extension, version).await;
    let objects = stage.rendered(version);
    stage.holds(&extension, 1, &objects).await;
    stage.removed(&extension, &objects).await;
}

// A ClusterServiceVersion that replaces, one that only skips, one that replaces again; each with
// a skipRange.
#[tokio::test(flavor = "multi_thread")]
async fn gitlab_runner_operator_goes_through_its_chain() {
    let versions = ["1.48.2", "1.48.3", "1.49.0"];
    let stage = Stage::set("gitlab-runner-operator", &versions).await;
    let creation = stage.install(versions[0], json!({}));
    let extension = stage.rolls_out(versions[0], 1, creation).await;
    for (version, number) in [(versions[1], 2), (versions[2], 3)] {
        let upgrade = async {
            extension.patch_catalog(json!({"version": version})).await;
            extension.clone()
        };
        stage.rolls_out(version, number, upgrade).await;
    }
    let all: Vec<Object> = versions
        .iter()
        .flat_map(|version| stage.rendered(version))
        .collect();
    stage.removed(&extension, &all).await;
}

// The smallest bundle, without a CRD.
#[tokio::test(flavor = "multi_thread")]
async fn deployment_validation_operator() {
    installs_is_repaired_and_leaves_nothing("deployment-validation-operator", "0.7.12").await;
}

// rendering.md R2: two generated ClusterRoles of one name; 14 CRDs.
#[tokio::test(flavor = "multi_thread")]
async fn victoriametrics_operator() {
    installs_is_repaired_and_leaves_nothing("victoriametrics-operator", "0.22.0").await;
}

// A binding to a role outside the bundle.
#[tokio::test(flavor = "multi_thread")]
async fn annotationlab() {
    installs_is_repaired_and_leaves_nothing("annotationlab", "5.7.0").await;
}

// An aggregated ClusterRole, whose rules belong to the API server; a prerelease version.
#[tokio::test(flavor = "multi_thread")]
async fn universal_crossplane() {
    installs_is_repaired_and_leaves_nothing("universal-crossplane", "1.5.1-up.1").await;
}

// Namespaced permissions only; the bundle's name is not its package's.
#[tokio::test(flavor = "multi_thread")]
async fn project_quay() {
    installs_is_repaired_and_leaves_nothing("project-quay", "3.9.9").await;
}

// Pods that read OLM's annotations.
#[tokio::test(flavor = "multi_thread")]
async fn ncn_operator() {
    installs_is_repaired_and_leaves_nothing("ncn-operator", "0.3.18").await;
}

// The same ClusterRole twice; the account `default`.
#[tokio::test(flavor = "multi_thread")]
async fn nfs_provisioner_operator() {
    installs_is_repaired_and_leaves_nothing("nfs-provisioner-operator", "0.0.5").await;
}

// OwnNamespace only.
#[tokio::test(flavor = "multi_thread")]
async fn file_integrity_console_plugin() {
    installs_for_its_own_namespace("file-integrity-console-plugin", "0.4.1-ocp4.19").await;
}

// OwnNamespace only, with monitoring kinds that nobody serves here.
#[tokio::test(flavor = "multi_thread")]
async fn community_windows_machine_config_operator() {
    installs_for_its_own_namespace("community-windows-machine-config-operator", "8.0.0").await;
}

// OwnNamespace and SingleNamespace; a binding to an account of the author's namespace.
#[tokio::test(flavor = "multi_thread")]
async fn openstack_lightspeed_operator() {
    installs_for_another_namespace("openstack-lightspeed-operator", "0.0.2").await;
}

// OwnNamespace and SingleNamespace; no properties at all.
#[tokio::test(flavor = "multi_thread")]
async fn pelorus_operator() {
    installs_for_another_namespace("pelorus-operator", "0.0.9").await;
}

// SingleNamespace only, by a typing error of its author; namespaced rights alone.
#[tokio::test(flavor = "multi_thread")]
async fn percona_server_mongodb_operator() {
    installs_for_another_namespace("percona-server-mongodb-operator", "1.18.0").await;
}

// OwnNamespace and SingleNamespace; a quantity without quotes.
#[tokio::test(flavor = "multi_thread")]
async fn windup_operator() {
    installs_for_its_own_namespace("windup-operator", "0.0.21").await;
}
