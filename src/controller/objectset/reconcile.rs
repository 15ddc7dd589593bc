//! One pass over a ClusterObjectSet.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc;
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{
    Controller, Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher,
};
use kube::{Api, Client, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet, LifecycleState, ObservedPhase};
use olm_core::error::Chain;
use olm_core::guard::Policy;
use olm_core::object::Identity;
use olm_core::revision::{Account, Mark, Outcome, Sibling, changed, deadline, has_succeeded};
use tracing::Instrument as _;

use crate::account::GuardError;
use crate::apply::{Applier, ApplyError, ResolvedPhase, Revision, Target};
use crate::backoff::{RESYNC, jittered, resync};
use crate::client;
use crate::reconcile as shared;
use crate::telemetry::CONTROLLER_OBJECT_SET;

use super::content::{Content, read_secrets, require_immutable, resolve};
use super::list::list_siblings;
use super::missing::follow_crds;
use super::own::{add_finalizer, archive_sibling, is_paused, owner_name, remove_finalizer, report};
use super::{Context, ExtensionState, ObjectSetError, rights, teardown};

/// How often objects that fail their probes are looked at where they cannot be watched.
const POLL_FAILING: Duration = Duration::from_secs(10);
/// How often a revision that is not complete is looked at although nothing called for it: news that
/// never came costs no more than this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Longest a pass may take before it is reported as failed.
const PASS_LIMIT: Duration = Duration::from_mins(5);
/// Longest the report of a pass may take.
const REPORT_LIMIT: Duration = Duration::from_mins(1);

/// The kind as it is watched: one object that cannot be read does not stop the others.
type Guarded = DeserializeGuard<ClusterObjectSet>;

/// What a pass found out and what comes next.
pub(super) struct Pass {
    /// The object, with the resource version of the last write.
    pub(super) set: ClusterObjectSet,
    /// Digests to store if none are stored yet.
    pub(super) observed: Vec<ObservedPhase>,
    /// Objects left out because the cluster does not serve their kind; `None` when not all phases
    /// were looked at.
    pub(super) deferred: Option<Vec<Identity>>,
}

/// How a pass ended well.
pub(super) struct Settled {
    /// What to report; `None` leaves the status as it is.
    outcome: Option<Outcome>,
    /// When to look again.
    next: Duration,
    /// Whether our finalizer comes off after the report.
    finished: bool,
    /// Earlier revisions that are archived after the report: until this one's success stands on
    /// the cluster, theirs is what is installed.
    replaced: Vec<ClusterObjectSet>,
}

impl Settled {
    /// Nothing is left to do until something changes.
    pub(super) fn at_rest(outcome: Option<Outcome>) -> Self {
        Self::again(outcome, resync())
    }

    /// Something is left to do, at the latest after `next`.
    pub(super) fn again(outcome: Option<Outcome>, next: Duration) -> Self {
        Self {
            outcome,
            next,
            finished: false,
            replaced: Vec::new(),
        }
    }

    /// Our finalizer comes off.
    pub(super) fn finished(self) -> Self {
        Self {
            finished: true,
            ..self
        }
    }

    /// Reports something else.
    pub(super) fn reporting(self, outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            ..self
        }
    }
}

/// Runs the reconciler until `shutdown` resolves and the passes under way have ended.
///
/// `woken` comes from [`Context::new`].
pub async fn run(
    ctx: Arc<Context>,
    woken: mpsc::Receiver<String>,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let api = Api::<Guarded>::all(ctx.client.clone());
    let (reader, writer) = reflector::store();
    // Our own status writes need no second look; everything a person or another part of the
    // controller changes does.
    let relevant = predicates::generation
        .combine(predicates::finalizers)
        .combine(predicates::annotations)
        .combine(predicates::labels);
    let sets = client::changes(api, watcher::Config::default())
        .reflect(writer)
        .applied_objects()
        .predicate_filter(relevant, PredicateConfig::default());
    let woken = woken.map(|name| ObjectRef::<Guarded>::new(&name));
    let granted = rights::granted(&ctx.client, reader.clone());
    let config = controller::Config::default().concurrency(ctx.settings.concurrency);
    // A Secret that comes back, or is made immutable, unblocks the revision it belongs to.
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(
        ctx.client.clone(),
        &ctx.settings.system_namespace,
    );
    let of_revisions = watcher::Config::default().labels(label::REVISION_NAME);
    let secrets = client::changes(secrets, of_revisions).touched_objects();
    // Its account, its annotations and its deletion count for every revision of an extension.
    let all = Api::<PartialObjectMeta<ClusterExtension>>::all(ctx.client.clone());
    let relevant = predicates::generation
        .combine(predicates::finalizers)
        .combine(predicates::annotations);
    let extensions = client::changes(all, watcher::Config::default())
        .touched_objects()
        .predicate_filter(relevant, PredicateConfig::default());
    let revisions = reader.clone();
    let results = Controller::for_stream(sets, reader)
        .with_config(config)
        .watches_stream(extensions, move |extension| {
            labelled(&revisions, &extension.name_any())
        })
        .watches_stream(secrets, |secret| {
            let revision = secret.labels().get(label::REVISION_NAME);
            revision.map(|name| ObjectRef::<Guarded>::new(name))
        })
        .reconcile_on(stream::select(woken, granted))
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, Arc::clone(&ctx));
    tokio::select! {
        () = drain(results) => {}
        () = follow_crds(&ctx) => {}
    }
}

