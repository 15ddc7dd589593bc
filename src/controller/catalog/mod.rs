//! ClusterCatalogs: their images are pulled, read, stored and served.
//!
//! In: ClusterCatalog objects and image registries. Out: a [`store::Store`] that
//! [`crate::server::catalogs`] serves from, and the status of the objects. Nothing here resolves
//! or installs anything.

mod context;
mod disk;
mod download;
mod enact;
mod error;
mod follow;
mod garbage;
pub mod index;
mod newer;
mod plan;
mod registry;
mod report;
pub mod store;
mod taken;
mod trust;
mod writer;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, WatchStreamExt as _, controller, reflector, watcher};
use kube::{Api, ResourceExt as _};
use olm_api::ClusterCatalog;
use olm_api::conditions::{Reason, status::FALSE, types};
use olm_api::keys::annotation;
use olm_core::catalog::lint::Tally;
use olm_core::error::{Classify as _, Disposition};
use olm_core::status::{find, is_true};
use tokio::join;
use tokio::time::timeout;

pub use context::Context;
pub use download::{CatalogServer, INTERRUPTED};
pub use error::CatalogError;
pub use follow::follow;
pub use trust::{Published, Trust};

use crate::backoff::{FIRST_DELAY_CATALOG, resync};
use crate::cluster::{self, RequestError, Sentence};
use enact::{enact, release};
use newer::wanted;
use plan::{
    CatalogFailure, Observed, Plan, plan, poll_interval, release as due_at, until_poll, waiting,
};
use report::{Outcome, Served, report};

/// Catalogs worked on at the same time; fewer are pulled ([`turns`]).
const CONCURRENCY: u16 = 32;

/// The time after which the status tells of a first pull that goes on. Nearly every pull takes less.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval of reads of the API server's version, if an image depends on it.
const LOOK: Duration = Duration::from_mins(10);

/// Keeps all ClusterCatalogs until `shutdown` is done and running reconciles have ended.
///
/// Every `gc_interval`, and at start, content of catalogs that no longer exist is removed.
pub async fn run(
    ctx: Arc<Context>,
    gc_interval: Duration,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let garbage = tokio::spawn(garbage::collect_regularly(Arc::clone(&ctx), gc_interval));
    let stop = Arc::clone(&ctx);
    let shutdown = async move {
        shutdown.await;
        stop.stopping.send_replace(true);
    };
    let catalogs = Api::<DeserializeGuard<ClusterCatalog>>::all(ctx.client.clone());
    let (store, writer) = reflector::store();
    ctx.metrics.follow_catalogs(store.clone());
    // Every change counts: an edited status is repaired at once.
    let catalogs =
        cluster::changes(catalogs, watcher::Config::default()).reflect(writer).applied_objects();
    let mended = ctx.credentials.changes().flat_map({
        let ctx = Arc::clone(&ctx);
        move |()| stream::iter(ctx.mended()).map(|name| ObjectRef::new(&name))
    });
    Controller::for_stream(catalogs, store)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .reconcile_on(mended)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, ctx)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(error = %Sentence(&error), "controller event");
            }
        })
        .await;
    garbage.abort();
}

/// Brings one catalog closer to its spec, and reports.
async fn reconcile(
    object: Arc<DeserializeGuard<ClusterCatalog>>,
    ctx: Arc<Context>,
) -> Result<Action, CatalogError> {
    let work = |catalog| converge(&ctx, catalog);
    ctx.reconciler.attempt(&object, work).await
}

