use olm_api::UpdateStatus;
use olm_api::keys::policy;
use serde_json::{Value, json};

use super::*;
use crate::extension::{RevisionSource, desired};
use crate::fixture::{extension, object};
use crate::rbac::Permissions;
use crate::resolve::UpdatePolicy;
use crate::revision::{self, phases};

fn record(version: &str) -> BundleRecord {
    BundleRecord {
        name: format!("kettle.v{version}"),
        package: "kettle".to_owned(),
        image: format!("r/kettle:{version}"),
        ..BundleRecord::example(version)
    }
}

fn objects(version: u8) -> Vec<Object> {
    let pattern = "x".repeat(usize::from(version - 1));
    let all = [
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "kettles.example.com"},
            "spec": {"scope": "Namespaced", "versions": [{"name": format!("v{version}"), "storage": true,
                "schema": {"openAPIV3Schema": {"properties": {"a": {"pattern": pattern}}}}}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns",
                "annotations": {"olm.operatorframework.io/bundle-version": version.to_string()}},
            "data": {"password": format!("secret{version}")}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("only-{version}"),
            "namespace": "ns"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "same", "namespace": "ns",
            "annotations": {"olm.operatorframework.io/bundle-version": version.to_string()}}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["nodes"],
                "verbs": if version == 1 { vec!["get"] } else { vec!["get", "list"] }}]}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("r/c:{version}")}]}}}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "m"}, "webhooks": [{"name": format!("m{version}.example.com"),
                "clientConfig": {"caBundle": version}}]}),
    ];
    all.into_iter().filter_map(Object::from_value).collect()
}

fn plan(annotations: &Value) -> Plan {
    plan_where(annotations, true, Ok(false))
}

fn plan_where(annotations: &Value, known: bool, requires_approval: Result<bool, String>) -> Plan {
    let extension = extension(&json!({"metadata": {"annotations": annotations},
        "spec": {"source": {"catalog": {"packageName": "kettle"}}}}));
    let extension = ValidExtension::of(&extension).unwrap();
    let account = revision::Account { namespace: "ns".to_owned(), name: "sa".to_owned() };
    let properties = r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.20"}]"#;
    let (before, after) = (record("1.0.0"), record("2.0.0"));
    let source = RevisionSource {
        bundle: &after,
        digest: "sha256:b",
        properties: Some(properties),
        phases: &phases(objects(2)).unwrap(),
    };
    let annotations = extension.object.metadata.annotations.clone();
    let mut live = objects(1)[0].clone().into_value();
    live["status"] = json!({"storedVersions": ["v1"]});
    let mut missing = Permissions::default();
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"]});
    missing.insert_rule("ns", &crate::rbac::PolicyRule::from_value(&rule));
    Plan::of(&Proposed {
        extension,
        policy: &Policy::of(&annotations.unwrap_or_default(), UpdatePolicy::MinorOnly).unwrap(),
        course: &Course {
            target: after.clone(),
            catalog: Some("acme".to_owned()),
            forced: false,
            held: Some(UpdateStatus {
                reason: "NextMajorHeld".to_owned(),
                ..UpdateStatus::default()
            }),
        },
        before: Some(Before { bundle: before, properties: None, objects: objects(1) }),
        desired: &desired(extension, &account, source),
        change: Change::Upgrade,
        account: &account,
        enforced: true,
        rights: if known {
            Ok(Judgement { missing, ..Judgement::default() })
        } else {
            Err("forbidden".to_owned())
        },
        crds: if known {
            Ok(Crds {
                live: [("kettles.example.com".to_owned(), live)].into(),
                empty: BTreeSet::new(),
                leaving: BTreeMap::new(),
            })
        } else {
            Err("forbidden".to_owned())
        },
        requires_approval,
        rules: Rules::Loosenings,
        now: "2026-12-31T12:00:00Z".parse().unwrap(),
        operator: Ok(None),
        reverted: None,
        images: None,
    })
}

// plugin.md 1.5, U39
#[test]
fn what_a_plan_writes_as_its_approval_is_bound_to_it() {
    let plan = plan(&json!({}));
    let annotations = [(policy::APPROVE.to_owned(), plan.approval())].into();
    let read = Policy::of(&annotations, UpdatePolicy::MinorOnly).unwrap();
    for required in [false, true] {
        let demand = read.demand(&record("2.0.0"), Some(&record("1.0.0")), required);
        assert_eq!(demand.approved(), Some(plan.digest.as_str()));
    }
}

