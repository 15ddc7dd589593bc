//! The policies admit what the controller and Kubernetes itself write.

use olm_test::prelude::*;

use super::{Made, Person, object_set, recorded};

const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// What the controller and the garbage collector have written until an extension was orphaned and gone was
/// admitted (P45).
pub(crate) async fn the_controller_and_the_garbage_collector_were_admitted(scene: &Scene) {
    let plane = scene.cluster.plane;
    // The collector has neither right: its changes are admitted because they need no right.
    let user = format!("--as={COLLECTOR}");
    for verb in ["use", "impersonate"] {
        let may = plane.try_kubectl(&["auth", "can-i", verb, "serviceaccounts", "-A", &user], "");
        assert!(may.is_err(), "the collector may {verb}: {may:?}");
    }
    let log = &plane.addresses.audit_log;
    let wanted = [
        (audit::CONTROLLER, "patch", "clusterextensions", ""),
        (audit::CONTROLLER, "update", "clusterextensions", "status"),
        (audit::CONTROLLER, "update", "clusterobjectsets", "status"),
        (COLLECTOR, "patch", "clusterextensions", ""),
    ];
    // What ends an extension is seen by all before it is in the log.
    wait::until("all of it is logged", SOON, || async {
        let mut requests = audit::mentioning(log, &scene.name);
        requests.retain(|request| request.code < 300 && request.acted_as.is_none());
        let missing = wanted.iter().find(|it| {
            let is = |one: &audit::Request| {
                (&*one.user, &*one.verb, &*one.resource, &*one.subresource) == **it
            };
            !requests.iter().any(is)
        });
        missing.map_or(Ok(()), |it| Err(format!("{it:?}")))
    })
    .await;
    let refused = refusals(log, &[audit::CONTROLLER, COLLECTOR]);
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Makes a revision that is owned by an object of the same name, and returns it.
fn owned(cluster: &Cluster, name: &str) -> Made {
    let plane = cluster.plane;
    plane.create(&objects::role(name, None, &json!([])));
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
    let left = || look(&collected.name, "{.metadata}");
    wait::value("collected", COLLECTED, left, String::is_empty).await;
    // The collector has seen what was made later, so it knows whom the owner has.
    plane.kubectl(&["delete", "clusterrole", &kept.name, "--cascade=orphan"]);
    let owners = || look(&kept.name, "{.metadata.ownerReferences}");
    wait::value("let go", COLLECTED, owners, String::is_empty).await;
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
