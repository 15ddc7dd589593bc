//! Bundles that cannot be installed: a clear error, and nothing half-applied without a report.

use olm_core::object::Object;
use olm_core::revision::phase_of;
use olm_test::prelude::*;

use super::figures;
use super::stage::{Stage, folder};

/// The bundle that the service account of a refused bundle gets its rights from: `kubectl olm rbac`
/// computes none for a bundle that cannot be rendered, and they are never used.
const STAND_IN: (&str, &str) = ("deployment-validation-operator", "0.7.12");

async fn with_account(name: &str, package: &str, version: &str) -> Stage {
    let stage = Stage::without_account(name, package, &[version]).await;
    stage.grant(&[folder(STAND_IN.0, STAND_IN.1)]);
    stage
}

/// Asserts that the extension has exactly these conditions, and that nothing was written for it.
async fn refused(stage: &Stage, extension: &Extension, version: &str, shown: [&str; 2], why: &str) {
    let [status, reason] = shown;
    let bundle = &stage.release(version).name;
    let text = format!("error for resolved bundle {bundle:?} with version {version:?}: {why}");
    let found = extension.says(status, reason, &text).await;
    assert!(olm_test::extension::is(&found, "Installed", "False", "Failed"));
    let installed = condition(&found, "Installed").map(|it| it.message.as_str());
    assert_eq!(installed, Some("No bundle installed"));
    assert_eq!(stage.traces().await, Vec::<String>::new());
    extension.delete().await;

    let log = &stage.cluster.plane.addresses.audit_log;
    let written: Vec<_> = figures::requests(log, &stage.name)
        .into_iter()
        .filter(|request| request.acted_as.is_some() && request.is_write())
        .collect();
    assert!(written.is_empty(), "{written:#?}");
}

/// api.md row 26
async fn unsupported(package: &str, version: &str, why: &str) {
    let stage = with_account(package, package, version).await;
    let extension = stage.install(version, json!({})).await;
    refused(&stage, &extension, version, ["True", "Retrying"], why).await;
}

/// What is said of a CRD of an API version that nobody serves.
fn unserved(crd: &str) -> String {
    format!(
        "unsupported bundle: custom resource definition \"{crd}\" has apiVersion \
         \"apiextensions.k8s.io/v1beta1\", which no supported cluster serves"
    )
}

bundles! {
    // rendering.md R6
    cockroachdb_has_a_crd_of_a_version_nobody_serves:
        unsupported("cockroachdb", "2.1.1", &unserved("cockroachdbs.charts.helm.k8s.io"));
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored refusals"]
    oadp_operator_has_crds_of_a_version_nobody_serves:
        unsupported("oadp-operator", "0.2.6", &unserved("backups.velero.io"));
    #[ignore = "one more of a kind: cargo test -p olm-test --test corpus -- --ignored refusals"]
    group_sync_operator_has_a_crd_of_a_version_nobody_serves:
        unsupported("group-sync-operator", "0.0.11", &unserved("groupsyncs.redhatcop.redhat.io"));
    // rendering.md R7
    azure_service_operator_has_a_service_without_api_version:
        unsupported("azure-service-operator", "1.0.27207",
            "error parsing objects in \"manifests/azureoperator-webhook-service.yaml\": Object \
             'apiVersion' is missing in Service \"azureoperator-webhook-service\"");
}

// It requires an API that is not served; when that check is skipped, rendering.md R7 follows.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_aas_operator_has_cluster_roles_without_api_version() {
    let (package, version) = ("cluster-aas-operator", "0.1.5");
    let stage = with_account(package, package, version).await;
    let extension = stage.install(version, json!({})).await;
    let needs = "unmet constraints: requires API \"argoproj.io/v1alpha1, Kind=Application\" (not \
                 served by the cluster)";
    extension.shows("Progressing", "True", "Retrying", needs).await;
    stage.annotate(keys::policy::FORCE, "constraints");
    let why = "error parsing objects in \"manifests/argo_cd_cluster_role.yaml\": Object 'apiVersion' \
               is missing in ClusterRole \"claas-argocd-cluster-role\"";
    refused(&stage, &extension, version, ["True", "Retrying"], why).await;
}

// api.md row 27
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_the_bundle_does_not_offer_is_refused() {
    let (package, version) = STAND_IN;
    let stage = with_account("configured", package, version).await;
    let config = json!({"configType": "Inline", "inline": {"surprise": true}});
    let extension = stage.install(version, json!({"config": config})).await;
    let why = "invalid ClusterExtension configuration: invalid configuration: unknown field \
               \"surprise\"";
    refused(&stage, &extension, version, ["False", "InvalidConfiguration"], why).await;
}

// applying.md 3.6: its own sample violates its own CRD, so that the whole phase is not applied.
#[tokio::test(flavor = "multi_thread")]
async fn ack_iam_controller_stops_before_deploy() {
    let version = "0.0.20";
    let stage = Stage::set("ack-iam-controller", &[version]).await;
    let extension = stage.install(version, json!({})).await;
    let why = "phase 5 validation error: Role.iam.services.k8s.aws/v1alpha1 \
               ack-iam-controller/example: Role.iam.services.k8s.aws \"example\" is invalid: \
               [spec.assumeRolePolicyDocument: Required value, spec.name: Required value]";
    let found = extension.says("True", "Retrying", why).await;
    assert!(olm_test::extension::is(&found, "Installed", "False", "Failed"));

    let (kept_back, applied): (Vec<Object>, Vec<Object>) = stage
        .rendered(version)
        .into_iter()
        .partition(|object| phase_of(object.group(), object.kind()) == "deploy");
    assert_eq!(kept_back.len(), 2, "a Deployment and the example");
    stage.holds(&extension, 1, &applied).await;
    let left = stage.objects.lock().await.left(&kept_back).await;
    assert!(left.is_empty(), "applied despite the refusal: {left:?}");

    stage.removed(&extension, &applied).await;
}
