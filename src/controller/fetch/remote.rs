//! Downloads of catalogs, one at a time for each, kept on disk by digest.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_core::error::{Chain, quote};
use olm_core::resolve::CatalogProblem;
use olm_image::Room;
use tokio::sync::{Semaphore, watch};

use crate::backoff::{Backoff, FIRST_DELAY_CATALOG, MAX_DELAY};
use crate::by_key::ByKey;
use crate::catalog::store::{Content, Origin, Store, whole_seconds};
use crate::catalog::{CatalogServer, INTERRUPTED, Trust};
use crate::telemetry::Metrics;
use crate::tls::CurrentProfile;

/// The longest wait of a read for the download of a catalog; its end wakes who needs it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait where there is an older copy.
const WITH_OLDER: Duration = Duration::from_secs(2);
/// Downloads at the same time: few of the connections that the catalog server gives to one address.
pub(super) const AT_ONCE: usize = 8;

/// Catalogs on other processes.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) store: Arc<Store>,
    server: CatalogServer,
    metrics: Metrics,
    downloads: ByKey<Download>,
    backoff: Backoff,
    places: Semaphore,
    done: watch::Sender<u64>,
}

/// The last download of a catalog.
#[derive(Debug, Clone)]
struct Download {
    reference: String,
    uid: String,
    end: End,
}

/// How a download ended; nothing while it goes on.
type End = Arc<watch::Sender<Option<Ended>>>;

#[derive(Debug, Clone)]
struct Ended {
    /// The error text, empty after a success.
    error: String,
    /// When a failed download may be tried again, if not at once.
    retry: Option<Instant>,
}

impl Remote {
    pub(super) fn new(
        folder: &Path,
        trust: Trust,
        profile: CurrentProfile,
        room: Room,
        metrics: Metrics,
    ) -> anyhow::Result<Arc<Self>> {
        let server = CatalogServer::other(folder, trust, profile)?;
        let store = Store::open(&folder.join("catalogs"), room)
            .context("error preparing the catalog cache")?;
        Ok(Arc::new(Self {
            store: Arc::new(store),
            server,
            metrics,
            downloads: ByKey::default(),
            backoff: Backoff::new(FIRST_DELAY_CATALOG, MAX_DELAY),
            places: Semaphore::new(AT_ONCE),
            done: watch::Sender::new(0),
        }))
    }

    pub(super) fn downloads(&self) -> watch::Receiver<u64> {
        self.done.subscribe()
    }

    /// Takes over the CA that the catalog server publishes. One that is new is a reason to try
    /// again at once what has failed.
    pub(super) fn trust(&self, pem: String) {
        let Trust::Published(published) = self.server.trust() else { return };
        if !published.take(pem) {
            return;
        }
        tracing::info!("the CA of catalogs is used");
        for (name, download) in self.downloads.lock().iter() {
            self.backoff.forget(name);
            download.end.send_modify(|ended| {
                if let Some(ended) = ended {
                    ended.retry = None;
                }
            });
        }
        self.done.send_modify(|count| *count += 1);
    }

    /// Returns the copy of exactly `reference`, downloaded if need be; who does not wait gets it the
    /// next time.
    pub(super) async fn wanted(
        self: &Arc<Self>,
        catalog: &ClusterCatalog,
        reference: &str,
        waits: bool,
    ) -> Result<Arc<Content>, CatalogProblem> {
        let exact = || {
            let copy = self.store.content_of(catalog);
            copy.filter(|copy| copy.origin().reference == reference)
        };
        let name = catalog.name_any();
        if let Some(copy) = exact() {
            // The last look may not have waited for the end of the download.
            self.metrics.stale_catalog(&name, false);
            return Ok(copy);
        }
        let end = self.download(catalog, reference).end;
        let patience = match self.store.content_of(catalog) {
            _ if !waits => Duration::ZERO,
            Some(_) => WITH_OLDER,
            None => PATIENCE,
        };
        let _ = tokio::time::timeout(patience, end.subscribe().wait_for(Option::is_some)).await;
        let copy = exact();
        // The catalog may be gone by now, and an alert on it would never end.
        if self.is_last(&name, &end) {
            self.metrics.stale_catalog(&name, copy.is_none());
        }
        let ended = end.borrow().clone();
        copy.ok_or(match ended {
            Some(Ended { error, .. }) if !error.is_empty() => CatalogProblem::FetchFailed(error),
            _ => CatalogProblem::NotCached,
        })
    }