/// Returns the revisions with the label of an extension.
fn labelled(revisions: &reflector::Store<Guarded>, extension: &str) -> Vec<ObjectRef<Guarded>> {
    let of_it = |guarded: &&Arc<Guarded>| {
        let owner = guarded.labels().get(label::OWNER_NAME);
        owner.is_some_and(|owner| owner == extension)
    };
    let revisions = revisions.state();
    let found = revisions.iter().filter(of_it);
    found
        .map(|guarded| ObjectRef::from_obj(&**guarded))
        .collect()
}

async fn drain<T, E: std::fmt::Display>(results: impl Stream<Item = Result<T, E>>) {
    results
        .for_each(|result| async move {
            if let Err(err) = result {
                tracing::debug!(error = %err, "reconcile not settled");
            }
        })
        .await;
}

/// Brings the cluster closer to what one ClusterObjectSet says, and reports.
pub async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, ObjectSetError> {
    let DeserializeGuard(Ok(set)) = guarded.as_ref() else {
        tracing::warn!(name = guarded.name_any(), "ClusterObjectSet cannot be read");
        return Ok(Action::await_change());
    };
    let name = set.name_any();
    let span = tracing::info_span!(
        "reconcile",
        controller = CONTROLLER_OBJECT_SET,
        name,
        generation = set.metadata.generation
    );
    let started = Instant::now();
    let answer = pass(&ctx, set).instrument(span.clone()).await;
    let counted = shared::counted(&answer);
    ctx.metrics
        .reconciled(CONTROLLER_OBJECT_SET, counted, started.elapsed());
    span.in_scope(|| tracing::info!(name, "reconcile ending"));
    answer
}

/// Says when a failed pass is tried again.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the controller passes them so"
)]
pub fn error_policy(guarded: Arc<Guarded>, err: &ObjectSetError, ctx: Arc<Context>) -> Action {
    let name = guarded.name_any();
    let delay = shared::delay(err, &ctx.backoff, name.clone());
    let delay = match guarded.0.as_ref().ok().and_then(until_deadline) {
        Some(left) => delay.min(left),
        None => delay,
    };
    if err.is_conflict() {
        tracing::debug!(name, error = %Chain(err), ?delay, "reconcile met a concurrent write");
    } else {
        tracing::warn!(name, error = %Chain(err), ?delay, "reconcile failed");
    }
    Action::requeue(delay)
}

async fn pass(ctx: &Context, set: &ClusterObjectSet) -> Result<Action, ObjectSetError> {
    let mut pass = Pass {
        set: set.clone(),
        observed: Vec::new(),
        deferred: None,
    };
    let answer = within(PASS_LIMIT, converge(ctx, &mut pass)).await;
    within(REPORT_LIMIT, conclude(ctx, pass, answer)).await
}

/// Fails when `part` of a pass takes longer than `limit`.
async fn within<T>(
    limit: Duration,
    part: impl Future<Output = Result<T, ObjectSetError>>,
) -> Result<T, ObjectSetError> {
    let answer = tokio::time::timeout(limit, part).await;
    answer.unwrap_or_else(|_| {
        let text = format!("pass took longer than {} seconds", limit.as_secs());
        Err(ObjectSetError::own(
            "applying",
            kube::Error::Service(text.into()),
        ))
    })
}

/// Reports what came of a pass, and says when the next one is due.
async fn conclude(
    ctx: &Context,
    mut pass: Pass,
    answer: Result<Settled, ObjectSetError>,
) -> Result<Action, ObjectSetError> {
    // Status is written on every path, so a failure is never visible only in the log.
    let outcome = match &answer {
        Ok(settled) => settled.outcome.clone(),
        Err(err) => Some(failure(err)),
    };
    if let Some(outcome) = outcome {
        report(ctx, &mut pass, &outcome).await?;
    }
    let settled = answer?;
    for replaced in &settled.replaced {
        archive_sibling(ctx, replaced).await?;
    }
    if settled.finished {
        remove_finalizer(ctx, &pass.set).await?;
        ctx.forget(&pass.set);
    }
    ctx.backoff.forget(&pass.set.name_any());
    Ok(Action::requeue(settled.next))
}

