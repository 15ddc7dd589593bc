//! Pulling: from a reference to the files of an image.
//!
//! [`Puller::resolve`] turns a reference into a digest, [`Puller::image`] reads the manifest and
//! the configuration, [`Image::unpack`] fetches the layers. Configuration files are read again by
//! each `resolve`. The endpoint that resolved a tag serves the rest of the pull, by digest: the tag
//! may move meanwhile, and a mirror for tags may be the only one that answers.
//!
//! Source: catalogs.md 5.1 to 5.6.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use olm_core::error::without_path;
use tokio::sync::{Semaphore, mpsc};

use crate::auth_file::AuthFiles;
use crate::digest::{Digest, Hasher};
use crate::keyring::{Keyring, Source};
use crate::limits::{LONGEST_WAIT, Limits, PARALLEL_DOWNLOADS, PARALLEL_UNPACKS};
use crate::manifest::{
    self, Descriptor, ImageConfig, IndexEntry, Manifest, ManifestError, Platform,
};
use crate::policy::{Demand, Policy, PolicyPath};
use crate::proxies::Proxies;
use crate::reference::{ImageRef, ReferenceError};
use crate::registries::{Endpoint, Registries, RegistriesPaths};
use crate::registry::{self, Access, RawManifest, RequestError, Session};
use crate::trust::{self, CertificateDirs};
use crate::unpack::{Layer, Unpacked, unpack};

mod error;
mod signatures;

pub use error::{CopyError, EndpointError, PullError, SourceError};

/// Bytes per second of a link that is waited for, besides the time for everything.
const SLOWEST: u64 = 250_000;
/// Most manifests of an index that are asked for where the registry has not all of them.
const MAX_INSTANCES: usize = 8;
/// Most chunks of a layer that wait to be written to disk.
const CHUNKS_IN_FLIGHT: usize = 16;

/// The configuration files of a [`Puller`], its platform and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullConfig {
    /// Configuration of mirrors, blocked and insecure registries.
    pub registries: RegistriesPaths,
    pub policy: PolicyPath,
    /// Certificates of registries, and client certificates.
    pub certificates: CertificateDirs,
    /// Files with credentials, which are asked after all other sources.
    pub auth: AuthFiles,
    /// Which image of an index to pull.
    pub platform: Platform,
    pub catalog: Limits,
    pub bundle: Limits,
}

impl Default for PullConfig {
    fn default() -> Self {
        Self {
            registries: RegistriesPaths::default(),
            policy: PolicyPath::new(None),
            certificates: CertificateDirs::default(),
            auth: AuthFiles::default(),
            platform: Platform::host(),
            catalog: Limits::catalog(),
            bundle: Limits::bundle(),
        }
    }
}

impl PullConfig {
    /// Returns the configuration of other container tools: their files, or those that
    /// `CONTAINERS_REGISTRIES_CONF` and `CONTAINERS_POLICY_JSON` name.
    pub fn from_env() -> Self {
        let named = |variable| {
            let value = std::env::var_os(variable)?;
            (!value.is_empty()).then(|| PathBuf::from(value))
        };
        Self {
            registries: RegistriesPaths::new(named("CONTAINERS_REGISTRIES_CONF")),
            policy: PolicyPath::new(named("CONTAINERS_POLICY_JSON")),
            ..Self::default()
        }
    }
}

/// The progress of a pull or another transfer, in bytes.
#[derive(Debug, Default)]
pub struct Transfer {
    pub done: AtomicU64,
    /// The total number of bytes, as far as known.
    pub total: AtomicU64,
}

/// Pulls images. Cheap to share in an `Arc`; keeps no connection between pulls.
#[derive(Debug)]
pub struct Puller {
    config: PullConfig,
    /// Where credentials are, and the proxies on the way.
    held: RwLock<(Arc<Keyring>, Proxies)>,
    transfer: Arc<Transfer>,
    unpacks: Arc<Semaphore>,
}

/// A reference whose digest is known.
#[derive(Clone)]
pub struct Resolved {
    requested: ImageRef,
    image: ImageRef,
    digest: Digest,
    found: Option<Found>,
    demand: Option<Arc<Demand>>,
}

/// The endpoint that answered, and its manifest.
#[derive(Clone)]
struct Found {
    session: Arc<Session>,
    /// The requested image.
    image: ImageRef,
    manifest: RawManifest,
}

impl Resolved {
    pub fn requested(&self) -> &ImageRef {
        &self.requested
    }

    /// Returns the reference by digest, without a tag: what `resolvedSource` shows.
    pub fn image(&self) -> &ImageRef {
        &self.image
    }

