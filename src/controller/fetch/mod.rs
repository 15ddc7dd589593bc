//! What the extension side knows of catalogs.
//!
//! In: ClusterCatalog objects and the name of a package. Out: the content of that package in each
//! catalog, as far as it can be had, and what is wrong where it cannot. A process that serves
//! catalogs reads its own store; any other downloads from `status.urls.base` and keeps one
//! complete copy per catalog on disk. A copy that is older than wanted is used until a newer one
//! is complete, but only for the very same object.

mod remote;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use olm_api::ClusterCatalog;
use olm_api::keys::name::CA_BUNDLE;
use olm_core::catalog::{Blob, Content};
use olm_core::extension::KnownCatalog;
use olm_core::resolve::CatalogProblem;
use olm_image::Room;
use tokio::sync::watch;

use crate::catalog::store::{self, Store};
use crate::catalog::{FetchError, Trust};
use crate::cluster::named;
use crate::telemetry::Metrics;
use crate::tls::CurrentProfile;
use remote::Remote;

/// Most packages of one catalog whose content is kept parsed. Real clusters use a few dozen; the
/// bound keeps a cluster that asks for every package from holding every catalog twice.
const MAX_PARSED_PACKAGES: usize = 512;

/// The catalogs, as far as they can be read. Clones share everything.
#[derive(Debug, Clone)]
pub struct Catalogs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    parsed: Mutex<BTreeMap<String, Parsed>>,
}

#[derive(Debug)]
enum Source {
    Own(Arc<Store>),
    Remote(Remote),
}

/// What was parsed of one copy of a catalog.
#[derive(Debug, Default)]
struct Parsed {
    uid: String,
    reference: String,
    packages: BTreeMap<String, Arc<Content>>,
}

impl Catalogs {
    /// Returns the view of a process that serves catalogs itself.
    pub fn own(store: Arc<Store>) -> Self {
        Self::new(Source::Own(store))
    }

    /// Returns the view of a process that downloads catalogs into `folder`. Blocks.
    ///
    /// A folder to trust without any certificate is an error.
    pub fn remote(
        folder: &std::path::Path,
        trust: Trust,
        profile: CurrentProfile,
        room: Room,
        metrics: Metrics,
    ) -> Result<Self, FetchError> {
        let remote = Remote::new(folder, trust, profile, room, metrics)?;
        Ok(Self::new(Source::Remote(remote)))
    }

    /// Trusts the CA that the `ConfigMap` called `name` publishes, as it changes. Where it is gone,
    /// what was known stays. Never returns.
    pub async fn follow_ca(self, maps: Api<ConfigMap>, name: String) {
        let mut found = pin!(named(maps, &name));
        while let Some(map) = found.next().await {
            let bundle = map.and_then(|map| map.data?.remove(CA_BUNDLE));
            if let (Some(bundle), Source::Remote(remote)) = (bundle, &self.inner.source) {
                remote.trust(bundle);
            }
        }
    }

    fn new(source: Source) -> Self {
        Self { inner: Arc::new(Inner { source, parsed: Mutex::default() }) }
    }

    /// Returns a receiver that changes whenever a download is complete, so that extensions which
    /// waited for it can be looked at again. In a process with a store of its own it never does.
    pub fn downloads(&self) -> watch::Receiver<u64> {
        match &self.inner.source {
            Source::Own(_) => watch::Sender::new(0).subscribe(),
            Source::Remote(remote) => remote.downloads(),
        }
    }

    /// Calls `told` after every complete download, as long as there can be any.
    pub async fn tell(self, mut told: impl FnMut() + Send) {
        let mut downloads = self.downloads();
        while downloads.changed().await.is_ok() {
            told();
        }
    }

    /// Returns every given catalog in name order, with what it has of `package`.
    ///
    /// Content that is not here yet is downloaded; catalogs are waited for side by side, and a
    /// download that takes long goes on after this returned.
    pub async fn known(&self, catalogs: &[ClusterCatalog], package: &str) -> Vec<KnownCatalog> {
        let all: Vec<_> = catalogs.iter().map(|catalog| self.one(catalog, package)).collect();
        let mut known = futures::future::join_all(all).await;
        known.sort_by(|a, b| a.name().cmp(b.name()));
        known
    }