    /// Forgets a catalog that is gone or switched off.
    pub(super) async fn forget(self: &Arc<Self>, name: &str) {
        if self.store.content(name).is_none() && self.downloads.get(name).is_none() {
            return;
        }
        let (remote, name) = (Arc::clone(self), name.to_owned());
        if tokio::task::spawn_blocking(move || remote.remove(&name)).await.is_err() {
            tracing::debug!("removal of a catalog copy was interrupted");
        }
    }

    /// Forgets all catalogs that are not live, whether they were ever fetched or not. Blocks.
    pub(super) fn retain(&self, is_live: impl Fn(&str) -> bool) {
        for name in self.store.catalogs().into_iter().chain(self.downloads.keys()) {
            if !is_live(&name) {
                self.remove(&name);
            }
        }
    }

    /// Returns the download of `reference`, started if none is running or may be tried again.
    fn download(self: &Arc<Self>, catalog: &ClusterCatalog, reference: &str) -> Download {
        let name = catalog.name_any();
        let uid = catalog.metadata.uid.clone().unwrap_or_default();
        let mut downloads = self.downloads.lock();
        if let Some(last) = downloads.get(&name)
            && last.reference == reference
            && last.uid == uid
            && !last.may_be_repeated()
        {
            return last.clone();
        }
        let end = Arc::new(watch::Sender::new(None));
        let download =
            Download { reference: reference.to_owned(), uid: uid.clone(), end: Arc::clone(&end) };
        downloads.insert(name.clone(), download.clone());
        let origin = Origin {
            catalog: name.clone(),
            uid,
            reference: reference.to_owned(),
            unpacked: whole_seconds(Timestamp::now()),
        };
        let base = catalog.status.as_ref().and_then(|status| status.urls.clone());
        let remote = Arc::clone(self);
        tokio::spawn(async move {
            let base = base.map(|urls| urls.base);
            let ended = remote.run(origin, base, &end).await;
            end.send_replace(Some(ended.clone()));
            // Whoever has enough with an older copy asks for this one again only if told to.
            if let Some(at) = ended.retry {
                tokio::time::sleep_until(at.into()).await;
            }
            if ended.error.is_empty() || remote.is_last(&name, &end) {
                remote.done.send_modify(|count| *count += 1);
            }
        });
        download
    }

    async fn run(&self, origin: Origin, base: Option<String>, end: &End) -> Ended {
        let place = self.places.acquire().await;
        let started = Instant::now();
        let name = origin.catalog.clone();
        let result = match base {
            Some(base) => self.fetch(origin, &base, end).await,
            None => Err(anyhow!("error: catalog {} has a nil status.urls value", quote(&name))),
        };
        drop(place);
        match result {
            Ok(copy) => {
                self.backoff.forget(&name);
                self.metrics.fetched_catalog(started.elapsed());
                tracing::info!(catalog = name, digest = copy.digest(), "catalog fetched");
                Ended { error: String::new(), retry: None }
            }
            // A newer download has begun, or the catalog is gone.
            Err(_) if !self.is_last(&name, end) => {
                Ended { error: INTERRUPTED.to_owned(), retry: None }
            }
            Err(error) => {
                let error = Chain(&*error).to_string();
                let delay = self.backoff.next(&name);
                tracing::warn!(catalog = name, error, ?delay, "catalog not fetched");
                Ended { error, retry: Instant::now().checked_add(delay) }
            }
        }
    }

    fn is_last(&self, name: &str, end: &End) -> bool {
        self.downloads.get(name).is_some_and(|last| Arc::ptr_eq(&last.end, end))
    }

    async fn fetch(&self, origin: Origin, base: &str, end: &End) -> anyhow::Result<Arc<Content>> {
        let body = self.server.get(base, &origin.reference).await?;
        // A newer one may be here already, or the catalog be gone.
        ensure!(self.is_last(&origin.catalog, end), INTERRUPTED);
        let store = Arc::clone(&self.store);
        let stored = tokio::task::spawn_blocking(move || store.write(origin, body)).await;
        stored.ok().context(INTERRUPTED)?.context("error parsing catalog contents")
    }

    fn remove(&self, name: &str) {
        self.downloads.put(name, None);
        self.backoff.forget(name);
        self.metrics.forget_catalog(name);
        if let Err(error) = self.store.remove(name) {
            tracing::warn!(catalog = name, error = %Chain(&error), "catalog copy not removed");
        }
    }
}

impl Download {
    fn may_be_repeated(&self) -> bool {
        let may = |ended: &Ended| ended.retry.is_none_or(|retry| retry <= Instant::now());
        self.end.borrow().as_ref().is_some_and(may)
    }
}
