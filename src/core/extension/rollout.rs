//! Which rollout is under way, and whether it completes by itself, as far as the revisions alone can
//! say.
//!
//! Source: applying.md 1.3, decision 6.

use jiff::{SignedDuration, Timestamp};
use olm_api::conditions::Reason;
use olm_api::keys::policy;
use olm_api::{ClusterExtension, ClusterObjectSet, UpdateStatus};

use crate::revision::{BundleRecord, Origin, States, began, is_late, recorded_generation, states};
use crate::status::object_set::{rolling_out_text, stalled_workload};
use crate::version::Version;

/// How many minutes a rollout without a deadline has before the catalogs are asked again.
const PATIENCE: i64 = 30;

/// A bundle that an extension has whatever the catalogs say, unless its rollout gives way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    pub bundle: BundleRecord,
    /// Whether an earlier revision is gone back to: no catalog is asked about that.
    pub is_return: bool,
    /// Why it cannot complete, or not in time, if so.
    pub stalled: Option<String>,
    /// The bundle that it superseded during its rollout, and why that rollout did not complete.
    pub before: Option<(BundleRecord, Option<String>)>,
}

/// A rollout of the newest revision, whether or not it goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub bundle: BundleRecord,
    /// Whether it was started for the present spec.
    pub is_as_asked: bool,
}

/// Returns the version that is being rolled out, as `status.update` has it with its release, unless
/// both are those of the installed bundle. `offered` is the newest that the catalogs have.
pub fn under_way(revisions: &[ClusterObjectSet], offered: Option<String>) -> Option<UpdateStatus> {
    let newest = newest_rollout(revisions)?;
    let version_of = |set| {
        let bundle = BundleRecord::of(set);
        bundle.version_release().map_or(bundle.version, |version| version.recorded())
    };
    let version = version_of(newest);
    let installed = states(revisions).installed.map(version_of);
    if installed.as_ref() == Some(&version) {
        return None;
    }
    Some(UpdateStatus {
        newest: newest_known(offered, &version),
        catalog: Origin::of(newest).catalog.unwrap_or_default(),
        reason: Reason::RollingOut.to_string(),
        message: rolling_out_text(&version),
        version: Some(version),
    })
}

/// Returns the newest version that is known: the one that catalogs offer, or that of a step which they do
/// not count, because it is deprecated or they have it no longer.
pub fn newest_known(offered: Option<String>, version: &str) -> String {
    let is_older = |offered: &String| {
        let versions = (offered.parse::<Version>(), version.parse::<Version>());
        matches!(versions, (Ok(offered), Ok(version)) if offered.precedence(&version).is_lt())
    };
    offered.filter(|it| !is_older(it)).unwrap_or_else(|| version.to_owned())
}

/// Returns the newest revision that is rolled out in place of the installed one. One that a later
/// revision has taken the place of is archived soon.
fn newest_rollout(revisions: &[ClusterObjectSet]) -> Option<&ClusterObjectSet> {
    let States { installed, rolling } = states(revisions);
    let is_newer = |set: &&ClusterObjectSet| {
        installed.is_none_or(|installed| set.spec.revision > installed.spec.revision)
    };
    rolling.last().copied().filter(is_newer)
}

/// Returns the rollout that is kept, unless it gives way to another bundle.
///
/// A rollout is kept while it was started for the generation at hand and has time left. After a
/// change of the spec, and after its deadline, the catalogs are asked again, from the installed
/// bundle: successor rules start from what succeeded, not from what is rolling out.
///
/// `revisions` is sorted by number.
pub(super) fn ongoing_rollout(
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
    now: Timestamp,
) -> Option<Rollout> {
    let newest = newest_rollout(revisions)?;
    let rolling = states(revisions).rolling;
    if !is_as_asked(newest, extension) || is_late(newest, now) {
        return None;
    }
    let bundle = BundleRecord::of(newest);
    let mut earlier = rolling.iter().rev().map(|set| (BundleRecord::of(set), *set));
    let before = earlier.find(|(other, _)| !other.is_same_bundle(&bundle));
    Some(Rollout {
        is_return: Origin::of(newest).content_of.is_some(),
        stalled: stalled(newest, now),
        before: before.map(|(bundle, set)| {
            let then = newest.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
            (bundle, stalled(set, then))
        }),
        bundle,
    })
}

/// Returns the rollout of the newest revision, if it has not succeeded.
pub(super) fn unfinished(
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
) -> Option<Unfinished> {
    let newest = newest_rollout(revisions)?;
    Some(Unfinished {
        bundle: BundleRecord::of(newest),
        is_as_asked: is_as_asked(newest, extension),
    })
}

