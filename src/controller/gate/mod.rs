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
use kube::core::{
    ApiResource, DeserializeGuard, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta,
};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use olm_api::conditions::Reason;
use olm_api::{ClusterObjectSet, keys};
use olm_core::error::Chain;
use olm_core::gate::{self, Bundle, Cluster, MinorRelease};
use olm_core::revision::{sort, states};
use olm_core::status::Statement;
use serde_json::Value;

use crate::cluster;
use crate::telemetry::Metrics;

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

/// What decides: the version of the cluster and the revisions that count.
struct Observed {
    cluster_version: Option<Value>,
    revisions: Revisions,
}

/// The revisions of all extensions.
#[derive(Default)]
struct Revisions {
    /// Those that can be read, sorted by number.
    readable: Vec<ClusterObjectSet>,
    /// Metadata of those that do not follow their schema. Nobody can say whether they are
    /// installed, so they count.
    unreadable: Vec<ObjectMeta>,
}

impl Gate {
    /// Runs until `shutdown` resolves; a verdict that is being written is written to its end.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        tokio::select! {
            () = self.detect() => {}
            () = &mut shutdown => return,
        }
        let mut changes = self.changes();
        let mut failing: Option<Instant> = None;
        loop {
            let pause = self.look(&mut failing).await;
            tokio::select! {
                () = rest(&mut changes, pause) => {}
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
    async fn look(&self, failing: &mut Option<Instant>) -> Duration {
        let lasting = failing.is_some_and(|since| since.elapsed() >= INERTIA);
        let pause = match self.judge(lasting).await {
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

    /// Yields whenever something changed that the verdict depends on.
    fn changes(&self) -> stream::BoxStream<'static, ()> {
        let owned = watcher::Config::default().labels(&format!(
            "{}={}",
            keys::label::OWNER_KIND,
            keys::label::OWNER_KIND_EXTENSION
        ));
        let revisions: Api<PartialObjectMeta<ClusterObjectSet>> = Api::all(self.client.clone());
        let revisions = cluster::changes(revisions, owned).map(drop);
        let versions = openshift(self.client.clone(), "ClusterVersion");
        let versions = cluster::changes(versions, watcher::Config::default()).map(drop);
        stream::select(revisions, versions).boxed()
    }

    /// Computes and writes the verdict; says whether all is well.
    async fn judge(&self, lasting: bool) -> Result<bool, GateError> {
        let observed = self.observe().await?;
        let (verdict, readable) = self.verdict(&observed);
        let degraded = (lasting && !readable).then_some((
            Reason::ClusterVersionUnknown,
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
        let listed = Api::<DeserializeGuard<ClusterObjectSet>>::all(self.client.clone())
            .list(&owned)
            .await
            .map_err(|error| GateError::Read("revisions", error))?;
        let mut revisions = Revisions::default();
        for DeserializeGuard(revision) in listed.items {
            match revision {
                Ok(revision) => revisions.readable.push(revision),
                Err(invalid) => {
                    let name = invalid.metadata.name.as_deref().unwrap_or_default();
                    tracing::warn!(revision = name, error = %invalid.error, "unreadable, counted as installed");
                    revisions.unreadable.push(invalid.metadata);
                }
            }
        }
        sort(&mut revisions.readable);
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

impl Revisions {
    fn by_extension(&self) -> BTreeMap<&str, Vec<ClusterObjectSet>> {
        let mut by_extension: BTreeMap<&str, Vec<ClusterObjectSet>> = BTreeMap::new();
        for revision in &self.readable {
            if let Some(extension) = revision.labels().get(keys::label::OWNER_NAME) {
                by_extension
                    .entry(extension)
                    .or_default()
                    .push(revision.clone());
            }
        }
        by_extension
    }

    /// Returns what counts, given the readable revisions of each extension.
    fn bundles<'a>(
        &'a self,
        by_extension: &'a BTreeMap<&'a str, Vec<ClusterObjectSet>>,
    ) -> impl Iterator<Item = Bundle<'a>> {
        let unreadable = self.unreadable.iter().filter_map(|metadata| {
            let extension = metadata.labels.as_ref()?.get(keys::label::OWNER_NAME)?;
            Some(bundle(extension, metadata))
        });
        by_extension
            .iter()
            .flat_map(|(extension, revisions)| counting(extension, revisions))
            .chain(unreadable)
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

/// Waits until something changes or the pause ends; both call for a look.
async fn rest(changes: &mut stream::BoxStream<'static, ()>, pause: Duration) {
    if tokio::time::timeout(pause, changes.next()).await.is_ok() {
        tokio::time::sleep(DEBOUNCE).await;
        while futures::poll!(changes.next()).is_ready() {}
    }
}

fn openshift(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_unreadable_revision_counts_by_its_annotations() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let properties = r#"[{"type":"olm.maxOpenShiftVersion","value":"4.18"}]"#;
        let revisions = Revisions {
            unreadable: vec![ObjectMeta {
                labels: Some(pairs(&[(keys::label::OWNER_NAME, "lamp")])),
                annotations: Some(pairs(&[
                    (keys::annotation::BUNDLE_NAME, "lamp.v1.0.0"),
                    (keys::annotation::PROPERTIES, properties),
                ])),
                ..ObjectMeta::default()
            }],
            ..Revisions::default()
        };
        let by_extension = revisions.by_extension();
        let bundles: Vec<_> = revisions.bundles(&by_extension).collect();
        let verdict = gate::verdict(Cluster::At(Some("4.18.3")), &bundles);
        assert_eq!(verdict.status, "False");
    }
}
