//! What a `ClusterExtension` says (api.md 4.4), and the summary of one pass.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::conditions::{reasons, status, types};
use olm_api::{BundleMetadata, ClusterExtensionStatus, InstallStatus, RevisionStatus};

use super::deprecation::{self, Deprecations};
use super::{
    Note, Statement, copy_condition, extension_ready, find, object_set, remove_condition, retrying,
    terminal,
};

pub mod text;

/// The installed revision: the newest one that is not archived and once succeeded.
#[derive(Debug, Clone)]
pub struct Installed<'a> {
    /// The revision.
    pub revision: Revision<'a>,
    /// What it installs.
    pub bundle: BundleMetadata,
    /// Image of the bundle, as the catalog writes it.
    pub image: &'a str,
}

/// A revision that is not archived.
#[derive(Debug, Clone, Copy)]
pub struct Revision<'a> {
    /// Name of the `ClusterObjectSet`.
    pub name: &'a str,
    /// Version of its bundle.
    pub version: &'a str,
    /// Conditions of the `ClusterObjectSet`; empty right after it was made.
    pub conditions: &'a [Condition],
}

/// The revisions of an extension.
#[derive(Debug, Clone, Default)]
pub struct Revisions<'a> {
    /// The installed one.
    pub installed: Option<Installed<'a>>,
    /// Those being rolled out, oldest first.
    pub rolling: Vec<Revision<'a>>,
}

/// How a pass ended, as far as `Progressing` is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing failed: `Progressing` is that of the newest revision.
    Settled,
    /// Something failed and is tried again.
    Retry(String),
    /// Something failed and waits for somebody: the reason, and the text.
    Terminal(&'static str, String),
}

/// What deprecation data the pass got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Catalogs<'a> {
    /// Catalogs were not asked: the conditions stay as they are.
    NotAsked,
    /// Nothing is known (or which catalog counts is not).
    Unknown,
    /// What the catalog that counts says.
    Known(&'a Deprecations),
}

/// One pass over a `ClusterExtension`, in what its status depends on.
#[derive(Debug, Clone)]
pub struct Pass<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The revisions, or why they could not be read.
    pub revisions: Result<Revisions<'a>, String>,
    /// How the pass ended.
    pub outcome: Outcome,
    /// Deprecation data.
    pub catalogs: Catalogs<'a>,
    /// The channels the spec names.
    pub channels: &'a [String],
    /// What `Ready` explains besides.
    pub notes: &'a [Note],
}

/// Returns the status after a pass, given the one before.
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
    match &pass.revisions {
        Err(error) => {
            // Whatever else failed follows from not knowing what is installed.
            installed_unknown(error).put(conditions, pass.generation, now);
            retrying(text::READING_INSTALLED).put(conditions, pass.generation, now);
            status.install = None;
        }
        Ok(revisions) => {
            installed(revisions).put(conditions, pass.generation, now);
            progressing(conditions, revisions, pass, now);
            available(conditions, revisions, pass.generation);
            status.install = revisions.installed.as_ref().map(|installed| InstallStatus {
                bundle: installed.bundle.clone(),
            });
            status.active_revisions = active(revisions);
            deprecations(conditions, revisions, pass, now);
        }
    }
    let read = pass.revisions.as_ref().ok();
    let waits = read.filter(|_| pass.outcome == Outcome::Settled);
    let notes = waits.and_then(waited_for).into_iter();
    let notes = notes.chain(pass.notes.iter().cloned());
    let notes: Vec<Note> = notes.chain(read.and_then(deferred)).collect();
    extension_ready(conditions, pass.generation, &notes).put(conditions, pass.generation, now);
    status
}

/// `Paused`, while the annotation says so.
pub fn paused() -> Statement {
    Statement::yes(types::PAUSED, reasons::PAUSED, text::paused())
}

/// Which object the roll-out waits for, as the newest revision says it.
fn waited_for(revisions: &Revisions<'_>) -> Option<Note> {
    let newest = revisions.rolling.last()?;
    let found = find(newest.conditions, types::AVAILABLE)?;
    (found.status == status::FALSE).then(|| Note {
        reason: reasons::ROLLING_OUT,
        message: found.message.clone(),
    })
}

