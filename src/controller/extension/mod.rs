//! The reconciler of ClusterExtensions: observe, plan, enact, report.
//!
//! In: the object, its revisions, its account, the catalogs. Out: at most one revision (a
//! ClusterObjectSet) and the status. What is decided is decided by [`olm_core::extension`]; applying
//! the revision's objects is the business of [`crate::objectset`].

mod additions;
mod before;
mod bundle;
mod certificates;
mod content;
mod context;
mod copies;
mod discovery;
mod enact;
mod error;
mod events;
mod live_crds;
mod moved;
mod observe;
mod outcome;
mod per_extension;
mod permissions;
mod platform;
mod pull_state;
mod pulls;
mod removal;
mod report;
mod resolve;
mod rollback;
mod settled;
mod takeover;
mod turns;
mod unchanged;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use olm_api::{ClusterExtension, keys};
use olm_core::error::{Chain, Classify as _};
use olm_core::extension::{Extras, Goal, Policy, Question, Return, going_back, reverted};

pub use before::Before;
pub use content::Rendered;
pub use context::Context;
pub use discovery::DiscoveryCache;
pub use error::ExtensionError;
pub use per_extension::PerExtension;
pub use turns::Turns;
pub use watch::{Triggers, run};

use crate::cluster::ApiError;
use crate::reconcile::Deadline;
use context::{Attempt, LIMIT};
use enact::Enacted;
use outcome::Outcome;

/// Brings one extension closer to its spec, and reports.
async fn reconcile(
    object: Arc<DeserializeGuard<ClusterExtension>>,
    ctx: Arc<Context>,
) -> Result<Action, ExtensionError> {
    let work = |extension| Box::pin(converge(&ctx, extension));
    ctx.reconciler.attempt(&object, work).await
}

/// Reads, decides, writes; the status is written on every path.
async fn converge(
    ctx: &Context,
    extension: &ClusterExtension,
) -> Result<Option<Duration>, ExtensionError> {
    if extension.metadata.deletion_timestamp.is_some() {
        let ended = removal::Removal { ctx, extension }.run().await;
        if ended.is_ok() {
            ctx.reconciler.succeeded(&extension.name_any());
        }
        return ended;
    }
    let finalizer = keys::finalizer::CLEANUP_UNPACK_CACHE;
    let held = match ctx.reconciler.add_finalizer(extension, finalizer).await {
        // The change of the object brings the next reconcile.
        Ok(Some(_)) => return Ok(None),
        Ok(None) => Ok(()),
        Err(cause) => Err(ExtensionError::finalizer(cause)),
    };
    if held.as_ref().is_err_and(ExtensionError::is_conflict) {
        // Not a failure: the next version of the object is on its way.
        return held.map(|()| None);
    }
    let outcome = Box::pin(attempt(ctx, extension, held)).await;
    report::report(ctx, extension, &outcome).await?;
    let next = outcome.next();
    if let Some(error) = outcome.error {
        return Err(error);
    }
    ctx.reconciler.succeeded(&extension.name_any());
    Ok(Some(next))
}

/// Does what can be done, which is nothing unless the extension is `held` by its finalizer, and returns
/// what came of it.
async fn attempt(
    ctx: &Context,
    extension: &ClusterExtension,
    held: Result<(), ExtensionError>,
) -> Outcome {
    // The state comes first, so that `Installed` is truthful whatever else fails.
    let mut revisions = match ctx.revisions.of(extension).await {
        Ok(revisions) => revisions,
        Err(error) => return ExtensionError::Revisions(ApiError(error)).into(),
    };
    let deadline = Deadline::after(LIMIT);
    let mut taken = None;
    // Each step needs what the one before it found; the first that fails is the last.
    let steps = async {
        held?;
        let (valid, account) = deadline.hold(observe::observe(ctx, extension, &revisions)).await?;
        let recording = ctx.revisions.record_account(&account, &mut revisions);
        deadline.hold::<_, ExtensionError>(async { Ok(recording.await?) }).await?;
        let attempt = Attempt {
            ctx,
            extension: valid,
            account: &account,
            revisions: &revisions,
            extras: &Extras::default(),
            deadline,
        };
        let taking =
            deadline.hold::<_, ExtensionError>(async { Ok(Box::pin(attempt.take_over()).await?) });
        taken = taking.await?;
        let attempt = Attempt { revisions: taken.as_deref().unwrap_or(&revisions), ..attempt };
        let mut outcome = Box::pin(attempt.follow()).await.unwrap_or_else(Outcome::from);
        // Certificates run out whether or not the catalogs answer.
        if !outcome.enacted.certificates_kept {
            outcome.enacted.look_again_within(attempt.keep_certificates().await);
        }
        if !outcome.enacted.copies_kept {
            outcome.enacted.look_again_within(attempt.keep_pull_secrets().await);
        }
        Ok::<_, ExtensionError>(outcome)
    };
    let mut outcome = Box::pin(steps).await.unwrap_or_else(Outcome::from);
    let revisions = outcome.enacted.revisions.take().or(taken).unwrap_or(revisions);
    outcome.not_taken_over =
        outcome.error.is_some() && ctx.is_not_taken_over(extension, &revisions).await;
    let closing = platform::closing(ctx.platform.release(), &revisions);
    outcome.enacted.notes.extend(closing);
    outcome.revisions = Some(revisions);
    outcome
}

