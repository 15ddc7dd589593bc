//! The status of a `ClusterExtension` after a reconcile (api.md 4.4).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::{Reason, status, types};
use olm_api::{
    BundleMetadata, ClusterExtensionStatus, ClusterObjectSet, InstallStatus, LifecycleState,
    RevisionStatus,
};

use crate::catalog::Deprecations;
use crate::revision::{BundleRecord, States, bundle_version, states};
use crate::status::extension::text;
use crate::status::{
    Note, Statement, copy_condition, extension_ready, find, object_set, put_ready,
    remove_condition, retrying, terminal,
};

mod deprecation;

/// The result of a reconcile, as far as it affects `Progressing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing failed: `Progressing` is copied from the newest revision.
    Settled,
    /// An error that is retried, as text.
    Retry(String),
    /// A step that something holds, as text: `Progressing` says that it is retried, `Ready` the reason.
    Held(Reason, String),
    /// An error that needs somebody to act: the reason, and the text.
    Terminal(Reason, String),
}

/// Deprecation data of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Catalogs<'a> {
    /// Catalogs were not read: the conditions stay as they are.
    NotAsked,
    /// Nothing is known (or it is not known which catalog counts).
    Unknown,
    /// The data of the catalog that counts.
    Known(&'a Deprecations),
}

/// The results of one reconcile of a `ClusterExtension` that its status depends on.
#[derive(Debug, Clone)]
pub struct Pass<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The revisions, sorted by number, or why they could not be read.
    pub revisions: Result<&'a [ClusterObjectSet], String>,
    /// How the reconcile ended.
    pub outcome: Outcome,
    /// What the catalog says about deprecation.
    pub catalogs: Catalogs<'a>,
    /// The channels in the spec.
    pub channels: &'a [String],
    /// Additional explanations for `Ready`.
    pub notes: &'a [Note],
    /// Whether nothing is applied, because the extension is paused.
    pub paused: bool,
    /// Whether the installed bundle is the requested one although the reconcile failed, as the notes
    /// explain.
    pub fits: bool,
    /// Whether another installer has installed it, and its first revision could not be made: what its
    /// status has about that still holds.
    pub not_taken_over: bool,
}

/// Returns the status after a reconcile, given the previous one.
///
/// Conditions of types that are not ours are kept. The same input twice gives the same status, so
/// that a settled object is not written again. Source: api.md 4.4.
pub fn summarize(
    before: Option<&ClusterExtensionStatus>,
    pass: &Pass<'_>,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut status = before.cloned().unwrap_or_default();
    let conditions = &mut status.conditions;
    let read = pass.revisions.as_ref().map(|revisions| states(*revisions));
    match &read {
        Err(error) => {
            // Any other error follows from not knowing the installed bundle.
            let unknown = Statement::unknown(types::INSTALLED, Reason::Failed, *error);
            unknown.put(conditions, pass.generation, now);
            retrying(text::READING_INSTALLED).put(conditions, pass.generation, now);
            status.install = None;
        }
        Ok(revisions) => {
            // It keeps the generation that it was about, too.
            let is_known = find(conditions, types::INSTALLED)
                .is_some_and(|found| found.status != status::UNKNOWN);
            if pass.not_taken_over && !is_known {
                let unknown =
                    Statement::unknown(types::INSTALLED, Reason::Failed, text::NOT_TAKEN_OVER);
                unknown.put(conditions, pass.generation, now);
            } else if !pass.not_taken_over {
                installed(revisions, pass.paused && pass.outcome == Outcome::Settled).put(
                    conditions,
                    pass.generation,
                    now,
                );
            }
            progressing(conditions, revisions, pass, now);
            available(conditions, revisions, pass.generation);
            if !pass.not_taken_over {
                status.install = revisions.installed.map(install);
            }
            status.active_revisions = active(revisions);
            deprecations(conditions, revisions, pass, now);
        }
    }
    let read = read.as_ref().ok();
    let waits = read.filter(|_| pass.outcome == Outcome::Settled);
    let notes = waits.and_then(waited_for).into_iter().chain(waits.and_then(stalled));
    let archived = |it: &&ClusterObjectSet| it.spec.lifecycle_state == LifecycleState::Archived;
    let archived = pass.revisions.iter().copied().flatten().filter(archived);
    let notes = notes.chain(waits.and_then(|it| collision(it, archived)));
    let notes = notes.chain(pass.notes.iter().cloned());
    let notes: Vec<Note> = notes.chain(read.and_then(deferred)).collect();
    let fits = pass.fits && !pass.notes.is_empty();
    let fits = fits && read.is_some_and(|revisions| revisions.rolling.is_empty());
    let mut ready = extension_ready(conditions, pass.generation, &notes, fits);
    if let Outcome::Held(reason, _) = pass.outcome {
        ready.reason = reason;
    }
    put_ready(conditions, ready, None, pass.generation, now);
    status
}

fn install(revision: &ClusterObjectSet) -> InstallStatus {
    let BundleRecord { name, version, release, .. } = BundleRecord::of(revision);
    InstallStatus { bundle: BundleMetadata { name, version, release } }
}

/// Returns the revision whose rollout counts: the newest that rolls out, else the installed one.
fn newest<'a>(revisions: &States<'a>) -> Option<&'a ClusterObjectSet> {
    revisions.rolling.last().copied().or(revisions.installed)
}

