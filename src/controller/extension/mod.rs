//! The reconciler of ClusterExtensions: observe, plan, enact, report.
//!
//! In: the object, its revisions, its account, the catalogs. Out: at most one revision (a
//! ClusterObjectSet) and the status. What is decided is decided by [`olm_core::extension`]; applying
//! the revision's objects is the business of [`crate::objectset`].

mod bundle;
mod certificates;
mod content;
mod discovery;
mod enact;
mod error;
mod events;
mod live_crds;
mod moved;
mod namespace;
mod observe;
mod operator;
mod outcome;
mod permissions;
mod platform;
mod proxy;
mod pull_state;
mod pulls;
mod refusals;
mod removal;
mod report;
mod resolve;
mod rollback;
mod settled;
mod takeover;
mod turns;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Client, ResourceExt};
use olm_api::conditions::Reason;
use olm_api::{ClusterExtension, ClusterExtensionStatus, ClusterObjectSet, keys};
use olm_core::config::Features;
use olm_core::crd_safety::Rules;
use olm_core::error::{Chain, Classify as _};
use olm_core::extension::holds::RbacPreflight;
use olm_core::extension::{
    Defaults, Goal, Policy, Question, Return, ValidExtension, going_back, reverted, settled_on,
};
use olm_core::render::{CertificateSource, ProxyVariables};
use olm_core::resolve::Options;
use olm_core::revision::{Account, AccountRule, BundleRecord, Origin, states};
use olm_core::uninstall::UninstallPolicy;
use olm_image::{BundleCache, Resolved};

pub use content::Rendered;
pub use discovery::DiscoveryCache;
pub use error::ExtensionError;
pub use events::PublishedNotices;
pub use pull_state::PullState;
pub use pulls::{Pulls, ended};
pub use refusals::Refusals;
pub use removal::OrphaningSeen;
pub use settled::Settled;
pub use takeover::Before;
pub use turns::Turns;
pub use watch::{Triggers, content_changes, run};

use crate::account::{Guard, Reviews};
use crate::certificates::Issuer;
use crate::cluster::ApiError;
use crate::credentials::RegistryCredentials;
use crate::fetch::Catalogs;
use crate::gate::Platform;
use crate::rbac_watch::{RbacWatch, Waiter};
use crate::reconcile::{Deadline, Reconciler};
use crate::revision::KnownRevisions;
use crate::seen::Seen;
use crate::telemetry::Metrics;
use content::Extras;
use enact::Enacted;
use moved::Moved;
use outcome::Outcome;

/// Longest time a reconcile may take before it is reported as failed; the care for certificates and
/// the report come after that. Pulls do not count: they go on without it.
const LIMIT: Duration = Duration::from_mins(5);

/// What the administrator of the controller decided about extensions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the Secrets that hold the objects of revisions.
    pub system_namespace: String,
    /// Which account counts.
    pub accounts: AccountRule,
    /// How resolution behaves where annotations say nothing.
    pub resolution: Options,
    /// What counts where annotations say nothing.
    pub defaults: Defaults,
    /// The proxies that operators get where there is no `Proxy`.
    pub operator_proxy: ProxyVariables,
    /// What `spec.config` may say and which bundles are accepted.
    pub features: Features,
    /// Who issues the certificates of webhooks; nobody named leaves it to what the cluster offers.
    pub certificates: Option<CertificateSource>,
    /// Whether each step of each extension has to be approved by its plan.
    pub require_approval: bool,
    /// What is done about rights that an account lacks.
    pub rbac_preflight: RbacPreflight,
    /// What becomes of CRDs where nobody says so.
    pub uninstall: UninstallPolicy,
    /// Whether objects of optional kinds wait until their kind is served.
    pub defer_optional_kinds: bool,
    /// Which changes of CRDs are let pass.
    pub crd_rules: Rules,
    /// Extensions worked on at the same time.
    pub concurrency: u16,
}

