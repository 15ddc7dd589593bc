//! The reconciler of ClusterObjectSets: observe, plan, enact, report.
//!
//! In: the revision, its extension, its content, the live objects. Out: its objects on the cluster,
//! phase by phase, and its status. OLM's own kinds are written with the controller's client; every
//! object of a bundle is written by `apply`, as the account that the revision records.

mod context;
mod deferred;
mod enact;
mod ended;
mod error;
mod extension_state;
mod observe;
mod per_revision;
mod plan;
mod pods;
mod report;
mod settled;
mod teardown;
mod uninstall;
mod unserved_kinds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{
    Controller, Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher,
};
use kube::{Api, ResourceExt as _};
use olm_api::keys::{finalizer, label};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::{has_succeeded, keep_makers};

pub use context::{Context, Settings};
pub use error::ObjectSetError;

use crate::cluster::{self, RequestError};
use crate::reconcile::within;
use crate::revision::{Feed, labelled_in};
use context::Attempt;
use deferred::follow_crds;
use ended::Ended;
use plan::plan;

/// Longest the report of a reconcile may take.
const REPORT_LIMIT: Duration = Duration::from_mins(1);

/// The kind as it is watched: one object that cannot be read does not stop the others.
type Guarded = DeserializeGuard<ClusterObjectSet>;

/// Triggers of reconciles of revisions.
pub struct Woken {
    pub feed: Feed,
    /// Extensions that have changed, by their metadata.
    pub extensions: mpsc::UnboundedReceiver<ObjectMeta>,
    /// Names of revisions that watched objects or rights wake.
    pub revisions: BoxStream<'static, String>,
}

/// Runs the reconciler until `shutdown` resolves and the reconciles under way have ended.
pub async fn run(
    ctx: Arc<Context>,
    woken: Woken,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    ctx.begin();
    let api = Api::<Guarded>::all(ctx.client.clone());
    let Feed { revisions, contents, crds, known } = woken.feed;
    let (reader, contents_reader) = (known.store.clone(), known.contents.clone());
    ctx.metrics.follow_revisions(reader.clone());
    let watching = Arc::downgrade(&ctx);
    ctx.metrics.follow_watches(move || {
        watching.upgrade().map_or_else(BTreeMap::new, |ctx| ctx.watches.modes())
    });
    // Our own status writes need no second look; everything a person or another part of the
    // controller changes does.
    let (own, held) = (Arc::clone(&ctx), reader.clone());
    let relevant = predicates::generation
        .combine(predicates::finalizers)
        .combine(predicates::annotations)
        .combine(predicates::labels)
        .combine(move |set: &Guarded| own.reconciler.status_of_others(&held, set));
    let told = Arc::clone(&known);
    let (forgetting, present) = (Arc::clone(&ctx), reader.clone());
    let sets = cluster::watched(api, watcher::Config::default(), keep_makers)
        .reflect(revisions)
        .inspect_ok(move |event| told.tell(event));
    let sets = cluster::stored(sets, reader.clone())
        .inspect_ok(move |set| {
            // Also one whose finalizer somebody else removed, and one that went while nobody watched.
            if let (None, Ok(gone)) = (present.get(&ObjectRef::from_obj(set)), &set.0) {
                forgetting.forget(gone);
            }
        })
        .predicate_filter(relevant, PredicateConfig::default());
    let woken_revisions = woken.revisions.map(|name| ObjectRef::<Guarded>::new(&name));
    let config = controller::Config::default().concurrency(ctx.settings.concurrency);
    // A Secret that comes back, or is made immutable, unblocks the revision it belongs to.
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(
        ctx.client.clone(),
        &ctx.settings.system_namespace,
    );
    let of_revisions = watcher::Config::default().labels(label::REVISION_NAME);
    let secrets = cluster::changes(secrets, of_revisions)
        .reflect(contents)
        .inspect_ok(move |event| known.tell_content(event));
    let secrets = cluster::stored(secrets, contents_reader);
    // Its account, its annotations and its deletion count for every revision of an extension.
    let relevant =
        predicates::generation.combine(predicates::finalizers).combine(predicates::annotations);
    let extensions = woken.extensions;
    let extensions = extensions
        .map(|metadata| {
            Ok(PartialObjectMeta::<ClusterExtension> { metadata, ..PartialObjectMeta::default() })
        })
        .predicate_filter(relevant, PredicateConfig::default());
    let revisions = reader.clone();
    let results = Controller::for_stream(sets, reader)
        .with_config(config)
        .watches_stream(extensions, move |extension| {
            let revisions = labelled_in(&revisions, &extension.name_any());
            revisions.into_iter().map(|revision| ObjectRef::from_obj(&*revision))
        })
        .watches_stream(secrets, |secret| {
            secret.labels().get(label::REVISION_NAME).map(|name| ObjectRef::<Guarded>::new(name))
        })
        .reconcile_on(woken_revisions)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, Arc::clone(&ctx))
        .for_each(|result| async move {
            if let Err(err) = result {
                tracing::debug!(error = %err, "reconcile not settled");
            }
        });
    tokio::select! {
        () = results => {}
        () = async { ctx.forget_settled().await; follow_crds(&ctx, crds).await } => {}
    }
}

