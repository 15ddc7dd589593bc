//! What annotations of an extension add to its bundle: OperatorConditions, proxies, roles for users,
//! and the install namespace.

use olm_test::prelude::*;

use crate::credentials::give_out;

/// Waits until the first Deployment in the namespace of the scene has a variable of this value.
async fn has_variable(scene: &Scene, name: &str, value: &str) {
    let plane = scene.cluster.plane;
    let read = || {
        let listed = plane.json(&["get", "deployments", "-n", &scene.name, "--output=json"]);
        listed["items"][0]["spec"]["template"]["spec"]["containers"][0]["env"].clone()
    };
    let is_it = |it: &Value| it["name"] == name && it["value"] == value;
    let has_it = |env: &Value| env.as_array().is_some_and(|all| all.iter().any(is_it));
    wait::value(&format!("{name} is {value}"), SOON, read, has_it).await;
}

fn patch(scene: &Scene, condition: &str, change: &Value) {
    let kind = "operatorconditions.operators.coreos.com";
    scene.cluster.plane.requests().merge(kind, &scene.name, condition, change);
}

/// Has the cluster serve OperatorConditions.
fn apply_crd(plane: &ControlPlane) {
    let crd = paths::repository()
        .join("config/components/operator-conditions/operators.coreos.com_operatorconditions.yaml");
    plane.kubectl(&["apply", "-f", &crd.to_string_lossy()]);
    plane.established("operatorconditions.operators.coreos.com");
}

/// Expects that who may view things may view those of the operator.
fn is_aggregated(scene: &Scene) {
    let role = format!("olm-extension-{}-view", scene.name);
    let role = scene.get("clusterrole", &role).expect("the role is there");
    assert_eq!(role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"], "true");
}

/// Expects that the plugin renders what is added as the controller does.
async fn plans_no_change(scene: &Scene) {
    let objects = || {
        let asked = ["plan", &scene.name, "-o", "json"];
        plugin::read(scene.cluster.plane, &asked).document()["objects"].clone()
    };
    wait::value("the plan changes nothing", ROLLOUT, objects, |objects| *objects == json!([]))
        .await;
}

/// `why` and `plan` say that the operator holds the update.
fn explains(scene: &Scene, held: &str) {
    let ask = |verb| plugin::read(scene.cluster.plane, &[verb, &scene.name]);
    let (_, why, errors) = ask("why");
    assert!(why.contains(&format!("Held by:   OperatorNotUpgradeable: {held}")), "{why}{errors}");
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
    apply_crd(plane);
    give_out(&client, "http://proxy.example.com:3128").await;
    let scene = Scene::of(cluster, "heeded", &["1.0.0", "1.1.0"]).await;
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
    is_aggregated(&scene);

    plugin::ask(plane, &["rbac", &scene.name, "--for-upgrade-to=1.1.0", "--apply", "--yes"]);

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
    has_variable(&scene, "OPERATOR_CONDITION_NAME", &format!("{}.v1.1.0", scene.name)).await;

    give_out(&client, "http://other.example.com:3128").await;
    has_variable(&scene, "HTTP_PROXY", "http://other.example.com:3128").await;
    extension.installed("1.1.0").await;
    plans_no_change(&scene).await;
    extension.delete().await;
    plane.kubectl(&["delete", "proxies.config.openshift.io", "cluster"]);
}

// applying.md 10
#[tokio::test(flavor = "multi_thread")]
async fn the_install_namespace_is_made_as_the_account_and_flags_give_what_annotations_give() {
    let cluster = cluster::own().await;
    let (plane, client) = (cluster.plane, cluster.client.clone());
    plane.run("create serviceaccount namespacer --namespace=default");
    plane.run(
        "create clusterrolebinding namespacer --clusterrole=cluster-admin \
         --serviceaccount=default:namespacer",
    );
    apply_crd(plane);
    let flags = [
        "--default-service-account=default/namespacer",
        "--default-cluster-proxy",
        "--operator-proxy=NO_PROXY=example.com",
        "--default-operator-conditions",
        "--default-user-roles=aggregate",
    ];
    let _controller = start(plane, "namespacer", &flags).await;
    let scene = Scene::served(cluster, "made", &["1.0.0"]).await;
    let spec = json!({
        "namespace": scene.name,
        "source": {"sourceType": "Catalog", "catalog": {"packageName": scene.name}},
    });
    let extension = Extension::create_with_spec(&client, &scene.name, spec).await;
    extension.shows("Progressing", "True", "Retrying", &scene.name).await;
    scene.annotate(policy::CREATE_NAMESPACE, "true");
    extension.installed("1.0.0").await;
    has_variable(&scene, "NO_PROXY", "example.com").await;
    let condition = scene.package.bundle_name("1.0.0");
    has_variable(&scene, "OPERATOR_CONDITION_NAME", &condition).await;
    assert!(scene.get("operatorcondition", &condition).is_some());
    is_aggregated(&scene);
    extension.delete().await;
    assert!(scene.get("namespace", &scene.name).is_some());
    plane.kubectl(&["delete", "clusterrolebinding", "namespacer"]);
}
