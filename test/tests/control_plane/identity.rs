//! Who writes what: bundle objects are the account's business alone.

use olm_test::audit;
use olm_test::cluster::{self, CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use olm_test::package::{Bundle, chain};
use olm_test::scene::{ACCOUNT, Scene};
use serde_json::json;

/// What the controller writes with its own rights (applying.md 4.3).
const ITS_OWN: [&str; 10] = [
    "clusterextensions",
    "clustercatalogs",
    "clusterobjectsets",
    "clusteroperators",
    "events",
    "leases",
    "secrets",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "tokenreviews",
];

// applying.md f1
#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_a_bundle_object_is_the_accounts() {
    let cluster = cluster::with_controller().await;
    let log = cluster.plane.addresses.audit_log.clone();
    let bundles = [
        Bundle::new("1.0.0").with_second_config_map(),
        Bundle::new("1.1.0"),
    ];
    let mut scene = Scene::set(cluster, "audited", &bundles[..1], &chain(&["1.0.0"])).await;
    scene.grant(&bundles);
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    extension.delete().await;

    let controller = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let writes = audit::writes(&log);
    let by_controller: Vec<_> = writes
        .iter()
        .filter(|write| write.user == controller)
        .collect();

    let as_account = by_controller
        .iter()
        .filter(|write| write.acted_as.as_deref() == Some(&account) && write.code < 300)
        .count();
    assert!(as_account >= 10, "only {as_account} writes as the account");

    let strays: Vec<_> = by_controller
        .iter()
        .filter(|write| write.acted_as.is_none())
        .filter(|write| {
            !ITS_OWN.contains(&write.resource.as_str())
                || (write.resource == "secrets" && write.namespace != SYSTEM_NAMESPACE)
        })
        .collect();
    assert!(strays.is_empty(), "written as the controller: {strays:#?}");
}

/// The controller's own `ClusterRole`, as the API server has it, holds no write on anything a
/// bundle contains.
#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_own_rights_hold_no_write_on_a_bundles_objects() {
    let cluster = cluster::shared().await;
    let account = format!("--as=system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    for resource in [
        "deployments.apps",
        "services",
        "serviceaccounts",
        "configmaps",
        "secrets",
        "customresourcedefinitions.apiextensions.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "networkpolicies.networking.k8s.io",
        "poddisruptionbudgets.policy",
        "priorityclasses.scheduling.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "namespaces",
        "pods",
    ] {
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            let answer = cluster.plane.try_kubectl(
                &[
                    "auth",
                    "can-i",
                    verb,
                    resource,
                    "--namespace=default",
                    &account,
                ],
                "",
            );
            assert!(
                answer.is_err(),
                "the controller may {verb} {resource}: {answer:?}"
            );
        }
    }
}
