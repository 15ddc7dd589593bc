//! The controller's own rights are enough and no more: its requests to the API server are compared
//! with the rules that are bound to its service account (deploying.md 2.8).

use std::collections::BTreeSet;
use std::time::Duration;

use olm_test::audit::{self, Request};
use olm_test::cluster::{self, CONTROLLER_ACCOUNT, ControlPlane, SYSTEM_NAMESPACE};
use olm_test::package::{Bundle, Package, chain};
use olm_test::scene::Scene;
use olm_test::wait;
use serde_json::{Value, json};

use crate::flags::{clear_leases, start};
use crate::gate::set_cluster_version;

/// The two halves, each with a `ClusterRole` and a `Role`.
const ROLES: [&str; 2] = ["operator-controller-manager-role", "catalogd-manager-role"];
/// Watches are logged when they end.
const LOGGED: Duration = Duration::from_mins(2);

/// Rights that the scenario below may not use, and what uses them.
const UNSEEN: [(&str, &str); 8] = [
    (
        "update clusterextensions/finalizers.olm.operatorframework.io",
        "where the admission plugin OwnerReferencesPermissionEnforcement is on",
    ),
    (
        "get clusterobjectsets.olm.operatorframework.io",
        "a revision that is being deleted, and the clean-up of Secrets",
    ),
    (
        "list clusterserviceversions.operators.coreos.com",
        "--constraint-providers=csvs, beside OLM Classic",
    ),
    (
        "get storageclasses.storage.k8s.io",
        "a bundle with a claim on the default class",
    ),
    (
        "get namespaces",
        "an extension whose account is missing: is its namespace?",
    ),
    ("patch events.events.k8s.io", "an Event that repeats"),
    ("update secrets", "a CA of webhooks that is followed up"),
    ("delete secrets", "a CA that is replaced, and the clean-up"),
];

/// A verb and a resource.
type Right = (String, String);

/// Returns the rights of the controller's service account, as verb and resource.
fn granted(plane: &ControlPlane) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for (kind, scope) in [("clusterrole", "default"), ("role", SYSTEM_NAMESPACE)] {
        for name in ROLES {
            let text = plane.kubectl(&["get", kind, name, "-n", scope, "-o", "json"]);
            let role: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
            let rules = role["rules"].as_array().expect("a role has rules").clone();
            assert!(!rules.is_empty(), "{kind} {name}");
            rights.extend(rules.iter().flat_map(rights_of));
        }
    }
    rights
}

fn rights_of(rule: &Value) -> Vec<Right> {
    let groups = words(&rule["apiGroups"]);
    let resources = words(&rule["resources"]);
    let paths = words(&rule["nonResourceURLs"]).into_iter();
    let mut subjects: Vec<_> = paths.take(1).map(|_| "discovery".to_owned()).collect();
    for group in &groups {
        subjects.extend(resources.iter().map(|resource| subject(group, resource)));
    }
    let verbs = words(&rule["verbs"]);
    subjects
        .iter()
        .flat_map(|subject| verbs.iter().map(|verb| (verb.clone(), subject.clone())))
        .collect()
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

fn subject(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// Returns the requests of the controller's service account, impersonating or not.
fn requests(plane: &ControlPlane) -> Vec<Request> {
    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    let mut requests = audit::mentioning(&plane.addresses.audit_log, &user);
    requests.retain(|request| request.user == user);
    requests
}

/// Returns the rights a request needs.
fn needed(request: &Request) -> Vec<Right> {
    if request.acted_as.is_some() {
        return vec![("impersonate".to_owned(), "serviceaccounts".to_owned())];
    }
    if request.resource.is_empty() {
        return vec![("get".to_owned(), "discovery".to_owned())];
    }
    let resource = [request.resource.as_str(), request.subresource.as_str()].join("/");
    let subject = subject(&request.group, resource.trim_end_matches('/'));
    // An apply that creates needs the right to create as well.
    let creates = request.verb == "patch" && request.code == 201;
    let verbs = [request.verb.as_str(), if creates { "create" } else { "" }];
    let verbs = verbs.into_iter().filter(|verb| !verb.is_empty());
    verbs
        .map(|verb| (verb.to_owned(), subject.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_rights_are_enough_and_no_more() {
    let (cluster, _turn) = cluster::alone().await;
    let plane = cluster.plane;
    clear_leases(&cluster).await;
    set_cluster_version(&cluster.client, "4.19.5").await;
    let args = [
        "--leader-elect",
        "--webhook-certificates=self-signed",
        "--serving-certificates=self-signed",
    ];
    let mut controller = start(plane, "rights", &args).await;
    let webhook = Package::new("rights").validating_webhook();
    let bundles = [
        Bundle::new("1.0.0").with_webhook(webhook.clone()),
        Bundle::new("1.1.0").with_webhook(webhook),
    ];
    let mut scene = Scene::set(cluster, "rights", &bundles, &chain(&["1.0.0"])).await;
    let extension = scene.install(json!({})).await;
    extension.installed("1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    extension.delete().await;
    plane.kubectl(&["delete", "clustercatalog", &scene.name]);
    controller.signal("TERM");
    wait::until("the controller ends", LOGGED, || {
        let ended = controller.exit_code();
        async move { ended.ok_or("runs") }
    })
    .await;

    let granted = granted(plane);
    let unseen: BTreeSet<String> = UNSEEN
        .iter()
        .map(|(right, _)| (*right).to_owned())
        .collect();
    wait::until("every right is used", LOGGED, || async {
        let used: BTreeSet<Right> = requests(plane).iter().flat_map(needed).collect();
        let idle: BTreeSet<String> = granted
            .iter()
            .filter(|right| !used.contains(*right))
            .map(|(verb, subject)| format!("{verb} {subject}"))
            .collect();
        let unexplained: Vec<_> = idle.difference(&unseen).cloned().collect();
        if unexplained.is_empty() {
            Ok(())
        } else {
            Err(unexplained)
        }
    })
    .await;
    let refused: Vec<_> = requests(plane)
        .into_iter()
        .filter(|request| request.acted_as.is_none() && matches!(request.code, 401 | 403))
        .collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
}
