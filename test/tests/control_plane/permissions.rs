//! Rights that an account lacks: named before anything is written, and noticed when they come.

use std::time::Duration;

use olm_test::audit;
use olm_test::cluster::{self, Controller, ControllerOptions};
use olm_test::extension::{Extension, condition, is};
use olm_test::package::{Bundle, chain};
use olm_test::scene::{ACCOUNT, Scene};
use serde_json::{Value, json};

/// How soon a grant is noticed.
const NOTICED: Duration = Duration::from_secs(5);

/// A scene whose account has the rights of `kubectl olm rbac`, and the `ClusterRole` of them.
async fn stage(cluster: cluster::Cluster, suffix: &str) -> (Scene, Value) {
    let bundles = [Bundle::new("1.0.0")];
    let scene = Scene::set(cluster, suffix, &bundles, &chain(&["1.0.0"])).await;
    let name = format!("olm:{0}:{ACCOUNT}:{0}.v1.0.0", scene.name);
    let role = scene.get("clusterrole", &name).expect("the role is there");
    (scene, role)
}

fn apply(scene: &Scene, role: &Value) {
    let mut role = role.clone();
    if let Some(metadata) = role["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    scene.cluster.plane.kubectl_with_input(&["replace", "-f", "-"], &role.to_string());
}

/// Returns the role with other rules in place of those on the custom resource of the bundle, which
/// only the escalation check of the API server asks for.
fn without_escalation(role: &Value, instead: &[Value]) -> Value {
    let mut role = role.clone();
    let rules = role["rules"].as_array_mut().expect("rules");
    let before = rules.len();
    rules.retain(|rule| rule["resources"] != json!(["buoys"]));
    assert_eq!(rules.len() + 1, before);
    rules.extend(instead.iter().cloned());
    role
}

fn report(scene: &Scene) -> String {
    format!(
        "error for resolved bundle \"{0}.v1.0.0\" with version \"1.0.0\": pre-authorization failed: \
         service account requires the following permissions to manage cluster extension:\n  \
         Namespace:\"\" APIGroups:[{1}.example.com] Resources:[buoys] Verbs:[get,list,watch]",
        scene.name, scene.package.suffix
    )
}

async fn noticed(extension: &Extension) {
    let sufficient =
        |found: &_| is(found, "PermissionsSufficient", "True", "PermissionsSufficient");
    extension.eventually("the grant is noticed", NOTICED, sufficient).await;
}

// applying.md f5, f8, 5.2: text, structure, and that nothing is written before
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_rule_is_named_before_anything_is_written_and_its_grant_is_noticed() {
    let (scene, role) = stage(cluster::with_controller().await, "lacking").await;
    apply(&scene, &without_escalation(&role, &[]));
    let extension = scene.install(json!({})).await;
    let found =
        extension.shows("Progressing", "True", "Retrying", "pre-authorization failed").await;
    let message = |type_| condition(&found, type_).map(|found| found.message.clone());
    assert_eq!(message("Progressing"), Some(report(&scene)));
    let absent = format!(
        "service account {}/{ACCOUNT} may not:\nget, list, watch buoys.{}.example.com",
        scene.name, scene.package.suffix
    );
    assert_eq!(message("PermissionsSufficient"), Some(absent));
    assert!(is(&found, "PermissionsSufficient", "False", "PermissionsMissing"));
    let advice = format!("kubectl olm rbac {} --missing", scene.name);
    let ready = message("Ready").expect("Ready is there");
    assert!(ready.contains(&advice), "{ready}");
    assert!(extension.revisions().await.is_empty());
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let asked = || {
        let all = audit::mentioning(&scene.cluster.plane.addresses.audit_log, &user);
        all.into_iter()
            .filter(|request| request.acted_as.as_deref() == Some(&user))
            .map(|request| format!("{} {}", request.verb, request.resource))
            .collect::<Vec<_>>()
    };
    let only = asked();
    assert!(only.iter().all(|one| one == "create selfsubjectrulesreviews"), "{only:?}");

    apply(&scene, &role);
    noticed(&extension).await;
    extension.installed("1.0.0").await;
    // A settled extension is not asked about again.
    let reviews = || {
        let asked = asked();
        let review = |one: &&String| one.ends_with("selfsubjectrulesreviews");
        asked.iter().filter(review).count()
    };
    let before = reviews();
    scene.annotate("example.com/touched", "1");
    extension.installed("1.0.0").await;
    assert_eq!(reviews(), before);
    extension.delete().await;
}

// applying.md f5: escalate and bind serve instead of the rules
#[tokio::test(flavor = "multi_thread")]
async fn escalate_and_bind_serve_instead_of_the_rules_that_a_bundle_grants() {
    let (scene, role) = stage(cluster::with_controller().await, "escalates").await;
    let stronger = json!({"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "verbs": ["escalate", "bind"]});
    apply(&scene, &without_escalation(&role, &[stronger]));
    let extension = scene.install(json!({})).await;
    let installed = extension.installed("1.0.0").await;
    assert!(is(&installed, "PermissionsSufficient", "True", "PermissionsSufficient"));
    extension.delete().await;
}

// applying.md f4
#[tokio::test(flavor = "multi_thread")]
async fn rights_of_the_groups_of_an_account_count() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "grouped");
    let bundles = [Bundle::new("1.0.0")];
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let plane = scene.cluster.plane;
    plane.kubectl(&["create", "serviceaccount", ACCOUNT, "-n", &scene.name]);
    let extension = scene.install(json!({})).await;
    extension.shows("PermissionsSufficient", "False", "PermissionsMissing", "buoys").await;
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        &scene.name,
        "--clusterrole=cluster-admin",
        &format!("--group=system:serviceaccounts:{}", scene.name),
    ]);
    noticed(&extension).await;
    extension.installed("1.0.0").await;
    extension.delete().await;
    plane.kubectl(&["delete", "clusterrolebinding", &scene.name]);
}

