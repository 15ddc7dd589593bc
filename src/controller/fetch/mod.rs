//! The catalogs as known to the extension side.
//!
//! In: ClusterCatalog objects and the name of a package. Out: the content of that package in each
//! catalog, as far as it can be had, and what is wrong where it cannot. A process that serves
//! catalogs reads its own store; any other downloads from `status.urls.base` and keeps one
//! complete copy per catalog on disk. A copy that is older than wanted is used until a newer one
//! is complete, but only for the very same object, and the catalog has a problem meanwhile.

mod remote;

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use olm_api::ClusterCatalog;
use olm_api::keys::name::CA_BUNDLE;
use olm_core::catalog::Content;
use olm_core::extension::KnownCatalog;
use olm_core::resolve::CatalogProblem;
use olm_core::selector::Selector;
use olm_core::similar::{self, MAX_DISTANCE};
use olm_image::Room;
use tokio::sync::{Mutex, watch};

use crate::catalog::Trust;
use crate::catalog::store::{self, Origin, Store};
use crate::cluster::named;
use crate::recent::Recent;
use crate::telemetry::Metrics;
use crate::tls::CurrentProfile;
use remote::Remote;

/// Most packages whose content is kept parsed, and most memory that they may take: 64 MiB. Real clusters
/// use a few dozen, of at most a few megabytes each; one that has no room is read for each look.
const MAX_PARSED: usize = 4096;
const MAX_PARSED_BYTES: usize = 64 << 20;

/// The catalogs, as far as they can be read. Clones share everything.
#[derive(Debug, Clone)]
pub struct Catalogs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    parsed: Parsed,
    /// Held while a package is read: a large one takes a part of the memory.
    reading: Mutex<()>,
}

#[derive(Debug)]
enum Source {
    Own(Arc<Store>),
    Remote(Arc<Remote>),
}

