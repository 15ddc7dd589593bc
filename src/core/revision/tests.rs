//! Tables and properties of revisions; case numbers are those of applying.md section 12.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::conditions::{Reason, types};
use olm_api::keys::{self, annotation, label};
use olm_api::{
    ClusterObjectSet, ClusterObjectSetStatus, CollisionProtection, MAX_REVISION, ObservedPhase,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{cases, condition, extension, merge, object};
use crate::object::{Object, items};
use crate::render::handover::prepare_for_revision;
use crate::status::extension::paused;
use crate::status::terminal;

const CASES: &str = include_str!("../testdata/revision/cases.yaml");

fn config_map(name: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
}

fn named(api_version: &str, kind: &str, name: &str) -> Object {
    object(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}))
}

fn phase(name: &str, objects: Vec<Object>) -> Phase {
    Phase { name: name.to_owned(), objects }
}

fn escaped() -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cm1", "namespace": "ns1"}, "data": {"expr": "a<b && c>d"}}))
}

/// One kind of every phase, in phase order, and an unlisted one.
const KINDS: [(&str, &str, &str); 17] = [
    ("v1", "Namespace", "namespaces"),
    ("policy/v1", "PodDisruptionBudget", "policies"),
    ("v1", "ServiceAccount", "identity"),
    ("v1", "ConfigMap", "configuration"),
    ("v1", "Secret", "configuration"),
    ("v1", "PersistentVolumeClaim", "storage"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "crds"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "roles"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "bindings"),
    ("v1", "Service", "infrastructure"),
    ("apps/v1", "Deployment", "deploy"),
    ("example.com/v1", "Foo", "deploy"),
    ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "scaling"),
    ("apiregistration.k8s.io/v1", "APIService", "publish"),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "publish"),
    ("route.openshift.io/v1", "Route", "publish"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "admission"),
];

fn one_of_each() -> Vec<Object> {
    KINDS.iter().map(|(version, kind, _)| named(version, kind, "x")).collect()
}

proptest! {
    // applying.md c1
    #[test]
    fn shuffled_objects_give_the_table(objects in Just(one_of_each()).prop_shuffle()) {
        let sorted = phases(objects).unwrap();
        let got: Vec<(String, String)> = sorted
            .iter()
            .flat_map(|phase| phase.objects.iter().map(|o| (o.kind().to_owned(), phase.name.clone())))
            .collect();
        let want: Vec<(String, String)> =
            KINDS.iter().map(|(_, kind, phase)| ((*kind).to_owned(), (*phase).to_owned())).collect();
        prop_assert_eq!(got, want);
    }
}

// applying.md c2
#[test]
fn oversized_phase_is_split() {
    let objects = (0..60).map(|n| named("apps/v1", "Deployment", &format!("d{n:02}"))).collect();
    let phases = phases(objects).unwrap();
    let got: Vec<(&str, usize)> =
        phases.iter().map(|p| (p.name.as_str(), p.objects.len())).collect();
    assert_eq!(got, [("deploy", 50), ("deploy-2", 10)]);
    assert_eq!(phases[1].objects[0].name(), "d50");
}

#[test]
fn too_many_phases_are_refused() {
    let objects = (0..1050).map(|n| config_map(&format!("c{n}"))).collect();
    assert_eq!(phases(objects), Err(RevisionError::TooManyPhases(21)));
}

// applying.md c6
#[test]
fn one_object_twice_is_refused() {
    let twice = vec![config_map("a"), config_map("a")];
    let packed = pack("e-1", &[phase("x", twice.clone())]).unwrap();
    assert_eq!(packed.secrets[0].data.len(), 1);
    let error = phases(twice).unwrap_err().to_string();
    assert_eq!(error, "ConfigMap.v1 /a: duplicate object found in phases: configuration");
    let apart = [phase("a", vec![config_map("a")]), phase("b", vec![config_map("a")])];
    let error = reject_duplicates(&apart).unwrap_err().to_string();
    assert_eq!(error, "ConfigMap.v1 /a: duplicate object found in phases: a, b");
}

// applying.md c3, the vectors of 3.5; api.md 3.4
#[test]
fn digest_key_and_name_are_upstreams() {
    for (name, content, digest, key, secret) in
        cases::<(&str, Value, &str, &str, &str)>(CASES, "digest_key_and_name_are_upstreams")
    {
        let content = object(content);
        let phase = phase(name, vec![content.clone()]);
        assert_eq!(digest_packed(&phase), digest);
        let packed = pack("my-ext-1", &[phase]).unwrap();
        let stored = ContentRef { secret: secret.to_owned(), key: key.to_owned() };
        assert_eq!(packed.phases, [(name.to_owned(), vec![stored])]);
        assert_eq!(packed.secrets[0].name, secret);
        assert_eq!(unpack("s/x", key, &packed.secrets[0].data[key]).unwrap(), content);
    }
}

// applying.md c3
#[test]
fn two_objects_share_a_secret() {
    let phases =
        [phase("deploy", vec![config_map("cm1")]), phase("configuration", vec![escaped()])];
    let packed = pack("my-ext-1", &phases).unwrap();
    assert_eq!(packed.secrets.len(), 1);
    assert_eq!(packed.secrets[0].name, "my-ext-1-b32d16a6139fb09c");
}

fn noise(bytes: usize) -> String {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from(state >> 24).unwrap() % 90)
    };
    (0..bytes).map(next).collect()
}

fn with_data(name: &str, text: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"k": text}}))
}

