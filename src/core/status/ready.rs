//! `Ready`: one condition for tools that wait (decisions 12, 24 and 32), and those beside it by which
//! kstatus tells a failure from progress.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::{Reason, status, types};

use super::message::{MESSAGE_LIMIT, truncate_to};
use super::{Statement, find, is_true, object_set, remove_condition};

/// Additional information that upstream's conditions cannot hold: a newer bundle that is held back,
/// changed content, deferred objects, what to do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Reason of `Ready` while everything is well.
    pub reason: Reason,
    pub message: String,
}

/// Returns `Ready` of a `ClusterExtension`.
///
/// True when it is installed, available and progressing well, all at `generation`; then the reason
/// is the first note's, else `Succeeded`. Otherwise false with the reason and message of
/// `Progressing`. Notes are added to the message either way. An error that is retried does not count
/// where the installed bundle fits although the catalogs choose nothing.
pub fn extension_ready(
    conditions: &[Condition],
    generation: Option<i64>,
    notes: &[Note],
    fits: bool,
) -> Statement {
    let wanted = [types::INSTALLED, types::AVAILABLE, types::PROGRESSING];
    let all_well = "The bundle is installed and available.";
    summary(conditions, generation, (notes, fits), &wanted, all_well)
}

/// Returns `Ready` of a `ClusterCatalog`: true when its content is served and up to date.
pub fn catalog_ready(
    conditions: &[Condition],
    generation: Option<i64>,
    notes: &[Note],
) -> Statement {
    let wanted = [types::SERVING, types::PROGRESSING];
    let all_well = "The catalog is served and up to date.";
    summary(conditions, generation, (notes, false), &wanted, all_well)
}

/// Returns `Ready` of a `ClusterObjectSet`: true when its objects are rolled out and available, or
/// when it is archived, as its spec wants it.
pub fn object_set_ready(
    conditions: &[Condition],
    generation: Option<i64>,
    notes: &[Note],
) -> Statement {
    let progressing = find(conditions, types::PROGRESSING);
    if progressing.is_some_and(|found| found.reason == Reason::Archived.as_str()) {
        return Statement::yes(types::READY, Reason::Archived, object_set::ARCHIVED);
    }
    let wanted = [types::AVAILABLE, types::PROGRESSING];
    let all_well = "The objects are rolled out and available.";
    summary(conditions, generation, (notes, false), &wanted, all_well)
}

/// Puts `Ready`, and what kstatus reads before it: `Stalled` where only a change by a person helps,
/// else `Reconciling`, with the reason and message of `Ready`; neither when it is ready. `stalled` is
/// known besides; it may be false. Says whether `Ready` changed.
///
/// Source: deploying.md 9.3.
pub fn put_ready(
    conditions: &mut Vec<Condition>,
    ready: Statement,
    stalled: Option<Statement>,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let because = |type_| Statement { type_, status: status::TRUE, ..ready.clone() };
    let ended = stalled.as_ref().is_some_and(|stalled| stalled.status == status::TRUE);
    let (stalled, reconciling) = match stalled {
        _ if ready.status == status::TRUE => (None, None),
        stalled if ended => (stalled, None),
        _ if takes_a_person(ready.reason) => (Some(because(types::STALLED)), None),
        stalled => (stalled, Some(because(types::RECONCILING))),
    };
    for (type_, statement) in [(types::STALLED, stalled), (types::RECONCILING, reconciling)] {
        match statement {
            Some(statement) => statement.put(conditions, generation, now),
            None => remove_condition(conditions, type_),
        };
    }
    ready.put(conditions, generation, now)
}

/// Returns whether an object with this reason stays unready until a person changes something.
fn takes_a_person(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Blocked
            | Reason::InvalidConfiguration
            | Reason::ProgressDeadlineExceeded
            | Reason::UserSpecifiedUnavailable
    )
}

fn summary(
    conditions: &[Condition],
    generation: Option<i64>,
    (notes, fits): (&[Note], bool),
    wanted: &[&str],
    all_well: &str,
) -> Statement {
    let current = |type_: &str| {
        find(conditions, type_).is_some_and(|found| found.observed_generation == generation)
    };
    let progressing = find(conditions, types::PROGRESSING);
    let settled =
        fits || progressing.is_some_and(|found| found.reason == Reason::Succeeded.as_str());
    let well = settled && wanted.iter().all(|type_| is_true(conditions, type_) && current(type_));
    if well {
        let reason = notes.first().map_or(Reason::Succeeded, |note| note.reason);
        return Statement::yes(types::READY, reason, with_notes(all_well, notes));
    }
    // Progressing has the reason, unless it is settled and another condition is not.
    let culprit = if settled {
        wanted
            .iter()
            .filter_map(|type_| find(conditions, type_))
            .find(|found| found.status != status::TRUE)
    } else {
        progressing
    };
    let (reason, message) = match culprit {
        Some(found) => (found.reason.parse().unwrap_or(Reason::Retrying), found.message.as_str()),
        // All are true, but some are of an earlier generation, or absent.
        None => (Reason::Reconciling, "The latest change has not been processed yet."),
    };
    Statement::no(types::READY, reason, with_notes(message, notes))
}

/// Adds notes to a message, which is cut so that they fit: they say what can be done. One that says the
/// same adds nothing.
fn with_notes(message: &str, notes: &[Note]) -> String {
    let notes = notes.iter().map(|note| note.message.as_str());
    let notes = notes.filter(|note| !note.is_empty() && *note != message);
    let notes: String = notes.flat_map(|note| ["\n", note]).collect();
    let mut text = message.to_owned();
    truncate_to(&mut text, MESSAGE_LIMIT.saturating_sub(notes.len()));
    text.push_str(&notes);
    text.trim_start_matches('\n').to_owned()
}

/// `Ready` is false: the object is being removed; `message` is what is waited for.
pub fn uninstalling(message: impl Into<String>) -> Statement {
    Statement::no(types::READY, Reason::Uninstalling, message)
}

/// `Ready` is false: nothing of an object that is being deleted is removed while users' objects would
/// go with it.
pub fn removal_blocked(message: impl Into<String>) -> Statement {
    Statement::no(types::READY, Reason::Blocked, message)
}

/// `Ready` is false: nothing of an object that is being deleted is removed until a user corrects
/// it.
pub fn removal_held(message: impl Into<String>) -> Statement {
    Statement::no(types::READY, Reason::InvalidConfiguration, message)
}