/// The parsed packages of copies of catalogs, by name.
type Parsed = Recent<(String, Origin), Arc<Content>, MAX_PARSED, MAX_PARSED_BYTES>;

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
    ) -> anyhow::Result<Self> {
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
        let (parsed, reading) = Default::default();
        Self { inner: Arc::new(Inner { source, parsed, reading }) }
    }

    /// Returns a receiver that changes whenever content has arrived, in a store of its own as well,
    /// so that extensions which waited for it can be looked at again.
    pub fn downloads(&self) -> watch::Receiver<u64> {
        match &self.inner.source {
            Source::Own(store) => store.placements(),
            Source::Remote(remote) => remote.downloads(),
        }
    }

    /// Yields whenever content has arrived, as long as any can.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(self.downloads(), |mut downloads| async move {
            downloads.changed().await.ok()?;
            Some(((), downloads))
        })
    }

    /// Returns every given catalog that is not being deleted in name order, with what it has of `package`.
    ///
    /// Content that is not here yet is downloaded; catalogs are waited for side by side, and a
    /// download that takes long goes on after this returned. Those outside `selector` are not waited
    /// for: only an explanation names what they have.
    pub async fn known(
        &self,
        catalogs: &[ClusterCatalog],
        package: &str,
        selector: Option<&Selector>,
    ) -> Vec<KnownCatalog> {
        let all = catalogs.iter().map(|catalog| self.one(catalog, package, selector));
        let all: Vec<_> = all.collect();
        let known = futures::future::join_all(all).await;
        let mut known: Vec<_> = known.into_iter().flatten().collect();
        known.sort_by(|a, b| a.name().cmp(b.name()));
        known
    }

    /// Drops the copies of catalogs that are not in `live`. Blocks.
    pub fn retain(&self, live: &[ClusterCatalog]) {
        let live: HashSet<_> =
            live.iter().filter_map(|catalog| catalog.metadata.name.as_deref()).collect();
        self.inner.parsed.retain(|(_, origin)| live.contains(&*origin.catalog));
        if let Source::Remote(remote) = &self.inner.source {
            remote.retain(|name| live.contains(name));
        }
    }

    async fn one(
        &self,
        catalog: &ClusterCatalog,
        package: &str,
        selector: Option<&Selector>,
    ) -> Option<KnownCatalog> {
        let mut known = KnownCatalog::of(catalog)?;
        if !known.is_enabled() {
            self.forget(known.name()).await;
            return Some(known);
        }
        let is_selected = selector.is_some_and(|selector| known.is_selected(selector));
        let (copy, problem) = self.copy(catalog, is_selected).await;
        if let Some(problem) = problem {
            known = known.with(Err(problem));
        }
        let Some(copy) = copy else { return Some(known) };
        Some(known.with(self.content(copy, package).await.map_err(|cause| {
            let package = package.to_owned();
            CatalogProblem::Unreadable { package, cause }
        })))
    }

    /// Returns the copy to be used, and what is wrong with it.
    async fn copy(
        &self,
        catalog: &ClusterCatalog,
        waits: bool,
    ) -> (Option<Arc<store::Content>>, Option<CatalogProblem>) {
        let resolved = catalog.resolved_reference();
        let copy = match (&self.inner.source, resolved) {
            (Source::Own(store), _) => {
                let copy = store.content_of(catalog).filter(|copy| !is_outdated(catalog, copy));
                copy.ok_or(CatalogProblem::NotCached)
            }
            (Source::Remote(_), None) => Err(CatalogProblem::NotCached),
            (Source::Remote(remote), Some(resolved)) => {
                remote.wanted(catalog, resolved, waits).await
            }
        };
        let store = match &self.inner.source {
            Source::Own(store) => store,
            Source::Remote(remote) => &remote.store,
        };
        match copy {
            Ok(copy) => (Some(copy), None),
            Err(problem) => (store.content_of(catalog), Some(problem)),
        }
    }

    /// Returns a package of a copy, parsed at most once; of a copy without it, similar names.
    async fn content(
        &self,
        copy: Arc<store::Content>,
        package: &str,
    ) -> Result<Arc<Content>, String> {
        // Otherwise packages that a catalog lacks would take the places of those it has.
        if !copy.index().has_name(package) {
            let all: BTreeSet<&str> = copy.index().packages().collect();
            let is_near = |name: &&str| similar::distance(package, name, MAX_DISTANCE).is_some();
            return Ok(Arc::new(Content::of_names(all.into_iter().filter(is_near))));
        }
        let key = (package.to_owned(), copy.origin().clone());
        if let Some(content) = self.inner.parsed.get(&key) {
            return Ok(content);
        }
        let _reading = self.inner.reading.lock().await;
        if let Some(content) = self.inner.parsed.get(&key) {
            return Ok(content);
        }
        let wanted = package.to_owned();
        let read = tokio::task::spawn_blocking(move || copy.package(&wanted));
        let read = read.await.map_err(|error| error.to_string())?;
        let content = Arc::new(read.map_err(|error| error.to_string())?);
        // Of another copy of the same catalog nothing is asked for any more.
        self.inner.parsed.retain(|(_, other)| other.catalog != key.1.catalog || *other == key.1);
        self.inner.parsed.put(key, Arc::clone(&content), content.bytes());
        Ok(content)
    }

    async fn forget(&self, name: &str) {
        self.inner.parsed.retain(|(_, origin)| origin.catalog != name);
        if let Source::Remote(remote) = &self.inner.source {
            remote.forget(name).await;
        }
    }
}

/// Returns whether the status names content that is newer than a copy in a store of its own: this
/// process does not lead, and fetches it yet. In one that leads, the copy is the newer one for the
/// moment until the status says so.
fn is_outdated(catalog: &ClusterCatalog, copy: &store::Content) -> bool {
    let origin = copy.origin();
    let status = catalog.status.as_ref();
    let told = status.and_then(|status| status.last_unpacked.as_ref());
    let is_newer = told.is_some_and(|told| origin.unpacked >= told.0);
    let other = |resolved: &str| resolved != origin.reference;
    catalog.resolved_reference().is_some_and(other) && !is_newer
}

#[cfg(test)]
mod tests;
