//! Keeps `ClusterOperator` `olm`: whether the installed bundles allow the next OpenShift update.
//!
//! In: the revisions of all extensions and the `ClusterVersion`, as watches bring them. Out: four
//! conditions of one `ClusterOperator`, written only when they differ; it is read when the verdict or
//! the `ClusterVersion` has changed, and every ten minutes, and so is `OLM` `cluster`, which has the
//! verdict, too. Where `config.openshift.io` is not served nothing is read or written; that is looked at
//! again every ten minutes.
//!
//! Source: applying.md 9.

mod operator;
mod platform;
mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use kube::api::Api;
use kube::core::{ApiResource, DeserializeGuard, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::{ObjectRef, Store};
use olm_api::ClusterExtension;
use olm_api::conditions::{Reason, status, types};
use olm_core::error::Chain;
use olm_core::gate::{self, Bundle, Cluster, MinorRelease};
use olm_core::status::Statement;
use olm_core::version::Version;

use crate::cluster::{RequestError, told};
use crate::revision::KnownRevisions;
use crate::telemetry::Metrics;
use watched::{Observed, Watched};

pub use operator::Manage;
pub use platform::{Platform, Release};

/// The interval of checks whether the cluster has become an OpenShift cluster.
const DETECT: Duration = Duration::from_mins(10);
/// The interval of computing the verdict without a change.
const RESYNC: Duration = Duration::from_mins(10);
/// Changes that come within this time are answered by one verdict.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// The time after which a problem makes the operator degraded.
const INERTIA: Duration = Duration::from_mins(2);

const GROUP: &str = olm_core::rights::OPENSHIFT;
const VERSION: &str = "v1";

/// The gate of one cluster.
pub struct Gate {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Version of the OpenShift release this program is part of, if it is part of one.
    pub payload: Option<String>,
    /// Which `ClusterOperator` is written.
    pub manage: Manage,
    /// Which release is judged by on a cluster without `ClusterVersion`, if one is given.
    pub given: Option<MinorRelease>,
    /// Whether it is else the one that belongs to the version of Kubernetes; without one the gate is
    /// inactive.
    pub infers: bool,
    /// Where the verdict is shown.
    pub metrics: Metrics,
    /// The exchange of data with extensions.
    pub platform: Platform,
    /// The extensions, where they are worked on in this process.
    pub known: Option<Known>,
}

/// What this process has watches of for other reasons.
pub struct Known {
    pub extensions: Store<DeserializeGuard<ClusterExtension>>,
    pub revisions: Arc<KnownRevisions>,
}

/// What the gate remembers from one look to the next.
#[derive(Default)]
struct Memory {
    /// Since when something is wrong.
    failing: Option<Instant>,
    /// The last written state; nothing if the `ClusterOperator` has to be read again.
    written: Option<Report>,
}

/// What a `ClusterOperator` is to report.
#[derive(PartialEq, Clone)]
struct Report {
    verdict: Statement,
    /// Why the gate itself is degraded, if it is.
    degraded: Option<Degraded>,
    /// The version that the operator reports as its own.
    version: Option<String>,
}

/// The reason, and its text.
type Degraded = (Reason, &'static str);

impl Gate {
    /// Runs until `shutdown` resolves; a verdict that is being written is written to its end.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let given = tokio::select! {
            given = self.detect() => given,
            () = &mut shutdown => return,
        };
        let ways_out = told(&self.platform.ways_out);
        let mut watched = Watched::new((&self.client, self.known.as_ref()), given, ways_out);
        let mut memory = Memory::default();
        tokio::select! {
            () = watched.begin(RETRY) => {}
            () = &mut shutdown => return,
        }
        loop {
            let pause = self.look(watched.observed(), &mut memory).await;
            tokio::select! {
                only_revisions = watched.rest(pause, DEBOUNCE) => if !only_revisions {
                    memory.written = None;
                },
                () = &mut shutdown => return,
            }
        }
    }

    /// Waits until there is a release to judge by, and returns it where the cluster has none of its
    /// own.
    async fn detect(&self) -> Option<MinorRelease> {
        loop {
            match self.release().await {
                Ok(Some(known)) => return known,
                Ok(None) => {
                    tracing::info!("config.openshift.io is not served, the gate is inactive");
                    self.platform.set(Release::Absent);
                    tokio::time::sleep(DETECT).await;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "the gate cannot read the cluster");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Judges once, and says when to judge again although nothing changed.
    async fn look(&self, observed: Option<Observed>, memory: &mut Memory) -> Duration {
        let failing = &mut memory.failing;
        let lasting = failing.is_some_and(|since| since.elapsed() >= INERTIA);
        let judged = self.judge(observed, lasting, &mut memory.written).await;
        if matches!(judged, Ok(true)) {
            *failing = None;
            return RESYNC;
        }
        failing.get_or_insert_with(Instant::now);
        let pause = match judged {
            Ok(_) => RESYNC,
            Err(error) => {
                tracing::warn!(error = %Chain(&*error), "the gate could not decide");
                RETRY
            }
        };
        pause.min(INERTIA)
    }

    /// Returns the release to judge by, `Some(None)` where the cluster says it itself.
    async fn release(&self) -> Result<Option<Option<MinorRelease>>, RequestError> {
        if self.is_openshift().await? {
            return Ok(Some(None));
        }
        if self.given.is_some() || !self.infers {
            return Ok(self.given.map(Some));
        }
        let version = self.client.apiserver_version().await;
        let version = version.map_err(RequestError::doing("reading the version of Kubernetes"))?;
        let version = Version::of_kubernetes(&version.git_version);
        Ok(version.as_ref().and_then(MinorRelease::of_kubernetes).map(Some))
    }

    async fn is_openshift(&self) -> Result<bool, RequestError> {
        match self.client.list_api_group_resources(&format!("{GROUP}/{VERSION}")).await {
            Ok(served) => Ok(["ClusterOperator", "ClusterVersion"]
                .iter()
                .all(|kind| served.resources.iter().any(|found| found.kind == *kind))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(RequestError::doing("reading served kinds")(error)),
        }
    }

    /// Computes the verdict and writes it, if it is new; says whether all is well.
    async fn judge(
        &self,
        observed: Option<Observed>,
        lasting: bool,
        written: &mut Option<Report>,
    ) -> anyhow::Result<bool> {
        let observed = observed.context("revisions or the ClusterVersion are not read yet")?;
        let (verdict, readable) = self.verdict(&observed);
        let degraded = (lasting && !readable).then_some((
            Reason::ClusterVersionUnknown,
            "the version of the cluster cannot be read",
        ));
        let new = Report { verdict, degraded, version: self.own_version(&observed) };
        if written.as_ref() != Some(&new) {
            *written = None;
            if observed.given.is_none() {
                operator::write(self, new.clone()).await?;
            }
            *written = Some(new);
        }
        Ok(readable)
    }

    /// Returns the release that this program is part of: the one that the cluster is at or on its way
    /// to, because an update waits until every operator reports it.
    fn own_version(&self, observed: &Observed) -> Option<String> {
        let desired = || observed.cluster_version.as_ref()?.pointer("/status/desired/version");
        self.payload.clone().or_else(|| desired()?.as_str().map(str::to_owned))
    }

    /// Returns the verdict, and whether the version of the cluster could be read.
    fn verdict(&self, observed: &Observed) -> (Statement, bool) {
        let given = observed.given.map(|release| format!("{release}.0"));
        let of_cluster = observed.cluster_version.as_ref();
        let current =
            given.as_deref().or_else(|| gate::current_version(self.payload.as_deref(), of_cluster));
        let release = current.and_then(MinorRelease::of_cluster);
        self.platform.set(release.map_or(Release::Unread, Release::At));
        let extensions = self.known.as_ref().map(|known| known.extensions.state());
        let mut bundles: BTreeMap<&str, Vec<Bundle<'_>>> = BTreeMap::new();
        for bundle in observed.revisions.bundles() {
            bundles.entry(bundle.extension).or_default().push(bundle);
        }
        let readable = extensions.iter().flatten().filter_map(|found| found.0.as_ref().ok());
        for bundle in readable.filter_map(Bundle::not_taken_over) {
            bundles.entry(bundle.extension).or_insert_with(|| vec![bundle]);
        }
        let (mut allowed, mut ways_out) = (BTreeMap::new(), BTreeMap::new());
        for (extension, bundles) in &bundles {
            let own =
                release.and_then(|at| gate::platform_upgradeable(at, bundles.iter().copied()));
            allowed.insert(*extension, own.as_ref().is_some_and(|own| own.status == status::TRUE));
            let way = own.and_then(|own| self.way_out(extension, &own));
            ways_out.extend(way.map(|way| ((*extension).to_owned(), way)));
        }
        let all: Vec<_> = bundles.values().flatten().copied().collect();
        let verdict = gate::verdict(Cluster::At(current), &all, &ways_out);
        self.metrics.platform_upgradeable(&verdict, &allowed);
        self.metrics.platform_release(release);
        (verdict, release.is_some())
    }

    /// Returns the text of an extension's condition that explains how to release its hold.
    fn way_out(&self, extension: &str, verdict: &Statement) -> Option<String> {
        let found = self.known.as_ref()?.extensions.get(&ObjectRef::new(extension))?;
        let condition = found.0.as_ref().ok()?.condition(types::PLATFORM_UPGRADEABLE)?;
        gate::way_out(verdict, &condition.message).map(str::to_owned)
    }
}

fn openshift(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}
