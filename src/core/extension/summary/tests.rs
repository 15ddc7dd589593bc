use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::object::Identity;
use crate::status::{MESSAGE_LIMIT, object_set_ready};

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
    serde_json::from_value(json!({
        "metadata": {"name": format!("ext-{number}"), "annotations": bundle.annotations()},
        "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent"},
        "status": {"conditions": conditions(statements)},
    }))
    .unwrap()
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

const NOT_INSTALLED: &str = "False/Failed No bundle installed";
const ROLLING: &str = "False/Absent No bundle installed";
const INSTALLED: &str = "True/Succeeded Installed bundle r.io/pkg@sha256:1 successfully";
const RETRYING: &str = "True/Retrying boom";
const BEGUN: &str = "True/RollingOut Revision 2.0.0 is rolling out.";
const ROLLED_OUT: &str = "True/Succeeded Revision 1.0.0 has rolled out.";
const HEALTHY: &str = "True/ProbesSucceeded Objects are available and pass all probes.";

fn retry() -> Outcome {
    Outcome::Retry("boom".to_owned())
}

// api.md 4.4, T1: Installed, Progressing and Available by what exists and how the reconcile ended.
#[rstest]
#[case::row_2_no_spec(false, None,
    Outcome::Terminal(Reason::InvalidConfiguration, "spec is required".to_owned()),
    NOT_INSTALLED, "False/InvalidConfiguration spec is required", "absent")]
#[case::row_13_nothing_installed(false, None, retry(), NOT_INSTALLED, RETRYING, "absent")]
#[case::row_18_installed(true, None, retry(), INSTALLED, RETRYING, HEALTHY)]
#[case::row_20_maintained(true, None, Outcome::Settled, INSTALLED, ROLLED_OUT, HEALTHY)]
#[case::row_24_terminal(true, None, Outcome::Terminal(Reason::Blocked, "boom".to_owned()),
    INSTALLED, "False/Blocked boom", HEALTHY)]
#[case::row_31_collision(false,
    Some(vec![retrying("revision object collisions in phase 0")]), Outcome::Settled,
    NOT_INSTALLED, "True/Retrying revision object collisions in phase 0", "absent")]
#[case::row_32_just_created(false, Some(Vec::new()), Outcome::Settled, ROLLING, BEGUN, "absent")]
#[case::row_33_first_rollout(false, Some(vec![object_set::rolling_out("2.0.0")]),
    Outcome::Settled, ROLLING, BEGUN, "absent")]
#[case::row_34_probe_failing(false, Some(vec![object_set::rolling_out("2.0.0"),
    object_set::probe_failure(&["x".to_owned()])]), Outcome::Settled, ROLLING, BEGUN, "absent")]
#[case::row_35_deadline(false,
    Some(vec![object_set::deadline_exceeded(10, "m")]), Outcome::Settled, NOT_INSTALLED,
    "False/ProgressDeadlineExceeded Revision has not rolled out for 10 minute(s). Last status: m",
    "absent")]
#[case::row_37_blocked(false, Some(vec![terminal(Reason::Blocked, "no")]),
    Outcome::Settled, NOT_INSTALLED, "False/Blocked no", "absent")]
#[case::row_39_upgrade_rolling(true, Some(vec![object_set::rolling_out("2.0.0")]),
    Outcome::Settled, INSTALLED, BEGUN, HEALTHY)]
#[case::row_40_upgrade_errors(true, Some(vec![retrying("e")]), Outcome::Settled,
    INSTALLED, "True/Retrying e", HEALTHY)]
fn matrix(
    #[case] has_installed: bool,
    #[case] newest: Option<Vec<Statement>>,
    #[case] outcome: Outcome,
    #[case] installed: &str,
    #[case] progressing: &str,
    #[case] available: &str,
) {
    let mut revisions = Vec::from_iter(has_installed.then(steady));
    revisions.extend(newest.map(|statements| revision(2, statements)));
    let status = summarize(None, &pass(&revisions, outcome), now());
    assert_eq!(one(&status, types::INSTALLED), installed);
    assert_eq!(one(&status, types::PROGRESSING), progressing);
    assert_eq!(one(&status, types::AVAILABLE), available);
    assert_eq!(status.install.is_some(), has_installed);
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
    let broken = [object_set::rolled_out("1.0.0"), object_set::probe_failure(&[gone.to_owned()])];
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
    let upgrade = [object_set::rolling_out("2.0.0"), object_set::probe_failure(&[line])];
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
        object_set::probe_failure(&[probes.to_owned()]),
        object_set::hindered(pods),
    ];
    let status = summarize(None, &pass(&[installed_revision(broken)], Outcome::Settled), now());
    let want = format!("False/RollingOut Revision 1.0.0 is rolling out.\n{probes}\n{pods}");
    assert_eq!(one(&status, types::READY), want);
}

// applying.md 2.4; decision 24
#[rstest]
#[case::restored_from_a_backup(None, "policy.olm.operatorframework.io/adopt: all")]
#[case::of_another_extension(Some(("ClusterObjectSet", "two-lamps-3")), "\nClusterExtension two-lamps owns objects")]
#[case::of_an_earlier_extension(Some(("ClusterObjectSet", "ext-1")),
    "\nClusterObjectSet ext-1 owns objects that this bundle also contains, and does not count as a revision of this extension: kubectl delete clusterobjectset ext-1 --cascade=orphan releases them")]
#[case::of_an_archived_revision(Some(("ClusterObjectSet", "ext-0")),
    "\nClusterObjectSet ext-0 is archived and still removes objects that this bundle also contains")]
#[case::of_somebody_else(Some(("Lamp", "two-lamps-3")), "\nLamp two-lamps-3 owns objects")]
fn ready_names_what_can_be_done_about_a_collision(
    #[case] owner: Option<(&str, &str)>,
    #[case] note: &str,
) {
    let owner = owner.map(|(kind, name)| OwnerReference {
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..OwnerReference::default()
    });
    let object = Identity {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "lamps".to_owned(),
        name: "lamp".to_owned(),
    };
    let mut collision = object_set::Collision { object, owner, manager: None };
    let text = object_set::collisions(0, std::slice::from_ref(&collision));
    let mut archived = revision(0, []);
    archived.spec.lifecycle_state = LifecycleState::Archived;
    let mut revisions = [archived, revision(2, [retrying(&*text)])];
    let status = summarize(None, &pass(&revisions, Outcome::Settled), now());
    let ready = one(&status, types::READY);
    assert!(ready.starts_with(&format!("False/Retrying {text}")), "{ready}");
    assert!(ready.contains(note), "{ready}");
    assert!(!ready.contains("  "), "{ready}");
    // So it does where it is installed, and somebody has taken its owner off an object.
    let installed = installed_revision([retrying(&*text), object_set::reconciling(&*text)]);
    let installed = [revisions[0].clone(), installed];
    let ready = one(&summarize(None, &pass(&installed, Outcome::Settled), now()), types::READY);
    assert!(ready.contains(note), "{ready}");
    collision.manager = Some("Flux".to_owned());
    let message = object_set::managed(&[collision]).unwrap();
    let notes = [Note { reason: Reason::Retrying, message }];
    let says = &mut revisions[1].status.as_mut().unwrap().conditions;
    object_set_ready(says, None, &notes).put(says, None, now());
    let ready = one(&summarize(None, &pass(&revisions, Outcome::Settled), now()), types::READY);
    let note = "managed by Flux: remove or detach them there first";
    assert_eq!(
        ready,
        format!("False/Retrying {text}\nobjects that this bundle also contains are {note}")
    );
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
