//! Downloads of catalogs, one at a time for each, kept on disk by digest.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_core::catalog::read::{MAX_BLOB_BYTES, Meta, Reason};
use olm_core::error::{Chain, quote};
use olm_core::resolve::CatalogProblem;
use reqwest::StatusCode;
use reqwest::header::ETAG;
use tokio::sync::{Semaphore, watch};

use super::held;
use super::trust::{Trust, TrustError};
use crate::backoff::{Backoff, FIRST_DELAY_CATALOG, MAX_DELAY};
use crate::catalog::store::{Compression, Content, Origin, Store, StoreError, whole_seconds};
use crate::telemetry::Metrics;

/// How long one look at a catalog waits for its download.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// A download ends when no byte comes for so long, however large it is (catalogs.md 4.3).
const IDLE: Duration = Duration::from_mins(1);
const WHOLE: Duration = Duration::from_mins(15);
/// Downloads at the same time: few of the connections that the catalog server gives to one address.
pub(super) const AT_ONCE: usize = 8;
const MAX_BODY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Why a catalog could not be downloaded. The texts are upstream's where it has them.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The status names no address.
    #[error("error: catalog {} has a nil status.urls value", quote(.0))]
    NoUrl(String),
    /// The certificates to trust cannot be read.
    #[error("error getting HTTP client")]
    Trust(#[from] TrustError),
    /// No client can be made.
    #[error("error getting HTTP client")]
    Client(#[source] reqwest::Error),
    /// Nobody answers.
    #[error("error performing request: Get {}: {cause}", quote(url))]
    Request {
        /// The address.
        url: String,
        /// Why, with every layer.
        cause: String,
    },
    /// The answer is not a catalog.
    #[error("error: received unexpected response status code {}", .0.as_u16())]
    Status(StatusCode),
    /// The server has other content than the status says.
    #[error("error: catalog server does not serve {wanted} yet")]
    OtherDigest {
        /// The digest that was wanted.
        wanted: String,
    },
    /// The body ended early or is too large.
    #[error("error performing request: reading the catalog")]
    Body(#[source] io::Error),
    /// The body is not a catalog, or cannot be stored.
    #[error("error parsing catalog contents")]
    Content(#[from] StoreError),
    /// The disk cannot be used.
    #[error("error preparing the catalog cache")]
    Cache(#[source] StoreError),
    /// The process stops.
    #[error("the download was interrupted")]
    Interrupted,
}

/// Catalogs on other processes.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    spool: PathBuf,
    trust: Trust,
    metrics: Metrics,
    downloads: Mutex<HashMap<String, Download>>,
    backoff: Backoff<String>,
    places: Semaphore,
    done: watch::Sender<u64>,
}

/// The last download of a catalog.
#[derive(Debug, Clone)]
struct Download {
    reference: String,
    uid: String,
    /// Nothing while it goes on, then the error text, empty after a success.
    result: watch::Receiver<Option<String>>,
    /// When a failed download may be tried again.
    retry: Arc<Mutex<Option<Instant>>>,
}

impl Remote {
    pub(super) fn new(folder: &Path, trust: Trust, metrics: Metrics) -> Result<Self, FetchError> {
        trust.certificates()?;
        let store = Store::open(&folder.join("catalogs"), Compression::None);
        let spool = folder.join("downloads");
        let prepare = StoreError::disk("error creating the folder of downloads");
        std::fs::create_dir_all(&spool).map_err(|error| FetchError::Cache(prepare(error)))?;
        Ok(Self {
            shared: Arc::new(Shared {
                store: store.map_err(FetchError::Cache)?,
                spool,
                trust,
                metrics,
                downloads: Mutex::default(),
                backoff: Backoff::new(FIRST_DELAY_CATALOG, MAX_DELAY),
                places: Semaphore::new(AT_ONCE),
                done: watch::Sender::new(0),
            }),
        })
    }

    pub(super) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(super) fn downloads(&self) -> watch::Receiver<u64> {
        self.shared.done.subscribe()
    }

    /// Takes over the CA that the catalog server publishes. One that is new is a reason to try
    /// again at once what has failed.
    pub(super) fn trust(&self, pem: String) {
        let Trust::Published(published) = &self.shared.trust else {
            return;
        };
        if !published.take(pem) {
            return;
        }
        tracing::info!("the CA of catalogs is taken over");
        let downloads = self.shared.downloads.lock();
        let downloads = downloads.unwrap_or_else(PoisonError::into_inner);
        for (name, download) in downloads.iter() {
            self.shared.backoff.forget(name);
            let retry = download.retry.lock();
            *retry.unwrap_or_else(PoisonError::into_inner) = None;
        }
        drop(downloads);
        self.shared.done.send_modify(|count| *count += 1);
    }

    /// Returns the copy of exactly `reference`, downloaded if need be.
    pub(super) async fn wanted(
        &self,
        catalog: &ClusterCatalog,
        reference: &str,
    ) -> Result<Arc<Content>, CatalogProblem> {
        let exact = || {
            held(&self.shared.store, catalog).filter(|copy| copy.origin().reference == reference)
        };
        if let Some(copy) = exact() {
            return Ok(copy);
        }
        let mut download = self.download(catalog, reference);
        let ended = download.result.wait_for(Option::is_some);
        let result = match tokio::time::timeout(PATIENCE, ended).await {
            Ok(Ok(result)) => result.clone(),
            Ok(Err(_)) => Some(FetchError::Interrupted.to_string()),
            Err(_) => None,
        };
        let copy = exact();
        let name = catalog.name_any();
        self.shared.metrics.stale_catalog(&name, copy.is_none());
        match (copy, result) {
            (Some(copy), _) => Ok(copy),
            (None, Some(error)) if !error.is_empty() => Err(CatalogProblem::FetchFailed(error)),
            (None, _) => Err(CatalogProblem::NotCached),
        }
    }

    /// Forgets a catalog that is gone or switched off.
    pub(super) async fn forget(&self, name: &str) {
        if self.shared.store.content(name).is_none() {
            return;
        }
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let removed = tokio::task::spawn_blocking(move || shared.remove(&name));
        if removed.await.is_err() {
            tracing::debug!("removal of a catalog copy was interrupted");
        }
    }

    /// Removes the copies of all catalogs that are not live. Blocks.
    pub(super) fn retain(&self, is_live: impl Fn(&str) -> bool) {
        for name in self.shared.store.catalogs() {
            if !is_live(&name) {
                self.shared.remove(&name);
            }
        }
    }

    /// Returns the download of `reference`, started if none is running or may be tried again.
    fn download(&self, catalog: &ClusterCatalog, reference: &str) -> Download {
        let name = catalog.name_any();
        let uid = catalog.metadata.uid.clone().unwrap_or_default();
        let downloads = self.shared.downloads.lock();
        let mut downloads = downloads.unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = downloads.get(&name)
            && last.reference == reference
            && last.uid == uid
            && !last.may_be_repeated()
        {
            return last.clone();
        }
        let (sender, result) = watch::channel(None);
        let download = Download {
            reference: reference.to_owned(),
            uid: uid.clone(),
            result,
            retry: Arc::default(),
        };
        downloads.insert(name.clone(), download.clone());
        let origin = Origin {
            catalog: name,
            uid,
            reference: reference.to_owned(),
            unpacked: whole_seconds(Timestamp::now()),
        };
        let base = catalog
            .status
            .as_ref()
            .and_then(|status| status.urls.clone());
        let (shared, retry) = (Arc::clone(&self.shared), Arc::clone(&download.retry));
        tokio::spawn(async move {
            let base = base.map(|urls| urls.base);
            let text = shared.run(origin, base, &retry).await;
            let complete = text.is_empty();
            // Nobody may be waiting any more.
            let _ = sender.send(Some(text));
            if complete {
                shared.done.send_modify(|count| *count += 1);
            }
        });
        download
    }
}

impl Download {
    fn may_be_repeated(&self) -> bool {
        let retry = *self.retry.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.result.borrow().is_some();
        ended && retry.is_none_or(|retry| retry <= Instant::now())
    }
}

impl Shared {
    /// Downloads a catalog; returns the error text, empty after a success.
    async fn run(
        self: &Arc<Self>,
        origin: Origin,
        base: Option<String>,
        retry: &Mutex<Option<Instant>>,
    ) -> String {
        let place = self.places.acquire().await;
        let started = Instant::now();
        let name = origin.catalog.clone();
        let result = match base {
            Some(base) => self.fetch(origin, &base).await,
            None => Err(FetchError::NoUrl(name.clone())),
        };
        drop(place);
        match result {
            Ok(copy) => {
                self.backoff.forget(&name);
                self.metrics.fetched_catalog(started.elapsed());
                tracing::info!(catalog = name, digest = copy.digest(), "catalog fetched");
                String::new()
            }
            Err(error) => {
                let delay = self.backoff.next(name.clone());
                *retry.lock().unwrap_or_else(PoisonError::into_inner) =
                    Instant::now().checked_add(delay);
                tracing::warn!(catalog = name, error = %Chain(&error), ?delay, "catalog not fetched");
                Chain(&error).to_string()
            }
        }
    }

    async fn fetch(
        self: &Arc<Self>,
        origin: Origin,
        base: &str,
    ) -> Result<Arc<Content>, FetchError> {
        let url = format!("{}/api/v1/all", base.trim_end_matches('/'));
        let client = {
            let shared = Arc::clone(self);
            tokio::task::spawn_blocking(move || shared.client())
                .await
                .map_err(|_| FetchError::Interrupted)??
        };
        let response = client
            .get(&url)
            .send()
            .await
            .map_err(|error| FetchError::Request {
                url,
                cause: cause(&error),
            })?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let wanted = origin
            .reference
            .rsplit_once('@')
            .map_or("", |(_, digest)| digest);
        let tag = response
            .headers()
            .get(ETAG)
            .and_then(|tag| tag.to_str().ok());
        // Upstream's server sends no tag and is believed.
        if tag.is_some_and(|tag| tag.trim_start_matches("W/").trim_matches('"') != wanted) {
            let wanted = wanted.to_owned();
            return Err(FetchError::OtherDigest { wanted });
        }
        let body = self.spool(response).await.map_err(FetchError::Body)?;
        let shared = Arc::clone(self);
        let stored =
            tokio::task::spawn_blocking(move || shared.store.write(origin, Lines::new(body)));
        Ok(stored.await.map_err(|_| FetchError::Interrupted)??)
    }

    /// Makes a client that trusts the certificates as they are now. Blocks.
    fn client(&self) -> Result<reqwest::Client, FetchError> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(IDLE)
            .timeout(WHOLE)
            .tls_certs_merge(self.trust.certificates()?);
        builder.build().map_err(FetchError::Client)
    }

    /// Writes a body to a file without a name.
    async fn spool(&self, response: reqwest::Response) -> io::Result<File> {
        let mut file = tempfile::tempfile_in(&self.spool)?;
        let mut total = 0;
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| io::Error::other(cause(&error)))?;
            total += chunk.len() as u64;
            if total > MAX_BODY_BYTES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            file = tokio::task::spawn_blocking(move || file.write_all(&chunk).map(|()| file))
                .await
                .map_err(io::Error::other)??;
        }
        file.rewind()?;
        Ok(file)
    }

    fn remove(&self, name: &str) {
        let mut downloads = self
            .downloads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        downloads.remove(name);
        drop(downloads);
        self.metrics.forget_catalog(name);
        if let Err(error) = self.store.remove(name) {
            tracing::warn!(catalog = name, error = %Chain(&error), "catalog copy not removed");
        }
    }
}

