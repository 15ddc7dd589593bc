//! The controller's own rights are enough and no more: its requests to the API server are compared
//! with the table that its roles are written from (deploying.md 2.8).

use olm_core::rbac::IMPERSONATE;
use olm_core::rbac::{Permission, Permissions};
use olm_core::revision::Account;
use olm_core::rights::Half;
use olm_test::audit::Request;
use olm_test::prelude::*;

use crate::gate::set_cluster_version;

/// Watches are logged when they end.
const LOGGED: Duration = Duration::from_mins(2);

/// A right and where it holds, cluster-wide if that is empty.
type Right = (String, Permission);

/// Returns a right as `rights.yaml` writes it.
fn text(place: &str, right: &Permission) -> String {
    let here = if place.is_empty() { "" } else { " here" };
    match right {
        Permission::Url { path, verb } => format!("{verb} {path}{here}"),
        Permission::Resource { group, resource, name, verb } => {
            let name = name.as_deref().unwrap_or_default();
            let subject = [resource.as_str(), group.as_str()].join(".");
            let subject = [subject.trim_end_matches('.'), name].join(" ");
            format!("{verb} {}{here}", subject.trim_end())
        }
    }
}

/// Returns the requests of the controller's service account, impersonating or not.
fn requests(plane: &ControlPlane) -> Vec<Request> {
    audit::of_controller(&plane.addresses.audit_log)
}

/// Returns the rights a request needs.
fn needed(request: &Request) -> Vec<Right> {
    let place = request.namespace.clone();
    if let Some(account) = request.acted_as.as_deref().and_then(Account::of_user) {
        let act = Permission::on(IMPERSONATE, "", "serviceaccounts", Some(&account.name));
        return vec![(account.namespace, act)];
    }
    if request.resource.is_empty() {
        let path = request.uri.split('?').next().unwrap_or_default().to_owned();
        let verb = request.verb.clone();
        return vec![(String::new(), Permission::Url { path, verb })];
    }
    let resource = [request.resource.as_str(), request.subresource.as_str()].join("/");
    let resource = resource.trim_end_matches('/');
    // The log has the name from the body of a request to create, which is authorized without one.
    let posts = request.verb == "create" && request.subresource.is_empty();
    let name = Some(request.name.as_str()).filter(|name| !name.is_empty() && !posts);
    // An apply that creates needs the right to create as well.
    let creates = request.verb == "patch" && request.code == 201;
    let verbs = [Some(request.verb.as_str()), creates.then_some("create")];
    let on = |verb| Permission::on(verb, &request.group, resource, name);
    let verbs = verbs.into_iter().flatten();
    verbs.map(|verb| (place.clone(), on(verb))).collect()
}

/// Returns a bundle with objects of all kinds that the controller watches with rights of its own.
fn of_all_shared_kinds(version: &str) -> Bundle {
    let package = Package::new("rights");
    let object = |api: &str, kind: &str, mut content: Value| {
        content["apiVersion"] = api.into();
        content["kind"] = kind.into();
        content["metadata"] = json!({"name": package.name()});
        content
    };
    let mut mutating = package.validating_webhook();
    mutating["type"] = "MutatingAdmissionWebhook".into();
    mutating["generateName"] = format!("m{}.example.com", package.name()).into();
    mutating["webhookPath"] = "/mutate".into();
    let nothing = json!({"matchLabels": {"app": "nothing"}});
    Bundle::new(version)
        .with_webhook(package.validating_webhook())
        .with_webhook(mutating)
        .with_manifest(object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": nothing, "policyTypes": ["Ingress"]}}),
        ))
        .with_manifest(object(
            "policy/v1",
            "PodDisruptionBudget",
            json!({"spec": {"selector": nothing, "maxUnavailable": 1}}),
        ))
        .with_manifest(object("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 1})))
}

// deploying.md P10
#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_rights_are_enough_and_no_more() {
    let cluster = cluster::own().await;
    let plane = cluster.plane;
    clear_leases(&cluster).await;
    set_cluster_version(&cluster.client, "4.19.5").await;
    let args = [
        "--leader-elect",
        "--webhook-certificates=self-signed",
        "--serving-certificates=self-signed",
        "--tls-profile=cluster",
        "--cluster-proxy",
    ];
    let started = Timestamp::now();
    let mut controller = start(plane, "rights", &args).await;
    let bundles = ["1.0.0", "1.1.0"].map(of_all_shared_kinds);
    let mut scene = Scene::empty(cluster, "rights");
    scene.publish(&bundles, &chain(&["1.0.0"])).await;
    scene.create_namespace();
    plane.kubectl(&["create", "serviceaccount", ACCOUNT, "-n", &scene.name]);
    let extension = scene.install(json!({})).await;
    // Roles and bindings are watched while somebody waits for them.
    extension.shows("Progressing", "True", "Retrying", "pre-authorization failed").await;
    scene.grant(&bundles);
    extension.installed("1.0.0").await;
    scene.publish(&bundles, &chain(&["1.0.0", "1.1.0"])).await;
    extension.installed("1.1.0").await;
    extension.delete().await;
    drop(controller.metrics().await);
    plane.kubectl(&["delete", "clustercatalog", &scene.name]);
    controller.signal("TERM");
    controller.ended(LOGGED).await;

    let mut granted = Permissions::default();
    for half in Half::ALL {
        granted.extend(&half.permissions(SYSTEM_NAMESPACE));
    }
    let unseen = paths::yaml("test/tests/control_plane/rights.yaml");
    wait::until("every right is used", LOGGED, || async {
        let used: Vec<Right> = requests(plane).iter().flat_map(needed).collect();
        let is_used = |place: &str, right: &Permission| {
            let mut used = used.iter();
            used.any(|(at, one)| (place.is_empty() || place == at) && right.contains(one))
        };
        let idle = granted.iter().filter(|(place, right)| !is_used(place, right));
        let idle: BTreeSet<_> = idle.map(|(place, right)| text(place, right)).collect();
        let idle: Vec<_> = idle.into_iter().filter(|it| unseen.get(it).is_none()).collect();
        if idle.is_empty() { Ok(()) } else { Err(idle) }
    })
    .await;
    let strange: Vec<_> = requests(plane)
        .into_iter()
        // Other tests here give their controllers rights of their own, or take some away.
        .filter(|request| request.received > started)
        .filter(|request| {
            let refused = request.acted_as.is_none() && matches!(request.code, 401 | 403);
            let needed = needed(request);
            refused || !needed.iter().all(|(place, right)| granted.covers(place, right))
        })
        .collect();
    assert!(strange.is_empty(), "refused, or not in the table: {strange:#?}");
}