    /// Returns the digest; for a multi-platform image that of its index.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns a digest of what the signatures of the image have to satisfy; `None` if it needs none.
    pub fn demanded(&self) -> Option<String> {
        self.demand.as_ref().map(|demand| demand.fingerprint())
    }
}

impl std::fmt::Debug for Resolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resolved({} -> {})", self.requested, self.image)
    }
}

impl Puller {
    /// Makes a puller without credentials.
    pub fn new(config: PullConfig) -> Self {
        Self {
            config,
            held: RwLock::default(),
            transfer: Arc::default(),
            unpacks: Arc::new(Semaphore::new(PARALLEL_UNPACKS)),
        }
    }

    /// Replaces the sources of credentials for all pulls that start from now on.
    pub fn set_keyring(&self, keyring: Keyring) {
        self.held.write().unwrap_or_else(PoisonError::into_inner).0 = Arc::new(keyring);
    }

    /// Returns a puller that asks `first` for credentials, and then the present sources of this
    /// one.
    #[must_use]
    pub fn with_source(&self, first: Source) -> Self {
        let (keyring, proxies) = self.held();
        Self {
            config: self.config.clone(),
            held: RwLock::new((Arc::new(keyring.after(first)), proxies)),
            transfer: Arc::clone(&self.transfer),
            unpacks: Arc::clone(&self.unpacks),
        }
    }

