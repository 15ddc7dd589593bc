//! What annotations of an extension add to its bundle: OperatorConditions, proxies, roles for users,
//! and the install namespace.

use std::time::Duration;

use olm_api::keys::policy;
use olm_test::cluster;
use olm_test::extension::{Extension, installed_version};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::{paths, plugin, wait};
use serde_json::{Value, json};

use crate::credentials::give_out;
use crate::flags::start;

const SOON: Duration = Duration::from_mins(1);

/// Waits until the first Deployment in the namespace of the scene has a variable of this value.
async fn has_variable(scene: &Scene, name: &str, value: &str) {
    let plane = scene.cluster.plane;
    wait::until(&format!("{name} is {value}"), SOON, || async {
        let out =
            plane.kubectl(&["get", "deployments", "--namespace", &scene.name, "--output=json"]);
        let listed: Value = serde_json::from_str(&out).expect("kubectl prints JSON");
        let variables = &listed["items"][0]["spec"]["template"]["spec"]["containers"][0]["env"];
        let all = variables.as_array().into_iter().flatten();
        let is_it = |it: &Value| it["name"] == name && it["value"] == value;
        let found = all.into_iter().any(is_it);
        found.then_some(()).ok_or(variables.to_string())
    })
    .await;
}

fn patch(scene: &Scene, condition: &str, change: &Value) {
    scene.cluster.plane.kubectl(&[
        "patch",
        "operatorcondition",
        condition,
        "--namespace",
        &scene.name,
        "--type=merge",
        "--patch",
        &change.to_string(),
    ]);
}

/// Expects that the plugin renders what is added as the controller does.
fn plans_no_change(scene: &Scene) {
    let plane = scene.cluster.plane;
    let ca = plane.addresses.controller_ca.to_string_lossy();
    let args = ["plan", &scene.name, "-o", "json", "--catalog-ca", &ca];
    let (_, text, errors) = plugin::answer(plane, &args);
    let plan: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{errors}"));
    assert_eq!(plan["objects"], json!([]), "{errors}");
}

/// `why` and `plan` say that the operator holds the update.
fn explains(scene: &Scene, held: &str) {
    let plane = scene.cluster.plane;
    let ca = plane.addresses.controller_ca.to_string_lossy();
    let ask = |verb| plugin::answer(plane, &[verb, &scene.name, "--catalog-ca", &ca]);
    let (_, why, errors) = ask("why");
    let told = format!("Held by:   OperatorNotUpgradeable: {held}");
    assert!(why.contains(&told), "{why}{errors}");
    let (_, plan, errors) = ask("plan");
    assert!(plan.contains("operator\n"), "{plan}{errors}");
    for text in [why, plan] {
        assert!(!text.contains("last said"), "{text}");
    }
}

// applying.md j1, 10; api.md 6.3
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_holds_its_update_and_gets_proxies_and_roles() {
    let cluster = cluster::with_controller().await;
    let (plane, client) = (cluster.plane, cluster.client.clone());
    let crd = paths::repository()
        .join("config/components/operator-conditions/operators.coreos.com_operatorconditions.yaml");
    plane.kubectl(&["apply", "-f", &crd.to_string_lossy()]);
    give_out(&client, "http://proxy.example.com:3128").await;
    let bundles = ["1.0.0", "1.1.0"].map(Bundle::new);
    let scene = Scene::set(cluster, "heeded", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "0.0.1"})).await;
    for (key, value) in [
        (policy::OPERATOR_CONDITIONS, "Enabled"),
        (policy::CLUSTER_PROXY, "Inject"),
        (policy::USER_ROLES, "aggregate"),
    ] {
        scene.annotate(key, value);
    }
    extension.patch_catalog(json!({"version": "1.0.0"})).await;
    plugin::ask(plane, &["rbac", &scene.name, "--apply", "--yes"]);
    extension.installed("1.0.0").await;
    let condition = format!("{}.v1.0.0", scene.name);
    has_variable(&scene, "OPERATOR_CONDITION_NAME", &condition).await;
    has_variable(&scene, "HTTP_PROXY", "http://proxy.example.com:3128").await;
    let role = format!("olm-extension-{}-view", scene.name);
    let role = scene.get("clusterrole", &role).expect("the role is there");
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    assert_eq!(role["metadata"]["labels"][label], "true");

    let next = ["rbac", &scene.name, "--for-upgrade-to=1.1.0", "--apply", "--yes"];
    plugin::ask(plane, &next);

    // The operator says no: the update is held, and all is well.
    let says = |status: &str| {
        json!([{"type": "Upgradeable", "status": status, "reason": "Busy", "message": "moving data",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    };
    patch(&scene, &condition, &json!({"spec": {"conditions": says("False")}}));
    extension.patch_catalog(json!({"version": null})).await;
    let held = "the operator is not upgradeable: moving data";
    extension
        .eventually("the update is held", SOON, |seen| {
            let status = seen.status.as_ref();
            let update = status.and_then(|status| status.update.as_ref());
            update.is_some_and(|update| {
                update.reason == "OperatorNotUpgradeable" && update.message.ends_with(held)
            }) && installed_version(seen) == Some("1.0.0")
        })
        .await;
    extension.shows("Progressing", "True", "Succeeded", "").await;
    explains(&scene, held);
    // What is asked for by its exact version is a failure.
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.shows("Progressing", "True", "Retrying", held).await;
    // An administrator overrides it.
    patch(&scene, &condition, &json!({"spec": {"overrides": says("True")}}));
    scene.annotate("example.com/look", "again");
    extension.installed("1.1.0").await;
    let condition = format!("{}.v1.1.0", scene.name);
    has_variable(&scene, "OPERATOR_CONDITION_NAME", &condition).await;

    give_out(&client, "http://other.example.com:3128").await;
    has_variable(&scene, "HTTP_PROXY", "http://other.example.com:3128").await;
    extension.installed("1.1.0").await;
    plans_no_change(&scene);
    extension.delete().await;
    plane.kubectl(&["delete", "proxies.config.openshift.io", "cluster"]);
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
async fn the_install_namespace_is_made_as_the_account_where_that_is_asked_for() {
    let cluster = cluster::own().await;
    let (plane, client) = (cluster.plane, cluster.client.clone());
    let account = ["serviceaccount", "namespacer", "--namespace=default"];
    plane.kubectl(&[&["create"][..], &account].concat());
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "namespacer",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:namespacer",
    ]);
    let flags = [
        "--default-service-account=default/namespacer",
        "--default-cluster-proxy",
        "--operator-proxy=NO_PROXY=example.com",
    ];
    let _controller = start(plane, "namespacer", &flags).await;
    let mut scene = Scene::empty(cluster, "made");
    let bundles = [Bundle::new("1.0.0")];
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    let spec = json!({
        "namespace": scene.name,
        "source": {"sourceType": "Catalog", "catalog": {"packageName": scene.name}},
    });
    let extension = Extension::create_with_spec(&client, &scene.name, spec).await;
    extension.shows("Progressing", "True", "Retrying", &scene.name).await;
    scene.annotate(policy::CREATE_NAMESPACE, "true");
    extension.installed("1.0.0").await;
    has_variable(&scene, "NO_PROXY", "example.com").await;
    extension.delete().await;
    assert!(scene.get("namespace", &scene.name).is_some());
    plane.kubectl(&["delete", "clusterrolebinding", "namespacer"]);
}
