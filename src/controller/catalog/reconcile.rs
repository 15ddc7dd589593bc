//! The life of a ClusterCatalog: observe, plan, enact, report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::{Client, Resource as _, ResourceExt as _};
use olm_api::ClusterCatalog;
use olm_api::keys::{finalizer, label, manager};
use olm_core::catalog::read;
use olm_core::error::Chain;
use olm_image::{CatalogImage, ImageRef, PullError, Puller, Resolved, pull_catalog};
use serde_json::json;

use super::error::CatalogError;
use super::plan::{Failure, Memory, Observed, Plan, has_finalizer, plan, until_poll};
use super::report::{Outcome, report};
use super::store::{Content, Origin, Store, StoreError, whole_seconds};
use crate::backoff::{self, Backoff, FIRST_DELAY_CATALOG, MAX_DELAY};
use crate::reconcile::{self, Own};
use crate::telemetry::{CONTROLLER_CATALOG, Metrics, ReconcileResult};
use crate::written::Written;

/// Everything a pass needs.
pub struct Context {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    puller: Arc<Puller>,
    base: String,
    metrics: Metrics,
    backoff: Backoff<String>,
    memories: Mutex<HashMap<String, Memory>>,
    failures: Mutex<HashMap<String, Failure>>,
    written: Written,
}

impl Context {
    /// Returns a context without memory.
    ///
    /// `base` is the address clients reach the catalog server at, without a path, for example
    /// `https://catalogd-service.olmv1-system.svc`.
    pub fn new(
        client: Client,
        store: Arc<Store>,
        puller: Arc<Puller>,
        base: String,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            store,
            puller,
            base,
            metrics,
            backoff: Backoff::new(FIRST_DELAY_CATALOG, MAX_DELAY),
            memories: Mutex::default(),
            failures: Mutex::default(),
            written: Written::default(),
        }
    }

    fn own(&self) -> Own<'_> {
        Own {
            client: &self.client,
            manager: manager::CATALOGD,
        }
    }

    fn memory(&self, name: &str) -> Option<Memory> {
        self.memories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    fn remember(&self, name: &str, memory: Option<Memory>) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        match memory {
            Some(memory) => memories.insert(name.to_owned(), memory),
            None => memories.remove(name),
        };
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stored content of this very object, not of an older one of the same name.
    fn content(&self, catalog: &ClusterCatalog) -> Option<Arc<Content>> {
        let uid = catalog.metadata.uid.as_deref().unwrap_or_default();
        let content = self.store.content(&catalog.name_any())?;
        (content.origin().uid == uid).then_some(content)
    }
}

/// One pass over one catalog.
#[tracing::instrument(skip_all, fields(
    controller = CONTROLLER_CATALOG, name = %object.name_any(),
    generation = object.meta().generation,
))]
pub(super) async fn reconcile(
    object: Arc<DeserializeGuard<ClusterCatalog>>,
    ctx: Arc<Context>,
) -> Result<Action, CatalogError> {
    let Ok(catalog) = &object.0 else {
        tracing::warn!("the ClusterCatalog does not follow its schema and is left alone");
        return Ok(Action::await_change());
    };
    let started = Instant::now();
    let result = pass(&ctx, catalog).await;
    let polls = || {
        let memory = ctx.memory(&catalog.name_any());
        memory.is_some_and(|memory| until_poll(catalog, &memory, started).is_some())
    };
    let counted = match reconcile::counted(&result) {
        ReconcileResult::Success if polls() => ReconcileResult::RequeueAfter,
        counted => counted,
    };
    ctx.metrics
        .reconciled(CONTROLLER_CATALOG, counted, started.elapsed());
    let error = result.as_ref().err().map(|error| Chain(error));
    tracing::info!(name = %catalog.name_any(), error = error.map(tracing::field::display), "reconcile ending");
    result
}

