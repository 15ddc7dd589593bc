//! The work of a process without the lease: it fetches the leader's content, and serves it too.
//!
//! Content comes from its own disk, else from the registry by digest, else from a replica that
//! serves it, so that a rollout keeps it while the registry is away (deploying.md 4.3). Nothing is
//! written to the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::{ObjectRef, Store as Reader};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Api, ResourceExt as _};
use olm_api::conditions::types;
use olm_api::{AvailabilityMode, ClusterCatalog};
use olm_core::error::Chain;
use olm_core::status::is_true;
use tokio::sync::Notify;

use super::context::{Context, blocking};
use super::download::CatalogServer;
use super::error::CatalogError;
use super::garbage;
use super::newer::{restore, unpacked};
use super::registry::{Registry, origin};
use super::store::Blob;
use crate::backoff::{Backoff, FIRST_DELAY_CATALOG, MAX_DELAY};
use crate::by_key::ByKey;
use crate::cluster;

type Catalog = DeserializeGuard<ClusterCatalog>;

/// Catalogs that are copied at the same time.
const DOWNLOADS: u16 = 4;
/// For so long a process waits for content before it says that it is ready without: there may be
/// none to be had anywhere.
const PATIENCE: Duration = Duration::from_mins(1);
/// The interval of checks whether the wait is over.
const LOOK: Duration = Duration::from_secs(2);

struct Follower {
    ctx: Arc<Context>,
    /// Another replica, as status.urls names it.
    replica: CatalogServer,
    /// Since when the content of a catalog cannot be had.
    failing: ByKey<Instant>,
    backoff: Backoff,
    /// Told after each reconcile.
    passed: Notify,
}

/// Keeps a copy of what is served until `end`; calls `complete` once everything that is served and
/// can be had is here. When it returns, nothing of it is written any more.
pub async fn follow(
    ctx: Arc<Context>,
    replica: CatalogServer,
    gc_interval: Duration,
    complete: impl FnOnce() + Send,
    end: impl Future<Output = ()> + Send,
) {
    let follower = Arc::new(Follower {
        ctx: Arc::clone(&ctx),
        replica,
        failing: ByKey::default(),
        backoff: Backoff::new(FIRST_DELAY_CATALOG, MAX_DELAY),
        passed: Notify::new(),
    });
    let (reader, writer) = reflector::store();
    let catalogs = Api::<Catalog>::all(ctx.client.clone());
    let catalogs =
        cluster::changes(catalogs, watcher::Config::default()).reflect(writer).touched_objects();
    let mended = ctx.credentials.changes().flat_map({
        let follower = Arc::clone(&follower);
        move |()| stream::iter(follower.mended()).map(|name| ObjectRef::new(&name))
    });
    let passes = Controller::for_stream(catalogs, reader.clone())
        .with_config(controller::Config::default().concurrency(DOWNLOADS))
        .reconcile_on(mended)
        .run(pass, retry, Arc::clone(&follower))
        .for_each(|result| {
            let follower = Arc::clone(&follower);
            async move {
                // It is gone: there is no object to pass over.
                if let Err(controller::Error::ObjectNotFound(gone)) = result
                    && let Err(error) = follower.remove(&gone.name).await
                {
                    let catalog = gone.name;
                    tracing::warn!(catalog, error = %Chain(&error), "content stays on disk");
                }
            }
        });
    let told = async {
        follower.until_complete(&reader).await;
        complete();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = passes => {}
        () = told => {}
        () = garbage::collect_regularly(Arc::clone(&ctx), gc_interval) => {}
        () = end => {}
    }
    // A reconcile may be dropped anywhere, but what it writes on disk goes on.
    ctx.written().await;
}

impl Follower {
    /// Returns the catalogs that other credentials and files may have mended.
    fn mended(&self) -> Vec<String> {
        let names = self.failing.keys();
        for name in &names {
            self.backoff.forget(name);
        }
        names
    }

    async fn until_complete(&self, reader: &Reader<Catalog>) {
        // It fails when the watch is gone, and with it the process.
        if reader.wait_until_ready().await.is_err() {
            std::future::pending::<()>().await;
        }
        while reader.state().iter().any(|catalog| self.lacks(catalog)) {
            let _ = tokio::time::timeout(LOOK, self.passed.notified()).await;
        }
    }