// applying.md c5
#[test]
fn large_object_is_compressed_or_refused() {
    let phases = [phase("a", vec![with_data("zeros", &"0".repeat(2_000_000))])];
    let packed = pack("e-1", &phases).unwrap();
    let (key, stored) = packed.secrets[0].data.first_key_value().unwrap();
    assert_eq!(stored[..2], [0x1f, 0x8b]);
    assert_eq!(unpack("s/x", key, stored).unwrap(), phases[0].objects[0]);

    let error =
        pack("e-1", &[phase("a", vec![with_data("noise", &noise(2_000_000))])]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("object in phase 0 index 0 exceeds maximum Secret data size ("),
        "{text}"
    );
    assert!(text.ends_with(" bytes > 921600 bytes) even after compression"), "{text}");
}

#[test]
fn full_secret_is_followed_by_another() {
    let text = noise(500_000);
    let objects = vec![with_data("a", &text), with_data("b", &text)];
    let packed = pack("e-1", &[phase("a", objects)]).unwrap();
    assert_eq!(packed.secrets.len(), 2);
    assert_ne!(packed.phases[0].1[0].secret, packed.phases[0].1[1].secret);
}

#[test]
fn oversized_content_is_refused_when_read() {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![b' '; MAX_OBJECT_BYTES + 1]).unwrap();
    let error = unpack("ns/s", "k", &encoder.finish().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"decompressed data for key "k" in Secret ns/s exceeds maximum size (10485760 bytes)"#
    );
}

proptest! {
    #[test]
    fn any_bytes_unpack_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = unpack("ns/s", "k", &bytes);
        let gzip: Vec<u8> = [0x1f, 0x8b].into_iter().chain(bytes).collect();
        let _ = unpack("ns/s", "k", &gzip);
    }
}

// Adoption.

fn live(controller: Option<&str>, revision: Option<&str>) -> Object {
    let mut value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    if let Some(uid) = controller {
        value["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1",
            "kind": "ClusterObjectSet", "name": "n", "uid": uid, "controller": true}]);
    }
    if let Some(revision) = revision {
        value["metadata"]["annotations"] = json!({annotation::REVISION: revision});
    }
    object(value)
}

/// An object whose controller is gone: it names `uid`, and carries that revision's number.
fn left_behind(uid: &str) -> Object {
    let mut left = live(Some(uid), Some("3"));
    left.0["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    left
}

fn retained_by(extension: &str) -> Object {
    let kept = super::retained(&live(Some("one"), Some("1")), Some(extension));
    let mut left = live(None, None);
    *left.metadata_mut() = kept;
    left
}

/// Controlled by a revision of an extension that was made after the siblings were read.
fn of_later_revision(extension: &str, revision: &str) -> Object {
    let mut live = live(Some("four"), Some(revision));
    live.0["metadata"]["labels"] = json!({label::OWNER_NAME: extension});
    live
}

/// Controlled by a revision of an extension that had the same name and is gone.
fn of_predecessor() -> Object {
    let mut live = of_later_revision("e", "3");
    live.0["metadata"]["ownerReferences"][0]["uid"] = json!("stranger");
    live
}

/// A live object in words: what it is, of whom, and the number that it carries.
fn said(words: &[&str]) -> Object {
    match words {
        ["controlled", uid, revision] => live(Some(uid), Some(revision)),
        ["controlled", uid] => live(Some(uid), None),
        ["uncontrolled", revision] => live(None, Some(revision)),
        ["uncontrolled"] => live(None, None),
        ["of a later revision", extension, revision] => of_later_revision(extension, revision),
        ["of a predecessor"] => of_predecessor(),
        ["left behind", uid] => left_behind(uid),
        ["retained by", extension] => retained_by(extension),
        other => panic!("{other:?}"),
    }
}

fn claim(adoption: Adoption, siblings: Vec<Sibling>) -> Claim {
    Claim { owner: owner(), siblings, strangers: ["stranger".to_owned()].into(), adoption }
}

fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Decision::Create => "create",
        Decision::Update => "update",
        Decision::Adopt => "adopt",
        Decision::Superseded => "progressed",
        Decision::Collide(_) => "collide",
    }
}

// applying.md 3.6, d1, d2, d4, d5: the table row by row for Prevent, IfNoController, None
#[test]
fn existing_object() {
    let siblings = [("one", 1), ("three", 3), ("extension", 0)]
        .map(|(uid, revision)| Sibling { uid: uid.to_owned(), revision });
    let claim = claim(Adoption::default(), siblings.into());
    let protections = [
        CollisionProtection::Prevent,
        CollisionProtection::IfNoController,
        CollisionProtection::None,
    ];
    for (live, want) in cases::<(Vec<&str>, [&str; 3])>(CASES, "existing_object") {
        let live = said(&live);
        let got = protections.map(|protection| outcome(&claim.decide(Some(&live), protection)));
        assert_eq!(got, want);
    }
}

// applying.md 2.4: who manages an object without a controller
#[test]
fn who_manages_an_object_shows() {
    for (metadata, want) in cases::<(Value, Option<&str>)>(CASES, "who_manages_an_object_shows") {
        let live = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        assert_eq!(crate::manager::manager_of(&live).as_deref(), want);
    }
}

