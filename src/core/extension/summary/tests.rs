use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::*;
use crate::fixture::{cases, object};
use crate::status::{MESSAGE_LIMIT, object_set_ready};

const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

fn now() -> Timestamp {
    Timestamp::from_second(100).unwrap()
}

fn conditions(statements: impl IntoIterator<Item = Statement>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for statement in statements {
        statement.put(&mut conditions, Some(1), Timestamp::from_second(50).unwrap());
    }
    conditions
}

fn pass(revisions: &[ClusterObjectSet], outcome: Outcome) -> Pass<'_> {
    Pass {
        generation: Some(4),
        revisions: Ok(revisions),
        outcome,
        catalogs: Catalogs::NotAsked,
        channels: &[],
        notes: &[],
        paused: false,
        fits: false,
        not_taken_over: false,
    }
}

fn revision(number: i64, statements: impl IntoIterator<Item = Statement>) -> ClusterObjectSet {
    let image = format!("r.io/pkg@sha256:{number}");
    let bundle = BundleRecord { image, ..BundleRecord::example(&format!("{number}.0.0")) };
    let name = format!("ext-{number}");
    let more = json!({"metadata": {"name": name, "annotations": bundle.annotations()},
        "status": {"conditions": conditions(statements)}});
    crate::fixture::revision(number, &more)
}

fn installed_revision(statements: impl IntoIterator<Item = Statement>) -> ClusterObjectSet {
    revision(1, statements.into_iter().chain([object_set::succeeded()]))
}

/// One that works.
fn steady() -> ClusterObjectSet {
    installed_revision([object_set::rolled_out("1.0.0"), object_set::probes_succeeded()])
}

// ours: what upstream has reported of a Helm release holds until there is a revision of it
#[test]
fn what_is_not_taken_over_yet_stays_installed() {
    let of = |before: Option<&ClusterExtensionStatus>| {
        let pass = Pass { not_taken_over: true, ..pass(&[], retry()) };
        summarize(before, &pass, Timestamp::UNIX_EPOCH)
    };
    let unknown = of(None);
    assert!(one(&unknown, "Installed").starts_with("Unknown/Failed "), "{unknown:?}");
    let installed = [installed_revision([])];
    let before = summarize(None, &pass(&installed, retry()), Timestamp::UNIX_EPOCH);
    let after = of(Some(&before));
    assert_eq!(one(&after, "Installed"), INSTALLED);
    assert_eq!(after.install, before.install);
}

fn one(status: &ClusterExtensionStatus, type_: &str) -> String {
    find(&status.conditions, type_).map_or_else(
        || "absent".to_owned(),
        |found| format!("{}/{} {}", found.status, found.reason, found.message),
    )
}

const ROLLING: &str = "False/Absent No bundle installed";
const INSTALLED: &str = "True/Succeeded Installed bundle r.io/pkg@sha256:1 successfully";
const RETRYING: &str = "True/Retrying boom";

fn retry() -> Outcome {
    Outcome::Retry("boom".to_owned())
}

// api.md 4.4, T1: Installed, Progressing and Available by what exists and how the reconcile ended.
#[test]
fn matrix() {
    for (has_installed, newest, outcome, installed, progressing, available) in
        cases::<(bool, Option<Vec<Vec<&str>>>, Vec<&str>, &str, &str, &str)>(CASES, "matrix")
    {
        let outcome = match *outcome {
            ["settled"] => Outcome::Settled,
            ["retried", text] => Outcome::Retry(text.to_owned()),
            [reason, text] => Outcome::Terminal(reason.parse().unwrap(), text.to_owned()),
            ref other => panic!("{other:?}"),
        };
        let mut revisions = Vec::from_iter(has_installed.then(steady));
        let said = newest.map(|said| said.into_iter().map(|words| said_of_2(&words)));
        revisions.extend(said.map(|statements| revision(2, statements)));
        let status = summarize(None, &pass(&revisions, outcome), now());
        assert_eq!(one(&status, types::INSTALLED), installed);
        assert_eq!(one(&status, types::PROGRESSING), progressing);
        assert_eq!(one(&status, types::AVAILABLE), available);
        assert_eq!(status.install.is_some(), has_installed);
    }
}

/// What is said of revision 2, in words.
fn said_of_2(words: &[&str]) -> Statement {
    match words {
        ["rolling out"] => object_set::rolling_out("2.0.0"),
        ["probe fails", text] => object_set::probe_failure(text),
        ["late", text] => object_set::deadline_exceeded(10, text),
        ["blocked", text] => terminal(Reason::Blocked, *text),
        ["retried", text] => retrying(*text),
        other => panic!("{other:?}"),
    }
}