fn failure(err: &ObjectSetError) -> Outcome {
    let text = Chain(err).to_string();
    match err {
        ObjectSetError::Blocked(_) => Outcome::Blocked(text),
        ObjectSetError::Guard(GuardError::Reserved(_)) => Outcome::Invalid(text),
        _ => Outcome::Failed(text),
    }
}

async fn converge(ctx: &Context, pass: &mut Pass) -> Result<Settled, ObjectSetError> {
    let extension = ctx.extension(&pass.set).await?;
    if pass.set.metadata.deletion_timestamp.is_some() {
        return teardown::delete(ctx, pass, extension).await;
    }
    let waits = Settled::again(None, jittered(LOOK_AGAIN));
    match &extension {
        // Its revisions are being deleted, by its reconciler or the garbage collector.
        ExtensionState::Deleting(_) | ExtensionState::Orphaning(_) | ExtensionState::Gone => {
            return Ok(waits);
        }
        ExtensionState::None | ExtensionState::Alive(_) => {}
    }
    let account = ctx.identity(&pass.set, &extension).await?;
    if pass.set.spec.lifecycle_state == LifecycleState::Archived {
        pass.deferred = Some(Vec::new());
        return teardown::archive(ctx, pass, &account, &extension).await;
    }
    // The annotation of the extension wakes the revision when it goes.
    if is_paused(&pass.set) || extension.is_paused() {
        return Ok(Settled::at_rest(None));
    }
    let guard = &ctx.settings.guard;
    guard.admit(Policy::ObjectSet, was_read(&pass.set)).await?;
    ctx.accounts.require(&account).await?;
    let client = ctx.accounts.client(&account)?;
    let content = read(ctx, pass, &client).await?;
    add_finalizer(ctx, pass).await?;
    ctx.watch(&pass.set, &account, &client, &content.phases)
        .await?;
    roll_out(ctx, pass, &extension, client, &content).await
}

async fn read(ctx: &Context, pass: &mut Pass, account: &Client) -> Result<Content, ObjectSetError> {
    let namespace = &ctx.settings.system_namespace;
    let secrets = read_secrets(&ctx.client, account, &pass.set, namespace).await;
    require_immutable(&secrets)?;
    let content = resolve(&pass.set, &secrets, namespace)?;
    let status = pass.set.status.as_ref();
    let known = status.map_or(&[][..], |status| &status.observed_phases);
    // An empty list means that this is the first look, unless the revision was rolled out before.
    if !known.is_empty()
        && let Some(text) = changed(known, &content.observed)
    {
        return Err(ObjectSetError::Blocked(text));
    }
    pass.observed.clone_from(&content.observed);
    content.check()?;
    Ok(content)
}

async fn roll_out(
    ctx: &Context,
    pass: &mut Pass,
    extension: &ExtensionState,
    client: Client,
    content: &Content,
) -> Result<Settled, ObjectSetError> {
    let siblings = ctx.siblings(&pass.set).await?;
    let revision = Revision {
        mark: mark(&pass.set),
        siblings: owners(&siblings, extension),
        probes: pass.set.spec.progression_probes.clone(),
    };
    let applier = Applier {
        client,
        kinds: ctx.kinds.clone(),
        memo: ctx.memo.clone(),
        defer_optional: ctx.settings.defer_optional_kinds,
    };
    let mut deferred = Vec::new();
    let mut overtaken = false;
    for (index, phase) in content.phases.iter().enumerate() {
        let report = applier.apply_phase(&revision, index, phase).await;
        if let Err(ApplyError::Unserved { group, .. }) = &report {
            ctx.await_group(&pass.set, group);
        }
        let report = report?;
        deferred.extend(report.deferred);
        overtaken |= report.overtaken;
        if !report.complete {
            let next = ctx.next_look(&pass.set, POLL_FAILING, LOOK_AGAIN);
            let outcome = Outcome::RollingOut(report.failing);
            return Ok(Settled::again(Some(outcome), next));
        }
    }
    ctx.defer(&pass.set, extension, &deferred).await;
    // Kinds come with a CRD, which wakes the revision; those of an aggregated API come unannounced.
    let quiet = if deferred.is_empty() {
        resync()
    } else {
        jittered(ctx.settings.managed_resync)
    };
    pass.deferred = Some(deferred);
    // What a newer revision made ready is not this one's success: it must never pass for installed.
    if overtaken && !has_succeeded(&pass.set) {
        let next = ctx.next_look(&pass.set, POLL_FAILING, LOOK_AGAIN);
        return Ok(Settled::again(Some(Outcome::RollingOut(None)), next));
    }
    let replaced = siblings
        .into_iter()
        .filter(|one| one.spec.revision < pass.set.spec.revision)
        .collect();
    let next = ctx.next_look(&pass.set, ctx.settings.managed_resync, RESYNC);
    Ok(Settled {
        replaced,
        ..Settled::again(Some(Outcome::Complete), next.min(quiet))
    })
}