/// Says when a catalog whose pass failed is looked at again.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the controller hands these over by value"
)]
pub(super) fn error_policy(
    object: Arc<DeserializeGuard<ClusterCatalog>>,
    error: &CatalogError,
    ctx: Arc<Context>,
) -> Action {
    if error.is_conflict() {
        // The newer version of the object is what starts the next pass.
        return Action::await_change();
    }
    let name = object.name_any();
    let delay = reconcile::delay(error, &ctx.backoff, name.clone());
    if let Some(failure) = ctx.failures().get_mut(&name) {
        failure.retry = Instant::now() + delay;
    }
    Action::requeue(delay)
}

async fn pass(ctx: &Arc<Context>, catalog: &ClusterCatalog) -> Result<Action, CatalogError> {
    let name = catalog.name_any();
    let observed = Observed {
        stored: ctx.content(catalog).is_some(),
        memory: ctx.memory(&name),
        failure: ctx.failures().get(&name).cloned(),
    };
    let plan = plan(catalog, &observed, Instant::now());
    tracing::debug!(?plan, "planned");
    if let Plan::Wait(left) = plan {
        return Ok(Action::requeue(left));
    }
    let result = enact(ctx, catalog, &plan).await;
    if result.is_err() {
        ctx.remember(&name, None);
    }
    // Status is written on every path, so a failure is never visible only in the log.
    let content = ctx.content(catalog);
    let origin = content.as_ref().map(|content| content.origin());
    let outcome = match (&result, &plan) {
        (Err(error), _) => Outcome::Failed(error, origin),
        (Ok(()), Plan::Adopt | Plan::Leave | Plan::Wait(_)) => return Ok(Action::await_change()),
        (Ok(()), Plan::SwitchOff) => Outcome::SwitchedOff,
        (Ok(()), Plan::Remove) => Outcome::Removed,
        (Ok(()), Plan::Fetch | Plan::Keep) => match origin {
            Some(origin) => Outcome::Served(origin),
            // Removed by somebody else between two steps; the next pass fetches it.
            None => return Ok(Action::requeue(FIRST_DELAY_CATALOG)),
        },
    };
    let written = write_status(ctx, catalog, &outcome).await;
    if let Err(error) = result {
        let failure = Failure {
            reported: written.ok().and_then(|catalog| catalog.resource_version()),
            retry: Instant::now(),
        };
        ctx.failures().insert(name, failure);
        return Err(error);
    }
    let catalog = written?;
    ctx.backoff.forget(&name);
    ctx.failures().remove(&name);
    if matches!(plan, Plan::SwitchOff | Plan::Remove) {
        release(ctx, &catalog).await?;
        ctx.written.forget(&catalog.uid().unwrap_or_default());
        return Ok(Action::await_change());
    }
    let next = ctx
        .memory(&name)
        .and_then(|memory| until_poll(&catalog, &memory, Instant::now()));
    Ok(Action::requeue(next.unwrap_or_else(backoff::resync)))
}

/// Carries the plan out.
async fn enact(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    plan: &Plan,
) -> Result<(), CatalogError> {
    match plan {
        Plan::Leave | Plan::Keep | Plan::Wait(_) => Ok(()),
        Plan::SwitchOff => remove(ctx, catalog).await?.map_err(CatalogError::Remove),
        Plan::Remove => remove(ctx, catalog).await?.map_err(CatalogError::Finalizer),
        Plan::Adopt => adopt(ctx, catalog).await,
        Plan::Fetch => {
            fetch(ctx, catalog).await?;
            let memory = Memory {
                generation: catalog.metadata.generation,
                polled: Instant::now(),
                jitter: backoff::random_fraction(),
            };
            ctx.remember(&catalog.name_any(), Some(memory));
            Ok(())
        }
    }
}

