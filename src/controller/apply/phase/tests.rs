use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use olm_api::CollisionProtection;
use olm_core::revision::{Adoption, RevisionOwner};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::cluster::answering::{answering, refusal};

/// An applier of revision `u` on a cluster that has at most this `ConfigMap`, and takes no write.
fn applier(live: Option<Value>) -> Applier {
    applier_of(answering(move |request| {
        assert_eq!(request.method(), Method::GET, "nothing is written");
        match (request.uri().path(), &live) {
            ("/api/v1", _) => (200, kinds()),
            (_, Some(live)) => (200, live.clone()),
            (_, None) => refusal(404),
        }
    }))
}

fn kinds() -> Value {
    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{
        "name": "configmaps", "singularName": "configmap", "namespaced": true,
        "kind": "ConfigMap", "verbs": ["get"]}]})
}

fn applier_of(client: Client) -> Applier {
    let owner = RevisionOwner {
        name: "e-1".to_owned(),
        uid: "u".to_owned(),
        revision: 1,
        owner_name: None,
        archived: Vec::new(),
    };
    Applier {
        claim: Claim {
            owner,
            siblings: Vec::new(),
            strangers: BTreeSet::new(),
            adoption: Adoption::default(),
        },
        generation: 1,
        probes: Vec::new(),
        first: false,
        kinds: Arc::new(Kinds::new(client.clone())),
        applied: Arc::default(),
        defer_optional: false,
        seen: Seen::default(),
        existence: Existence::new(client.clone(), true),
        client,
    }
}

fn phase(protection: CollisionProtection) -> ResolvedPhase {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "n", "name": "c"}, "data": {"a": "b"}});
    let object = Object::from_value(object).unwrap();
    let objects = vec![ResolvedObject { object, protection }];
    ResolvedPhase { name: "deploy".to_owned(), objects }
}

fn live(controller: Option<&str>, deleted: bool) -> Value {
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "namespace": "n", "name": "c", "uid": "c", "resourceVersion": "1"}});
    if let Some(uid) = controller {
        let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "uid": uid,
            "kind": "ClusterObjectSet", "name": "e-1", "controller": true});
        live["metadata"]["ownerReferences"] = json!([owner]);
    }
    if deleted {
        live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        live["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    live
}

// applying.md 10: what somebody changed meanwhile is neither repaired nor taken for missing
#[rstest]
#[case::changed(Some(live(Some("u"), false)), None)]
#[case::missing(None, Some("Object ConfigMap.v1 n/c: not found"))]
#[case::unowned(Some(live(None, false)), Some("Object ConfigMap.v1 n/c: not applied yet"))]
#[case::leaving(
    Some(live(Some("u"), true)),
    Some("Object ConfigMap.v1 n/c: object is being deleted [example.com/hold]")
)]
#[tokio::test]
async fn a_phase_is_observed_and_nothing_is_written(
    #[case] live: Option<Value>,
    #[case] failing: Option<&str>,
) {
    let applier = applier(live);
    let phase = phase(CollisionProtection::None);
    let report = applier.observe_phase(0, &phase).await.unwrap();
    assert_eq!(report.unready.map(|(_, it)| it.why).as_deref(), failing);
    assert!(!report.wrote);
}

// applying.md 3.11: the kind may be served in another version
#[tokio::test]
async fn a_kind_that_is_not_served_is_named_with_its_version() {
    let object = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "n", "name": "c"}});
    let mut phase = phase(CollisionProtection::None);
    phase.objects[0].object = Object::from_value(object).unwrap();
    let error = applier(None).observe_phase(1, &phase).await.unwrap_err();
    let want = "phase 1: kind PodDisruptionBudget.policy/v1beta1 is not served by the cluster";
    assert_eq!(error.to_string(), want);
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_asked_for_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let kinds = Kinds::new(answering(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        refusal(404)
    }));
    let applier =
        Applier { kinds: Arc::new(kinds), defer_optional: true, ..applier(Some(Value::Null)) };
    let monitor = |name: &str| {
        let object = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"namespace": "n", "name": name}});
        let object = Object::from_value(object).unwrap();
        ResolvedObject { object, protection: CollisionProtection::Prevent }
    };
    let objects = ["a", "b", "c"].map(monitor).into();
    let phase = ResolvedPhase { name: "deploy".to_owned(), objects };
    let report = applier.observe_phase(0, &phase).await.unwrap();
    assert_eq!((report.deferred.len(), asked.load(Ordering::Relaxed)), (3, 1));
}

