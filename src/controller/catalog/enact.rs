//! Doing what was planned for a ClusterCatalog.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::{finalizer, label, policy};
use olm_core::catalog::read;
use olm_image::{ImageRef, PullError, Puller, Resolved, pull_catalog};
use serde_json::json;

use super::context::Context;
use super::error::CatalogError;
use super::newer::{newest, wanted};
use super::plan::{Memory, Plan, has_finalizer, waiting};
use super::store::{Blob, Origin, Staged, StoreError, whole_seconds};
use super::taken::Looked;

/// Carries the plan out. Returns what was taken, and the newer content that is held back.
pub(super) async fn enact(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    plan: &Plan,
) -> Result<Looked, CatalogError> {
    match plan {
        Plan::Keep => {
            let taken = ctx.memory(&catalog.name_any()).and_then(|memory| memory.taken);
            return Ok(Looked { held: waiting(catalog).cloned(), taken });
        }
        Plan::NoOp | Plan::Wait(_) => {}
        Plan::Disable => remove(ctx, catalog).await?.map_err(CatalogError::Remove)?,
        Plan::CleanUp => remove(ctx, catalog).await?.map_err(CatalogError::Finalizer)?,
        Plan::AddMetadata => add_metadata(ctx, catalog).await?,
        Plan::Fetch => {
            let image = wanted(ctx, catalog).await?;
            let looked = newest(ctx, catalog, &image).await?;
            let memory = Memory {
                uid: catalog.metadata.uid.clone(),
                image,
                taken: looked.taken.clone(),
                generation: catalog.metadata.generation,
                polled: Instant::now(),
                jitter: fastrand::f64(),
            };
            ctx.remember(&catalog.name_any(), Some(memory));
            return Ok(looked);
        }
    }
    Ok(Looked::default())
}

/// Stores the content of an image as that of the catalog, if it is not what is stored already.
pub(super) async fn copy(
    ctx: &Arc<Context>,
    catalog: &ClusterCatalog,
    image: &str,
    unpacked: Timestamp,
) -> Result<(), CatalogError> {
    let registry = Registry::of(ctx, catalog).await?;
    let resolved = registry.resolve(image).await?;
    registry.take(&resolved, unpacked).await
}

/// What the images of one catalog are asked of.
pub(super) struct Registry<'a> {
    ctx: &'a Arc<Context>,
    catalog: &'a ClusterCatalog,
    puller: Arc<Puller>,
}

impl<'a> Registry<'a> {
    /// Returns it with the credentials of the catalog.
    pub(super) async fn of(
        ctx: &'a Arc<Context>,
        catalog: &'a ClusterCatalog,
    ) -> Result<Self, CatalogError> {
        let pull_secret = catalog.annotations().get(policy::PULL_SECRET);
        let puller = ctx.credentials.puller(pull_secret.map(String::as_str));
        let puller = puller.await.map_err(CatalogError::PullSecret)?;
        Ok(Self { ctx, catalog, puller })
    }

    /// Returns the digest that a reference names.
    pub(super) async fn resolve(&self, image: &str) -> Result<Resolved, CatalogError> {
        let reference: ImageRef = image.parse().map_err(CatalogError::Reference)?;
        let resolved = self.puller.resolve(&reference).await;
        self.ctx.metrics.pulled(&resolved);
        resolved.map_err(pull)
    }

    /// Returns an image by digest, unless the registry has it no more.
    pub(super) async fn still(&self, image: &str) -> Result<Option<Resolved>, CatalogError> {
        let reference: ImageRef = image.parse().map_err(CatalogError::Reference)?;
        match self.puller.probe(&reference).await {
            Err(error) if error.is_not_found() => {
                tracing::info!(image, "content that waited is gone");
                Ok(None)
            }
            there => {
                there.map_err(pull)?;
                self.resolve(image).await.map(Some)
            }
        }
    }

    /// Stores the content of an image, if it is not what is stored already.
    pub(super) async fn take(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<(), CatalogError> {
        if self.ctx.holds(self.catalog, &resolved.image().to_string()) {
            return Ok(());
        }
        let staged = self.stage(resolved, unpacked).await?;
        self.place(staged).await
    }

    /// Pulls an image and writes its content to the disk, where it is not served yet.
    pub(super) async fn stage(
        &self,
        resolved: &Resolved,
        unpacked: Timestamp,
    ) -> Result<Staged, CatalogError> {
        let image = pull_catalog(&self.puller, resolved).await;
        self.ctx.metrics.pulled(&image);
        let image = image.map_err(pull)?;
        if image.directory_missing {
            tracing::warn!(directory = image.directory, "the image has no catalog directory");
        }
        let origin = origin(self.catalog, &resolved.image().to_string(), unpacked);
        let store = Arc::clone(&self.ctx.store);
        let turn = self.ctx.writes().await;
        let written = blocking(move || {
            let _turn = turn;
            let below = format!("{}/", image.directory);
            let blobs = read::documents(image.files.readers())?.map(|document| {
                let path = document.path;
                document.meta.map(|meta| Blob {
                    file: path.strip_prefix(&below).unwrap_or(path),
                    line: document.position.line,
                    meta,
                })
            });
            store.stage(origin, blobs)
        });
        written.await?.map_err(CatalogError::Store)
    }

    /// Serves what was staged.
    pub(super) async fn place(&self, staged: Staged) -> Result<(), CatalogError> {
        let store = Arc::clone(&self.ctx.store);
        let placed = blocking(move || store.place(staged)).await?;
        let content = placed.map_err(CatalogError::Store)?;
        let (blobs, dropped) = (content.index().len(), content.dropped());
        let name = self.catalog.name_any();
        self.ctx.metrics.stored_catalog(&name, blobs, dropped);
        tracing::info!(digest = content.digest(), blobs, dropped, "catalog content stored");
        Ok(())
    }
}

fn pull(error: PullError) -> CatalogError {
    CatalogError::Pull(Box::new(error))
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
    tokio::task::spawn_blocking(work).await.map_err(CatalogError::Interrupted)
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
        patched => patched.map(drop).map_err(|error| CatalogError::Metadata(error.into())),
    }
}

/// Takes our finalizer off the object.
pub(super) async fn release(ctx: &Context, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
    let ours = [finalizer::DELETE_SERVER_CACHE];
    let removed = ctx.reconciler.remove_finalizers(catalog, &ours).await;
    removed.map_err(|error| CatalogError::Metadata(error.into()))
}