    /// Has all pulls that start from now on take these proxies, and says whether they are others.
    pub fn set_proxies(&self, proxies: Proxies) -> bool {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held.1, proxies) != held.1
    }

    fn held(&self) -> (Arc<Keyring>, Proxies) {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the progress of all its pulls.
    pub fn transfer(&self) -> Arc<Transfer> {
        Arc::clone(&self.transfer)
    }

    pub fn config(&self) -> &PullConfig {
        &self.config
    }

    /// Resolves a tag to its current digest, with one request for the manifest; a digest is
    /// returned unchanged without a request. The signature policy is checked here, apart from
    /// signatures: these are when the image is read.
    pub async fn resolve(&self, image: &ImageRef) -> Result<Resolved, PullError> {
        let copy = |err| PullError::Copy(CopyError::Policy(err));
        let path = &self.config.policy;
        let policy = Policy::load(path).map_err(copy)?;
        let demand = policy.map(|policy| policy.check(&path.file, image)).transpose();
        let demand = demand.map_err(copy)?.flatten().map(Arc::new);
        let found = if image.digest().is_none() {
            let found = within(self.config.catalog.pull, self.find(image)).await?;
            Some(found.map_err(PullError::Resolve)?)
        } else {
            None
        };
        let answered = found.as_ref().map(|found| &found.manifest.digest);
        let Some(digest) = image.digest().or(answered).cloned() else {
            return Err(ReferenceError::NoVersion(image.name()).into());
        };
        Ok(Resolved {
            requested: image.clone(),
            image: image.with_digest(digest.clone()),
            digest,
            found,
            demand,
        })
    }

    /// Asks whether an image exists. Registries that count pulls do not count this.
    pub async fn probe(&self, image: &ImageRef) -> Result<(), PullError> {
        let asked = self.first(image, |endpoint| async move {
            let session = self.session(&endpoint).await?;
            let version = endpoint.image.version();
            let failed =
                |error| EndpointError::Manifest(version.clone(), endpoint.image.name(), error);
            session.probe(&version).await.map_err(failed)
        });
        within(self.config.catalog.pull, asked).await?.map_err(PullError::Resolve)
    }

    /// Reads the manifest for the configured platform and the image configuration.
    pub async fn image(&self, resolved: &Resolved) -> Result<Image, PullError> {
        let found = match &resolved.found {
            Some(found) => found.clone(),
            None => self.find(&resolved.image).await?.map_err(|source| {
                PullError::Copy(CopyError::Source(resolved.image.to_string(), source))
            })?,
        };
        self.read(found, resolved.demand.as_deref()).await.map_err(PullError::Copy)
    }

    /// Pulls the files below the `wanted` directories (see [`unpack`]) within `limits`.
    pub async fn pull(
        &self,
        resolved: &Resolved,
        wanted: &[String],
        limits: &Limits,
    ) -> Result<Unpacked, PullError> {
        within(limits.pull, self.image(resolved)).await?.unpack(wanted, limits).await
    }

    async fn find(&self, image: &ImageRef) -> Result<Result<Found, SourceError>, PullError> {
        self.first(image, |endpoint| self.ask(endpoint)).await
    }

    /// Returns the first answer that an endpoint of an image gives to `ask`.
    async fn first<T, A>(
        &self,
        image: &ImageRef,
        ask: impl Fn(Endpoint) -> A,
    ) -> Result<Result<T, SourceError>, PullError>
    where
        A: Future<Output = Result<T, EndpointError>>,
    {
        let endpoints = Registries::load(&self.config.registries)?.endpoints(image)?;
        let mut failed = Vec::new();
        for endpoint in endpoints {
            let at = endpoint.image.to_string();
            match ask(endpoint).await {
                Ok(found) => return Ok(Ok(found)),
                Err(err) => failed.push((at, err)),
            }
        }
        #[expect(clippy::expect_used, reason = "the place a reference names is always tried")]
        let (at, origin) = failed.pop().expect("the origin was tried");
        Ok(Err(SourceError { mirrors: failed, at, origin }))
    }

    async fn ask(&self, endpoint: Endpoint) -> Result<Found, EndpointError> {
        let session = self.session(&endpoint).await?;
        let image = endpoint.image;
        let version = image.version();
        let manifest = session.manifest(&version, image.digest()).await;
        let failed = |error| EndpointError::Manifest(version, image.name(), error);
        let manifest = manifest.map_err(failed)?;
        Ok(Found { manifest, session: Arc::new(session), image })
    }

    async fn session(&self, endpoint: &Endpoint) -> Result<Session, EndpointError> {
        if let Some(prefix) = &endpoint.blocked {
            return Err(EndpointError::Blocked(prefix.clone()));
        }
        let image = &endpoint.image;
        let (keyring, proxies) = self.held();
        let (registry, certificates) = (image.registry(), &self.config.certificates);
        let http = trust::client(certificates, registry, endpoint.insecure, &proxies)?;
        let keyring = keyring.before(self.config.auth.source());
        let access = Access {
            choice: keyring.choose(registry, image.repository()),
            certificates: trust::places(certificates, registry),
        };
        let session = Session::open(http, endpoint, access).await;
        session.map_err(|error| EndpointError::Ping(registry.to_owned(), error))
    }

    async fn read(&self, found: Found, demand: Option<&Demand>) -> Result<Image, CopyError> {
        let Found { session, image, mut manifest } = found;
        let mut parsed = parse(&manifest)?;
        let mut suits = true;
        if let Manifest::Index(entries) = &parsed {
            (manifest, suits) = self.instance(&session, entries).await?;
            parsed = parse(&manifest)?;
        }
        // As by containers/image, the image of the platform has to be signed, not its index.
        if let Some(demand) = demand {
            signatures::check(demand, &self.config, &session, &image, &manifest).await?;
        }
        let Manifest::Image { config, layers } = parsed else {
            let text = "image index inside an image index";
            return Err(ManifestError::Invalid(text.to_owned()).into());
        };
        let bytes = session.small_blob(&config).await;
        let bytes = bytes.map_err(CopyError::reading(format!("blob {}", config.digest)))?;
        Ok(Image {
            suits,
            config: manifest::parse_config(&bytes, layers.len())?,
            layers,
            session,
            transfer: Arc::clone(&self.transfer),
            unpacks: Arc::clone(&self.unpacks),
        })
    }

    /// Reads the manifest in an index that suits the platform best, of those that the registry has: a
    /// mirror may have the images of some platforms only. Returns whether it is for the platform.
    async fn instance(
        &self,
        session: &Session,
        entries: &[IndexEntry],
    ) -> Result<(RawManifest, bool), CopyError> {
        let platform = &self.config.platform;
        let mut missing = None;
        for (entry, suits) in
            manifest::by_fitness(entries, platform).into_iter().take(MAX_INSTANCES)
        {
            let digest = &entry.descriptor.digest;
            match session.manifest(&digest.to_string(), Some(digest)).await {
                Err(error) if error.is_not_found() => {
                    missing.get_or_insert(CopyError::reading(format!("manifest {digest}"))(error));
                }
                answer => {
                    if !suits {
                        tracing::info!(%digest, "no image for this platform, taking one for Linux");
                    }
                    let reading = CopyError::reading(format!("manifest {digest}"));
                    return Ok((answer.map_err(reading)?, suits));
                }
            }
        }
        Err(missing.unwrap_or_else(|| manifest::unsuited(platform).into()))
    }
}

fn parse(manifest: &RawManifest) -> Result<Manifest, ManifestError> {
    manifest::parse(&manifest.bytes, manifest.content_type.as_deref())
}