// applying.md f12
#[tokio::test(flavor = "multi_thread")]
async fn a_name_meant_as_a_wildcard_is_explained() {
    let (scene, role) = stage(cluster::with_controller().await, "starred").await;
    let mut starred = role.clone();
    for rule in starred["rules"].as_array_mut().expect("rules") {
        if rule["resources"] == json!(["customresourcedefinitions"])
            && rule["resourceNames"].is_array()
        {
            rule["resourceNames"] = json!(["*"]);
        }
    }
    apply(&scene, &starred);
    let extension = scene.install(json!({})).await;
    let crd = format!(
        "Resources:[customresourcedefinitions] ResourceNames:[{}] Verbs:[delete,get,patch]",
        scene.package.crd()
    );
    let found = extension.shows("Progressing", "True", "Retrying", &crd).await;
    let ready = condition(&found, "Ready").expect("Ready is there");
    assert!(ready.message.contains("resourceNames [\"*\"]"), "{}", ready.message);
    apply(&scene, &role);
    extension.installed("1.0.0").await;
    extension.delete().await;
}

// applying.md 5.3: --rbac-preflight=report, off
#[tokio::test(flavor = "multi_thread")]
async fn a_flag_makes_missing_rights_a_report_or_nothing() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    let options = ControllerOptions {
        args: vec!["--rbac-preflight=report".to_owned()],
        ..ControllerOptions::default()
    };
    let start = move || Controller::start(plane, options);
    let mut controller = tokio::task::spawn_blocking(start).await.expect("the controller starts");
    let (scene, role) = stage(cluster, "reported").await;
    apply(&scene, &without_escalation(&role, &[]));
    let extension = scene.install(json!({})).await;
    let refused = "is attempting to grant RBAC permissions not currently held";
    let found = extension.shows("Progressing", "True", "Retrying", refused).await;
    assert!(is(&found, "PermissionsSufficient", "False", "PermissionsMissing"));
    let ready = condition(&found, "Ready").expect("Ready is there");
    let lines = report(&scene);
    let (_, lines) = lines.split_once("1.0.0\": ").expect("it has a head");
    assert!(ready.message.contains(lines), "{}", ready.message);
    assert_eq!(extension.revisions().await.len(), 1);

    let mut controller = tokio::task::spawn_blocking(move || {
        controller.kill();
        controller.set_args(&["--rbac-preflight=off"]);
        controller.restart(plane);
        controller
    })
    .await
    .expect("the controller starts again");
    extension
        .eventually("nobody looks", Duration::from_secs(30), |found| {
            condition(found, "PermissionsSufficient").is_none()
        })
        .await;

    apply(&scene, &role);
    let installed = extension.installed("1.0.0").await;
    assert!(condition(&installed, "PermissionsSufficient").is_none());
    extension.delete().await;
    controller.kill();
}
