//! The conditions that follow from a reconcile of a revision.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::{Reason, types};
use olm_api::keys::annotation;
use olm_api::{ClusterObjectSet, LifecycleState};

use crate::status::{Statement, find, object_set as texts, retrying, terminal};

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
    /// It is being deleted and kept all the same, as if it were not: how its roll-out stands, and
    /// what is waited for.
    Staying(Box<Self>, String),
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
    let minutes = revision.spec.progress_deadline_minutes.filter(|minutes| *minutes > 0)?;
    let created = revision.metadata.creation_timestamp.as_ref()?.0;
    let ended = has_succeeded(revision)
        || revision.spec.lifecycle_state == LifecycleState::Archived
        || revision.metadata.deletion_timestamp.is_some();
    if ended {
        return None;
    }
    let at = created.checked_add(SignedDuration::from_mins(i64::from(minutes))).ok()?;
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
                Some(line) => texts::probe_failure(std::slice::from_ref(line)),
                None => texts::not_yet_available(version),
            };
            vec![progressing, available]
        }
        Outcome::Failed(text) => {
            let progressing = late(text).unwrap_or_else(|| retrying(text));
            let available = available(revision).map(|_| texts::reconciling(text));
            std::iter::once(progressing).chain(available).collect()
        }
        Outcome::Blocked(text) => vec![terminal(Reason::Blocked, text)],
        Outcome::Invalid(text) => vec![terminal(Reason::InvalidConfiguration, text)],
        Outcome::Archiving => vec![texts::archiving()],
        Outcome::Removing(text) => {
            // An error that has passed is not repeated for as long as the removal waits.
            let failed =
                available(revision).filter(|old| old.reason == Reason::Reconciling.as_str());
            let available = failed.map(|_| texts::reconciling(text));
            std::iter::once(retrying(text)).chain(available).collect()
        }
        Outcome::Staying(outcome, text) => {
            let mut all = statements(revision, outcome, now);
            all.retain(|statement| statement.type_ != types::PROGRESSING);
            all.push(retrying(text));
            all
        }
        Outcome::Archived => texts::archived().into(),
    }
}

fn available(revision: &ClusterObjectSet) -> Option<&Condition> {
    let status = revision.status.as_ref()?;
    find(&status.conditions, types::AVAILABLE)
}

/// Returns the annotation with the bundle's version, empty for object sets made by hand.
pub fn bundle_version(revision: &ClusterObjectSet) -> &str {
    let annotations = revision.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(annotation::BUNDLE_VERSION))
        .map_or("", String::as_str)
}