    /// Returns whether a catalog is served elsewhere, and not here although it could be.
    fn lacks(&self, catalog: &Catalog) -> bool {
        let Ok(catalog) = &catalog.0 else { return false };
        let given_up = |since: &Instant| since.elapsed() > PATIENCE;
        served(catalog).is_some_and(|reference| !self.ctx.holds(catalog, reference))
            && !self.failing.lock().get(&catalog.name_any()).is_some_and(given_up)
    }

    async fn remove(&self, name: &str) -> Result<(), CatalogError> {
        self.failing.put(name, None);
        self.ctx.remove(name, CatalogError::Remove).await
    }
}

/// Returns the image whose content is served, if there is one.
fn served(catalog: &ClusterCatalog) -> Option<&str> {
    let status = catalog.status.as_ref()?;
    let resolved = status.resolved_source.as_ref()?;
    let wanted = catalog.metadata.deletion_timestamp.is_none()
        && catalog.spec.availability() != AvailabilityMode::Unavailable
        && is_true(&status.conditions, types::SERVING);
    wanted.then_some(resolved.image.ref_.as_str())
}

async fn pass(object: Arc<Catalog>, follower: Arc<Follower>) -> Result<Action, CatalogError> {
    let result = match &object.0 {
        Ok(catalog) => follower.catch_up(catalog).await,
        Err(_) => Ok(()),
    };
    follower.passed.notify_one();
    result.map(|()| Action::await_change())
}

impl Follower {
    async fn catch_up(&self, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
        let name = catalog.name_any();
        let Some(reference) = served(catalog) else { return self.drop_unserved(catalog).await };
        if self.ctx.holds(catalog, reference) {
            self.ctx.measure(catalog);
            return Ok(());
        }
        let registry = Registry::of(&self.ctx, catalog).await;
        let mut result = match registry {
            Ok(registry) => restore(&registry, catalog, reference).await,
            Err(error) => Err(error),
        };
        if result.as_ref().is_err_and(CatalogError::is_of_pull) {
            match self.copy_from_replica(catalog, reference).await {
                Ok(()) => result = Ok(()),
                Err(error) => {
                    tracing::warn!(catalog = name, error = %Chain(&error), "no other replica serves it");
                }
            }
        }
        if self.ctx.holds(catalog, reference) {
            self.ctx.measure(catalog);
            self.failing.put(&name, None);
            self.backoff.forget(&name);
        } else {
            self.failing.lock().entry(name).or_insert_with(Instant::now);
        }
        result
    }

    /// Stores what another replica serves, if it is exactly the content of `reference`.
    async fn copy_from_replica(
        &self,
        catalog: &ClusterCatalog,
        reference: &str,
    ) -> Result<(), CatalogError> {
        let urls = catalog.status.as_ref().and_then(|it| it.urls.as_ref());
        let base = urls.map(|urls| urls.base.as_str()).unwrap_or_default();
        let lines = self.replica.get(base, reference).await.map_err(CatalogError::Replica)?;
        // Every replica answers with the same validators.
        let origin =
            origin(catalog, reference, lines.modified().unwrap_or_else(|| unpacked(catalog)));
        let name = origin.catalog.clone();
        let store = Arc::clone(&self.ctx.store);
        let turn = self.ctx.writes().await;
        let written = blocking(move || {
            let _turn = turn;
            // The names of the files are not sent; findings name the line of the answer.
            let blobs = lines.zip(1..).map(|(meta, line)| {
                let file = name.as_str();
                meta.map(|meta| Blob { file, line, meta })
            });
            store.place(store.stage(origin, blobs)?).inspect(|content| store.settle(content))
        });
        let content = written.await?.map_err(CatalogError::Store)?;
        let (catalog, digest) = (catalog.name_any(), content.digest());
        tracing::info!(catalog, digest, "catalog content copied from another replica");
        Ok(())
    }

    /// Removes the content of a catalog that is switched off or being deleted.
    async fn drop_unserved(&self, catalog: &ClusterCatalog) -> Result<(), CatalogError> {
        let ends = catalog.metadata.deletion_timestamp.is_some()
            || catalog.spec.availability() == AvailabilityMode::Unavailable;
        if ends {
            self.remove(&catalog.name_any()).await?;
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the controller passes them so")]
fn retry(object: Arc<Catalog>, error: &CatalogError, follower: Arc<Follower>) -> Action {
    let name = object.name_any();
    let delay = follower.backoff.next(&name);
    tracing::warn!(catalog = name, error = %Chain(error), ?delay, "the catalog is not served here yet");
    Action::requeue(delay)
}