/// Brings the cluster closer to what one ClusterObjectSet says, and reports.
async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, ObjectSetError> {
    let work = |set| Box::pin(converge(&ctx, set));
    ctx.reconciler.attempt(&guarded, work).await
}

async fn converge(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<Option<Duration>, ObjectSetError> {
    let found = match ctx.label_again(set).await {
        // The change of the object brings the next reconcile.
        Ok(true) => return Ok(None),
        Ok(false) => ctx.extension(set).await,
        Err(error) => Err(error),
    };
    let ended = match found {
        Ok(extension) => {
            let attempt = Attempt { ctx, set, extension: &extension };
            let plan = plan(set, &extension);
            tracing::debug!(?plan, "planned");
            let ended = attempt.enact(plan).await;
            let error = ended.result.as_ref().err();
            attempt.wait_for_rights(error).await;
            attempt.tell_of_collisions(error).await;
            ended
        }
        Err(error) => Ended::early(set, Err(error)),
    };
    within(REPORT_LIMIT, conclude(ctx, ended)).await
}

/// Reports how a reconcile ended, and does what has to come after the report.
async fn conclude(ctx: &Context, ended: Ended) -> Result<Option<Duration>, ObjectSetError> {
    // Status is written on every path, so a failure is never visible only in the log.
    let set = report::report(ctx, &ended).await?;
    let settled = ended.result?;
    // A copy that may be old replaces nothing: a backup may be from before this revision.
    let replaces = !settled.replaced.is_empty()
        && ctx.read_again(&set).await?.is_some_and(|live| has_succeeded(&live));
    for replaced in settled.replaced.iter().filter(|_| replaces) {
        enact::archive(&ctx.client, replaced).await?;
    }
    if let Some(account) = &settled.applied_by {
        ctx.note_settled(&set, account).await;
    }
    if settled.finished {
        let removed = ctx.reconciler.remove_finalizers(&set, &[finalizer::TEARDOWN]).await;
        removed.map_err(RequestError::doing("updating finalizers"))?;
        ctx.forget(&set);
    }
    ctx.reconciler.succeeded(&set.name_any());
    Ok(Some(settled.next))
}

#[expect(clippy::needless_pass_by_value, reason = "the controller passes them so")]
fn error_policy(guarded: Arc<Guarded>, err: &ObjectSetError, ctx: Arc<Context>) -> Action {
    let delay = ctx.reconciler.retry(&guarded.name_any(), err);
    let deadline = guarded.0.as_ref().ok().and_then(|set| ctx.until_deadline(set));
    Action::requeue(deadline.map_or(delay, |left| delay.min(left)))
}
