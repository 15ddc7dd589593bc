//! What the outcome of a reconcile means for the status.

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use olm_api::conditions::types;
use olm_api::{
    BundleMetadata, ClusterExtension, ClusterExtensionStatus, ClusterObjectSet, UpdateStatus,
};
use olm_core::error::{Chain, Classify, Disposition};
use olm_core::extension::holds::RbacPreflight;
use olm_core::extension::{Answer, Notice};
use olm_core::revision::{BundleRecord, bundle_version, states};
use olm_core::status::extension::{self, Catalogs, Installed, Revision, Revisions, paused};
use olm_core::status::{remove_condition, sanitize};

use super::error::ExtensionError;
use super::outcome::Outcome;
use super::{Context, platform, write_status};

/// Writes what came of a reconcile: into the status, Events and metrics.
pub(super) async fn report(
    ctx: &Context,
    extension: &ClusterExtension,
    outcome: &Outcome,
) -> Result<(), ExtensionError> {
    let mut status = status(extension, outcome, Timestamp::now());
    if ctx.settings.rbac_preflight == RbacPreflight::Off {
        remove_condition(&mut status.conditions, types::PERMISSIONS);
    }
    platform::put(ctx.platform.release(), extension, outcome, &mut status.conditions);
    ctx.publish_notices(extension, outcome).await;
    let reachable = |update: &UpdateStatus| update.version.is_some();
    let offered = status.update.as_ref().is_some_and(reachable);
    ctx.metrics.update_offered(&extension.name_any(), Some(offered));
    write_status(ctx, extension, status).await
}

impl Context {
    /// Publishes what is the case, as far as it was not published before.
    async fn publish_notices(&self, extension: &ClusterExtension, outcome: &Outcome) {
        let notes = outcome.enacted.notes.iter().map(|note| Notice {
            is_warning: true,
            reason: note.reason,
            note: note.message.clone(),
        });
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        let new = match &outcome.answer {
            Some(answer) => {
                let all = answer.notices.iter().cloned().chain(notes).collect();
                self.published.changed(uid, all)
            }
            None => self.published.added(uid, notes.collect()),
        };
        for notice in new {
            let type_ = if notice.is_warning { EventType::Warning } else { EventType::Normal };
            self.publish(extension, type_, notice.reason, notice.note).await;
        }
    }
}

/// Returns the status after a reconcile.
fn status(
    extension: &ClusterExtension,
    outcome: &Outcome,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let error = outcome.result.as_ref().err();
    let records: Vec<_> = outcome.revisions.iter().flatten().map(BundleRecord::of).collect();
    let channels = extension
        .spec
        .as_ref()
        .and_then(|spec| spec.source.catalog.as_ref())
        .map(|catalog| catalog.channels.as_slice())
        .unwrap_or_default();
    let answer = outcome.answer.as_ref();
    let answered = answer.map_or(&[][..], |answer| &answer.notes);
    let notes = answered.iter().chain(&outcome.enacted.notes);
    let notes: Vec<_> = notes.cloned().collect();
    let mut status = extension::summarize(
        extension.status.as_ref(),
        &extension::Pass {
            generation: extension.metadata.generation,
            revisions: match (&outcome.revisions, error) {
                (Some(found), _) => Ok(revisions(found, &records)),
                (None, Some(ExtensionError::Revisions(cause))) => Err(sanitize(&cause.to_string())),
                (None, _) => Err(String::new()),
            },
            outcome: ended(error),
            catalogs: match answer.map(|answer| &answer.deprecations) {
                None => Catalogs::NotAsked,
                Some(None) => Catalogs::Unknown,
                Some(Some(data)) => Catalogs::Known(data),
            },
            channels,
            notes: &notes,
            fits: outcome.fits,
        },
        now,
    );
    if let Some(answer) = answer {
        status.update = answer.update.clone().or_else(|| held_step(outcome, answer));
    }
    if let Some(permissions) = outcome.enacted.permissions.clone() {
        permissions.put(&mut status.conditions, extension.metadata.generation, now);
    }
    if outcome.paused {
        paused().put(&mut status.conditions, extension.metadata.generation, now);
    } else {
        remove_condition(&mut status.conditions, types::PAUSED);
    }
    status
}

/// Returns the version that would take the place of the installed one if nothing held it.
fn held_step(outcome: &Outcome, answer: &Answer) -> Option<UpdateStatus> {
    let hold = outcome.result.as_ref().err()?.hold()?;
    let installed = states(outcome.revisions.as_ref()?).installed?;
    let goal = answer.goal.as_ref().ok()?;
    if BundleRecord::of(installed).is_same_bundle(&goal.target) {
        return None;
    }
    let version = goal.target.version.clone();
    Some(UpdateStatus {
        newest: version.clone(),
        catalog: goal.catalog.clone().unwrap_or_default(),
        reason: hold.note.reason.to_string(),
        message: format!("{version} is available; {}", hold.note.message),
        version: Some(version),
    })
}

fn ended(error: Option<&ExtensionError>) -> extension::Outcome {
    let Some(error) = error else {
        return extension::Outcome::Settled;
    };
    let text = Chain(error).to_string();
    match error.disposition() {
        Disposition::Terminal(reason) => extension::Outcome::Terminal(reason, text),
        Disposition::Retry | Disposition::RetryWithin(_) | Disposition::Wait(_) => {
            match error.held_by() {
                Some(reason) => extension::Outcome::Held(reason, text),
                None => extension::Outcome::Retry(text),
            }
        }
    }
}

fn revisions<'a>(found: &'a [ClusterObjectSet], records: &'a [BundleRecord]) -> Revisions<'a> {
    let states = states(found);
    let record = |wanted: &ClusterObjectSet| {
        let mut both = found.iter().zip(records);
        both.find(|(revision, _)| revision.spec.revision == wanted.spec.revision)
            .map(|(_, record)| record)
    };
    let installed = states.installed.and_then(|revision| {
        let record = record(revision)?;
        Some(Installed {
            revision: of(revision),
            bundle: BundleMetadata {
                name: record.name.clone(),
                version: record.version.clone(),
                release: record.release.clone(),
            },
            image: &record.image,
        })
    });
    Revisions { installed, rolling: states.rolling.into_iter().map(of).collect() }
}

fn of(revision: &ClusterObjectSet) -> Revision<'_> {
    Revision {
        name: revision.metadata.name.as_deref().unwrap_or_default(),
        version: bundle_version(revision),
        conditions: revision
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default(),
    }
}
