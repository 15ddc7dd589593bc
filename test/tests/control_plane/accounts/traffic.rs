//! The policies admit what the controller and Kubernetes itself write.

use olm_test::audit;
use olm_test::cluster::{self, CONTROLLER_ACCOUNT, Cluster, SYSTEM_NAMESPACE};
use olm_test::package::{Bundle, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

use super::{Made, Person, object_set, recorded};

/// The garbage collector discovers a kind within half a minute, and an object soon after.
const COLLECTED: std::time::Duration = std::time::Duration::from_mins(2);
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

// P45
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_and_the_garbage_collector_are_admitted() {
    let cluster = cluster::with_controller().await;
    let plane = cluster.plane;
    // The collector has neither right: its changes are admitted because they need no right.
    let user = format!("--as={COLLECTOR}");
    for verb in ["use", "impersonate"] {
        let may = plane.try_kubectl(&["auth", "can-i", verb, "serviceaccounts", "-A", &user], "");
        assert!(may.is_err(), "the collector may {verb}: {may:?}");
    }
    let bundles = [Bundle::new("1.0.0"), Bundle::new("1.1.0")];
    let scene = Scene::set(cluster, "policed", &bundles, &chain(&["1.0.0", "1.1.0"])).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    extension.installed("1.0.0").await;
    extension.patch_catalog(json!({"version": "1.1.0"})).await;
    extension.installed("1.1.0").await;
    let orphan = ["delete", "clusterextension", &scene.name, "--cascade=orphan"];
    plane.kubectl(&orphan);
    extension.gone().await;

    let log = &plane.addresses.audit_log;
    let controller = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let requests = audit::mentioning(log, &scene.name);
    let count = |user: &str, verb: &str, resource: &str, subresource: &str| {
        let admitted = requests.iter().filter(|request| request.code < 300);
        admitted
            .filter(|one| one.user == user && one.verb == verb && one.acted_as.is_none())
            .filter(|one| one.resource == resource && one.subresource == subresource)
            .count()
    };
    for (user, verb, resource, subresource) in [
        (controller.as_str(), "patch", "clusterextensions", ""),
        (&controller, "update", "clusterextensions", "status"),
        (&controller, "update", "clusterobjectsets", "status"),
        (COLLECTOR, "patch", "clusterextensions", ""),
    ] {
        let count = count(user, verb, resource, subresource);
        assert!(count > 0, "{user} never does {verb} {resource} {subresource}");
    }
    let refused = refusals(log, &[&controller, COLLECTOR]);
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Makes a revision that is owned by an object of the same name, and returns it.
fn owned(cluster: &Cluster, name: &str) -> Made {
    let plane = cluster.plane;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}});
    plane.kubectl_with_input(&["create", "-f", "-"], &role.to_string());
    let uid = plane.kubectl(&["get", "clusterrole", name, "-o", "jsonpath={.metadata.uid}"]);
    let mut set = object_set(name, &recorded("boss", "boss"));
    set["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "name": name, "uid": uid}]);
    Made::new(cluster, "clusterobjectset", &set)
}

// P45: revisions are deleted with their owner, and lose their owner reference when orphaned.
#[tokio::test(flavor = "multi_thread")]
async fn the_garbage_collector_deletes_revisions_and_drops_their_owners() {
    let cluster = cluster::shared().await;
    let plane = cluster.plane;
    let _person = Person::installer("p45").await;
    let (kept, collected) = (owned(&cluster, "p45-kept"), owned(&cluster, "p45-collected"));
    plane.kubectl(&["delete", "clusterrole", &collected.name]);
    let look = |name: &str, path: &str| {
        let path = format!("jsonpath={path}");
        plane.kubectl(&["get", "clusterobjectset", name, "--ignore-not-found", "-o", &path])
    };
    wait::until("collected", COLLECTED, || async {
        let left = look(&collected.name, "{.metadata}");
        left.is_empty().then_some(()).ok_or(left)
    })
    .await;
    // The collector has seen what was made later, so it knows whom the owner has.
    plane.kubectl(&["delete", "clusterrole", &kept.name, "--cascade=orphan"]);
    wait::until("let go", COLLECTED, || async {
        let owners = look(&kept.name, "{.metadata.ownerReferences}");
        owners.is_empty().then_some(()).ok_or(owners)
    })
    .await;
    assert_ne!(look(&kept.name, "{.metadata.name}"), "");
}

/// Returns the requests of these users that a policy would have refused.
fn refusals(log: &std::path::Path, users: &[&str]) -> Vec<Value> {
    let records = std::fs::read_to_string(log).expect("the audit log can be read");
    records
        .lines()
        .filter(|line| line.contains("validation.policy.admission.k8s.io/validation_failure"))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| {
            let user = event["user"]["username"].as_str().unwrap_or_default();
            users.contains(&user)
        })
        .collect()
}