/// Returns the object that the rollout waits for, from the conditions of the newest revision.
fn waited_for(revisions: &States<'_>) -> Option<Note> {
    let found = newest(revisions)?.condition(types::AVAILABLE)?;
    (found.status == status::FALSE)
        .then(|| Note { reason: Reason::RollingOut, message: found.message.clone() })
}

/// Returns what keeps a workload of the newest revision from becoming ready.
fn stalled(revisions: &States<'_>) -> Option<Note> {
    let line = object_set::hindrance(&newest(revisions)?.status.as_ref()?.conditions)?;
    Some(Note { reason: Reason::RollingOut, message: line.to_owned() })
}

/// Returns what can be done where objects of the newest revision are controlled by nobody, or
/// managed by somebody else.
fn collision<'a>(
    revisions: &States<'_>,
    mut archived: impl Iterator<Item = &'a ClusterObjectSet>,
) -> Option<Note> {
    let newest = newest(revisions)?;
    let found = &newest.condition(types::PROGRESSING)?.message;
    let ready = newest.condition(types::READY).map_or("", |ready| &ready.message);
    let message = if let Some(line) = object_set::managed_line(ready) {
        line.to_owned()
    } else if object_set::may_be_adopted(found) {
        text::adoptable()
    } else {
        let (kind, name) = object_set::other_owner(found)?;
        let is_it = |it: &ClusterObjectSet| it.metadata.name.as_deref() == Some(name);
        if kind == "ClusterObjectSet" && archived.any(is_it) {
            text::still_removed(name)
        } else {
            text::owned_by(newest.metadata.name.as_deref().unwrap_or_default(), kind, name)
        }
    };
    Some(Note { reason: Reason::Retrying, message })
}

/// Returns which objects the newest revision left out because the cluster does not serve their kind
/// (decision 21).
fn deferred(revisions: &States<'_>) -> Option<Note> {
    let found = newest(revisions)?.condition(types::DEFERRED)?;
    Some(Note { reason: Reason::ObjectsDeferred, message: found.message.clone() })
}

/// `Installed`, by the revisions alone, whatever else failed in the reconcile.
fn installed(revisions: &States<'_>, paused: bool) -> Statement {
    if let Some(installed) = revisions.installed {
        let message = text::installed(&BundleRecord::of(installed).image);
        return Statement::yes(types::INSTALLED, Reason::Succeeded, message);
    }
    // Not being installed yet is not a failure while the first rollout goes well (rows 31 to 37).
    let healthy = revisions.rolling.last().map_or(paused, |newest| {
        newest
            .condition(types::PROGRESSING)
            .is_none_or(|found| found.reason == Reason::RollingOut.as_str())
    });
    let reason = if healthy { Reason::Absent } else { Reason::Failed };
    Statement::no(types::INSTALLED, reason, text::NOTHING_INSTALLED)
}

fn progressing(
    conditions: &mut Vec<Condition>,
    revisions: &States<'_>,
    pass: &Pass<'_>,
    now: Timestamp,
) {
    let statement = match &pass.outcome {
        Outcome::Retry(error) | Outcome::Held(_, error) => retrying(error),
        Outcome::Terminal(reason, error) => terminal(*reason, error),
        Outcome::Settled => {
            let newest = newest(revisions);
            let found = newest.and_then(|newest| newest.condition(types::PROGRESSING));
            match (newest, found) {
                (_, Some(found)) => {
                    copy_condition(conditions, found, pass.generation);
                    return;
                }
                (Some(newest), None) => object_set::rolling_out(bundle_version(newest)),
                (None, None) if pass.paused => {
                    Statement::no(types::PROGRESSING, Reason::Paused, text::paused())
                }
                (None, None) => return,
            }
        }
    };
    statement.put(conditions, pass.generation, now);
}

/// `Available` is copied from the installed revision; without one the condition is removed.
fn available(conditions: &mut Vec<Condition>, revisions: &States<'_>, generation: Option<i64>) {
    match revisions.installed.and_then(|it| it.condition(types::AVAILABLE)) {
        Some(found) => copy_condition(conditions, found, generation),
        None => remove_condition(conditions, types::AVAILABLE),
    };
}

fn active(revisions: &States<'_>) -> Vec<RevisionStatus> {
    let told = |revision: &ClusterObjectSet, types: &[&str]| {
        let mut conditions = Vec::new();
        for found in types.iter().filter_map(|type_| revision.condition(type_)) {
            copy_condition(&mut conditions, found, found.observed_generation);
        }
        RevisionStatus { name: revision.metadata.name.clone().unwrap_or_default(), conditions }
    };
    let installed = revisions.installed.map(|revision| told(revision, &[]));
    let rolling = revisions.rolling.iter();
    let rolling = rolling.map(|revision| told(revision, &[types::AVAILABLE, types::PROGRESSING]));
    installed.into_iter().chain(rolling).collect()
}

fn deprecations(
    conditions: &mut Vec<Condition>,
    revisions: &States<'_>,
    pass: &Pass<'_>,
    now: Timestamp,
) {
    let data = match pass.catalogs {
        Catalogs::NotAsked => return,
        Catalogs::Unknown => None,
        Catalogs::Known(data) => Some(data),
    };
    let bundle = revisions.installed.map(|installed| BundleRecord::of(installed).name);
    for statement in deprecation::statements(data, pass.channels, bundle.as_deref()) {
        statement.put(conditions, pass.generation, now);
    }
}

#[cfg(test)]
mod tests;