/// An image whose layers have not been fetched yet.
pub struct Image {
    suits: bool,
    config: ImageConfig,
    layers: Vec<Descriptor>,
    session: Arc<Session>,
    transfer: Arc<Transfer>,
    unpacks: Arc<Semaphore>,
}

impl Image {
    /// Returns whether it is for the configured platform, as far as an index says which are.
    pub fn suits(&self) -> bool {
        self.suits
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.config.labels
    }

    /// Returns the longest that fetching the layers may take: more for larger ones.
    fn longest(&self, limits: &Limits) -> Duration {
        let bytes = self.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
        limits.pull + Duration::from_secs(bytes / SLOWEST).min(Duration::from_hours(1))
    }

    /// Fetches the layers and returns the files below the `wanted` directories. The time that others
    /// take to unpack does not count.
    pub async fn unpack(&self, wanted: &[String], limits: &Limits) -> Result<Unpacked, PullError> {
        let (longest, began) = (self.longest(limits), Instant::now());
        let layers = within(longest, self.fetch(limits)).await?;
        let left = longest.saturating_sub(began.elapsed());
        let stop = StopOnDrop::default();
        let (flag, wanted, limits) = (Arc::clone(&stop.0), wanted.to_vec(), limits.clone());
        // It is closed by nobody; a disk that hangs keeps its place.
        let place = async { Ok(Arc::clone(&self.unpacks).acquire_owned().await) };
        let place = within(LONGEST_WAIT, place).await?;
        let work = move || {
            let _place = place;
            unpack(&layers, &wanted, &limits, &flag)
        };
        let unpacked = tokio::time::timeout(left, tokio::task::spawn_blocking(work)).await;
        let unpacked = unpacked.map_err(|_| PullError::Timeout(longest))?;
        Ok(unpacked.map_err(|err| PullError::Store(io::Error::other(err)))??)
    }

    async fn fetch(&self, limits: &Limits) -> Result<Vec<Layer>, PullError> {
        let copy = |err| PullError::Copy(CopyError::Manifest(err));
        manifest::check_layers(&self.layers, limits).map_err(copy)?;
        let sizes = self.layers.iter().map(|blob| blob.size);
        self.transfer.total.fetch_add(sizes.sum(), Ordering::Relaxed);
        // Collected first: a lazy iterator of futures hides from the compiler that they may change
        // threads.
        let downloads: Vec<_> = self.layers.iter().map(|blob| self.download(blob)).collect();
        let files: Vec<File> = futures::stream::iter(downloads)
            .buffered(PARALLEL_DOWNLOADS)
            .try_collect()
            .await
            .map_err(PullError::Copy)?;
        let layers = files.into_iter().zip(&self.config.diff_ids);
        let layer =
            |(source, diff_id): (File, &Digest)| Layer { source, diff_id: Some(diff_id.clone()) };
        Ok(layers.map(layer).collect())
    }

    /// Streams a layer to an unnamed temporary file while hashing it.
    async fn download(&self, blob: &Descriptor) -> Result<File, CopyError> {
        let (sink, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let algorithm = blob.digest.algorithm();
        let transfer = Arc::clone(&self.transfer);
        let writer =
            tokio::task::spawn_blocking(move || spool(chunks, Hasher::new(algorithm), &transfer));
        let streamed = self.session.stream(blob, sink).await;
        let written = writer.await.map_err(io::Error::other).and_then(|it| it);
        let failed = CopyError::reading(format!("blob {}", blob.digest));
        match (streamed, written) {
            // If the receiver stopped, its error is the more useful one.
            (Ok(()) | Err(RequestError::Stopped), Err(err)) => {
                Err(CopyError::Spool(without_path(err)))
            }
            (Err(err), _) => Err(failed(err)),
            (Ok(()), Ok((file, size, digest))) => {
                registry::check(blob, size, &digest).map_err(failed)?;
                Ok(file)
            }
        }
    }
}

fn spool(
    mut chunks: mpsc::Receiver<Vec<u8>>,
    mut hasher: Hasher,
    transfer: &Transfer,
) -> io::Result<(File, u64, Digest)> {
    let mut file = tempfile::tempfile()?;
    let mut size = 0;
    while let Some(chunk) = chunks.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
        let arrived = chunk.len() as u64;
        size += arrived;
        transfer.done.fetch_add(arrived, Ordering::Relaxed);
    }
    Ok((file, size, hasher.finish()))
}

/// Ends the blocking work of a pull whose future was dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` for at most `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, PullError>>,
) -> Result<T, PullError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(PullError::Timeout(limit)))
}

#[cfg(test)]
mod tests;
