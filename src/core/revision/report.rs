//! The conditions that follow from a reconcile of a revision.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::{Reason, status, types};
use olm_api::keys::annotation;
use olm_api::{ClusterObjectSet, LifecycleState};

use crate::status::extension::paused;
use crate::status::{Statement, object_set as texts, retrying, terminal};

use super::plan::has_succeeded;

/// How long a process calls no rollout late that began before it acted: the shortest deadline that the
/// CRDs allow. The status may have been restored from a backup. A restart delays a deadline by no more.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// How a reconcile of a revision ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every object is applied and ready.
    Complete,
    /// A phase is not complete; the first object that fails a probe and why, if there is one.
    RollingOut(Option<String>),
    /// An error that may go away by itself.
    Failed(String),
    /// An error that needs somebody to act.
    Blocked(String),
    /// The request is never granted, for example because its service account is reserved.
    Invalid(String),
    /// It is archived, and objects of it remain.
    Archiving,
    /// It is being deleted, and objects of it remain; holds what is waited for.
    Removing(String),
    /// It is being deleted and kept all the same, as if it were not: how its rollout stands, and
    /// what is waited for.
    Staying(Box<Self>, String),
    /// Nothing is applied, because it is paused: how its objects are.
    Paused(Box<Self>),
    /// It is archived and no longer owns any object; a later revision may own them now.
    Archived,
}

impl Outcome {
    /// Returns whether nothing was applied, because it is paused.
    pub fn is_paused(&self) -> bool {
        match self {
            Self::Paused(_) => true,
            Self::Staying(outcome, _) => outcome.is_paused(),
            _ => false,
        }
    }
}

/// The time a revision has for its first rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// `spec.progressDeadlineMinutes`.
    pub minutes: i32,
    /// When the time is over.
    pub at: Timestamp,
}

/// Returns when the time of a rollout began; `None` before anything was reported of it, and while it
/// is paused.
///
/// Its time begins when the controller first reports of it, by the controller's clock, which need
/// not agree with that of the API server; never before it was created, and anew when a pause ends.
pub(crate) fn began(revision: &ClusterObjectSet) -> Option<Timestamp> {
    let created = revision.metadata.creation_timestamp.as_ref()?.0;
    let progressing = revision.condition(types::PROGRESSING)?;
    // That the time was over is what the condition changed for.
    if is_said(progressing) {
        return Some(created);
    }
    let began = created.max(progressing.last_transition_time.0);
    match revision.condition(types::PAUSED) {
        Some(paused) if paused.status == status::TRUE => None,
        Some(resumed) => Some(began.max(resumed.last_transition_time.0)),
        None => Some(began),
    }
}

/// Returns the deadline of a revision, or `None` when it has none, none yet, or needs none any more:
/// nothing has been reported of it; it is paused; it was rolled out once, is archived or is being
/// deleted.
///
/// Source: applying.md 3.8.
pub fn deadline(revision: &ClusterObjectSet) -> Option<Deadline> {
    let minutes = revision.spec.progress_deadline_minutes.filter(|minutes| *minutes > 0)?;
    let began = began(revision)?;
    let ended = has_succeeded(revision)
        || revision.spec.lifecycle_state == LifecycleState::Archived
        || revision.metadata.deletion_timestamp.is_some();
    if ended {
        return None;
    }
    let at = began.checked_add(SignedDuration::from_mins(i64::from(minutes))).ok()?;
    Some(Deadline { minutes, at })
}

/// Returns the time from which on a process that acts since `acting_since` may call a rollout late:
/// at once if the rollout began after that.
///
/// Source: applying.md 3.8.
pub fn judged_from(revision: &ClusterObjectSet, acting_since: Timestamp) -> Timestamp {
    // Conditions have whole seconds.
    if began(revision).is_some_and(|began| began.as_second() >= acting_since.as_second()) {
        return acting_since;
    }
    acting_since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX)
}