/// What the newest revision leaves out because the cluster does not serve its kind (decision 21).
fn deferred(revisions: &Revisions<'_>) -> Option<Note> {
    let installed = revisions.installed.as_ref().map(|one| &one.revision);
    let newest = revisions.rolling.last().or(installed)?;
    let found = find(newest.conditions, types::DEFERRED)?;
    Some(Note {
        reason: reasons::OBJECTS_DEFERRED,
        message: found.message.clone(),
    })
}

/// `Installed`: nobody can say.
fn installed_unknown(error: &str) -> Statement {
    Statement::unknown(types::INSTALLED, reasons::FAILED, error)
}

/// `Installed`, by the revisions alone, whatever else went wrong in the pass.
fn installed(revisions: &Revisions<'_>) -> Statement {
    if let Some(installed) = &revisions.installed {
        let message = text::installed(installed.image);
        return Statement::yes(types::INSTALLED, reasons::SUCCEEDED, message);
    }
    // Not installed yet is no failure while the first roll-out goes well (rows 31 to 37).
    let healthy = revisions.rolling.last().is_some_and(|newest| {
        find(newest.conditions, types::PROGRESSING)
            .is_none_or(|found| found.reason == reasons::ROLLING_OUT)
    });
    let reason = if healthy {
        reasons::ABSENT
    } else {
        reasons::FAILED
    };
    Statement::no(types::INSTALLED, reason, text::NOTHING_INSTALLED)
}

fn progressing(
    conditions: &mut Vec<Condition>,
    revisions: &Revisions<'_>,
    pass: &Pass<'_>,
    now: Timestamp,
) {
    let statement = match &pass.outcome {
        Outcome::Retry(error) => retrying(error),
        Outcome::Terminal(reason, error) => terminal(reason, error),
        Outcome::Settled => {
            let installed = revisions.installed.as_ref().map(|one| &one.revision);
            let Some(newest) = revisions.rolling.last().or(installed) else {
                return;
            };
            match find(newest.conditions, types::PROGRESSING) {
                Some(found) => {
                    copy_condition(conditions, found, pass.generation);
                    return;
                }
                None => object_set::rolling_out(newest.version),
            }
        }
    };
    statement.put(conditions, pass.generation, now);
}

/// `Available` follows the installed revision; without one there is none.
fn available(conditions: &mut Vec<Condition>, revisions: &Revisions<'_>, generation: Option<i64>) {
    let found = revisions
        .installed
        .as_ref()
        .and_then(|installed| find(installed.revision.conditions, types::AVAILABLE));
    match found {
        Some(found) => copy_condition(conditions, found, generation),
        None => remove_condition(conditions, types::AVAILABLE),
    };
}

fn active(revisions: &Revisions<'_>) -> Vec<RevisionStatus> {
    let installed = revisions.installed.iter().map(|installed| RevisionStatus {
        name: installed.revision.name.to_owned(),
        conditions: Vec::new(),
    });
    let rolling = revisions.rolling.iter().map(|revision| {
        let mut conditions = Vec::new();
        for type_ in [types::AVAILABLE, types::PROGRESSING] {
            if let Some(found) = find(revision.conditions, type_) {
                copy_condition(&mut conditions, found, found.observed_generation);
            }
        }
        RevisionStatus {
            name: revision.name.to_owned(),
            conditions,
        }
    });
    installed.chain(rolling).collect()
}

fn deprecations(
    conditions: &mut Vec<Condition>,
    revisions: &Revisions<'_>,
    pass: &Pass<'_>,
    now: Timestamp,
) {
    let data = match pass.catalogs {
        Catalogs::NotAsked => return,
        Catalogs::Unknown => None,
        Catalogs::Known(data) => Some(data),
    };
    let bundle = revisions.installed.as_ref();
    let bundle = bundle.map(|installed| installed.bundle.name.as_str());
    for statement in deprecation::statements(data, pass.channels, bundle) {
        statement.put(conditions, pass.generation, now);
    }
}

#[cfg(test)]
mod tests;
