//! What a pass over a revision means for its conditions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use olm_api::conditions::{reasons, status, types};
use olm_api::keys::annotation;
use olm_api::{ClusterObjectSet, LifecycleState};

use super::plan::has_succeeded;

/// Shown while an archived revision still has objects.
pub const ARCHIVING: &str = "removing revision resources that are not owned by another revision";

/// How a pass over a revision ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every object is applied and ready.
    Complete,
    /// A phase is not complete; for its first object that fails a probe, the object and why.
    RollingOut(Option<String>),
    /// Something failed that may pass by itself.
    Failed(String),
    /// Somebody has to change something.
    Blocked(String),
    /// It is archived or being deleted, and objects of it remain; what is waited for.
    Removing(String),
    /// It is archived and nothing of it is left.
    Archived,
}

/// The time a revision has for its first roll-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// `spec.progressDeadlineMinutes`.
    pub minutes: i32,
    /// When it passes.
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

/// Returns the conditions a pass sets; conditions not among them keep their value.
///
/// Source: applying.md 3.8.
pub fn conditions(
    revision: &ClusterObjectSet,
    outcome: &Outcome,
    now: Timestamp,
) -> Vec<Condition> {
    let version = bundle_version(revision);
    let rolling = format!("Revision {version} is rolling out.");
    let new = |type_: &str, status: &str, reason: &str, message: &str| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: revision.metadata.generation,
        last_transition_time: Time(now),
    };
    let progressing = |status: &str, reason: &str, message: &str| {
        new(types::PROGRESSING, status, reason, message)
    };
    let available =
        |status: &str, reason: &str, message: &str| new(types::AVAILABLE, status, reason, message);
    match outcome {
        Outcome::Complete => vec![
            progressing(
                status::TRUE,
                reasons::SUCCEEDED,
                &format!("Revision {version} has rolled out."),
            ),
            available(
                status::TRUE,
                reasons::PROBES_SUCCEEDED,
                "Objects are available and pass all probes.",
            ),
            new(
                types::SUCCEEDED,
                status::TRUE,
                reasons::SUCCEEDED,
                "Revision succeeded rolling out.",
            ),
        ],
        Outcome::RollingOut(failing) => vec![
            late(revision, now, &rolling)
                .map(|text| progressing(status::FALSE, reasons::PROGRESS_DEADLINE_EXCEEDED, &text))
                .unwrap_or_else(|| progressing(status::TRUE, reasons::ROLLING_OUT, &rolling)),
            match failing {
                Some(text) => available(status::FALSE, reasons::PROBE_FAILURE, text),
                None => available(status::FALSE, reasons::ROLLING_OUT, &rolling),
            },
        ],
        Outcome::Failed(text) => {
            let first = late(revision, now, text)
                .map(|text| progressing(status::FALSE, reasons::PROGRESS_DEADLINE_EXCEEDED, &text))
                .unwrap_or_else(|| progressing(status::TRUE, reasons::RETRYING, text));
            let known = revision.status.iter().flat_map(|status| &status.conditions);
            let had = known.into_iter().any(|old| old.type_ == types::AVAILABLE);
            let second = had.then(|| available(status::UNKNOWN, reasons::RECONCILING, text));
            std::iter::once(first).chain(second).collect()
        }
        Outcome::Blocked(text) => vec![progressing(status::FALSE, reasons::BLOCKED, text)],
        Outcome::Removing(text) => vec![progressing(status::TRUE, reasons::RETRYING, text)],
        Outcome::Archived => {
            let text = "revision is archived";
            vec![
                progressing(status::FALSE, reasons::ARCHIVED, text),
                available(status::UNKNOWN, reasons::ARCHIVED, text),
            ]
        }
    }
}

/// Returns the annotation with the bundle's version, empty for sets made by hand.
pub fn bundle_version(revision: &ClusterObjectSet) -> &str {
    let annotations = revision.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(annotation::BUNDLE_VERSION))
        .map_or("", String::as_str)
}

fn late(revision: &ClusterObjectSet, now: Timestamp, last: &str) -> Option<String> {
    let Deadline { minutes, at } = deadline(revision)?;
    (now >= at).then(|| {
        format!("Revision has not rolled out for {minutes} minute(s). Last status: {last}")
    })
}