// api.md 4.1: what an earlier reconcile failed with holds no longer
#[test]
fn an_extension_paused_before_its_first_revision_says_so() {
    let before = summarize(None, &pass(&[], retry()), now());
    let paused = Pass { paused: true, ..pass(&[], Outcome::Settled) };
    let status = summarize(Some(&before), &paused, now());
    let want = format!("False/Paused {}", text::paused());
    assert_eq!(one(&status, types::PROGRESSING), want);
    assert_eq!(one(&status, types::READY), want);
    assert_eq!(one(&status, types::INSTALLED), ROLLING);
    let failed = summarize(None, &Pass { outcome: retry(), ..paused }, now());
    assert_eq!(one(&failed, types::PROGRESSING), RETRYING);
}

// ours
#[test]
fn a_note_that_the_condition_says_already_is_not_added() {
    let gone = "Object Deployment.apps/v1 lamps/lamp: not found";
    let broken = [object_set::rolled_out("1.0.0"), object_set::probe_failure(gone)];
    let revisions = [installed_revision(broken)];
    let notes = [Note { reason: Reason::Paused, message: text::paused() }];
    let pass = Pass { paused: true, notes: &notes, ..pass(&revisions, Outcome::Settled) };
    let status = summarize(None, &pass, now());
    let want = format!("False/ProbeFailure {gone}\n{}", text::paused());
    assert_eq!(one(&status, types::READY), want);
}

// api.md row 8
#[test]
fn unreadable_revisions_make_installed_unknown() {
    let before = ClusterExtensionStatus {
        install: Some(InstallStatus::default()),
        ..ClusterExtensionStatus::default()
    };
    let mut pass = pass(&[], Outcome::Settled);
    pass.revisions = Err("no access".to_owned());
    let status = summarize(Some(&before), &pass, now());
    assert_eq!(one(&status, types::INSTALLED), "Unknown/Failed no access");
    assert_eq!(one(&status, types::PROGRESSING), "True/Retrying retrying to get installed bundle");
    assert_eq!(status.install, None);
}

// api.md T9
#[test]
fn active_revisions_begin_with_the_installed_one() {
    let upgrade = [object_set::rolling_out("2.0.0"), object_set::not_yet_available("2.0.0")];
    let revisions = [steady(), revision(2, upgrade)];
    let status = summarize(None, &pass(&revisions, Outcome::Settled), now());
    let names: Vec<_> = status
        .active_revisions
        .iter()
        .map(|revision| (revision.name.as_str(), revision.conditions.len()))
        .collect();
    assert_eq!(names, [("ext-1", 0), ("ext-2", 2)]);
    assert_eq!(status.install.unwrap().bundle.version, "1.0.0");
}

// Upstream's text only says that it is rolling out; decision 24.
#[test]
fn ready_names_the_object_a_roll_out_waits_for() {
    let line = "Object Deployment.apps/v1 lamps/lamp: not available".to_owned();
    let upgrade = [object_set::rolling_out("2.0.0"), object_set::probe_failure(&line)];
    let status = summarize(None, &pass(&[revision(2, upgrade)], Outcome::Settled), now());
    assert_eq!(
        one(&status, types::READY),
        "False/RollingOut Revision 2.0.0 is rolling out.\n\
         Object Deployment.apps/v1 lamps/lamp: not available"
    );
}

// decision 24
#[test]
fn ready_names_what_no_longer_works_of_what_is_installed() {
    let probes = "Object Deployment.apps/v1 lamps/lamp: not available";
    let pods = "Object Deployment.apps/v1 lamps/lamp: pod lamp-1: it cannot be scheduled";
    let broken = [
        object_set::rolling_out("1.0.0"),
        object_set::probe_failure(probes),
        object_set::hindered(pods),
    ];
    let status = summarize(None, &pass(&[installed_revision(broken)], Outcome::Settled), now());
    let want = format!("False/RollingOut Revision 1.0.0 is rolling out.\n{probes}\n{pods}");
    assert_eq!(one(&status, types::READY), want);
}

// applying.md 2.4; decision 24
#[test]
fn ready_names_what_can_be_done_about_a_collision() {
    for (owner, note) in cases::<(Option<(&str, &str)>, &str)>(
        CASES,
        "ready_names_what_can_be_done_about_a_collision",
    ) {
        let owner = owner.map(|(kind, name)| OwnerReference {
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..OwnerReference::default()
        });
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "lamp", "namespace": "lamps"}});
        let object = object(deployment).identity();
        let mut collision = object_set::Collision { object, owner, manager: None };
        let text = object_set::collisions(0, std::slice::from_ref(&collision));
        let mut archived = revision(0, []);
        archived.spec.lifecycle_state = LifecycleState::Archived;
        let mut revisions = [archived, revision(2, [retrying(&*text)])];
        let ready = |revisions: &[ClusterObjectSet]| {
            let status = summarize(None, &pass(revisions, Outcome::Settled), now());
            one(&status, types::READY)
        };
        let told = ready(&revisions);
        assert!(told.starts_with(&format!("False/Retrying {text}")), "{told}");
        assert!(told.contains(note) && !told.contains("  "), "{told}");
        // So it does where it is installed, and somebody has taken its owner off an object.
        let installed = installed_revision([retrying(&*text), object_set::reconciling(&*text)]);
        let told = ready(&[revisions[0].clone(), installed]);
        assert!(told.contains(note), "{told}");
        collision.manager = Some("Flux".to_owned());
        let message = object_set::managed(&[collision]).unwrap();
        let notes = [Note { reason: Reason::Retrying, message }];
        let says = &mut revisions[1].status.as_mut().unwrap().conditions;
        object_set_ready(says, None, &notes).put(says, None, now());
        let way_out = "managed by Flux: remove or detach them there first";
        assert_eq!(
            ready(&revisions),
            format!("False/Retrying {text}\nobjects that this bundle also contains are {way_out}")
        );
    }
}