// ours: what a user may have taken over
#[test]
fn adoption() {
    for (annotation, live, want) in cases::<(&str, Vec<&str>, &str)>(CASES, "adoption") {
        let annotations = [(keys::policy::ADOPT.to_owned(), annotation.to_owned())];
        let claim = claim(Adoption::of(&annotations.into()), Vec::new());
        let got = claim.decide(Some(&said(&live)), CollisionProtection::Prevent);
        assert_eq!(outcome(&got), want);
    }
}

#[test]
fn absent_object_is_created() {
    let claim = claim(Adoption::default(), Vec::new());
    assert_eq!(claim.decide(None, CollisionProtection::Prevent), Decision::Create);
}

// applying.md d3: the annotation is not proof of ownership
#[test]
fn removal_needs_the_controller_reference() {
    let removal = |live: &Object| super::removal(live, "me", &BTreeSet::new());
    assert_eq!(removal(&live(Some("me"), Some("2"))), Removal::Delete);
    assert_eq!(removal(&live(Some("other"), Some("2"))), Removal::Gone);
    assert_eq!(removal(&left_behind("me")), Removal::Delete);
    let owners = ["me".to_owned(), "you".to_owned()].into();
    let belongs = ["me", "other"].map(|uid| belongs_to(&left_behind(uid), &owners));
    assert_eq!(belongs, [true, false]);
}

#[test]
fn handed_over_object_is_only_released() {
    let mut handed = live(Some("two"), Some("2"));
    handed.0["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(json!({"uid": "me", "controller": false}));
    assert_eq!(super::removal(&handed, "me", &BTreeSet::new()), Removal::Release);
    let left = released(&handed, "me");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["uid"], "two");
}

// applying.md 3.9
#[test]
fn what_a_revision_in_use_owns_as_well_goes_back_to_it() {
    let mut shared = live(Some("me"), Some("2"));
    let references = shared.0["metadata"]["ownerReferences"].as_array_mut().unwrap();
    references.push(json!({"uid": "one", "controller": false}));
    let removal = |heir: &str| super::removal(&shared, "me", &[heir.to_owned()].into());
    assert_eq!([removal("one"), removal("two")], [Removal::Release, Removal::Delete]);
}

// applying.md 7.3: what Helm installed names its extension as well
#[test]
fn an_object_that_stays_does_not_go_with_its_extension() {
    let mut helmed = live(Some("me"), Some("2"));
    let others = [("ClusterExtension", "extension"), ("ConfigMap", "other")]
        .map(|(kind, uid)| json!({"kind": kind, "uid": uid, "controller": false}));
    let references = helmed.0["metadata"]["ownerReferences"].as_array_mut().unwrap();
    references.extend(others);
    let left = super::retained(&helmed, Some("e"));
    let left: Vec<_> = items(&left["ownerReferences"]).map(|owner| &owner["uid"]).collect();
    assert_eq!(left, ["other"]);
}

#[test]
fn terminating_object_is_waited_for() {
    let mut going = live(Some("me"), None);
    going.metadata_mut().insert("deletionTimestamp".into(), json!("2026-01-01T00:00:00Z"));
    assert_eq!(super::removal(&going, "me", &BTreeSet::new()), Removal::Wait);
}

fn owner() -> RevisionOwner {
    RevisionOwner {
        name: "e-2".into(),
        uid: "me".into(),
        revision: 2,
        owner_name: Some("e".into()),
        archived: vec!["gone".into()],
    }
}

// ours: found by killing and deleting at random
#[test]
fn what_an_archived_revision_left_on_an_object_goes() {
    let content =
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}));
    let reference = |uid: &str| json!({"uid": uid, "controller": false});
    let references = |uids: &[&str]| {
        let owners: Vec<_> = uids.iter().copied().map(reference).collect();
        let live = object(json!({"metadata": {"name": "x", "ownerReferences": owners}}));
        let desired = desired_object(&content, &owner(), Some(&live)).into_value();
        let found = desired["metadata"]["ownerReferences"].as_array().unwrap().clone();
        let uid = |owner: &Value| owner["uid"].as_str().unwrap().to_owned();
        found.iter().map(uid).collect::<Vec<_>>()
    };
    assert_eq!(references(&["gone", "other"]), ["other", "me"]);
    assert_eq!(references(&["gone"]), ["me"]);
}

// applying.md 3.6
#[test]
fn adopting_keeps_other_owners_without_controller() {
    let content = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"name": "x", "labels": {"app.kubernetes.io/managed-by": "helm"}}}));
    let mut old = live(Some("one"), Some("1"));
    old.metadata_mut().insert("resourceVersion".into(), json!("7"));
    let got = desired_object(&content, &owner(), Some(&old));
    let want = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "x",
        "resourceVersion": "7",
        "labels": {"app.kubernetes.io/managed-by": "olm.operatorframework.io",
            "olm.operatorframework.io/owner-name": "e"},
        "annotations": {"olm.operatorframework.io/revision": "2"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ClusterObjectSet", "name": "n", "uid": "one", "controller": false},
            {"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
             "name": "e-2", "uid": "me", "controller": true, "blockOwnerDeletion": false}]}});
    assert_eq!(got.into_value(), want);
}

#[test]
fn aggregating_role_is_applied_without_rules() {
    let role = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}));
    assert!(!desired_object(&role, &owner(), None).0.contains_key("rules"));
    let plain = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r"}, "rules": []}));
    assert!(desired_object(&plain, &owner(), None).0.contains_key("rules"));
}