async fn converge(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
) -> Result<Option<Duration>, CatalogError> {
    let name = catalog.name_any();
    let memory = ctx.memories.get(&name);
    let moved = match &memory {
        Some(memory) => wanted(ctx, catalog).await.ok().as_ref() != Some(&memory.wanted),
        None => false,
    };
    let observed = Observed {
        moved,
        stored: ctx.store.content_of(catalog).is_some(),
        memory,
        failure: ctx.failure(&name),
        due: due_at(catalog, Timestamp::now()).is_some_and(|at| at <= Timestamp::now()),
    };
    let version = ctx.credentials.version();
    let plan = plan(catalog, &observed, Instant::now());
    tracing::debug!(?plan, "planned");
    if let Plan::Wait(left) = plan {
        return Ok(Some(left));
    }
    let (told, result) =
        report_first_pull(ctx, catalog, &plan, enact(ctx, catalog, &plan), PATIENCE).await;
    let current = told.as_ref().unwrap_or(catalog);
    match &result {
        Err(CatalogError::Stopping) => return Ok(None),
        Err(_) => drop(ctx.memories.put(&name, None)),
        Ok(_) => drop(ctx.failures.put(&name, None)),
    }
    // Status is written on every path, so a failure is never visible only in the log.
    let content = ctx.store.content_of(catalog);
    let served = content.as_deref().map(|content| Served::of(content, ctx.began));
    let outcome = match (&result, &plan) {
        (Err(error), _) => Outcome::Failed(error, served),
        (Ok(_), Plan::AddMetadata | Plan::NoOp | Plan::Wait(_)) => return Ok(None),
        (Ok(_), Plan::Disable) => Outcome::SwitchedOff,
        (Ok(_), Plan::CleanUp) => Outcome::Removed,
        (Ok(looked), Plan::Fetch | Plan::Keep) => match served {
            Some(served) => Outcome::Served(served, looked),
            // Removed by somebody else between two steps; the next reconcile fetches it.
            None => return Ok(Some(FIRST_DELAY_CATALOG)),
        },
    };
    let findings = content.as_ref().and_then(|content| content.findings());
    ctx.measure(catalog);
    if let Some(findings) = findings {
        ctx.metrics.examined_catalog(&name, findings);
    }
    let status = report(current, &outcome, &ctx.base, Timestamp::now());
    let written = ctx.reconciler.write_status(current, status).await;
    let written = written.map_err(RequestError::doing("error updating status"));
    let written = written.map(|written| written.unwrap_or_else(|| current.clone()));
    if let Err(error) = result {
        let written = written.ok();
        if let Some(after) = &written {
            warn(ctx, catalog, after).await;
        }
        let failure = CatalogFailure {
            reported: written.and_then(|catalog| catalog.resource_version()),
            retry: Instant::now(),
            pulled_with: error.is_of_pull().then_some(version),
        };
        ctx.failures.put(&name, Some(failure));
        return Err(error);
    }
    let before = catalog;
    let catalog = written?;
    announce(ctx, before, &catalog).await;
    if let Some(findings) = findings {
        tell(ctx, before, &catalog, findings).await;
    }
    ctx.reconciler.succeeded(&name);
    if matches!(plan, Plan::Disable | Plan::CleanUp) {
        release(ctx, &catalog).await?;
        ctx.reconciler.forget(&catalog);
        return Ok(None);
    }
    let next =
        ctx.memories.get(&name).and_then(|memory| until_poll(&catalog, &memory, Instant::now()));
    let templated = catalog.annotations().contains_key(annotation::CATALOG_IMAGE_TEMPLATE);
    let look = templated.then_some(LOOK);
    Ok(Some([next, until_due(&catalog), look].into_iter().flatten().min().unwrap_or_else(resync)))
}

/// Waits for the work of a plan. If it is a first pull that goes on after `patience`, the status tells of
/// it; returns the catalog with that status.
async fn report_first_pull<T>(
    ctx: &Context,
    catalog: &ClusterCatalog,
    plan: &Plan,
    work: impl Future<Output = T>,
    patience: Duration,
) -> (Option<ClusterCatalog>, T) {
    let is_new = catalog.status.as_ref().is_none_or(|status| status.conditions.is_empty());
    if !is_new || !matches!(plan, Plan::Fetch) {
        return (None, work.await);
    }
    let mut work = pin!(work);
    if let Ok(done) = timeout(patience, &mut work).await {
        return (None, done);
    }
    let image = catalog.spec.source.image.as_ref().map_or("", |image| &image.ref_);
    let pulling = CatalogError::Pulling(image.to_owned());
    let status = report(catalog, &Outcome::Failed(&pulling, None), &ctx.base, Timestamp::now());
    let (told, done) = join!(ctx.reconciler.write_status(catalog, status), work);
    // What could not be told is at its end.
    (told.ok().flatten(), done)
}

