//! The conditions that follow from a reconcile of a revision.

use jiff::{SignedDuration, Timestamp};
use olm_api::conditions::{reasons, types};
use olm_api::keys::annotation;
use olm_api::{ClusterObjectSet, LifecycleState};

use crate::status::{Statement, object_set as texts, retrying, terminal};

use super::plan::has_succeeded;

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
    /// It is archived and no longer owns any object; a later revision may own them now.
    Archived,
}

/// The time a revision has for its first roll-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// `spec.progressDeadlineMinutes`.
    pub minutes: i32,
    /// When the time is over.
    pub at: Timestamp,
}

/// Returns the deadline of a revision, or `None` when it has none or needs none any more: it was
/// rolled out once, is archived or is being deleted.
///
/// Source: applying.md 3.8.
pub fn deadline(revision: &ClusterObjectSet) -> Option<Deadline> {
    let minutes = revision
        .spec
        .progress_deadline_minutes
        .filter(|minutes| *minutes > 0)?;
    let created = revision.metadata.creation_timestamp.as_ref()?.0;
    let ended = has_succeeded(revision)
        || revision.spec.lifecycle_state == LifecycleState::Archived
        || revision.metadata.deletion_timestamp.is_some();
    if ended {
        return None;
    }
    let at = created
        .checked_add(SignedDuration::from_mins(i64::from(minutes)))
        .ok()?;
    Some(Deadline { minutes, at })
}

/// Returns the conditions after a reconcile; conditions not among them keep their value.
///
/// Source: applying.md 3.8.
pub fn statements(
    revision: &ClusterObjectSet,
    outcome: &Outcome,
    now: Timestamp,
) -> Vec<Statement> {
    let version = bundle_version(revision);
    let late = |last: &str| {
        let Deadline { minutes, at } = deadline(revision)?;
        (now >= at).then(|| texts::deadline_exceeded(minutes, last))
    };
    match outcome {
        Outcome::Complete => vec![
            texts::rolled_out(version),
            texts::probes_succeeded(),
            texts::succeeded(),
        ],
        Outcome::RollingOut(failing) => {
            let last = texts::rolling_out_text(version);
            let progressing = late(&last).unwrap_or_else(|| texts::rolling_out(version));
            let available = match failing {
                Some(line) => texts::probe_failure(std::slice::from_ref(line)),
                None => texts::not_yet_available(version),
            };
            vec![progressing, available]
        }
        Outcome::Failed(text) => {
            let known = revision.status.iter().flat_map(|status| &status.conditions);
            let had = known.into_iter().any(|old| old.type_ == types::AVAILABLE);
            let progressing = late(text).unwrap_or_else(|| retrying(text));
            let available = had.then(|| texts::reconciling(text));
            std::iter::once(progressing).chain(available).collect()
        }
        Outcome::Blocked(text) => vec![terminal(reasons::BLOCKED, text)],
        Outcome::Invalid(text) => vec![terminal(reasons::INVALID_CONFIGURATION, text)],
        Outcome::Archiving => vec![texts::archiving()],
        Outcome::Removing(text) => vec![retrying(text)],
        Outcome::Archived => texts::archived().into(),
    }
}

/// Returns the annotation with the bundle's version, empty for object sets made by hand.
pub fn bundle_version(revision: &ClusterObjectSet) -> &str {
    let annotations = revision.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(annotation::BUNDLE_VERSION))
        .map_or("", String::as_str)
}
