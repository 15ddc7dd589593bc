//! Which identity writes what: only the service account writes bundle objects.

use olm_api::keys::name::CONTROLLER_CONFIG;
use olm_test::prelude::*;
use serde::Deserialize;

/// What the controller writes with its own rights (applying.md 4.3).
const ITS_OWN: [&str; 7] = [
    "clusterextensions",
    "clustercatalogs",
    "clusterobjectsets",
    "clusteroperators",
    "events",
    "leases",
    "olms",
];

/// Nothing of any bundle was written by the controller itself until now, neither for the extension of a
/// scene that has gone nor for others (applying.md f1).
pub(crate) fn every_write_of_a_bundle_object_was_the_accounts(scene: &Scene) {
    let account = format!("system:serviceaccount:{}:{ACCOUNT}", scene.name);
    let writes = audit::writes(&scene.cluster.plane.addresses.audit_log, audit::CONTROLLER);
    let by_controller: Vec<_> =
        writes.iter().filter(|write| write.user == audit::CONTROLLER).collect();

    let as_account = by_controller
        .iter()
        .filter(|write| write.acted_as.as_deref() == Some(&account) && write.code < 300)
        .count();
    assert!(as_account >= 10, "only {as_account} writes as the account");

    let strays: Vec<_> = by_controller
        .iter()
        .filter(|write| write.acted_as.is_none())
        .filter(|write| match write.resource.as_str() {
            "secrets" => write.namespace != SYSTEM_NAMESPACE,
            "configmaps" => {
                (&*write.namespace, &*write.name) != (SYSTEM_NAMESPACE, CONTROLLER_CONFIG)
            }
            resource => !ITS_OWN.contains(&resource),
        })
        .collect();
    assert!(strays.is_empty(), "written as the controller: {strays:#?}");
}

/// The rights in `identity.yaml`, each a verb, a resource and a namespace.
#[derive(Deserialize)]
struct Rights {
    held: Vec<(String, String, String)>,
    #[serde(rename = "not held")]
    not_held: Vec<(String, String, String)>,
    contents: Vec<String>,
}

/// Says whether the controller's service account has a right, which is asked as `kubectl auth can-i`
/// asks it.
pub(crate) fn may(plane: &ControlPlane, verb: &str, resource: &str, namespace: &str) -> bool {
    let (object, subresource) = resource.split_once(" --subresource=").unwrap_or((resource, ""));
    let (kind, name) = object.split_once('/').unwrap_or((object, ""));
    let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
    let everybody = "system:serviceaccounts";
    let groups =
        json!([everybody, format!("{everybody}:{SYSTEM_NAMESPACE}"), "system:authenticated"]);
    let attributes = json!({"namespace": namespace, "verb": verb, "group": group,
        "resource": plural, "subresource": subresource, "name": name});
    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}");
    plane.allows(&user, &groups, &attributes)
}

/// The controller's own rights, as stored in the API server, include no write on anything a bundle
/// contains, and only service accounts can be impersonated.
#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_own_rights_hold_no_write_on_a_bundles_objects() {
    let cluster = cluster::shared().await;
    let plane = cluster.plane;
    // It has what it needs: this is the right service account, and its roles are bound.
    let rights = paths::yaml("test/tests/control_plane/identity.yaml");
    let Rights { held, not_held, contents } = serde_json::from_value(rights).expect("rights");
    for (verb, resource, namespace) in &held {
        assert!(may(plane, verb, resource, namespace), "it may not {verb} {resource}");
    }
    for resource in &contents {
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            assert!(!may(plane, verb, resource, "default"), "it may {verb} {resource}");
        }
    }
    for (verb, resource, namespace) in &not_held {
        assert!(!may(plane, verb, resource, namespace), "it may {verb} {resource}");
    }
}
