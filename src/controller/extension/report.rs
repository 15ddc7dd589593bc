//! The status after a reconcile.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use olm_api::conditions::{Reason, status as condition, types};
use olm_api::{ClusterExtension, ClusterExtensionStatus, UpdateStatus};
use olm_core::catalog::Lifecycle;
use olm_core::error::{Chain, Classify, Disposition};
use olm_core::extension::holds::RbacPreflight;
use olm_core::extension::summary::{self, Catalogs, Pass, summarize};
use olm_core::extension::{Answer, Notice, newest_known, under_way};
use olm_core::revision::{BundleRecord, states};
use olm_core::status::extension::paused;
use olm_core::status::{Statement, find, is_true, remove_condition, sanitize};

use super::error::ExtensionError;
use super::outcome::Outcome;
use super::{Context, platform};

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
    if outcome.error.as_ref().is_some_and(ExtensionError::is_of_lost_account) {
        // What it may do is asked again once it is there.
        ctx.kept.settled.forget(&extension.name_any());
    }
    let release = ctx.platform.release();
    platform::put(release, extension, outcome, &mut status.conditions);
    if let Some(answer) = &outcome.answer {
        let lifecycle = answer.lifecycle.as_ref();
        platform::support(release, extension, lifecycle, &mut status.conditions);
        ctx.metrics.support_ends(&extension.name_any(), lifecycle.and_then(Lifecycle::end));
    }
    ctx.publish_notices(extension, outcome, &status.conditions).await;
    let held = status.update.as_ref().is_some_and(is_held);
    ctx.metrics.update_offered(&extension.name_any(), Some(held));
    ctx.write_status(extension, status).await
}

impl Context {
    /// Publishes what is the case, as far as it was not published before.
    async fn publish_notices(
        &self,
        extension: &ClusterExtension,
        outcome: &Outcome,
        conditions: &[Condition],
    ) {
        let notes = outcome.enacted.notes.iter().map(|note| Notice {
            is_warning: true,
            reason: note.reason,
            note: note.message.clone(),
        });
        let needs_help = |error: &ExtensionError| error.is_of_pull() || error.is_of_lost_account();
        let notes =
            notes.chain(standing(conditions, outcome.error.as_ref().is_some_and(needs_help)));
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        let answered = outcome.answer.iter().flat_map(|answer| answer.notices.iter().cloned());
        let now = answered.chain(notes).collect();
        for notice in self.kept.published.new_of(uid, now, outcome.answer.is_some()) {
            let type_ = if notice.is_warning { EventType::Warning } else { EventType::Normal };
            self.reconciler.publish(extension, type_, notice.reason, notice.note).await;
        }
    }
}

/// Returns the conditions that need attention: those that only a change by a person ends, or most
/// likely (`needs_help`), and deprecated or unsupported versions.
fn standing(conditions: &[Condition], needs_help: bool) -> impl Iterator<Item = Notice> {
    let is_stalled = is_true(conditions, types::STALLED);
    let stalled = find(conditions, types::PROGRESSING).filter(|_| is_stalled || needs_help);
    let is_deprecated = is_true(conditions, types::DEPRECATED);
    let deprecated = find(conditions, types::DEPRECATED).filter(|_| is_deprecated);
    let unsupported =
        find(conditions, types::SUPPORTED).filter(|found| found.status == condition::FALSE);
    stalled.into_iter().chain(deprecated).chain(unsupported).filter_map(|found| {
        let reason = found.reason.parse().ok()?;
        Some(Notice { is_warning: true, reason, note: found.message.clone() })
    })
}

