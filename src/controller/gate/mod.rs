//! Keeps `ClusterOperator` `olm`: whether the installed bundles allow the next OpenShift update.
//!
//! In: the revisions of all extensions and the `ClusterVersion`, as watches bring them. Out: four
//! conditions of one `ClusterOperator`, written only when they differ; it is read when the verdict or
//! the `ClusterVersion` has changed, and every ten minutes. Where `config.openshift.io` is not served nothing is read or
//! written; that is looked at again every ten minutes.
//!
//! Source: applying.md 9.

mod operator;
mod watched;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use olm_api::conditions::Reason;
use olm_api::{ClusterObjectSet, keys};
use olm_core::error::Chain;
use olm_core::gate::{self, Bundle, Cluster, MinorRelease};
use olm_core::revision::states;
use olm_core::status::Statement;

use crate::telemetry::Metrics;
use watched::{Observed, Watched};

pub use operator::Manage;

/// How often it is looked whether the cluster has become an OpenShift cluster.
const DETECT: Duration = Duration::from_mins(10);
/// How often the verdict is computed although nothing changed.
const RESYNC: Duration = Duration::from_mins(10);
/// Changes that come within this time are answered by one verdict.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// What is wrong for this long makes the operator degraded.
const INERTIA: Duration = Duration::from_mins(2);

const GROUP: &str = olm_core::rights::OPENSHIFT;
const VERSION: &str = "v1";

/// Why the verdict could not be computed or written.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Something could not be read.
    #[error("reading {0}")]
    Read(&'static str, #[source] kube::Error),
    /// The watches have not brought everything yet.
    #[error("revisions or the ClusterVersion are not read yet")]
    Unread,
    /// The `ClusterOperator` could not be written.
    #[error("writing ClusterOperator {0}")]
    Write(String, #[source] kube::Error),
}

/// The gate of one cluster.
pub struct Gate {
    /// A client with the controller's own rights.
    pub client: Client,
    /// Version of the OpenShift release this program is part of, if it is part of one.
    pub payload: Option<String>,
    /// Which `ClusterOperator` is written.
    pub manage: Manage,
    /// Where the verdict is shown.
    pub metrics: Metrics,
}

/// What the gate remembers from one look to the next.
#[derive(Default)]
struct Memory {
    /// Since when something is wrong.
    failing: Option<Instant>,
    /// What was written last; nothing when it is time to look at the `ClusterOperator` again.
    written: Option<Written>,
}

/// The verdict, and why the gate itself is degraded, if it is.
type Written = (Statement, Option<Degraded>);
/// The reason, and its text.
type Degraded = (Reason, &'static str);

impl Gate {
    /// Runs until `shutdown` resolves; a verdict that is being written is written to its end.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        tokio::select! {
            () = self.detect() => {}
            () = &mut shutdown => return,
        }
        let mut watched = Watched::new(&self.client);
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

    /// Waits until the cluster is an OpenShift cluster.
    async fn detect(&self) {
        loop {
            match self.is_openshift().await {
                Ok(true) => return,
                Ok(false) => {
                    tracing::info!("config.openshift.io is not served, the gate rests");
                    tokio::time::sleep(DETECT).await;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "the gate cannot look at the cluster");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Judges once, and says when to judge again although nothing changed.
    async fn look(&self, observed: Option<Observed>, memory: &mut Memory) -> Duration {
        let failing = &mut memory.failing;
        let lasting = failing.is_some_and(|since| since.elapsed() >= INERTIA);
        let pause = match self.judge(observed, lasting, &mut memory.written).await {
            Ok(true) => {
                *failing = None;
                RESYNC
            }
            Ok(false) => {
                failing.get_or_insert_with(Instant::now);
                RESYNC
            }
            Err(error) => {
                failing.get_or_insert_with(Instant::now);
                tracing::warn!(error = %Chain(&error), "the gate could not decide");
                RETRY
            }
        };
        if failing.is_some() {
            pause.min(INERTIA)
        } else {
            pause
        }
    }

    async fn is_openshift(&self) -> Result<bool, GateError> {
        match self
            .client
            .list_api_group_resources(&format!("{GROUP}/{VERSION}"))
            .await
        {
            Ok(served) => Ok(["ClusterOperator", "ClusterVersion"]
                .iter()
                .all(|kind| served.resources.iter().any(|found| found.kind == *kind))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(GateError::Read("served kinds", error)),
        }
    }

    /// Computes the verdict and writes it, if it is new; says whether all is well.
    async fn judge(
        &self,
        observed: Option<Observed>,
        lasting: bool,
        written: &mut Option<Written>,
    ) -> Result<bool, GateError> {
        let observed = observed.ok_or(GateError::Unread)?;
        let (verdict, readable) = self.verdict(&observed);
        let degraded = (lasting && !readable).then_some((
            Reason::ClusterVersionUnknown,
            "the version of the cluster cannot be read",
        ));
        let new = (verdict, degraded);
        if written.as_ref() != Some(&new) {
            *written = None;
            operator::write(self, new.0.clone(), new.1).await?;
            *written = Some(new);
        }
        Ok(readable)
    }

    /// Returns the verdict, and whether the version of the cluster could be read.
    fn verdict(&self, observed: &Observed) -> (Statement, bool) {
        let current =
            gate::current_version(self.payload.as_deref(), observed.cluster_version.as_ref());
        let readable = current.and_then(MinorRelease::of_cluster).is_some();
        let by_extension = observed.revisions.by_extension();
        let bundles: Vec<_> = observed.revisions.bundles(&by_extension).collect();
        let verdict = gate::verdict(Cluster::At(current), &bundles);
        let allows = |verdict: &Statement| verdict.status == "True";
        let mut extensions = BTreeMap::new();
        for bundle in &bundles {
            let one = gate::verdict(Cluster::At(current), std::slice::from_ref(bundle));
            let all = extensions.entry(bundle.extension).or_insert(true);
            *all &= allows(&one);
        }
        self.metrics
            .platform_upgradeable(allows(&verdict), &extensions);
        (verdict, readable)
    }
}

/// Returns the revisions of one extension that count: the installed one and the newest active one.
fn counting<'a>(
    extension: &'a str,
    revisions: &'a [ClusterObjectSet],
) -> impl Iterator<Item = Bundle<'a>> {
    let states = states(revisions);
    let newest = states.rolling.last().copied();
    states
        .installed
        .into_iter()
        .chain(newest)
        .map(move |revision| bundle(extension, &revision.metadata))
}

fn bundle<'a>(extension: &'a str, revision: &'a ObjectMeta) -> Bundle<'a> {
    let annotation = |key| {
        let annotations = revision.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    };
    Bundle {
        extension,
        name: annotation(keys::annotation::BUNDLE_NAME).unwrap_or_default(),
        properties: annotation(keys::annotation::PROPERTIES),
    }
}

fn openshift(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}