impl Attempt<'_> {
    /// Does what the annotations say, else what the catalogs offer.
    async fn follow(&self) -> Result<Outcome, ExtensionError> {
        let ctx = self.ctx;
        let annotations = self.extension.object.annotations();
        let policy = Policy::of(annotations, ctx.settings.defaults())?;
        let extras = self.deadline.hold(ctx.extras(&policy)).await?;
        let now = Timestamp::now();
        let back = going_back(&policy, self.extension.object, self.revisions, now)?;
        let mut question = Question::of(self.extension, policy, back.as_ref(), self.revisions, now);
        self.deadline.hold(self.recall(&mut question)).await?;
        let mut outcome = Outcome {
            paused: question.policy.paused,
            opens: question.closed_until(),
            ..Outcome::default()
        };
        let attempt = Attempt { extras: &extras, ..*self };
        outcome.error = attempt.pursue(&question, back, &mut outcome).await.err();
        Ok(outcome)
    }

    /// Finds out what is to be installed, and makes its revision.
    async fn pursue(
        &self,
        question: &Question,
        back: Option<Return<'_>>,
        outcome: &mut Outcome,
    ) -> Result<(), ExtensionError> {
        let goal = match (&question.rolling, self.deadline.hold(self.ask(question)).await) {
            (_, Ok(answer)) => outcome.answer.insert(answer).goal.clone()?,
            (None, Err(error)) => return Err(error),
            // While a rollout is under way, what the catalogs would choose is not needed.
            (Some(rolling), Err(error)) => {
                tracing::debug!(error = %Chain(&error), "catalogs not asked");
                Goal::keep(rolling.bundle.clone())
            }
        };
        let (goal, refused) = self.heed_operator(question, goal, outcome).await?;
        let mut enacted = if question.policy.paused {
            Enacted::default()
        } else {
            self.deadline.hold(self.carry_out(&goal, &question.policy, back)).await?
        };
        let refused = enacted.refused.take().or(refused);
        enacted.look_again_within(outcome.enacted.look_again);
        outcome.enacted = enacted;
        outcome.fits = goal.fits && refused.is_none();
        // The newer bundle cannot be pulled, and the installed one stays.
        let held = || goal.held.map(|error| ExtensionError::Decision(error.into()));
        refused.or_else(held).map_or(Ok(()), Err)
    }

    /// Goes back where that is asked for, else makes the revision of the goal.
    async fn carry_out(
        &self,
        goal: &Goal,
        policy: &Policy,
        back: Option<Return<'_>>,
    ) -> Result<Enacted, ExtensionError> {
        self.create_namespace(policy).await?;
        let again = || reverted(policy, self.extension.object, self.revisions, &goal.target);
        match back.or_else(again) {
            Some(back) => Box::pin(self.go_back(&back, policy)).await,
            None => Box::pin(self.enact(goal, policy)).await,
        }
    }
}

/// Returns the action after a failed reconcile.
#[expect(clippy::needless_pass_by_value, reason = "the controller passes them so")]
fn error_policy(
    object: Arc<DeserializeGuard<ClusterExtension>>,
    error: &ExtensionError,
    ctx: Arc<Context>,
) -> Action {
    let name = object.name_any();
    let delay = ctx.reconciler.retry(&name, error);
    // What is configured has changed while the image was pulled.
    if error.is_of_pull() && !ctx.mended(|failed| failed == name).is_empty() {
        return Action::requeue(Duration::ZERO);
    }
    Action::requeue(delay)
}
