//! Rights that an account lacks: named before anything is written, and noticed when they come.

use olm_test::prelude::*;

/// How soon a grant is noticed, on a busy machine.
const NOTICED: Duration = Duration::from_secs(30);

/// A scene whose account has the rights of `kubectl olm rbac`, and the `ClusterRole` of them.
async fn stage(cluster: cluster::Cluster, suffix: &str) -> (Scene, Value) {
    let scene = Scene::of(cluster, suffix, &["1.0.0"]).await;
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

/// Waits until the API server knows that the account may not get these any more: a review from before
/// would find nothing missing.
async fn lost(scene: &Scene, group: &str, resource: &str, name: &str) {
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let asked = json!({"verb": "get", "group": group, "resource": resource, "name": name});
    let may = || scene.cluster.plane.allows(&user, &json!([]), &asked);
    wait::value("the right is gone", NOTICED, may, |may| !may).await;
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

/// Returns the role with `*` instead of the name of the CRD. In `resourceNames` that is not a wildcard.
fn starred(role: &Value) -> Value {
    let mut starred = role.clone();
    for rule in starred["rules"].as_array_mut().expect("rules") {
        if rule["resources"] == json!(["customresourcedefinitions"])
            && rule["resourceNames"].is_array()
        {
            rule["resourceNames"] = json!(["*"]);
        }
    }
    starred
}

// applying.md f5, f8, f12, 5.2: text, structure, and that nothing is written before
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_rule_is_named_before_anything_is_written_and_its_grant_is_noticed() {
    let (scene, role) = stage(cluster::with_controller().await, "lacking").await;
    apply(&scene, &starred(&role));
    let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
    lost(&scene, crds.0, crds.1, &scene.package.crd()).await;
    let extension = scene.install(json!({})).await;
    let crd = format!(
        "Resources:[customresourcedefinitions] ResourceNames:[{}] Verbs:[delete,get,patch]",
        scene.package.crd()
    );
    let found = extension.shows("Progressing", "True", "Retrying", &crd).await;
    let ready = condition(&found, "Ready").expect("Ready is there");
    assert!(ready.message.contains("resourceNames [\"*\"]"), "{}", ready.message);

    apply(&scene, &without_escalation(&role, &[]));
    let found = extension.shows("Progressing", "True", "Retrying", &report(&scene)).await;
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
        audit::mentioning(&scene.cluster.plane.addresses.audit_log, &user)
            .into_iter()
            .filter(|request| request.acted_as.as_deref() == Some(&user))
            .map(|request| format!("{} {}", request.verb, request.resource))
            .collect::<Vec<_>>()
    };
    let only = asked();
    assert!(only.iter().all(|one| one == "create selfsubjectrulesreviews"), "{only:?}");

    // Escalate and bind serve instead of the rules that the bundle grants.
    let stronger = json!({"apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "verbs": ["escalate", "bind"]});
    apply(&scene, &without_escalation(&role, &[stronger]));
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

// applying.md f4
#[tokio::test(flavor = "multi_thread")]
async fn rights_of_the_groups_of_an_account_count() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "grouped");
    scene.publish(&[Bundle::new("1.0.0")], &chain(&["1.0.0"])).await;
    scene.create_namespace();
    let plane = scene.cluster.plane;
    plane.kubectl(&["create", "serviceaccount", ACCOUNT, "-n", &scene.name]);
    let extension = scene.install(json!({})).await;
    extension.shows("PermissionsSufficient", "False", "PermissionsMissing", "buoys").await;
    let group = format!("--group=system:serviceaccounts:{}", scene.name);
    let all = "--clusterrole=cluster-admin";
    plane.kubectl(&["create", "clusterrolebinding", &scene.name, all, &group]);
    noticed(&extension).await;
    extension.installed("1.0.0").await;
    extension.delete().await;
    plane.kubectl(&["delete", "clusterrolebinding", &scene.name]);
}

/// Installs with an account that lacks rights, which are only reported (applying.md 5.3:
/// `--rbac-preflight=report`); returns the role that grants them.
pub(crate) async fn lacks_are_reported(cluster: &Cluster) -> (Scene, Extension, Value) {
    let (scene, role) = stage(cluster.clone(), "reported").await;
    apply(&scene, &without_escalation(&role, &[]));
    lost(&scene, &scene.package.group(), "buoys", "").await;
    let extension = scene.install(json!({})).await;
    let refused = "is attempting to grant RBAC permissions not currently held";
    let found = extension.shows("Progressing", "True", "Retrying", refused).await;
    assert!(is(&found, "PermissionsSufficient", "False", "PermissionsMissing"));
    let ready = condition(&found, "Ready").expect("Ready is there");
    let lines = report(&scene);
    let (_, lines) = lines.split_once("1.0.0\": ").expect("it has a head");
    assert!(ready.message.contains(lines), "{}", ready.message);
    assert_eq!(extension.revisions().await.len(), 1);
    (scene, extension, role)
}

/// Nobody looks for such rights any more (`--rbac-preflight=off`).
pub(crate) async fn lacks_are_not_looked_for((scene, extension, role): (Scene, Extension, Value)) {
    extension
        .eventually("nobody looks", Duration::from_secs(30), |found| {
            condition(found, "PermissionsSufficient").is_none()
        })
        .await;

    apply(&scene, &role);
    let installed = extension.installed("1.0.0").await;
    assert!(condition(&installed, "PermissionsSufficient").is_none());
    extension.delete().await;
}
