//! `spec.config`: one watched namespace, changed Deployments, and what is refused.

use std::slice;
use std::time::Duration;

use olm_test::cluster;
use olm_test::extension::{Extension, condition, is};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

const SETTLE: Duration = Duration::from_mins(1);

/// A scene with an operator that watches one namespace, and the name of another namespace.
async fn scene() -> (Scene, String) {
    let bundle = Bundle::new("1.0.0").for_one_namespace();
    let mut scene = Scene::empty(cluster::with_controller().await, "configured");
    scene.publish(slice::from_ref(&bundle), &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let other = format!("{}-other", scene.name);
    scene.cluster.plane.kubectl(&["create", "namespace", &other]);
    // Watching the other namespace needs rights there and in the own one, which covers both.
    scene.grant_with(&[bundle], &["--watch-namespace", &other]);
    (scene, other)
}

async fn configure(extension: &Extension, inline: Value) {
    let config = json!({"configType": "Inline", "inline": inline});
    extension.patch_spec(json!({"config": config})).await;
}

/// Waits for the terminal condition with exactly this text after the name of the bundle.
async fn refused(scene: &Scene, extension: &Extension, why: &str) {
    let found = extension.shows("Progressing", "False", "InvalidConfiguration", why).await;
    let bundle = scene.package.bundle_name("1.0.0");
    let message = condition(&found, "Progressing").map(|found| found.message.as_str());
    let want = format!("error for resolved bundle {bundle:?} with version \"1.0.0\": {why}");
    assert_eq!(message, Some(want.as_str()));
}

/// Waits until revision `number` has the Deployment, and returns its pod template.
async fn template(scene: &Scene, extension: &Extension, number: usize) -> Value {
    extension.installed("1.0.0").await;
    let what = format!("revision {number} owns the Deployment");
    wait::until(&what, SETTLE, || async {
        let revisions = extension.revisions().await;
        let newest = revisions.last().map(kube::ResourceExt::name_any);
        let deployment = scene.get("deployment", &scene.package.deployment()).unwrap_or_default();
        let owner = &deployment["metadata"]["ownerReferences"][0]["name"];
        if revisions.len() == number && newest.as_deref() == owner.as_str() {
            Ok(deployment["spec"]["template"].clone())
        } else {
            Err(format!("{newest:?} of {}, owner {owner}", revisions.len()))
        }
    })
    .await
}

/// Says whether the operator has a Role in a namespace; its name starts with that of the bundle.
fn role_in(scene: &Scene, namespace: &str) -> bool {
    let plane = scene.cluster.plane;
    let names = plane.kubectl(&["get", "roles", "--namespace", namespace, "--output", "name"]);
    let name = format!("role.rbac.authorization.k8s.io/{}.v", scene.name);
    names.lines().any(|line| line.starts_with(&name))
}

// rendering.md 3.1, 3.3, 3, 4.8, R11; applying.md 3.4: a changed configuration is a new revision
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_followed_refused_and_followed_again() {
    let (scene, other) = scene().await;
    let extension = scene.install(json!({})).await;
    let why = "invalid ClusterExtension configuration: invalid configuration: required field \
               \"watchNamespace\" is missing";
    refused(&scene, &extension, why).await;
    assert!(extension.revisions().await.is_empty());

    configure(&extension, json!({"watchNamespace": scene.name})).await;
    let own = template(&scene, &extension, 1).await;
    let watched = "olm.targetNamespaces";
    assert_eq!(own["metadata"]["annotations"][watched], json!(scene.name));
    assert!(role_in(&scene, &scene.name) && !role_in(&scene, &other));

    let change = json!({
        "env": [{"name": "DEPTH", "value": "20"}],
        "resources": {"requests": {"cpu": 1, "memory": "64Mi"}},
        "tolerations": [{"key": "buoys", "operator": "Exists"}],
        "annotations": {"example.com/team": "harbor", watched: "everything"},
        "imagePullSecrets": [{"name": "registry"}],
    });
    let single = json!({"watchNamespace": other, "deploymentConfig": change});
    configure(&extension, single).await;
    let template_2 = template(&scene, &extension, 2).await;
    let annotations = &template_2["metadata"]["annotations"];
    assert_eq!(annotations[watched], json!(other));
    assert_eq!(annotations["example.com/team"], "harbor");
    let pod = &template_2["spec"];
    assert_eq!(pod["tolerations"], json!([{"key": "buoys", "operator": "Exists"}]));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
    let container = &pod["containers"][0];
    assert_eq!(container["env"], json!([{"name": "DEPTH", "value": "20"}]));
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "64Mi"}));
    assert!(role_in(&scene, &scene.name) && role_in(&scene, &other));

    let nameless = json!({"deploymentConfig": {"env": [{"value": "20"}]}});
    configure(&extension, nameless).await;
    let why = "invalid ClusterExtension configuration: invalid configuration: required field \
               \"deploymentConfig.env.0.name\" is missing";
    refused(&scene, &extension, why).await;
    assert!(is(&extension.get().await, "Installed", "True", "Succeeded"));
    assert_eq!(extension.revisions().await.len(), 2);

    let fixed = json!({"deploymentConfig": {"env": [{"name": "DEPTH", "value": "30"}]}});
    configure(&extension, fixed).await;
    let template_3 = template(&scene, &extension, 3).await;
    assert_eq!(
        template_3["spec"]["containers"][0]["env"],
        json!([{"name": "DEPTH", "value": "30"}])
    );
    extension.delete().await;
    assert!(!role_in(&scene, &other));
}