/// Returns the status after a reconcile.
fn status(
    extension: &ClusterExtension,
    outcome: &Outcome,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let error = outcome.error.as_ref();
    let catalog = extension.spec.as_ref().and_then(|spec| spec.source.catalog.as_ref());
    let channels = catalog.map_or(&[][..], |catalog| &catalog.channels);
    let answer = outcome.answer.as_ref();
    let answered = answer.map_or(&[][..], |answer| &answer.notes);
    let enacted = &outcome.enacted;
    let notes = answered.iter().chain(&enacted.notes).chain(&enacted.pending);
    let hint = error.and_then(ExtensionError::note);
    let notes: Vec<_> = notes.cloned().chain(hint).collect();
    let mut status = summarize(
        extension.status.as_ref(),
        &Pass {
            generation: extension.metadata.generation,
            revisions: match (&outcome.revisions, error) {
                (Some(found), _) => Ok(found.as_slice()),
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
            paused: outcome.paused,
            fits: outcome.fits,
            not_taken_over: outcome.not_taken_over,
        },
        now,
    );
    let newest = if let Some(answer) = answer {
        status.update = answer.update.clone().or_else(|| held_step(outcome, answer));
        answer.newest.clone()
    } else {
        let newest = status.update.as_ref().map(|update| update.newest.clone());
        status.update = status.update.filter(|update| !is_rolling_out(update));
        newest
    };
    let revisions = outcome.revisions.as_deref().unwrap_or_default();
    if let Some(update) = under_way(revisions, newest) {
        status.update = Some(update);
    }
    let known = find(&status.conditions, types::PERMISSIONS).is_some();
    let gone = error.filter(|error| known && error.is_of_lost_account());
    let gone = gone.map(|error| {
        Statement::unknown(types::PERMISSIONS, Reason::Retrying, Chain(error).to_string())
    });
    if let Some(permissions) = outcome.enacted.permissions.clone().or(gone) {
        permissions.put(&mut status.conditions, extension.metadata.generation, now);
    }
    if outcome.paused {
        paused().put(&mut status.conditions, extension.metadata.generation, now);
    } else {
        remove_condition(&mut status.conditions, types::PAUSED);
    }
    status
}

fn is_rolling_out(update: &UpdateStatus) -> bool {
    update.reason == Reason::RollingOut.as_str()
}

/// Says whether an update leads to a version that could follow, and waits.
fn is_held(update: &UpdateStatus) -> bool {
    update.version.is_some() && !is_rolling_out(update)
}

/// Returns the version that would take the place of the installed one if nothing held it.
fn held_step(outcome: &Outcome, answer: &Answer) -> Option<UpdateStatus> {
    let hold = outcome.error.as_ref()?.hold()?;
    let installed = states(outcome.revisions.as_ref()?).installed?;
    let goal = answer.goal.as_ref().ok()?;
    if BundleRecord::of(installed).is_same_bundle(&goal.target) {
        return None;
    }
    let version = goal.target.version.clone();
    Some(UpdateStatus {
        newest: newest_known(answer.newest.clone(), &version),
        catalog: goal.catalog.clone().unwrap_or_default(),
        reason: hold.note.reason.to_string(),
        message: format!("{version} is available; {}", hold.note.message),
        version: Some(version),
    })
}

fn ended(error: Option<&ExtensionError>) -> summary::Outcome {
    let Some(error) = error else { return summary::Outcome::Settled };
    let text = Chain(error).to_string();
    match error.disposition() {
        Disposition::Terminal(reason) => summary::Outcome::Terminal(reason, text),
        Disposition::Retry
        | Disposition::RetryWithin(_)
        | Disposition::RetryAfter(_)
        | Disposition::Wait(_) => match error.held_by() {
            Some(reason) => summary::Outcome::Held(reason, text),
            None => summary::Outcome::Retry(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use olm_core::status::{catalog, put_ready, removal_blocked, retrying, terminal, uninstalling};
    use rstest::rstest;

    use super::*;

    fn deprecated() -> Statement {
        Statement::yes(types::DEPRECATED, Reason::Deprecated, "old")
    }

    // docs/metrics.md
    #[rstest]
    #[case::approval(Some("2.0.0"), Reason::ApprovalRequired, true)]
    #[case::window(Some("2.0.0"), Reason::OutsideWindow, true)]
    #[case::rolls_out(Some("2.0.0"), Reason::RollingOut, false)]
    #[case::no_path(None, Reason::NotSuccessor, false)]
    fn an_update_is_held_if_it_could_follow(
        #[case] version: Option<&str>,
        #[case] reason: Reason,
        #[case] want: bool,
    ) {
        let (version, reason) = (version.map(str::to_owned), reason.to_string());
        assert_eq!(is_held(&UpdateStatus { version, reason, ..UpdateStatus::default() }), want);
    }

    #[rstest]
    #[case::retried([retrying("x"), catalog::nothing_unpacked()], uninstalling("x"), false, &[])]
    #[case::needs_help([retrying("x"), catalog::nothing_unpacked()], uninstalling("x"), true,
        &["Retrying: x"])]
    #[case::terminal([terminal(Reason::InvalidConfiguration, "bad"), catalog::nothing_unpacked()],
        removal_blocked("bad\nmore"), false, &["InvalidConfiguration: bad"])]
    #[case::deprecated([retrying("x"), deprecated()], uninstalling("x"), false,
        &["Deprecated: old"])]
    #[case::both([terminal(Reason::Blocked, "no"), deprecated()],
        removal_blocked("no"), true, &["Blocked: no", "Deprecated: old"])]
    fn a_warning_is_told_of_what_only_a_person_ends(
        #[case] statements: [Statement; 2],
        #[case] ready: Statement,
        #[case] needs_help: bool,
        #[case] want: &[&str],
    ) {
        let (mut conditions, now) = (Vec::new(), Timestamp::UNIX_EPOCH);
        for statement in statements {
            statement.put(&mut conditions, None, now);
        }
        put_ready(&mut conditions, ready, None, None, now);
        let told = standing(&conditions, needs_help).map(|notice| {
            assert!(notice.is_warning);
            format!("{}: {}", notice.reason, notice.note)
        });
        assert_eq!(told.collect::<Vec<_>>(), want);
    }
}