// applying.md 3.6: what only keeps the place of an injected CA prevents that the CRD is served
#[test]
fn a_ca_without_a_certificate_is_not_applied() {
    for (given, want) in
        cases::<(&str, Option<&str>)>(CASES, "a_ca_without_a_certificate_is_not_applied")
    {
        let crd = object(json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "as.example.com"},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"caBundle": given, "service": {"name": "s"}}}}}}));
        let applied = desired_object(&crd, &owner(), None);
        let client = applied.pointer("/spec/conversion/webhook/clientConfig").unwrap();
        assert_eq!(client.get("caBundle").and_then(Value::as_str), want);
        assert_eq!(client["service"]["name"], "s");
    }
}

// applying.md 3.6: what a later version drops from it goes from `data`
#[test]
fn string_data_is_applied_as_data() {
    for (given, want) in cases::<(Value, Value)>(CASES, "string_data_is_applied_as_data") {
        let of = |api_version: &str, content: &Value| {
            let mut secret =
                json!({"apiVersion": api_version, "kind": "Secret", "metadata": {"name": "s"}});
            merge(&mut secret, content);
            object(secret)
        };
        let applied = |secret: &Object| {
            let mut applied = desired_object(secret, &owner(), None);
            applied.0.retain(|key, _| key.to_lowercase().contains("data") && key != "metadata");
            applied.into_value()
        };
        assert_eq!(applied(&of("v1", &given)), want);
        assert_eq!(applied(&of("example.com/v1", &given)), given);
        let secret = of("v1", &given);
        assert!(is_applied(&secret, &owner(), &desired_object(&secret, &owner(), None)));
    }
}

// applying.md 3.6: a list that only one manager can have
#[test]
fn pull_secrets_that_others_have_added_stay() {
    for (writer, live, want) in cases::<(Option<&str>, Vec<&str>, Vec<&str>)>(
        CASES,
        "pull_secrets_that_others_have_added_stay",
    ) {
        let account = |names: &[&str]| {
            let secrets: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            object(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "b"},
                "imagePullSecrets": secrets}))
        };
        let mut live = account(&live);
        let written = writer.map(|writer| {
            json!([{"manager": writer, "operation": "Update",
                "fieldsV1": {"f:imagePullSecrets": {}}}])
        });
        live.metadata_mut().insert("managedFields".to_owned(), written.into());
        let applied = desired_object(&account(&["a"]), &owner(), Some(&live));
        assert_eq!(applied.0["imagePullSecrets"], account(&want).0["imagePullSecrets"]);
    }
}

#[test]
fn status_changes_leave_the_fingerprint_where_generations_count() {
    let of = |kind: &str, generation: i64, version: &str| {
        let metadata = json!({"uid": "u", "generation": generation, "resourceVersion": version});
        let live =
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": kind, "metadata": metadata});
        fingerprint(&object(json!({})), &object(live))
    };
    let with = |generation, version| of("Other", generation, version);
    assert_eq!(with(1, "5"), with(1, "6"));
    assert_ne!(with(1, "5"), with(2, "5"));
    assert_ne!(with(0, "5"), with(0, "6"));
    assert_ne!(of("PriorityClass", 1, "5"), of("PriorityClass", 1, "6"));
}

// ours: what others add is theirs, what we wrote is looked after
#[test]
fn metadata_of_others_leaves_the_fingerprint() {
    for (labels, annotations, same) in
        cases::<(Value, Value, bool)>(CASES, "metadata_of_others_leaves_the_fingerprint")
    {
        let metadata = |labels: Value, annotations: Value| {
            object(json!({"metadata": {"uid": "u", "generation": 1, "labels": labels,
            "annotations": annotations}}))
        };
        let content = metadata(json!({"a": "1"}), json!({"b": "1"}));
        let live = metadata(labels, annotations);
        assert_eq!(fingerprint(&content, &content) == fingerprint(&content, &live), same);
    }
}

// ours: a controller that comes back asks about nothing that is as it was left
#[test]
fn what_is_as_it_was_left_is_known_to_be_applied() {
    for (metadata, spec, applied) in
        cases::<(Value, Value, bool)>(CASES, "what_is_as_it_was_left_is_known_to_be_applied")
    {
        let content = object(json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n",
            "labels": {"a": "1"}}, "spec": {"paused": false, "args": ["a"]}}));
        let mut live = desired_object(&content, &owner(), None);
        for (key, more) in metadata.as_object().unwrap() {
            let found = live.0["metadata"][key].as_object_mut().unwrap();
            found.extend(more.as_object().unwrap().clone());
            found.retain(|_, value| !value.is_null());
        }
        live.metadata_mut().insert("resourceVersion".to_owned(), "5".into());
        live.0["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        assert_eq!(is_applied(&content, &owner(), &live), applied);
        let archived = RevisionOwner { archived: vec!["old".to_owned()], ..owner() };
        live.metadata_mut().insert("ownerReferences".to_owned(), json!([{"uid": "old"}]));
        assert!(!is_applied(&content, &archived, &live));
    }
}

// Removal order.

fn order(groups: &[Vec<&Object>]) -> Vec<Vec<String>> {
    groups.iter().map(|group| group.iter().map(|o| o.kind().to_owned()).collect()).collect()
}

// applying.md 7.2 step 3
#[test]
fn crds_go_before_the_operator_and_after_their_instances() {
    let mut objects = one_of_each();
    let crd = objects.iter_mut().find(|o| o.kind() == "CustomResourceDefinition").unwrap();
    crd.0.insert("spec".into(), json!({"group": "example.com", "names": {"kind": "Foo"}}));
    let phases = phases(objects).unwrap();
    let got = order(&removal_groups(&phases)).concat();
    assert_eq!(
        got.join(" "),
        "Foo MutatingWebhookConfiguration Route ServiceMonitor APIService VerticalPodAutoscaler \
         CustomResourceDefinition Deployment Service RoleBinding ClusterRole PersistentVolumeClaim \
         Secret ConfigMap ServiceAccount PodDisruptionBudget Namespace"
    );
}