// applying.md 3.6
#[rstest]
#[case::gone(
    "failed to prune fields: failed to convert merged object to last applied version: \
    request to convert CR to an invalid group/version: v1alpha1"
)]
#[case::of_fewer_fields(
    "failed to prune fields: failed add back owned items: failed to convert \
    pruned object at version v1alpha1: .data: field not declared in schema"
)]
#[tokio::test]
async fn an_object_is_applied_that_was_written_in_an_earlier_version(
    #[case] text: &str,
    #[values(false, true)] first: bool,
    #[values(1, 2)] objects: usize,
) {
    let managed = |version: &str| {
        let mut live = live(Some("u"), false);
        live["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update",
            "apiVersion": version, "fieldsV1": {"f:data": {"f:a": {}}}}]);
        live
    };
    let (before, after) = (managed("v1alpha1"), managed("v1"));
    let (kinds, text) = (kinds(), text.to_owned());
    let is_repaired = AtomicBool::new(false);
    let client = answering(move |request| match (request.method(), request.uri().path()) {
        (&Method::GET, "/api/v1") => (200, kinds.clone()),
        (&Method::GET, _) => (200, before.clone()),
        (&Method::PATCH, _) => match request.body().as_array() {
            Some(operations) => {
                assert_eq!(operations[0]["value"], after["metadata"]["managedFields"]);
                is_repaired.store(true, Ordering::Relaxed);
                (200, after.clone())
            }
            None if is_repaired.load(Ordering::Relaxed) => (200, after.clone()),
            None => (500, json!({"status": "Failure", "code": 500, "message": text})),
        },
        // It is there already.
        (&Method::POST, _) if first => refusal(409),
        _ => panic!("{request:?}"),
    });
    let mut applier = applier_of(client);
    applier.first = first;
    let mut phase = phase(CollisionProtection::Prevent);
    phase.objects = vec![phase.objects[0].clone(); objects];
    let report = applier.apply_phase(0, &phase).await.unwrap();
    assert_eq!(report.unready, None);
}

// applying.md 3.6: what both managed would stay when a later version drops it
#[tokio::test]
async fn an_object_that_nobody_controls_is_taken_from_its_managers() {
    let entry = |manager: &str, operation: &str, data: Value| {
        json!({"manager": manager,
        "operation": operation, "apiVersion": "v1", "fieldsV1": {"f:data": data}})
    };
    let theirs = |data| entry("kubectl-client-side-apply", "Update", data);
    let ours = entry(olm_api::keys::manager::OBJECTS, "Apply", json!({"f:a": {}}));
    let managed = |controller, entries| {
        let mut live = live(controller, false);
        live["metadata"]["managedFields"] = entries;
        live
    };
    let before = managed(None, json!([theirs(json!({"f:a": {}, "f:own": {}}))]));
    let tried = managed(Some("u"), json!([ours, before["metadata"]["managedFields"][0]]));
    let taken = managed(None, json!([theirs(json!({"f:own": {}}))]));
    let is_taken = AtomicBool::new(false);
    let kinds = kinds();
    let client = answering(move |request| match request.uri() {
        uri if uri.path() == "/api/v1" => (200, kinds.clone()),
        _ if request.method() == Method::GET => (200, before.clone()),
        uri if uri.query().is_some_and(|it| it.contains("dryRun")) => (200, tried.clone()),
        _ => {
            if let Some(operations) = request.body().as_array() {
                assert_eq!(operations[0]["value"], taken["metadata"]["managedFields"]);
                is_taken.store(true, Ordering::Relaxed);
                return (200, taken.clone());
            }
            assert!(is_taken.load(Ordering::Relaxed), "taken before it is applied");
            (200, tried.clone())
        }
    });
    let applier = applier_of(client);
    let report = applier.apply_phase(0, &phase(CollisionProtection::None)).await.unwrap();
    assert!(report.wrote && report.unready.is_none());
}

#[tokio::test]
async fn an_object_of_somebody_else_is_told_while_a_phase_is_observed() {
    let applier = applier(Some(live(Some("another"), false)));
    let phase = phase(CollisionProtection::Prevent);
    let error = applier.observe_phase(0, &phase).await.unwrap_err();
    assert!(matches!(error, ApplyError::Collisions { .. }), "{error}");
}

// applying.md 3.6: the place of the old object is free when the new one is made
#[rstest]
#[case::full("configmaps=1, used: configmaps=3, limited: configmaps=3", true)]
#[case::too_full("configmaps=1, used: configmaps=4, limited: configmaps=3", false)]
#[case::ports(
    "services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2",
    false
)]
#[case::without_numbers("configmaps=1", false)]
#[tokio::test]
async fn an_object_with_a_fixed_field_is_replaced_under_a_full_quota(
    #[case] requested: &str,
    #[case] want: bool,
) {
    let mut frozen = live(Some("u"), false);
    frozen["immutable"] = true.into();
    frozen["data"] = json!({"a": "old"});
    let refused = |code: u16, message: &str| {
        let message = format!("configmaps \"c\" is {message}");
        (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
    };
    let quota = format!("forbidden: exceeded quota: q, requested: {requested}");
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let client = answering(move |request| {
        let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
        match *request.method() {
            Method::GET if request.uri().path() == "/api/v1" => return (200, kinds()),
            Method::GET => return (200, frozen.clone()),
            Method::PATCH => return refused(422, "invalid: data: field is immutable"),
            Method::POST if is_dry => return refused(403, &quota),
            _ => {}
        }
        count.fetch_add(1, Ordering::Relaxed);
        (200, request.body().clone())
    });
    let applier = applier_of(client);
    let ended = applier.apply_phase(0, &phase(CollisionProtection::Prevent)).await;
    assert_eq!(ended.is_ok_and(|report| report.wrote), want);
    // It is deleted and made again.
    assert_eq!(written.load(Ordering::Relaxed), if want { 2 } else { 0 });
}
