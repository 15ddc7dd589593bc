//! What reconciles of ClusterCatalogs share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Client, ResourceExt as _};
use olm_api::ClusterCatalog;
use olm_api::keys::manager;
use olm_image::Puller;

use super::plan::{Failure, Memory};
use super::store::{Content, Store};
use crate::backoff::FIRST_DELAY_CATALOG;
use crate::reconcile::Reconciler;
use crate::telemetry::{CONTROLLER_CATALOG, Metrics};

/// What reconciles of ClusterCatalogs share.
pub struct Context {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) puller: Arc<Puller>,
    pub(super) base: String,
    pub(super) metrics: Metrics,
    pub(super) reconciler: Reconciler,
    memories: Mutex<HashMap<String, Memory>>,
    failures: Mutex<HashMap<String, Failure>>,
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
            puller,
            base,
            metrics,
            reconciler,
            memories: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    pub(super) fn memory(&self, name: &str) -> Option<Memory> {
        self.memories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub(super) fn remember(&self, name: &str, memory: Option<Memory>) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        match memory {
            Some(memory) => memories.insert(name.to_owned(), memory),
            None => memories.remove(name),
        };
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stored content of this very object, not of an older one of the same name.
    pub(super) fn content(&self, catalog: &ClusterCatalog) -> Option<Arc<Content>> {
        let uid = catalog.metadata.uid.as_deref().unwrap_or_default();
        let content = self.store.content(&catalog.name_any())?;
        (content.origin().uid == uid).then_some(content)
    }
}