#[test]
fn phases_of_other_names_go_in_reverse() {
    let phases = [
        phase("first", vec![config_map("a")]),
        phase("second", vec![named("v1", "Secret", "b"), named("v1", "Service", "c")]),
    ];
    assert_eq!(order(&removal_groups(&phases)), [vec!["Service", "Secret"], vec!["ConfigMap"]]);
    assert_eq!(order(&archive_groups(&phases)), order(&removal_groups(&phases)));
}

// Probes.

fn deployment(status: &Value) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "op", "generation": 2}, "status": status}))
}

/// Its name and its text.
fn readiness(found: &Readiness) -> Value {
    match found {
        Readiness::Ready => json!(["Ready"]),
        Readiness::NotReady(text) => json!(["NotReady", text]),
        Readiness::Unknown(text) => json!(["Unknown", text]),
    }
}

// applying.md e1, e3, e4, e6
#[test]
fn deployment_probe() {
    for (status, want) in cases::<(Value, Value)>(CASES, "deployment_probe") {
        assert_eq!(readiness(&evaluate(&deployment(&status), &built_in())), want);
    }
}

// applying.md e2, 3.8's examples
#[test]
fn probe_texts_name_what_is_wrong() {
    let claim = object(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ns1"}, "status": {"phase": "Pending"}}));
    let want = r#"value at key "status.phase" != "Bound"; expected: "Bound" got: "Pending""#;
    assert_eq!(evaluate(&claim, &built_in()), Readiness::NotReady(want.into()));
    let crd = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "foos.example.com");
    let want = Readiness::Unknown("missing .status.conditions".into());
    assert_eq!(evaluate(&crd, &built_in()), want);
    let mut api = named("apiregistration.k8s.io/v1", "APIService", "v1.example.com");
    let available = |status| json!({"conditions": [{"type": "Available", "status": status}]});
    api.0.insert("status".into(), available("False"));
    let want = r#".status.condition["Available"] is False"#;
    assert_eq!(evaluate(&api, &built_in()), Readiness::NotReady(want.into()));
    api.0.insert("status".into(), available("True"));
    assert_eq!(evaluate(&api, &built_in()), Readiness::Ready);
    assert_eq!(
        crd.identity().text(),
        "CustomResourceDefinition.apiextensions.k8s.io/v1 /foos.example.com"
    );
    assert_eq!(claim.identity().text(), "PersistentVolumeClaim.v1 ns1/data");
}

// applying.md 3.6
#[test]
fn content_has_no_metadata_of_the_api_server() {
    for (metadata, want) in
        cases::<(Value, Vec<&str>)>(CASES, "content_has_no_metadata_of_the_api_server")
    {
        let object = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        assert_eq!(forbidden_metadata(&object), want);
    }
}

// applying.md e3
#[test]
fn stateful_set_needs_no_condition() {
    for (status, ready) in cases::<(Value, bool)>(CASES, "stateful_set_needs_no_condition") {
        let set = object(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "status": status}));
        assert_eq!(evaluate(&set, &built_in()) == Readiness::Ready, ready);
    }
}

fn value_probe(path: &str, value: &str) -> Vec<olm_api::ProgressionProbe> {
    let probe = json!([{"selector": {"type": "Label", "label": {"matchLabels": {"a": "b"}}},
        "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}}]}]);
    serde_json::from_value(probe).unwrap()
}

// applying.md e5
#[test]
fn field_value_probe() {
    for (path, value, want) in cases::<(&str, &str, Value)>(CASES, "field_value_probe") {
        let labelled = object(json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"n": 3, "b": true, "s": "x"}}));
        assert_eq!(readiness(&evaluate(&labelled, &value_probe(path, value))), want);
        let mut other = object(json!({"metadata": {"labels": {"a": "c"}}}));
        assert_eq!(evaluate(&other, &value_probe(path, value)), Readiness::Ready);
        // One probe of anything is enough for it.
        other.0.insert("status".into(), json!({"observedGeneration": 1}));
        assert_eq!(
            evaluate(&other, &value_probe(path, value)),
            Readiness::Unknown(".status outdated".into())
        );
        assert_eq!(evaluate(&other, &[]), Readiness::Ready);
    }
}

// applying.md 3.7
#[test]
fn a_probe_whose_selector_is_invalid_is_an_error() {
    let wrong = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        {"key": "k", "operator": "Exists"}, {"key": "app", "operator": "in", "values": ["x", "y"]}]});
    let text = r#"invalid label selector in progressionProbe ({map[a:b] [{k Exists []} {app in [x y]}]}): "in" is not a valid label selector operator"#;
    for (label, want) in [(json!({"matchLabels": {"a": "b"}}), ""), (wrong, text)] {
        let mut probes = value_probe("spec.n", "3");
        probes[0].selector.label = Some(serde_json::from_value(label).unwrap());
        let found = super::check_probes(&probes).err().map(|error| error.to_string());
        assert_eq!(found.unwrap_or_default(), want);
    }
}

// Revisions.

