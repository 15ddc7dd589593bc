//! Doing what was planned for a ClusterCatalog.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::{finalizer, label, policy};
use olm_core::catalog::read;
use olm_image::{CatalogImage, ImageRef, PullError, pull_catalog};
use serde_json::json;

use super::context::Context;
use super::error::CatalogError;
use super::plan::{Memory, Plan, has_finalizer};
use super::store::{Content, Origin, Store, StoreError, whole_seconds};

/// Carries the plan out.
pub(super) async fn enact(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    plan: &Plan,
) -> Result<(), CatalogError> {
    match plan {
        Plan::NoOp | Plan::Keep | Plan::Wait(_) => Ok(()),
        Plan::Disable => remove(ctx, catalog).await?.map_err(CatalogError::Remove),
        Plan::CleanUp => remove(ctx, catalog).await?.map_err(CatalogError::Finalizer),
        Plan::AddMetadata => add_metadata(ctx, catalog).await,
        Plan::Fetch => {
            fetch(ctx, catalog).await?;
            let memory = Memory {
                generation: catalog.metadata.generation,
                polled: Instant::now(),
                jitter: fastrand::f64(),
            };
            ctx.remember(&catalog.name_any(), Some(memory));
            Ok(())
        }
    }
}

/// Asks the registry, and stores the content if it is not what is stored already.
async fn fetch(ctx: &Arc<Context>, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let image = catalog.spec.source.image.as_ref();
    let image = image.ok_or_else(|| CatalogError::NoImage(catalog.name_any()))?;
    copy(ctx, catalog, &image.ref_, Timestamp::now()).await
}

/// Stores the content of an image as that of the catalog, if it is not what is stored already.
pub(super) async fn copy(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    image: &str,
    unpacked: Timestamp,
) -> Result<(), CatalogError> {
    let name = catalog.name_any();
    let reference: ImageRef = image.parse().map_err(CatalogError::Reference)?;
    let pull = |error: PullError| CatalogError::Pull(Box::new(error));
    let pull_secret = catalog.annotations().get(policy::PULL_SECRET);
    let puller = ctx.credentials.puller(pull_secret.map(String::as_str));
    let puller = puller.await.map_err(CatalogError::PullSecret)?;
    let resolved = puller.resolve(&reference).await;
    ctx.metrics.pulled(&resolved);
    let resolved = resolved.map_err(pull)?;
    if ctx.holds(catalog, &resolved.image().to_string()) {
        return Ok(());
    }
    let image = pull_catalog(&puller, &resolved).await;
    ctx.metrics.pulled(&image);
    let image = image.map_err(pull)?;
    if image.directory_missing {
        tracing::warn!(
            directory = image.directory,
            "the image has no catalog directory"
        );
    }
    let origin = origin(catalog, &resolved.image().to_string(), unpacked);
    let store = Arc::clone(&ctx.store);
    let turn = ctx.writes().await;
    let written = blocking(move || {
        let _turn = turn;
        write(&store, origin, &image)
    });
    let content = written.await?.map_err(CatalogError::Store)?;
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

/// Says of whom and of what the content is that is stored.
pub(super) fn origin(catalog: &ClusterCatalog, reference: &str, unpacked: Timestamp) -> Origin {
    Origin {
        catalog: catalog.name_any(),
        uid: catalog.metadata.uid.clone().unwrap_or_default(),
        reference: reference.to_owned(),
        unpacked: whole_seconds(unpacked),
    }
}

/// Reads the files of an image and stores their blobs. Blocks, and holds no lock meanwhile.
fn write(store: &Store, origin: Origin, image: &CatalogImage) -> Result<Arc<Content>, StoreError> {
    store.write(origin, read::metas(image.files.readers())?)
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

/// Puts our finalizer and the label with the name on the object.
async fn add_metadata(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let mut finalizers = catalog.finalizers().to_vec();
    if !has_finalizer(catalog) {
        finalizers.push(finalizer::DELETE_SERVER_CACHE.to_owned());
    }
    let metadata = json!({
        "finalizers": finalizers,
        "labels": { label::METADATA_NAME: catalog.name_any() },
    });
    match ctx.reconciler.patch_metadata(catalog, metadata).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        patched => patched.map(drop).map_err(CatalogError::Metadata),
    }
}

/// Takes our finalizer off the object.
pub(super) async fn release(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let ours = [finalizer::DELETE_SERVER_CACHE];
    let removed = ctx.reconciler.remove_finalizers(catalog, &ours).await;
    removed.map_err(CatalogError::Metadata)
}