    /// Drops the copies of catalogs that are not in `live`. Blocks.
    pub fn retain(&self, live: &[ClusterCatalog]) {
        let is_live = |name: &str| live.iter().any(|catalog| catalog.name_any() == name);
        self.parsed().retain(|name, _| is_live(name));
        if let Source::Remote(remote) = &self.inner.source {
            remote.retain(is_live);
        }
    }

    async fn one(&self, catalog: &ClusterCatalog, package: &str) -> KnownCatalog {
        let mut known = KnownCatalog::of(catalog);
        if !known.is_enabled() {
            self.forget(known.name()).await;
            return known;
        }
        let (copy, problem) = self.copy(catalog).await;
        if let Some(problem) = problem {
            known = known.with(Err(problem));
        }
        let Some(copy) = copy else {
            return known;
        };
        let content = self.content(copy, package).await;
        known.with(content.map_err(|cause| {
            let package = package.to_owned();
            CatalogProblem::Unreadable { package, cause }
        }))
    }

    /// Returns the copy to be used, and what is wrong with it.
    async fn copy(
        &self,
        catalog: &ClusterCatalog,
    ) -> (Option<Arc<store::Content>>, Option<CatalogProblem>) {
        let resolved = catalog.resolved_reference();
        let copy = match (&self.inner.source, resolved) {
            (Source::Own(store), _) => held(store, catalog).ok_or(CatalogProblem::NotCached),
            (Source::Remote(_), None) => Err(CatalogProblem::NotCached),
            (Source::Remote(remote), Some(resolved)) => remote.wanted(catalog, resolved).await,
        };
        let stale = || match &self.inner.source {
            Source::Own(_) => None,
            Source::Remote(remote) => held(remote.store(), catalog),
        };
        match copy {
            Ok(copy) => (Some(copy), None),
            Err(problem) => (stale(), Some(problem)),
        }
    }

    /// Returns what a copy has of a package, parsed at most once.
    async fn content(
        &self,
        copy: Arc<store::Content>,
        package: &str,
    ) -> Result<Arc<Content>, String> {
        if let Some(content) = self.remembered(&copy, package) {
            return Ok(content);
        }
        let wanted = package.to_owned();
        let read = {
            let copy = Arc::clone(&copy);
            tokio::task::spawn_blocking(move || parse(&copy, &wanted))
        };
        let content = Arc::new(read.await.map_err(|error| error.to_string())??);
        self.remember(&copy, package, &content);
        Ok(content)
    }

    fn parsed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Parsed>> {
        let parsed = self.inner.parsed.lock();
        parsed.unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self, copy: &store::Content, package: &str) -> Option<Arc<Content>> {
        let parsed = self.parsed();
        let parsed = parsed.get(&copy.origin().catalog)?;
        let same = parsed.reference == copy.origin().reference && parsed.uid == copy.origin().uid;
        parsed.packages.get(package).filter(|_| same).cloned()
    }

    fn remember(&self, copy: &store::Content, package: &str, content: &Arc<Content>) {
        let origin = copy.origin();
        let mut parsed = self.parsed();
        let parsed = match parsed.entry(origin.catalog.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Parsed::default()),
        };
        let same = parsed.reference == origin.reference && parsed.uid == origin.uid;
        if !same || parsed.packages.len() >= MAX_PARSED_PACKAGES {
            *parsed = Parsed {
                uid: origin.uid.clone(),
                reference: origin.reference.clone(),
                packages: BTreeMap::new(),
            };
        }
        parsed.packages.insert(package.to_owned(), Arc::clone(content));
    }

    async fn forget(&self, name: &str) {
        self.parsed().remove(name);
        if let Source::Remote(remote) = &self.inner.source {
            remote.forget(name).await;
        }
    }
}

/// Returns the copy of this very object, whatever its digest.
fn held(store: &Store, catalog: &ClusterCatalog) -> Option<Arc<store::Content>> {
    let uid = catalog.metadata.uid.as_deref().unwrap_or_default();
    let copy = store.content(&catalog.name_any())?;
    (copy.origin().uid == uid).then_some(copy)
}

/// Reads and parses what a copy has of a package. Blocks.
fn parse(copy: &store::Content, package: &str) -> Result<Content, String> {
    let blobs = copy.package_blobs(package).map_err(|error| error.to_string())?;
    Ok(Content::from_blobs(blobs.iter().map(Blob::from)))
}

#[cfg(test)]
mod tests;