fn revision(number: i64, archived: bool, succeeded: bool) -> ClusterObjectSet {
    let state = if archived { "Archived" } else { "Active" };
    let succeeded = succeeded.then(|| condition(types::SUCCEEDED, "True", "Succeeded", ""));
    let status = json!({"conditions": Vec::from_iter(succeeded)});
    crate::fixture::revision(number, &json!({"spec": {"lifecycleState": state}, "status": status}))
}

fn numbers(sets: &[&ClusterObjectSet]) -> Vec<i64> {
    sets.iter().map(|set| set.spec.revision).collect()
}

// applying.md c11
#[test]
fn archived_revisions_beyond_five_go() {
    let all: Vec<_> = (1..=7).map(|number| revision(number, number < 7, true)).collect();
    let made = revision(8, false, false);
    assert_eq!(numbers(&outdated(&all, &made)), [1, 2]);
    assert_eq!(next_number(&all), Ok(8));
    let active: Vec<_> = (1..=7).map(|number| revision(number, false, true)).collect();
    assert!(outdated(&active, &made).is_empty());
}

#[test]
fn the_revision_that_content_comes_from_stays() {
    let all: Vec<_> = (1..=7).map(|number| revision(number, number < 7, true)).collect();
    let mut made = revision(8, false, false);
    let content_of = (annotation::CONTENT_OF.to_owned(), "1".to_owned());
    made.metadata.annotations = Some([content_of].into());
    assert_eq!(numbers(&outdated(&all, &made)), [2]);
}

#[test]
fn no_number_follows_the_greatest() {
    assert_eq!(next_number(&[]), Ok(1));
    for number in [MAX_REVISION, i64::MAX] {
        let error = next_number(&[revision(number, false, false)]).unwrap_err();
        assert_eq!(error, RevisionError::NoNumber(number));
    }
    assert_eq!(number_after(MAX_REVISION - 1), Ok(MAX_REVISION));
}

#[test]
fn numbers_that_others_have_are_told() {
    let told = |before: &[i64], number: i64| {
        let before: Vec<_> = before.iter().map(|one| revision(*one, false, true)).collect();
        let packed = Packed { phases: Vec::new(), secrets: Vec::new() };
        let made = build(&desired("1.0.0"), &format!("e-{number}"), number, &packed, "system");
        passed_over(&before, &made)
    };
    assert_eq!(told(&[], 1), None);
    assert_eq!(told(&[3], 4), None);
    let of_this = "of this extension, so";
    assert_eq!(
        told(&[1], 3),
        Some(format!("ClusterObjectSet e-2 is not a revision {of_this} 3 is the next free number"))
    );
    assert_eq!(
        told(&[1], 5),
        Some(format!(
            "ClusterObjectSets e-2 to e-4 are not revisions {of_this} 5 is the next free number"
        ))
    );
}

#[test]
fn last_succeeded_revision_is_installed() {
    let all = [
        revision(1, true, true),
        revision(2, false, true),
        revision(3, false, true),
        revision(4, false, false),
        revision(5, false, false),
    ];
    let states = states(&all);
    assert_eq!(states.installed.unwrap().spec.revision, 3);
    assert_eq!(numbers(&states.rolling), [4, 5]);
}

fn desired(version: &str) -> Desired {
    let prepared = prepare_for_revision(vec![config_map("cfg")], "e", "test", version);
    Desired {
        extension: Extension { name: "e".into(), uid: "ce".into() },
        phases: phases(prepared).unwrap(),
        annotations: BTreeMap::from([(annotation::BUNDLE_VERSION.into(), version.into())]),
        probes: built_in(),
        deadline_minutes: None,
        collision_protection: CollisionProtection::Prevent,
        migrated_from: None,
    }
}

// applying.md c12
#[test]
fn equal_content_of_another_version_is_an_upgrade() {
    let old = desired("1.0.0");
    let packed = pack("e-1", &old.phases).unwrap();
    let set = build(&old, "e-1", 1, &packed, "system");
    let digests: Vec<_> =
        old.phases.iter().map(|phase| (phase.name.clone(), digest_packed(phase))).collect();
    assert_eq!(compare(&old, None, &[]), Change::Install);
    assert_eq!(compare(&old, Some(&set), &digests), Change::Unchanged);
    assert!(!needs_patch(&old, &set));
    let longer = Desired { deadline_minutes: Some(20), ..old.clone() };
    assert_eq!(compare(&longer, Some(&set), &digests), Change::Unchanged);
    assert!(needs_patch(&longer, &set));
    assert_eq!(compare(&desired("1.0.4"), Some(&set), &digests), Change::Upgrade);
}

// applying.md 3.5
#[test]
fn the_order_of_observed_phases_does_not_count() {
    let mut wanted = desired("1.0.0");
    wanted.phases.push(Phase { name: "last".into(), ..wanted.phases[0].clone() });
    let set = build(&wanted, "e-1", 1, &pack("e-1", &wanted.phases).unwrap(), "system");
    let mut digests: Vec<_> =
        wanted.phases.iter().map(|phase| (phase.name.clone(), digest_packed(phase))).collect();
    digests.reverse();
    assert_eq!(compare(&wanted, Some(&set), &digests), Change::Unchanged);
    digests[0].1 = digests[1].1.clone();
    assert_eq!(compare(&wanted, Some(&set), &digests), Change::Upgrade);
}

#[test]
fn long_names_are_refused() {
    assert_eq!(revision_name("e", 12).unwrap(), "e-12");
    let error = revision_name(&"e".repeat(62), 1).unwrap_err();
    assert!(error.to_string().ends_with("must be no more than 63 characters"));
}