/// What reconciles of ClusterExtensions share.
pub struct Context {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Says which accounts may be acted as.
    pub guard: Arc<Guard>,
    /// Says what accounts may do.
    pub reviews: Reviews,
    /// Wakes who waits for rights.
    pub rbac: Arc<RbacWatch>,
    /// What the administrator decided.
    pub settings: Settings,
    /// The revisions on the cluster.
    pub revisions: Arc<KnownRevisions>,
    /// Extensions, catalogs and accounts on the cluster.
    pub seen: Seen,
    /// The catalogs, as far as they could be read.
    pub catalogs: Catalogs,
    /// What bundle images are pulled with.
    pub credentials: Arc<RegistryCredentials>,
    /// What is remembered of pulls.
    pub pull_state: PullState,
    /// Bundles on disk.
    pub bundles: BundleCache,
    /// Tags that are being resolved.
    pub digests: Pulls<Resolved>,
    /// Bundles that are being pulled.
    pub images: Pulls<()>,
    /// Who reads bundles.
    pub turns: Turns,
    /// The rest of the cluster.
    pub discovery: DiscoveryCache,
    /// Extensions whose revision a check refused.
    pub refusals: Refusals,
    /// Counts, delays and writes.
    pub reconciler: Reconciler,
    /// Events that were published last.
    pub published: PublishedNotices,
    /// Extensions whose deletion is to leave what they installed.
    pub orphaning: OrphaningSeen,
    /// Counts resolutions.
    pub metrics: Metrics,
    /// Contents rendered last.
    pub rendered: Rendered,
    /// Extensions that need not be rendered again.
    pub settled: Settled,
    /// Issues certificates of webhooks.
    pub issuer: Issuer,
    /// The release of the platform, which bundles may hold.
    pub platform: Platform,
    /// What upstream installed in its earlier ways.
    pub before: Before,
}

/// What every step of a reconcile works on.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    ctx: &'a Context,
    extension: ValidExtension<'a>,
    /// As whom is acted.
    account: &'a Account,
    /// The revisions, sorted by number.
    revisions: &'a [ClusterObjectSet],
    /// What its annotations add to its bundle.
    extras: &'a Extras,
    deadline: Deadline,
}

impl Context {
    /// Drops what is kept of an extension that is gone.
    fn forget(&self, extension: &ClusterExtension) {
        let name = extension.name_any();
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        self.published.forget(uid);
        self.orphaning.forget(uid);
        self.reconciler.forget(extension);
        self.rbac.forget(&Waiter::Extension(name.clone()));
        self.revisions.forget(extension);
        self.refusals.note(&name, None);
        self.discovery.track(&name, false);
        self.discovery.changed();
        self.metrics.update_offered(&name, None);
        self.metrics.support_ends(&name, None);
        self.pull_state.forget(&name);
        self.digests.forget(&name);
        self.images.forget(&name);
        self.settled.forget(&name);
    }

    /// Returns the extensions whose bundle the present credentials and files may be enough for, and
    /// forgets their delays.
    fn mended(&self) -> Vec<String> {
        let names = self.pull_state.mended(self.credentials.version());
        for name in &names {
            self.reconciler.succeeded(name);
        }
        names
    }

    /// Publishes an Event about an extension.
    async fn publish(
        &self,
        extension: &ClusterExtension,
        type_: EventType,
        reason: Reason,
        note: String,
    ) {
        let publish = self.reconciler.publish(extension, type_, reason, note);
        publish.await;
    }
}

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
        let ended = removal::remove(extension, ctx).await;
        if ended.is_ok() {
            ctx.reconciler.succeeded(&extension.name_any());
        }
        return ended;
    }
    let finalizer = keys::finalizer::CLEANUP_UNPACK_CACHE;
    let outcome = match ctx.reconciler.add_finalizer(extension, finalizer).await {
        // The change of the object brings the next reconcile.
        Ok(Some(_)) => return Ok(None),
        Ok(None) => Box::pin(attempt(ctx, extension)).await,
        Err(cause) => unheld(ctx, extension, cause).await?,
    };
    report::report(ctx, extension, &outcome).await?;
    let next = outcome.next();
    outcome.result?;
    ctx.reconciler.succeeded(&extension.name_any());
    Ok(Some(next))
}