/// Returns the bundle whose rollout takes over what ran, as annotation `adopt` asks for, while nothing is
/// installed. It ran in that version, so that updates follow the catalog from there unless the spec changes.
pub(super) fn taken_over(
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
) -> Option<BundleRecord> {
    let annotations = extension.metadata.annotations.as_ref();
    let adopts = annotations.is_some_and(|all| all.contains_key(policy::ADOPT));
    let States { installed, rolling } = states(revisions);
    let newest = rolling.last().filter(|_| adopts && installed.is_none())?;
    let first = rolling.first().filter(|_| is_as_asked(newest, extension))?;
    Some(BundleRecord::of(first))
}

/// Says whether a revision was made for the present spec.
pub(super) fn is_as_asked(revision: &ClusterObjectSet, extension: &ClusterExtension) -> bool {
    let recorded = recorded_generation(revision);
    recorded.is_none_or(|recorded| Some(recorded) == extension.metadata.generation)
}

/// Returns why a rollout does not complete by itself: its workload says so, or it takes too long
/// where no deadline is set.
fn stalled(revision: &ClusterObjectSet, now: Timestamp) -> Option<String> {
    let conditions = &revision.status.as_ref()?.conditions;
    if let Some(lines) = stalled_workload(conditions) {
        // Further lines are about its pods.
        return lines.lines().next().map(str::to_owned);
    }
    if revision.spec.progress_deadline_minutes.is_some_and(|minutes| minutes > 0) {
        return None;
    }
    let over = began(revision)?.checked_add(SignedDuration::from_mins(PATIENCE)).ok()?;
    (over <= now).then(|| format!("it has not completed within {PATIENCE} minutes"))
}

#[cfg(test)]
mod tests {
    use olm_api::keys::annotation;
    use serde_json::json;

    use super::*;
    use crate::fixture::{cases, condition};
    use crate::status::extension::paused;
    use crate::status::{Statement, object_set};

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    fn extension(generation: i64) -> ClusterExtension {
        crate::fixture::extension(&json!({"metadata": {"generation": generation}}))
    }

    fn revision(number: i64, version: &str, generation: i64, succeeded: bool) -> ClusterObjectSet {
        let mut annotations = BundleRecord::example(version).annotations();
        annotations.insert(annotation::EXTENSION_GENERATION.to_owned(), generation.to_string());
        let status = if succeeded { "True" } else { "False" };
        let conditions = [
            condition("Succeeded", status, "Succeeded", ""),
            condition("Progressing", "True", "RollingOut", ""),
        ];
        let metadata =
            json!({"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations});
        let more = json!({"metadata": metadata, "spec": {"progressDeadlineMinutes": 10},
            "status": {"conditions": conditions}});
        crate::fixture::revision(number, &more)
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    const EARLY: &str = "2026-01-01T00:05:00Z";
    const LATE: &str = "2026-01-01T00:11:00Z";

    #[test]
    fn a_rollout_for_the_same_spec_goes_on() {
        let revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 2, false)];
        let rollout = ongoing_rollout(&extension(2), &revisions, at(EARLY)).unwrap();
        assert_eq!(rollout.bundle, BundleRecord::of(&revisions[1]));
        assert_eq!((rollout.is_return, rollout.stalled, rollout.before), (false, None, None));
    }

    #[test]
    fn what_is_under_way_is_named_with_the_newest() {
        let of = |revisions: &[ClusterObjectSet], newest: Option<&str>| {
            let update = under_way(revisions, newest.map(str::to_owned))?;
            Some((update.version.unwrap_or_default(), update.newest, update.message))
        };
        let (first, next) = (revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 1, false));
        let both = [first.clone(), next.clone()];
        let says = |newest: &str| {
            Some(("1.1.0".into(), newest.to_owned(), "Revision 1.1.0 is rolling out.".into()))
        };
        assert_eq!(of(&both, None), says("1.1.0"));
        assert_eq!(of(&both, Some("2.0.0")), says("2.0.0"));
        assert_eq!(of(&both, Some("1.0.0")), says("1.1.0"), "it is deprecated");
        assert_eq!(of(&both[1..], None), says("1.1.0"));
        assert_eq!(of(&both[..1], Some("2.0.0")), None);
        assert_eq!(of(&[first.clone(), revision(2, "1.0.0", 1, false)], None), None);
        let released = |mut set: ClusterObjectSet, release: &str| {
            let recorded = set.metadata.annotations.get_or_insert_default();
            recorded.insert(annotation::BUNDLE_RELEASE.to_owned(), release.to_owned());
            set
        };
        let again = |release: &str| {
            let next = revision(2, "1.0.0", 1, false);
            of(&[released(first.clone(), "1"), released(next, release)], None)
        };
        assert_eq!(again("1"), None);
        assert_eq!(again("2").unwrap().0, "1.0.0+2");
        assert_eq!(of(&[next, revision(3, "1.2.0", 1, true)], None), None);
    }

