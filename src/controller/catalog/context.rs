//! The shared state of reconciles of ClusterCatalogs.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use olm_api::ClusterCatalog;
use olm_api::keys::manager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::error::CatalogError;
use super::plan::{CatalogFailure, Memory};
use super::store::{Store, StoreError};
use crate::backoff::FIRST_DELAY_CATALOG;
use crate::by_key::ByKey;
use crate::credentials::RegistryCredentials;
use crate::reconcile::Reconciler;
use crate::telemetry::{CONTROLLER_CATALOG, Metrics};
use crate::turns::RegistryTurns;

/// Catalogs that are pulled at the same time; each is in memory until it is on disk.
const PULLS: usize = 4;
/// The same from one registry.
const PULLS_OF_ONE: usize = 3;
/// Contents written on disk at the same time.
const MAX_WRITES: u32 = 8;

pub struct Context {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) credentials: Arc<RegistryCredentials>,
    pub(super) base: String,
    pub(super) metrics: Metrics,
    pub(super) reconciler: Reconciler,
    /// The start of this process.
    pub(super) began: Timestamp,
    pub(super) turns: RegistryTurns,
    /// Set when no reconcile is to wait any more for what is not ours.
    pub(super) stopping: watch::Sender<bool>,
    /// A permit for each write on disk that is under way.
    writes: Arc<Semaphore>,
    /// The memory of catalogs, by name.
    pub(super) memories: ByKey<Memory>,
    pub(super) failures: ByKey<CatalogFailure>,
}

impl Context {
    /// Returns a context without memory.
    ///
    /// `base` is the address clients reach the catalog server at, without a path, for example
    /// `https://catalogd-service.olmv1-system.svc`.
    pub fn new(
        client: Client,
        store: Arc<Store>,
        credentials: Arc<RegistryCredentials>,
        base: String,
        metrics: Metrics,
    ) -> Self {
        let reconciler = Reconciler::new(
            CONTROLLER_CATALOG,
            manager::CATALOGD,
            client.clone(),
            metrics.clone(),
            FIRST_DELAY_CATALOG,
        );
        Self {
            client,
            store,
            credentials,
            base,
            metrics,
            reconciler,
            began: Timestamp::now(),
            turns: RegistryTurns::new(PULLS, PULLS_OF_ONE),
            stopping: watch::Sender::new(false),
            writes: Arc::new(Semaphore::new(MAX_WRITES as usize)),
            memories: ByKey::default(),
            failures: ByKey::default(),
        }
    }

    /// Does work that writes nothing, unless the process stops meanwhile: a registry may take minutes.
    pub(super) fn unless_stopping<T: Send>(
        &self,
        work: impl Future<Output = Result<T, CatalogError>> + Send,
    ) -> impl Future<Output = Result<T, CatalogError>> + Send {
        let work = Box::pin(work);
        let mut stopping = self.stopping.subscribe();
        async move {
            tokio::select! {
                done = work => done,
                _ = stopping.wait_for(|stopping| *stopping) => Err(CatalogError::Stopping),
            }
        }
    }

    /// Waits for a turn to write on disk; what is returned is held for as long as that takes.
    pub(super) async fn writes(&self) -> Option<OwnedSemaphorePermit> {
        // It fails when the semaphore is closed, which nobody does.
        Arc::clone(&self.writes).acquire_owned().await.ok()
    }

    /// Waits until nothing is being written on disk.
    pub(super) async fn written(&self) {
        drop(self.writes.acquire_many(MAX_WRITES).await);
    }

    /// Returns the failure of a catalog. One that the present credentials and files may have mended
    /// no longer counts.
    pub(super) fn failure(&self, name: &str) -> Option<CatalogFailure> {
        let version = self.credentials.version();
        self.failures.get(name).filter(|failure| !failure.is_mended(version))
    }

    /// Returns the catalogs whose failure the present credentials and files may have mended, and
    /// forgets their delays.
    pub(super) fn mended(&self) -> Vec<String> {
        let version = self.credentials.version();
        let failures = self.failures.lock();
        let mended = failures.iter().filter(|(_, it)| it.is_mended(version));
        let names: Vec<_> = mended.map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.reconciler.succeeded(name);
        }
        names
    }

    /// Removes the content of a catalog, and what is known of it.
    pub(super) async fn remove(
        &self,
        name: &str,
        failed: fn(StoreError) -> CatalogError,
    ) -> Result<(), CatalogError> {
        self.memories.put(name, None);
        self.failures.put(name, None);
        self.metrics.forget_catalog(name);
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        blocking(move || store.remove(&name)).await?.map_err(failed)
    }

    /// Notes how much the stored content of a catalog holds, also what an earlier process has stored.
    pub(super) fn measure(&self, catalog: &ClusterCatalog) {
        if let Some(content) = self.store.content_of(catalog) {
            let (blobs, dropped) = (content.index().len(), content.dropped());
            self.metrics.stored_catalog(&content.origin().catalog, blobs, dropped);
        }
    }

    /// Returns whether the content of an image is stored for exactly this object.
    pub(super) fn holds(&self, catalog: &ClusterCatalog, image: &str) -> bool {
        let content = self.store.content_of(catalog);
        content.is_some_and(|content| content.origin().reference == image)
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CatalogError> {
    tokio::task::spawn_blocking(work).await.map_err(CatalogError::Interrupted)
}