/// Returns what came of a reconcile whose finalizer could not be added: nothing is done without it.
async fn unheld(
    ctx: &Context,
    extension: &ClusterExtension,
    cause: kube::Error,
) -> Result<Outcome, ExtensionError> {
    let error = ExtensionError::finalizer(cause.into());
    if error.is_conflict() {
        // Not a failure: the next version of the object is on its way.
        return Err(error);
    }
    Ok(match ctx.revisions.of(extension).await {
        Ok(revisions) => Outcome { revisions: Some(revisions), ..error.into() },
        Err(cause) => {
            tracing::warn!(error = %Chain(&error), "no finalizer");
            ExtensionError::Revisions(ApiError(cause)).into()
        }
    })
}

/// Does what can be done, and returns what came of it.
async fn attempt(ctx: &Context, extension: &ClusterExtension) -> Outcome {
    // The state comes first, so that `Installed` is truthful whatever else fails.
    let mut revisions = match ctx.revisions.of(extension).await {
        Ok(revisions) => revisions,
        Err(error) => return ExtensionError::Revisions(ApiError(error)).into(),
    };
    let deadline = Deadline::after(LIMIT);
    let observed = observe::observe(ctx, extension, &revisions);
    let mut observed = deadline.hold(observed).await;
    if let Ok((valid, account)) = &observed {
        let attempt = Attempt {
            ctx,
            extension: *valid,
            account,
            revisions: &revisions,
            extras: &Extras::default(),
            deadline,
        };
        let taken = deadline.hold(async { Ok(Box::pin(attempt.take_over()).await?) });
        match taken.await {
            Ok(Some(taken)) => revisions = taken,
            Ok(None) => {}
            Err(error) => observed = Err(error),
        }
    }
    let mut outcome: Outcome = match observed {
        Ok((valid, account)) => {
            let policy = Policy::of(extension.annotations(), ctx.settings.defaults.clone());
            let policy = policy.map_err(ExtensionError::Policy);
            let extras = match policy.as_ref() {
                Ok(policy) => deadline.hold(ctx.extras(policy)).await,
                Err(_) => Ok(Extras::default()),
            };
            let (policy, extras) = match extras {
                Ok(extras) => (policy, extras),
                Err(error) => (Err(error), Extras::default()),
            };
            let attempt = Attempt {
                ctx,
                extension: valid,
                account: &account,
                revisions: &revisions,
                extras: &extras,
                deadline,
            };
            let mut outcome = match policy {
                Ok(policy) => Box::pin(attempt.follow(policy)).await,
                Err(error) => error.into(),
            };
            // Certificates run out whether or not the catalogs answer.
            if !outcome.enacted.certificates_kept {
                let next = attempt.keep_certificates().await;
                outcome.enacted.look_again_within(next);
            }
            outcome
        }
        Err(error) => error.into(),
    };
    let revisions = outcome.enacted.revisions.take().unwrap_or(revisions);
    let closing = platform::closing(ctx.platform.release(), &revisions);
    outcome.enacted.notes.extend(closing);
    outcome.revisions = Some(revisions);
    outcome
}