/// Returns every layer of a client error. A proxy that refuses is named as Go names it, because
/// people search for that word.
fn cause(error: &reqwest::Error) -> String {
    let mut layers = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    while let Some(layer) = source {
        layers.push(layer.to_string());
        source = layer.source();
    }
    // The outermost layer repeats the address.
    let text = layers
        .get(1..)
        .filter(|rest| !rest.is_empty())
        .unwrap_or(&layers)
        .join(": ");
    if layers.iter().any(|layer| layer.contains("tunnel")) {
        format!("proxyconnect tcp: {text}")
    } else {
        text
    }
}

/// The blobs of a download, one a line.
struct Lines {
    body: io::BufReader<File>,
    line: usize,
}

impl Lines {
    fn new(body: File) -> Self {
        Self {
            body: io::BufReader::new(body),
            line: 0,
        }
    }

    fn read(&mut self) -> Result<Option<Meta>, StoreError> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.line += 1;
            // One byte more than is allowed tells a blob of the largest size from a larger one.
            let mut limited = io::Read::take(&mut self.body, MAX_BLOB_BYTES as u64 + 2);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(StoreError::disk("error reading the download"))? == 0 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            // Upstream's server writes `null` for documents that hold comments only.
            if text.is_empty() || text == "null" {
                continue;
            }
            let line = self.line;
            let wrong = |source| StoreError::Line { line, source };
            if bytes.len() > MAX_BLOB_BYTES + 1 {
                return Err(wrong(Reason::BlobTooLarge));
            }
            return Meta::parse(text).map(Some).map_err(wrong);
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Meta, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