/// Returns whether a rollout has failed to meet its deadline. While it is reconciled, its own
/// reconciler reports that; one that waits for a person is judged by its deadline alone.
///
/// Source: applying.md 3.8.
pub fn is_late(revision: &ClusterObjectSet, now: Timestamp) -> bool {
    let goes_on =
        revision.condition(types::PROGRESSING).is_some_and(|found| found.status == status::TRUE);
    !goes_on && deadline(revision).is_some_and(|deadline| deadline.at <= now)
}

fn is_said(progressing: &Condition) -> bool {
    progressing.reason == Reason::ProgressDeadlineExceeded.as_str()
}

/// Returns the conditions after a reconcile by a process that acts since `acting_since`; conditions not
/// among them keep their value. That a rollout is late stays said.
///
/// Source: applying.md 3.8.
pub fn statements(
    revision: &ClusterObjectSet,
    outcome: &Outcome,
    now: Timestamp,
    acting_since: Timestamp,
) -> Vec<Statement> {
    let mut all = progress(revision, outcome, now, acting_since);
    if outcome.is_paused() {
        all.push(paused());
    } else if revision.condition(types::PAUSED).is_some() {
        all.push(texts::resumed(bundle_version(revision)));
    }
    all
}

fn progress(
    revision: &ClusterObjectSet,
    outcome: &Outcome,
    now: Timestamp,
    acting_since: Timestamp,
) -> Vec<Statement> {
    let version = bundle_version(revision);
    let late = |last: &str| {
        let Deadline { minutes, at } = deadline(revision)?;
        let judged = now >= judged_from(revision, acting_since)
            || revision.condition(types::PROGRESSING).is_some_and(is_said);
        (now >= at && judged).then(|| texts::deadline_exceeded(minutes, last))
    };
    match outcome {
        Outcome::Complete => {
            let mut all = vec![texts::rolled_out(version), texts::probes_succeeded()];
            // Set once: what Helm rolled out says so.
            all.extend((!has_succeeded(revision)).then(texts::succeeded));
            all
        }
        Outcome::RollingOut(failing) => {
            let last = texts::rolling_out_text(version);
            let progressing = late(&last).unwrap_or_else(|| texts::rolling_out(version));
            let available = match failing {
                Some(line) => texts::probe_failure(line),
                None => texts::not_yet_available(version),
            };
            vec![progressing, available]
        }
        Outcome::Failed(text) => {
            let progressing = late(text).unwrap_or_else(|| retrying(text));
            let available = revision.condition(types::AVAILABLE).map(|_| texts::reconciling(text));
            std::iter::once(progressing).chain(available).collect()
        }
        Outcome::Blocked(text) => vec![terminal(Reason::Blocked, text)],
        Outcome::Invalid(text) => vec![terminal(Reason::InvalidConfiguration, text)],
        Outcome::Archiving => vec![texts::archiving()],
        Outcome::Removing(text) => {
            // An error that has passed is not repeated for as long as the removal waits.
            let failed = revision
                .condition(types::AVAILABLE)
                .filter(|old| old.reason == Reason::Reconciling.as_str());
            let available = failed.map(|_| texts::reconciling(text));
            std::iter::once(retrying(text)).chain(available).collect()
        }
        Outcome::Staying(outcome, text) => {
            let mut all = progress(revision, outcome, now, acting_since);
            all.retain(|statement| statement.type_ != types::PROGRESSING);
            all.push(retrying(text));
            all
        }
        Outcome::Paused(outcome) => {
            let mut all = progress(revision, outcome, now, acting_since);
            all.retain(|statement| statement.type_ == types::AVAILABLE);
            all
        }
        Outcome::Archived => texts::archived().into(),
    }
}

/// Returns the annotation with the bundle's version, empty for object sets made by hand.
pub fn bundle_version(revision: &ClusterObjectSet) -> &str {
    revision.annotation(annotation::BUNDLE_VERSION).unwrap_or_default()
}