impl Context {
    /// Returns the account that applies a revision, and may do so.
    pub(super) async fn identity(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<Account, ObjectSetError> {
        let accounts = &self.settings.accounts;
        let account = accounts.of_revision(set, extension.extension())?;
        self.settings.guard.permit(&account).await?;
        Ok(account)
    }

    /// Lists the other revisions of the same extension that are in use. One that is being deleted
    /// is among them: what it controls is there to be taken over.
    pub(super) async fn siblings(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<Vec<ClusterObjectSet>, ObjectSetError> {
        let mut others = list_siblings(&self.client, set)
            .await
            .map_err(|err| ObjectSetError::own("listing revisions", err))?;
        others.retain(|other| {
            other.metadata.uid != set.metadata.uid
                && other.spec.lifecycle_state == LifecycleState::Active
        });
        Ok(others)
    }

    async fn watch(
        &self,
        set: &ClusterObjectSet,
        account: &Account,
        client: &Client,
        phases: &[ResolvedPhase],
    ) -> Result<(), ObjectSetError> {
        let mut targets: Vec<Target> = Vec::new();
        for wanted in phases.iter().flat_map(|phase| &phase.objects) {
            let object = &wanted.object;
            let found = self.kinds.find(object).await;
            // A kind may come with an earlier phase; the next pass looks again.
            let Ok(Some(kind)) = found else {
                continue;
            };
            let namespace = if kind.namespaced {
                object.namespace()
            } else {
                ""
            };
            let same = targets
                .iter_mut()
                .find(|target| target.kind == kind && target.namespace == namespace);
            match same {
                Some(target) => {
                    target.names.insert(object.name().to_owned());
                }
                None => targets.push(Target {
                    kind,
                    namespace: namespace.to_owned(),
                    names: [object.name().to_owned()].into(),
                }),
            }
        }
        let selector = match owner_name(set) {
            Some(owner) => format!("{}={owner}", label::OWNER_NAME),
            None => format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_OLM),
        };
        self.watches
            .ensure(&set.name_any(), account, client, &selector, targets);
        Ok(())
    }

    /// Returns when to look again: after `polled` where some objects cannot be watched, else after
    /// `watched`; at the deadline, if that comes first.
    fn next_look(&self, set: &ClusterObjectSet, polled: Duration, watched: Duration) -> Duration {
        let polls = self.watches.polls(&set.name_any());
        let next = jittered(if polls { polled } else { watched });
        until_deadline(set).map_or(next, |left| next.min(left))
    }

    /// Drops what is remembered about a revision.
    pub(super) fn forget(&self, set: &ClusterObjectSet) {
        self.watches.release(&set.name_any());
        self.note_missing(&set.name_any(), &[]);
        self.memo.forget(&set.uid().unwrap_or_default());
        self.written.forget(&set.uid().unwrap_or_default());
        self.forgive(set);
    }

    /// Forgets failures of the account that removes a revision.
    pub(super) fn forgive(&self, set: &ClusterObjectSet) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.remove(&set.uid().unwrap_or_default());
    }
}

fn until_deadline(set: &ClusterObjectSet) -> Option<Duration> {
    let left = deadline(set)?.at.duration_since(Timestamp::now());
    // A second more, so that the deadline has passed for certain when we look.
    let left = Duration::try_from(left).ok()?;
    Some(left + Duration::from_secs(1))
}

/// Says whether the content of a revision was read for its account before. Only the controller
/// writes the status, so that nobody can claim it.
fn was_read(set: &ClusterObjectSet) -> bool {
    let status = set.status.as_ref();
    has_succeeded(set) || status.is_some_and(|status| !status.observed_phases.is_empty())
}

fn mark(set: &ClusterObjectSet) -> Mark {
    Mark {
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        revision: set.spec.revision,
        owner_name: owner_name(set).map(str::to_owned),
    }
}

/// The owners whose objects this revision may take: its siblings, and its extension itself, which
/// controls what a failed Helm installation left behind.
fn owners(siblings: &[ClusterObjectSet], extension: &ExtensionState) -> Vec<Sibling> {
    let extension = match extension {
        ExtensionState::Alive(extension) => extension.metadata.uid.clone(),
        ExtensionState::None
        | ExtensionState::Deleting(_)
        | ExtensionState::Orphaning(_)
        | ExtensionState::Gone => None,
    };
    let extension = extension.map(|uid| Sibling { uid, revision: 0 });
    siblings
        .iter()
        .map(|set| Sibling {
            uid: set.uid().unwrap_or_default(),
            revision: set.spec.revision,
        })
        .chain(extension)
        .collect()
}