/// Asks the registry, and stores the content if it is not what is stored already.
async fn fetch(ctx: &Arc<Context>, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let name = catalog.name_any();
    let image = catalog.spec.source.image.as_ref();
    let image = image.ok_or_else(|| CatalogError::NoImage(name.clone()))?;
    let reference: ImageRef = image.ref_.parse().map_err(CatalogError::Reference)?;
    let pull = |error: PullError| CatalogError::Pull(Box::new(error));
    let resolved = ctx.puller.resolve(&reference).await.map_err(pull)?;
    let stored = ctx.content(catalog);
    if stored.is_some_and(|content| content.origin().reference == resolved.image().to_string()) {
        return Ok(());
    }
    let image = pull_catalog(&ctx.puller, &resolved).await.map_err(pull)?;
    if image.directory_missing {
        tracing::warn!(
            directory = image.directory,
            "the image has no catalog directory"
        );
    }
    let origin = origin(catalog, &resolved);
    let store = Arc::clone(&ctx.store);
    let content = blocking(move || write(&store, origin, &image))
        .await?
        .map_err(CatalogError::Store)?;
    let (blobs, dropped) = (content.index().len(), content.dropped());
    ctx.metrics.stored_catalog(&name, blobs, dropped);
    tracing::info!(
        digest = content.digest(),
        blobs,
        dropped,
        "catalog content stored"
    );
    Ok(())
}

fn origin(catalog: &ClusterCatalog, resolved: &Resolved) -> Origin {
    Origin {
        catalog: catalog.name_any(),
        uid: catalog.metadata.uid.clone().unwrap_or_default(),
        reference: resolved.image().to_string(),
        unpacked: whole_seconds(Timestamp::now()),
    }
}

/// Reads the files of an image and stores their blobs. Blocks, and holds no lock meanwhile.
fn write(store: &Store, origin: Origin, image: &CatalogImage) -> Result<Arc<Content>, StoreError> {
    let files = image
        .files
        .to_map()
        .map_err(StoreError::disk("error reading unpacked files"))?;
    let files = files
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    store.write(origin, read::metas(files)?)
}

/// Removes the content; the outer error is that the process stops.
async fn remove(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
) -> Result<Result<(), StoreError>, CatalogError> {
    let name = catalog.name_any();
    ctx.remember(&name, None);
    ctx.metrics.forget_catalog(&name);
    let store = Arc::clone(&ctx.store);
    blocking(move || store.remove(&name)).await
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CatalogError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(CatalogError::Interrupted)
}

/// Writes the status if it differs, and returns the object as it is then.
async fn write_status(
    ctx: &Context,
    catalog: &ClusterCatalog,
    outcome: &Outcome<'_>,
) -> Result<ClusterCatalog, CatalogError> {
    let status = report(catalog, outcome, &ctx.base, Timestamp::now());
    let own = ctx.own();
    let changed = own.write_status(&ctx.written, catalog, status).await;
    let changed = changed.map_err(CatalogError::Status)?;
    Ok(changed.unwrap_or_else(|| catalog.clone()))
}

/// Puts our finalizer and the label with the name on the object.
async fn adopt(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let mut finalizers = catalog.finalizers().to_vec();
    if !has_finalizer(catalog) {
        finalizers.push(finalizer::DELETE_SERVER_CACHE.to_owned());
    }
    let metadata = json!({
        "finalizers": finalizers,
        "labels": { label::METADATA_NAME: catalog.name_any() },
    });
    patch_metadata(ctx, catalog, metadata).await
}

/// Takes our finalizer off the object.
async fn release(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    if !has_finalizer(catalog) {
        return Ok(());
    }
    let mut finalizers = catalog.finalizers().to_vec();
    finalizers.retain(|name| name != finalizer::DELETE_SERVER_CACHE);
    patch_metadata(ctx, catalog, json!({ "finalizers": finalizers })).await
}

/// Changes metadata of the version of the object that was read, and of no other.
async fn patch_metadata(
    ctx: &Context,
    catalog: &ClusterCatalog,
    metadata: serde_json::Value,
) -> Result<(), CatalogError> {
    let patched = ctx.own().patch_metadata(catalog, metadata).await;
    patched.map(drop).map_err(CatalogError::Metadata)
}