fn until_due(catalog: &ClusterCatalog) -> Option<Duration> {
    let now = Timestamp::now();
    let left = due_at(catalog, now)?.duration_since(now);
    Some(Duration::try_from(left).unwrap_or_default())
}

/// Publishes an Event when newer content is first held.
async fn announce(ctx: &Context, before: &ClusterCatalog, after: &ClusterCatalog) {
    let of = |catalog| waiting(catalog).map(|held| (&held.ref_, &held.reason));
    let Some(held) = waiting(after).filter(|_| of(before) != of(after)) else { return };
    let (type_, reason) = match held.reason.parse() {
        Ok(Reason::Suspicious) => (EventType::Warning, Reason::Suspicious),
        Ok(reason) => (EventType::Normal, reason),
        Err(_) => return,
    };
    let note = held.message.clone();
    ctx.reconciler.publish(after, type_, reason, note).await;
}

/// Publishes an Event when a state begins, or its text changes, that only a change by a person
/// ends.
async fn warn(ctx: &Context, before: &ClusterCatalog, after: &ClusterCatalog) {
    fn stalled(catalog: &ClusterCatalog) -> Option<&Condition> {
        let conditions = &catalog.status.as_ref()?.conditions;
        find(conditions, types::PROGRESSING).filter(|_| is_true(conditions, types::STALLED))
    }
    let text = |found: &Condition| (found.reason.clone(), found.message.clone());
    let Some((reason, note)) = stalled(after).map(text) else { return };
    let is_known = stalled(before).is_some_and(|old| old.reason == reason && old.message == note);
    if let Ok(reason) = reason.parse()
        && !is_known
    {
        ctx.reconciler.publish(after, EventType::Warning, reason, note).await;
    }
}

/// Publishes an Event with the findings of the lint, once for each digest.
async fn tell(ctx: &Context, before: &ClusterCatalog, after: &ClusterCatalog, findings: &Tally) {
    fn found(catalog: &ClusterCatalog) -> Option<&str> {
        let condition = catalog.condition(types::CONTENT_VALID)?;
        catalog.resolved_reference().filter(|_| condition.status == FALSE)
    }
    if found(after).is_none() || found(before) == found(after) {
        return;
    }
    let type_ = match findings.errors {
        0 => EventType::Normal,
        _ => EventType::Warning,
    };
    let note = findings.told(&after.name_any(), Tally::NOTE).unwrap_or_default();
    let reason = Reason::CatalogFindings;
    ctx.reconciler.publish(after, type_, reason, note).await;
}

/// Returns when a catalog is reconciled again after a failure.
#[expect(clippy::needless_pass_by_value, reason = "the controller passes them so")]
fn error_policy(
    object: Arc<DeserializeGuard<ClusterCatalog>>,
    error: &CatalogError,
    ctx: Arc<Context>,
) -> Action {
    let name = object.name_any();
    let mut delay = ctx.reconciler.retry(&name, error);
    // A tag that is polled may name another image any time.
    if let (Disposition::Terminal(_), Ok(catalog)) = (error.disposition(), &object.0) {
        delay = poll_interval(catalog).map_or(delay, |interval| delay.min(interval));
    }
    // What is configured has changed while the image was pulled.
    if error.is_of_pull() && ctx.mended().contains(&name) {
        return Action::requeue(Duration::ZERO);
    }
    if let Some(failure) = ctx.failures.lock().get_mut(&name) {
        failure.retry = Instant::now() + delay;
    }
    Action::requeue(delay)
}