    // decision 6, applying.md a8
    #[test]
    fn a_changed_spec_resolves_from_what_succeeded() {
        let revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 2, false)];
        assert_eq!(ongoing_rollout(&extension(3), &revisions, at(EARLY)), None);
    }

    #[test]
    fn a_rollout_past_its_deadline_resolves_again() {
        let mut revisions = [revision(1, "1.0.0", 1, false)];
        // Whether the time is over is said by whoever rolls it out, not by another clock.
        assert!(ongoing_rollout(&extension(1), &revisions, at(LATE)).is_some());
        let status = revisions[0].status.as_mut().unwrap();
        let late = object_set::deadline_exceeded(10, "m");
        late.put(&mut status.conditions, None, at(LATE));
        assert_eq!(ongoing_rollout(&extension(1), &revisions, at(LATE)), None);
    }

    // applying.md 1.3
    #[test]
    fn a_rollout_says_why_it_does_not_complete() {
        for (minutes, line, now, want) in cases::<(Option<i32>, Option<&str>, &str, Option<&str>)>(
            CASES,
            "a_rollout_says_why_it_does_not_complete",
        ) {
            let mut revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.1.0", 1, false)];
            revisions[1].spec.progress_deadline_minutes = minutes;
            if let Some(line) = line {
                let status = revisions[1].status.as_mut().unwrap();
                object_set::stalled(line).put(&mut status.conditions, None, at(EARLY));
            }
            let rollout = ongoing_rollout(&extension(1), &revisions, at(now)).unwrap();
            assert_eq!(rollout.stalled.as_deref(), want);
        }
    }

    // applying.md 1.3
    #[test]
    fn the_time_of_a_pause_does_not_count() {
        let mut set = revision(1, "1.0.0", 1, false);
        set.spec.progress_deadline_minutes = None;
        let say = |set: &mut ClusterObjectSet, what: Statement, time: &str| {
            what.put(&mut set.status.as_mut().unwrap().conditions, None, at(time));
        };
        say(&mut set, paused(), EARLY);
        assert_eq!(stalled(&set, at("2026-01-01T02:00:00Z")), None);
        say(&mut set, object_set::resumed("1.0.0"), "2026-01-01T02:00:00Z");
        assert_eq!(stalled(&set, at("2026-01-01T02:29:59Z")), None);
        assert!(stalled(&set, at("2026-01-01T02:30:00Z")).is_some());
    }

    // applying.md 2.4
    #[test]
    fn what_is_taken_over_is_the_oldest_that_rolls_out() {
        for (adopt, generation, succeeded, want) in cases::<(Option<&str>, i64, bool, Option<&str>)>(
            CASES,
            "what_is_taken_over_is_the_oldest_that_rolls_out",
        ) {
            let revisions = [revision(1, "1.0.0", 1, succeeded), revision(2, "1.1.0", 2, false)];
            let mut extension = extension(generation);
            let annotations = extension.metadata.annotations.get_or_insert_default();
            annotations.extend(adopt.map(|kinds| (policy::ADOPT.to_owned(), kinds.to_owned())));
            let found = taken_over(&extension, &revisions);
            assert_eq!(found.map(|bundle| bundle.version).as_deref(), want);
        }
    }

    #[test]
    fn the_rollout_before_is_kept_in_mind_and_never_taken_up_again() {
        let mut revisions = [
            revision(1, "1.0.0", 1, true),
            revision(2, "1.1.0", 1, false),
            revision(3, "1.2.0", 1, false),
        ];
        let rollout = ongoing_rollout(&extension(1), &revisions, at(EARLY)).unwrap();
        assert_eq!(rollout.bundle.version, "1.2.0");
        assert_eq!(rollout.before.unwrap().0.version, "1.1.0");
        // The third has succeeded, and the second is not archived yet.
        revisions[2] = revision(3, "1.2.0", 1, true);
        assert_eq!(ongoing_rollout(&extension(1), &revisions, at(EARLY)), None);
    }

    #[test]
    fn a_way_back_is_asked_about_nowhere() {
        let mut revisions = [revision(1, "1.0.0", 1, true), revision(2, "1.0.0", 1, false)];
        let back = Origin { content_of: Some(1), ..Origin::default() };
        revisions[1].metadata.annotations.as_mut().unwrap().extend(back.annotations());
        assert!(ongoing_rollout(&extension(1), &revisions, at(EARLY)).unwrap().is_return);
    }
}