// resolution.md 4.2
#[test]
fn a_version_has_its_release_wherever_that_is_recorded() {
    let apart = BundleRecord { release: Some("2".to_owned()), ..record("2.0.0") };
    for bundle in [apart, record("2.0.0+2")] {
        assert_eq!(Step::of(&bundle).version, "2.0.0+2");
    }
}

// plugin.md 1.4, U36, U40
#[test]
fn a_plan_says_what_changes_and_what_holds_it() {
    let plan = plan(&json!({}));
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap());
}

#[test]
fn an_object_that_something_else_owns_holds_a_plan() {
    let (mut plan, all) = (plan(&json!({})), objects(2));
    // What is installed already has it.
    plan.note_taken(&all[0], "of somebody else".to_owned());
    assert!(!plan.held_by.contains("objects"));
    plan.note_taken(&all[2], "of somebody else".to_owned());
    assert!(plan.held_by.contains("objects"));
    let taken: Vec<_> = plan.objects.iter().filter(|it| it.taken.is_some()).collect();
    assert_eq!(taken.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["only-2"]);
}

// applying.md 3.6
#[test]
fn a_change_that_the_api_server_refuses_is_named() {
    let binding = |role: &str| {
        object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "ns"}, "roleRef": {"name": role}}))
    };
    let changes = changes::changes(&[binding("one")], &phases(vec![binding("two")]).unwrap());
    let immutable: Vec<_> = changes.iter().map(|change| change.immutable.as_deref()).collect();
    let want = ".roleRef cannot be changed: the object is deleted and created again";
    assert_eq!(immutable, [Some(want)]);
}

// plugin.md U38
#[test]
fn holds_are_named() {
    let waived_in_vain = json!({
        "policy.olm.operatorframework.io/crd-safety-allow": "storedVersionRemoval",
        "policy.olm.operatorframework.io/crd-safety-reason": "tested"});
    let paused = json!({"policy.olm.operatorframework.io/paused": "true"});
    for (annotations, known, want) in [
        (paused, true, ["crds", "pause", "policy", "rights"].as_slice()),
        (waived_in_vain, true, &["crds", "policy", "rights"]),
        (json!({}), false, &["policy"]),
    ] {
        let plan = plan_where(&annotations, known, Ok(false));
        assert_eq!(plan.held_by.iter().copied().collect::<Vec<_>>(), want);
        assert_eq!(plan.unknown.len(), if known { 0 } else { 2 });
    }
}

// applying.md j4
#[test]
fn more_rights_wait_for_the_approval_of_the_plan() {
    let asks = json!({"policy.olm.operatorframework.io/permission-increase": "RequireApproval"});
    let first = plan(&asks);
    assert_eq!(first.operator.added.len(), 1);
    assert!(first.held_by.contains("increase"));
    let approved = |by: &str| {
        let mut all = asks.clone();
        all["policy.olm.operatorframework.io/approve"] = format!("2.0.0{by}").into();
        plan(&all).held_by.contains("increase")
    };
    assert!(!approved(&format!("@{}", first.digest)));
    assert!(approved(&format!("@sha256:{}", "0".repeat(64))));
    assert!(approved(""));
}

// plugin.md U39
#[test]
fn the_approval_of_another_plan_holds_it() {
    let approved = |by: &str| {
        let all = json!({"policy.olm.operatorframework.io/approve": format!("2.0.0@{by}")});
        plan(&all).held_by.contains("approval")
    };
    assert!(!approved(&plan(&json!({})).digest));
    assert!(approved(&format!("sha256:{}", "0".repeat(64))));
}

// applying.md F11
#[test]
fn where_approval_is_required_a_plan_waits_until_it_is_approved() {
    let waits =
        |annotations: &Value| plan_where(annotations, true, Ok(true)).held_by.contains("approval");
    assert!(waits(&json!({})));
    assert!(waits(&json!({"policy.olm.operatorframework.io/upgrade": "Any"})));
    assert!(waits(&json!({"policy.olm.operatorframework.io/approve": "2.0.0"})));
    let digest = plan(&json!({})).digest;
    let approve = format!("2.0.0@{digest}");
    assert!(!waits(&json!({"policy.olm.operatorframework.io/approve": approve})));
    let unknown = plan_where(&json!({}), true, Err("you may not get namespaces".to_owned()));
    assert!(!unknown.held_by.contains("approval"));
    assert_eq!((unknown.unknown[0].what, unknown.unknown[0].label()), ("heldBy", "held by"));
}
