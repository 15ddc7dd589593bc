//! What the images of one catalog are asked of, and how their content comes into the store.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_api::keys::policy;
use olm_core::catalog::read;
use olm_image::{ImageRef, PullError, Puller, Resolved, pull_catalog};

use super::context::Context;
use super::error::CatalogError;
use super::store::{Blob, Origin, Staged, whole_seconds};

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

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CatalogError> {
    tokio::task::spawn_blocking(work).await.map_err(CatalogError::Interrupted)
}
