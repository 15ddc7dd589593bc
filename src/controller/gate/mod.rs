//! Keeps `ClusterOperator` `olm`: whether the installed bundles allow the next OpenShift update.
//!
//! In: the revisions of all extensions and the `ClusterVersion`. Out: four conditions of one
//! `ClusterOperator`, written only when they differ. Where `config.openshift.io` is not served
//! nothing is read or written; that is looked at again every ten minutes.
//!
//! Source: applying.md 9.

mod operator;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use olm_api::conditions::clusteroperator::CLUSTER_VERSION_UNKNOWN;
use olm_api::{ClusterObjectSet, keys};
use olm_core::error::Chain;
use olm_core::gate::{self, Bundle, Cluster, MinorRelease};
use olm_core::revision::{sort, states};
use olm_core::status::Statement;
use serde_json::Value;

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

const GROUP: &str = "config.openshift.io";
const VERSION: &str = "v1";

/// Why the verdict could not be computed or written.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Something could not be read.
    #[error("reading {0}")]
    Read(&'static str, #[source] kube::Error),
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
}

/// What decides: the version of the cluster and the revisions that count.
struct Observed {
    cluster_version: Option<Value>,
    revisions: Vec<ClusterObjectSet>,
}

impl Gate {
    /// Runs until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = self.watch() => {}
            () = shutdown => {}
        }
    }

    async fn watch(&self) {
        loop {
            match self.is_openshift().await {
                Ok(true) => break,
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
        let mut changes = self.changes();
        let mut failing: Option<Instant> = None;
        loop {
            let lasting = failing
                .as_ref()
                .is_some_and(|since| since.elapsed() >= INERTIA);
            let pause = match self.judge(lasting).await {
                Ok(well) => {
                    failing = if well {
                        None
                    } else {
                        failing.or(Some(Instant::now()))
                    };
                    RESYNC
                }
                Err(error) => {
                    failing = failing.or(Some(Instant::now()));
                    tracing::warn!(error = %Chain(&error), "the gate could not decide");
                    RETRY
                }
            };
            let pause = if failing.is_some() {
                pause.min(INERTIA)
            } else {
                pause
            };
            // Either something changes or the pause ends; both call for a look.
            if tokio::time::timeout(pause, changes.next()).await.is_ok() {
                tokio::time::sleep(DEBOUNCE).await;
                while futures::poll!(changes.next()).is_ready() {}
            }
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

    /// Yields whenever something changed that the verdict depends on.
    fn changes(&self) -> stream::BoxStream<'static, ()> {
        let owned = watcher::Config::default().labels(&format!(
            "{}={}",
            keys::label::OWNER_KIND,
            keys::label::OWNER_KIND_EXTENSION
        ));
        let revisions: Api<PartialObjectMeta<ClusterObjectSet>> = Api::all(self.client.clone());
        let revisions = watcher(revisions, owned).default_backoff().map(drop);
        let versions = watcher(
            openshift(self.client.clone(), "ClusterVersion"),
            watcher::Config::default(),
        )
        .default_backoff()
        .map(drop);
        stream::select(revisions, versions).boxed()
    }

    /// Computes and writes the verdict; says whether all is well.
    async fn judge(&self, lasting: bool) -> Result<bool, GateError> {
        let observed = self.observe().await?;
        let (verdict, readable) = self.verdict(&observed);
        let degraded = (lasting && !readable).then_some((
            CLUSTER_VERSION_UNKNOWN,
            "the version of the cluster cannot be read",
        ));
        operator::write(self, verdict, degraded).await?;
        Ok(readable)
    }

    async fn observe(&self) -> Result<Observed, GateError> {
        let owned = ListParams::default().labels(&format!(
            "{}={}",
            keys::label::OWNER_KIND,
            keys::label::OWNER_KIND_EXTENSION
        ));
        let mut revisions = Api::<ClusterObjectSet>::all(self.client.clone())
            .list(&owned)
            .await
            .map_err(|error| GateError::Read("revisions", error))?
            .items;
        sort(&mut revisions);
        let cluster_version = openshift(self.client.clone(), "ClusterVersion")
            .get_opt("version")
            .await
            .map_err(|error| GateError::Read("the ClusterVersion", error))?
            .map(|found| found.data);
        Ok(Observed {
            cluster_version,
            revisions,
        })
    }

    /// Returns the verdict, and whether the version of the cluster could be read.
    fn verdict(&self, observed: &Observed) -> (Statement, bool) {
        let current =
            gate::current_version(self.payload.as_deref(), observed.cluster_version.as_ref());
        let readable = current.and_then(MinorRelease::of_cluster).is_some();
        let mut by_extension: BTreeMap<&str, Vec<ClusterObjectSet>> = BTreeMap::new();
        for revision in &observed.revisions {
            if let Some(extension) = revision.labels().get(keys::label::OWNER_NAME) {
                by_extension
                    .entry(extension)
                    .or_default()
                    .push(revision.clone());
            }
        }
        let bundles: Vec<Bundle<'_>> = by_extension
            .iter()
            .flat_map(|(extension, revisions)| counting(extension, revisions))
            .collect();
        (gate::verdict(Cluster::At(current), &bundles), readable)
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
        .map(move |revision| Bundle {
            extension,
            name: annotation(revision, keys::annotation::BUNDLE_NAME).unwrap_or_default(),
            properties: annotation(revision, keys::annotation::PROPERTIES),
        })
}

fn annotation<'a>(revision: &'a ClusterObjectSet, key: &str) -> Option<&'a str> {
    revision.annotations().get(key).map(String::as_str)
}

fn openshift(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}