impl Attempt<'_> {
    /// Does what the annotations say, else what the catalogs offer.
    async fn follow(&self, policy: Policy) -> Outcome {
        let (now, extension) = (Timestamp::now(), self.extension.object);
        let back = match going_back(&policy, self.revisions, now) {
            Ok(back) => back,
            Err(error) => return ExtensionError::Rollback(error).into(),
        };
        let installed = states(self.revisions).installed;
        let question = Question {
            filter: self.extension.filter.clone(),
            policy,
            installed: installed.map(BundleRecord::of),
            came_from: installed.and_then(|set| Origin::of(set).catalog),
            rolling: settled_on(extension, back.as_ref(), self.revisions, now),
            now,
        };
        self.pursue(&question, back).await
    }

    /// Finds out what is to be installed, and makes its revision.
    async fn pursue(&self, question: &Question, back: Option<Return<'_>>) -> Outcome {
        let mut outcome = Outcome {
            paused: question.policy.paused,
            opens: question.closed_until(),
            ..Outcome::default()
        };
        let answer = self.deadline.hold(self.ask(question)).await;
        let goal = match (&question.rolling, answer) {
            (_, Ok(answer)) => {
                let goal = answer.goal.clone().map_err(ExtensionError::from);
                outcome.answer = Some(answer);
                goal
            }
            (None, Err(error)) => Err(error),
            // While a rollout is under way, what the catalogs would choose is not needed.
            (Some(rolling), Err(error)) => {
                tracing::debug!(error = %Chain(&error), "catalogs not asked");
                Ok(Goal::keep(rolling.bundle.clone()))
            }
        };
        let (goal, refused) = match goal {
            Ok(goal) => match self.heed_operator(question, goal, &mut outcome).await {
                Ok((goal, refused)) => (Ok(goal), refused),
                Err(error) => (Err(error), None),
            },
            Err(error) => (Err(error), None),
        };
        let enacted = match &goal {
            Ok(goal) if !question.policy.paused => {
                let (policy, extension) = (&question.policy, self.extension.object);
                let again = || reverted(policy, extension, self.revisions, &goal.target);
                let enacting = async {
                    self.create_namespace(policy).await?;
                    match back.or_else(again) {
                        Some(back) => Box::pin(self.go_back(&back, policy)).await,
                        None => Box::pin(self.enact(goal, policy)).await,
                    }
                };
                self.deadline.hold(enacting).await
            }
            Ok(_) => Ok(Enacted::default()),
            Err(_) => {
                outcome.result = goal.map(drop);
                return outcome;
            }
        };
        match enacted {
            Ok(mut enacted) => {
                let (held, fits) = goal.map_or((None, false), |goal| (goal.held, goal.fits));
                let refused = enacted.refused.take().or(refused);
                outcome.fits = fits && refused.is_none();
                let failed = refused.or_else(|| held.map(ExtensionError::held));
                enacted.notes.append(&mut outcome.enacted.notes);
                enacted.look_again_within(outcome.enacted.look_again);
                outcome.enacted = enacted;
                outcome.result = failed.map_or(Ok(()), Err);
            }
            Err(error) => outcome.result = Err(error),
        }
        outcome
    }
}

/// What is done after a reconcile failed.
#[expect(clippy::needless_pass_by_value, reason = "the controller passes them so")]
fn error_policy(
    object: Arc<DeserializeGuard<ClusterExtension>>,
    error: &ExtensionError,
    ctx: Arc<Context>,
) -> Action {
    let name = object.name_any();
    let delay = ctx.reconciler.retry(&name, error);
    // What is configured has changed while the image was pulled.
    if error.is_of_pull() && ctx.mended().contains(&name) {
        return Action::requeue(Duration::ZERO);
    }
    Action::requeue(delay)
}

/// Replaces the status, if it differs from the one that was read.
async fn write_status(
    ctx: &Context,
    extension: &ClusterExtension,
    status: ClusterExtensionStatus,
) -> Result<(), ExtensionError> {
    let moved = Moved::between(extension.status.as_ref(), &status);
    let changed = ctx.reconciler.write_status(extension, status).await;
    let changed = changed.map_err(|error| ExtensionError::Status(ApiError(error)))?;
    if changed.is_some() {
        moved.count(&ctx.metrics, extension);
    }
    if changed.is_some() && moved.platform() {
        ctx.platform.way_out_changed();
    }
    if changed.is_some() && moved.installed() {
        // Others may have waited for it, or may be held by it.
        ctx.discovery.changed();
    }
    Ok(())
}