// applying.md c9
#[test]
fn changed_content_is_named_with_both_digests() {
    let phase =
        |name: &str, digest: &str| ObservedPhase { name: name.into(), digest: digest.into() };
    let old = [phase("a", "sha256:1"), phase("b", "sha256:2")];
    assert_eq!(changed(&old, &old), None);
    let reordered = [old[1].clone(), old[0].clone()];
    assert_eq!(changed(&old, &reordered), None);
    let renamed = changed(&old, &[phase("b", "sha256:2"), phase("c", "sha256:1")]).unwrap();
    assert!(
        renamed.contains("1 phase(s) has changed: phase \"c\" (expected digest sha256:1"),
        "{renamed}"
    );
    assert_eq!(
        changed(&old, &[phase("a", "sha256:1"), phase("b", "sha256:3")]).unwrap(),
        "resolved content of 1 phase(s) has changed: phase \"b\" (expected digest sha256:2, got \
         sha256:3); a referenced object source may have been deleted and recreated with different \
         content"
    );
    assert_eq!(
        changed(&old, &old[..1]).unwrap(),
        "number of phases has changed (expected 2 phases, got 1)"
    );
}

// Conditions.

fn texts(statements: &[crate::status::Statement]) -> Vec<String> {
    statements
        .iter()
        .map(|c| format!("{} {} {} {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

fn rolling_with_deadline() -> ClusterObjectSet {
    let mut set = revision(1, false, false);
    set.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    set.metadata.annotations =
        Some(BTreeMap::from([(annotation::BUNDLE_VERSION.into(), "1.0.2".into())]));
    set.spec.progress_deadline_minutes = Some(10);
    reported(&mut set, &crate::status::object_set::rolling_out("1.0.2"), 0);
    set
}

/// How a reconcile ended, in words.
fn ended(words: &[&str]) -> Outcome {
    match words {
        ["complete"] => Outcome::Complete,
        ["rolling out"] => Outcome::RollingOut(None),
        ["rolling out", text] => Outcome::RollingOut(Some((*text).to_owned())),
        ["failed", text] => Outcome::Failed((*text).to_owned()),
        ["blocked", text] => Outcome::Blocked((*text).to_owned()),
        ["invalid", text] => Outcome::Invalid((*text).to_owned()),
        ["archived"] => Outcome::Archived,
        ["archiving"] => Outcome::Archiving,
        other => panic!("{other:?}"),
    }
}

/// Has this said of a revision at this second.
fn reported(set: &mut ClusterObjectSet, statement: &crate::status::Statement, second: i64) {
    let conditions = &mut set.status.as_mut().unwrap().conditions;
    statement.clone().put(conditions, None, Timestamp::from_second(second).unwrap());
}

fn progressing(set: &ClusterObjectSet, [second, acting_since]: [i64; 2]) -> String {
    let [now, since] = [second, acting_since].map(|it| Timestamp::from_second(it).unwrap());
    statements(set, &Outcome::RollingOut(None), now, since).remove(0).reason.as_str().to_owned()
}

// applying.md 3.8: neither another clock nor a restored backup ends the time of a rollout at once
#[test]
fn the_time_of_a_roll_out_begins_with_the_first_report() {
    let mut set = rolling_with_deadline();
    set.status = Some(ClusterObjectSetStatus::default());
    assert_eq!(progressing(&set, [100_000, 0]), "RollingOut");
    reported(&mut set, &crate::status::object_set::rolling_out("1.0.2"), 600);
    assert_eq!(progressing(&set, [1199, 0]), "RollingOut");
    assert_eq!(progressing(&set, [1200, 0]), "ProgressDeadlineExceeded");
}

#[test]
fn a_process_that_has_just_begun_calls_only_a_rollout_late_that_it_began() {
    let mut set = rolling_with_deadline();
    assert_eq!(progressing(&set, [4000, 3401]), "RollingOut");
    assert_eq!(progressing(&set, [4001, 3401]), "ProgressDeadlineExceeded");
    // install.feature, revision.feature: in the first minutes of a process
    let mut begun = set.clone();
    begun.spec.progress_deadline_minutes = Some(1);
    begun.status = Some(ClusterObjectSetStatus::default());
    reported(&mut begun, &crate::status::object_set::rolling_out("1.0.2"), 3402);
    assert_eq!(progressing(&begun, [3461, 3402]), "RollingOut");
    assert_eq!(progressing(&begun, [3462, 3402]), "ProgressDeadlineExceeded");
    assert_eq!(progressing(&begun, [3462, 3403]), "RollingOut");
    let late = crate::status::object_set::deadline_exceeded(10, "m");
    reported(&mut set, &late, 4001);
    // What was said stays said.
    assert_eq!(progressing(&set, [4002, 4001]), "ProgressDeadlineExceeded");
    let second = |second| Timestamp::from_second(second).unwrap();
    assert!(is_late(&set, second(4002)));
    set.spec.progress_deadline_minutes = Some(720);
    assert!(!is_late(&set, second(4002)), "it has more time now");
}

// applying.md 3.8, e7, e8
#[test]
fn conditions_of_a_pass() {
    for (outcome, second, want) in
        cases::<(Vec<&str>, i64, Vec<&str>)>(CASES, "conditions_of_a_pass")
    {
        let (now, since) = (Timestamp::from_second(second).unwrap(), Timestamp::UNIX_EPOCH);
        let found = statements(&rolling_with_deadline(), &ended(&outcome), now, since);
        assert_eq!(texts(&found), want);
    }
}

// applying.md 3.8: a paused revision reports only the state of its objects
#[test]
fn a_paused_revision_reports_its_objects_and_nothing_else() {
    for (outcome, want) in
        cases::<(Vec<&str>, &str)>(CASES, "a_paused_revision_reports_its_objects_and_nothing_else")
    {
        let mut set = rolling_with_deadline();
        reported(&mut set, &crate::status::object_set::probes_succeeded(), 0);
        let (now, since) = (Timestamp::from_second(700).unwrap(), Timestamp::UNIX_EPOCH);
        let of = |outcome: &Outcome| texts(&statements(&set, outcome, now, since));
        let paused = "Paused True Paused nothing is applied until annotation \
                      policy.olm.operatorframework.io/paused is removed";
        let outcome = Outcome::Paused(Box::new(ended(&outcome)));
        assert_eq!(of(&outcome), [want, paused]);
        let held = Outcome::Staying(Box::new(outcome), "w".into());
        assert_eq!(of(&held), [want, "Progressing True Retrying w", paused]);
    }
}

// applying.md 3.8
#[test]
fn the_time_of_a_rollout_begins_anew_when_a_pause_ends() {
    let mut set = rolling_with_deadline();
    let second = |second| Timestamp::from_second(second).unwrap();
    let blocked = terminal(Reason::Blocked, "m");
    let mut waiting = set.clone();
    for set in [&mut set, &mut waiting] {
        reported(set, &paused(), 300);
    }
    reported(&mut waiting, &blocked, 300);
    assert_eq!(deadline(&set), None);
    // The first reconcile after the pause.
    assert_eq!(progressing(&set, [5000, 0]), "RollingOut");
    assert!(!is_late(&waiting, second(5000)));
    let resumed = statements(&set, &Outcome::RollingOut(None), second(5000), second(0));
    for set in [&mut set, &mut waiting] {
        for statement in resumed.iter().filter(|it| it.type_ == "Paused") {
            reported(set, statement, 5000);
        }
    }
    assert_eq!(progressing(&set, [5599, 0]), "RollingOut");
    assert_eq!(progressing(&set, [5600, 0]), "ProgressDeadlineExceeded");
    assert!(!is_late(&waiting, second(5599)) && is_late(&waiting, second(5600)));
    // That it was late before the pause stays said.
    reported(&mut set, &crate::status::object_set::deadline_exceeded(10, "m"), 5600);
    reported(&mut set, &paused(), 6000);
    assert_eq!(progressing(&set, [6001, 0]), "ProgressDeadlineExceeded");
}

#[test]
fn failure_makes_known_availability_unknown() {
    let mut set = rolling_with_deadline();
    let now = Timestamp::UNIX_EPOCH;
    let conditions = &mut set.status.as_mut().unwrap().conditions;
    crate::status::object_set::probes_succeeded().put(conditions, None, now);
    let got = texts(&statements(&set, &Outcome::Failed("e".into()), now, now));
    assert_eq!(got[1], "Available Unknown Reconciling e");
}

// applying.md 4.5; api.md 5.2
#[test]
fn account_is_recorded_then_of_the_extension_then_default() {
    let account_of = |name: &str| Account { namespace: "ns".into(), name: name.into() };
    let rule = |default: Option<&str>, ignore_named| AccountRule {
        default: default.map(account_of),
        ignore_named,
    };
    let both = rule(Some("default"), false);
    let extension = extension(&json!({"spec": {"serviceAccount": {"name": "ext"}}}));
    let mut set = revision(1, false, false);
    assert_eq!(both.of_extension(&extension), Some(account_of("ext")));
    assert_eq!(both.of_revision(&set, Some(&extension)), Ok(account_of("ext")));
    assert_eq!(both.of_revision(&set, None), Ok(account_of("default")));
    let ignoring = rule(Some("default"), true);
    assert_eq!(ignoring.of_extension(&extension), Some(account_of("default")));
    assert_eq!(ignoring.of_revision(&set, Some(&extension)), Ok(account_of("default")));
    assert_eq!(rule(None, true).of_extension(&extension), None);
    let error = rule(None, false).of_revision(&set, None).unwrap_err();
    assert_eq!(error.to_string(), "revision \"e-1\" is missing required annotations");
    set.metadata.annotations =
        Some(BTreeMap::from([(annotation::SERVICE_ACCOUNT_NAME.into(), "sa".into())]));
    let error = both.of_revision(&set, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "revision \"e-1\" is missing ServiceAccount namespace annotation"
    );
    let annotations = set.metadata.annotations.as_mut().unwrap();
    annotations.insert(annotation::SERVICE_ACCOUNT_NAMESPACE.into(), "ns".into());
    assert_eq!(ignoring.of_revision(&set, Some(&extension)), Ok(account_of("sa")));
}

#[test]
fn a_dry_run_that_changes_only_bookkeeping_leaves_the_object_as_it_is() {
    // applying.md a4
    let live = |depth: &str, version: &str, manager: &str| {
        object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "resourceVersion": version, "labels": {"x": "y"},
                "managedFields": [{"manager": manager}],
            },
            "data": {"depth": depth},
        }))
    };
    assert!(is_unchanged(&live("1", "7", "a"), &live("1", "8", "b")));
    assert!(!is_unchanged(&live("1", "7", "a"), &live("2", "7", "a")));
}