// api.md T18
#[test]
fn the_same_pass_again_changes_nothing() {
    let (revisions, data) = ([steady()], Deprecations::default());
    let mut pass = pass(&revisions, Outcome::Settled);
    pass.catalogs = Catalogs::Known(&data);
    let first = summarize(None, &pass, now());
    let later = Timestamp::from_second(900).unwrap();
    assert_eq!(summarize(Some(&first), &pass, later), first);
    assert_eq!(one(&first, types::READY), "True/Succeeded The bundle is installed and available.");
    assert!(first.conditions.iter().all(|c| c.observed_generation == Some(4)));
}

// api.md 4.9: a status write must not clobber unknown condition types.
#[test]
fn conditions_of_others_stay() {
    let foreign = Condition { type_: "Theirs".to_owned(), ..conditions([retrying("x")]).remove(0) };
    let before = ClusterExtensionStatus {
        conditions: vec![foreign.clone()],
        ..ClusterExtensionStatus::default()
    };
    let status = summarize(Some(&before), &pass(&[], retry()), now());
    assert_eq!(find(&status.conditions, "Theirs"), Some(&foreign));
}

// decisions 24 and 32
#[test]
fn ready_explains_what_progressing_may_not() {
    let notes = [Note { reason: Reason::NextMajorHeld, message: "2.0.0 is held".to_owned() }];
    let mut failing = pass(&[], retry());
    failing.notes = &notes;
    let status = summarize(None, &failing, now());
    assert_eq!(one(&status, types::READY), "False/Retrying boom\n2.0.0 is held");
    failing.outcome = Outcome::Held(Reason::PermissionsMissing, "boom".to_owned());
    let status = summarize(None, &failing, now());
    assert_eq!(one(&status, types::PROGRESSING), "True/Retrying boom");
    assert_eq!(one(&status, types::READY), "False/PermissionsMissing boom\n2.0.0 is held");
    failing.outcome = Outcome::Retry("é".repeat(MESSAGE_LIMIT));
    let status = summarize(None, &failing, now());
    let ready = &find(&status.conditions, types::READY).unwrap().message;
    assert!(ready.ends_with("é\n\n... [message truncated]\n2.0.0 is held"), "{ready}");
    assert!(ready.len() <= MESSAGE_LIMIT);

    let revisions = [steady()];
    let mut held = pass(&revisions, Outcome::Settled);
    held.notes = &notes;
    assert_eq!(
        one(&summarize(None, &held, now()), types::READY),
        "True/NextMajorHeld The bundle is installed and available.\n2.0.0 is held"
    );
    // The catalogs choose nothing, and the installed bundle fits.
    held.outcome = retry();
    held.fits = true;
    let status = summarize(None, &held, now());
    assert_eq!(one(&status, types::PROGRESSING), "True/Retrying boom");
    assert!(one(&status, types::READY).starts_with("True/NextMajorHeld "));
}

// decision 32: "at this generation".
#[test]
fn a_stale_condition_is_not_ready() {
    let stale = conditions([
        Statement::yes(types::INSTALLED, Reason::Succeeded, ""),
        object_set::probes_succeeded(),
        object_set::rolled_out("1.0.0"),
    ]);
    assert_eq!(extension_ready(&stale, Some(1), &[], false).status, "True");
    assert_eq!(extension_ready(&stale, Some(2), &[], false).status, "False");
}

// decision 21: what is left out is reported in Ready, which is true nevertheless.
#[test]
fn ready_names_the_objects_that_wait_for_their_kind() {
    let left_out = object_set::deferred(&["ServiceMonitor.monitoring.coreos.com/v1 ns/m".into()]);
    let says = [object_set::rolled_out("1.0.0"), object_set::probes_succeeded(), left_out];
    let status = summarize(None, &pass(&[installed_revision(says)], Outcome::Settled), now());
    assert_eq!(
        one(&status, types::READY),
        "True/ObjectsDeferred The bundle is installed and available.\n\
         Left out until the cluster serves their kind: \
         ServiceMonitor.monitoring.coreos.com/v1 ns/m"
    );
    assert!(find(&status.conditions, types::DEFERRED).is_none());
}
