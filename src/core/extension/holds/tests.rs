use std::collections::BTreeSet;

use olm_api::keys::policy;
use serde_json::{Value, json};

use super::*;
use crate::crd_safety::{Rules, Waivers};
use crate::extension::plan_digest;
use crate::fixture::{cases, condition};
use crate::rbac::{Permissions, PolicyRule};
use crate::resolve::UpdatePolicy;
use crate::revision::{Account, Extension};
use crate::uninstall::Instances;

const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

fn extension() -> ClusterExtension {
    crate::fixture::extension(&json!({}))
}

/// A revision whose operator may read nodes.
fn desired(extension: &ClusterExtension) -> Desired {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]});
    let objects = Object::from_value(role).into_iter().collect();
    Desired::example(Extension::of(extension), "roles", objects)
}

fn policy_of(annotations: &[(&str, String)]) -> Policy {
    let owned = annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    Policy::of(&owned.collect(), UpdatePolicy::MinorOnly).unwrap()
}

/// The words of [`HOLDS`], in their order.
const WORDS: [&str; 9] = [
    "pause", "policy", "operator", "rollback", "content", "approval", "increase", "rights", "crds",
];

/// Looks at a step that exactly these words hold, if its revision changes something.
fn look<T>(words: &[&str], change: Change, look: impl FnOnce(&Facts<'_>) -> T) -> T {
    let is = |word: &str| words.contains(&word);
    let mut annotations = Vec::new();
    for (word, key, value) in [
        ("pause", policy::PAUSED, "true".to_owned()),
        ("approval", policy::APPROVE, format!("2.0.0@sha256:{}", "0".repeat(64))),
        ("increase", policy::PERMISSION_INCREASE, "RequireApproval".to_owned()),
    ] {
        annotations.extend(is(word).then_some((key, value)));
    }
    let (extension, policy) = (extension(), policy_of(&annotations));
    let (desired, account) =
        (desired(&extension), Account { namespace: "ns".into(), name: "sa".into() });
    let update = UpdateStatus { reason: "NextMajorHeld".to_owned(), ..UpdateStatus::default() };
    let taken_back = Note { reason: Reason::RolloutReverted, message: "m".to_owned() };
    let mut missing = Permissions::default();
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    missing.insert_rule("ns", &PolicyRule::from_value(&rule));
    let judgement = Judgement { missing, ..Judgement::default() };
    let (live, waivers) = (BTreeMap::new(), Waivers::default());
    let leaving = BTreeMap::from([("gone".to_owned(), Instances::Counted(1))]);
    look(&Facts {
        offered: is("policy").then_some(&update),
        operator: is("operator").then_some("no"),
        reverted: is("rollback").then_some(&taken_back),
        images: is("content").then_some(("sha256:a", "sha256:b")),
        revision: Some((&desired, change)),
        present: Some(&[]),
        permissions: is("rights").then_some(Judged {
            judgement: &judgement,
            account: &account,
            enforced: true,
        }),
        crds: is("crds").then_some(CrdUpgrades {
            live: &live,
            empty: &BTreeSet::new(),
            leaving: &leaving,
            waivers: &waivers,
            rules: Rules::Loosenings,
            now: "2026-12-31T12:00:00Z".parse().unwrap(),
        }),
        ..Facts::of(
            ValidExtension::of(&extension).unwrap(),
            &policy,
            &BundleRecord::example("2.0.0"),
            Some(&BundleRecord::example("1.0.0")),
        )
    })
}

/// An extension of which a controller reports that it stopped there.
fn stopped(hold: &Hold) -> ClusterExtension {
    let mut object = extension();
    let mut status = json!({"conditions": []});
    match hold.word() {
        "pause" => {
            let paused = (policy::PAUSED.to_owned(), "true".to_owned());
            object.metadata.annotations = Some([paused].into());
        }
        "policy" | "operator" => {
            status["update"] = json!({"newest": "2.0.0", "catalog": "c", "message": "",
                "reason": hold.note.reason});
        }
        _ => {
            let ready = condition(types::READY, "False", hold.note.reason.as_str(), "");
            status["conditions"] = json!([ready]);
        }
    }
    object.status = Some(serde_json::from_value(status).unwrap());
    object
}

// plugin.md U83: whoever asks, the same holds
#[test]
fn the_controller_stops_where_plan_and_status_say() {
    for chosen in 0..1_u32 << WORDS.len() {
        let mut words = Vec::new();
        for (at, word) in WORDS.iter().enumerate() {
            words.extend(((chosen >> at) & 1 == 1).then_some(*word));
        }
        let (refused, all) =
            look(&words, Change::Upgrade, |facts| (first(facts).err(), all(facts)));
        let named: Vec<_> = all.iter().map(Hold::word).collect();
        assert_eq!(named, words);
        assert_eq!(refused.as_ref(), all.first());
        for hold in &all {
            let reported: Vec<_> = reported(&stopped(hold)).iter().map(|it| it.word).collect();
            assert_eq!(reported, [hold.word()]);
            assert!(!hold.note.message.is_empty() || hold.word() == "policy");
        }
    }
}

// ours: what is there already is kept, whatever would hold it
#[test]
fn a_revision_that_is_there_is_not_held_by_what_it_holds() {
    let all = look(&WORDS, Change::Unchanged, all);
    let named: Vec<_> = all.iter().map(Hold::word).collect();
    assert_eq!(named, WORDS[..5]);
}

// Nothing is missing of the rights of a deleted account whose bindings are left.
#[test]
fn a_step_waits_for_an_account_that_is_gone() {
    let judgement = Judgement { absent: true, ..Judgement::default() };
    let account = "ns/sa".parse().unwrap();
    let judged = Judged { judgement: &judgement, account: &account, enforced: false };
    let held = look(&[], Change::Upgrade, |facts| {
        first(&Facts { permissions: Some(judged), ..*facts }).unwrap_err()
    });
    assert_eq!(held.word(), "rights");
    assert!(held.note.message.starts_with("service account ns/sa does not exist: "), "{held}");
}

// plugin.md U39, U40; applying.md F11
#[test]
fn only_the_approved_plan_is_written() {
    for (approved, takes_approval, change, held) in cases::<(Option<&str>, bool, &str, Option<&str>)>(
        CASES,
        "only_the_approved_plan_is_written",
    ) {
        let change = match change {
            "Install" => Change::Install,
            "Upgrade" => Change::Upgrade,
            _ => Change::Unchanged,
        };
        let (extension, target) = (extension(), BundleRecord::example("2.0.0"));
        let (desired, valid) = (desired(&extension), ValidExtension::of(&extension).unwrap());
        let now = plan_digest(valid, &desired);
        let plan = approved.map(|text| match text {
            "" => now.clone(),
            text => format!("{text:0<71}"),
        });
        let annotations: Vec<_> =
            plan.iter().map(|plan| (policy::APPROVE, format!("2.0.0@{plan}"))).collect();
        let policy = policy_of(&annotations);
        let facts = Facts {
            takes_approval,
            revision: Some((&desired, change)),
            ..Facts::of(valid, &policy, &target, None)
        };
        let note = first(&facts).err().map(|hold| hold.note);
        assert_eq!(note.as_ref().map(|note| note.reason.as_str()), held);
        if let (Some(note), Some(plan)) = (note, plan) {
            let both = format!("is plan {now}, but plan {plan} was approved; ");
            assert!(note.message.contains(&both), "{note:?}");
        }
    }
}

// plugin.md 1.4
#[test]
fn a_status_says_what_holds() {
    for (status, want) in cases::<(Value, Vec<&str>)>(CASES, "a_status_says_what_holds") {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let conditions: Vec<_> = conditions
            .map(|it| [0, 1, 2].map(|at| it[at].as_str().unwrap()))
            .map(|[type_, status, reason]| condition(type_, status, reason, ""))
            .collect();
        let mut object = json!({"conditions": conditions});
        if let Some(reason) = status["update"].as_str() {
            object["update"] =
                json!({"newest": "2.0.0", "catalog": "c", "reason": reason, "message": ""});
        }
        let mut extension = extension();
        extension.status = Some(serde_json::from_value(object).unwrap());
        let words: Vec<_> = reported(&extension).iter().map(|holder| holder.word).collect();
        assert_eq!(words, want);
    }
}

#[test]
fn what_is_being_deleted_waits_for_no_update() {
    let update = json!({"newest": "2.0.0", "catalog": "c", "reason": "Pinned", "message": ""});
    let mut extension = extension();
    extension.status = Some(serde_json::from_value(json!({"update": update})).unwrap());
    assert_eq!(reported(&extension).len(), 1);
    let deletion = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    extension.metadata = serde_json::from_value(deletion).unwrap();
    assert!(reported(&extension).is_empty() && awaited(&extension).is_none());
}
