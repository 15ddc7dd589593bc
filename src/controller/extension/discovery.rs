//! The state of the cluster that constraints are checked against: the served kinds, the version of
//! the API server and the installed bundles.
//!
//! The served kinds are cached, and read again when a CRD or an APIService is added or removed. The
//! installed bundles are read when a resolution asks for them. Extensions whose resolution depended on
//! any of this are reconciled when it changes.
//!
//! Source: resolution.md 5.2.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_cluster::{built_in_kinds, classic_providers, content, installed, kinds};
use olm_core::extension::holds::Awaited;
use olm_core::resolve::{Environment, GroupVersionKind, Knowledge, Provider, ServedKinds};
use olm_core::revision::{provider, served_kinds};
use olm_core::version::Version;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::refusals::Refusals;
use crate::by_key::ByKey;
use crate::cluster::{self, Sentence};

/// The delays of reading the served kinds after a change of a CRD or an APIService: the API server
/// lists a new kind some time after the object that defines it.
const AFTER_CHANGE: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// The interval of reads without such a change, because a cluster can be updated.
const REGULARLY: Duration = Duration::from_mins(10);
/// The interval of reads of OLM Classic's bundles, if they count.
const CLASSIC: Duration = Duration::from_mins(1);

/// The cluster around the extensions.
pub struct DiscoveryCache {
    client: Client,
    system_namespace: String,
    /// Whether bundles of OLM Classic count.
    classic: bool,
    served: watch::Sender<Option<Served>>,
    /// The kinds that revisions define, by uid: a revision never changes them.
    defined: ByKey<BTreeSet<GroupVersionKind>>,
    wake: Arc<Notify>,
}

/// The part that stays the same while the API server does.
struct BuiltIn {
    kinds: ServedKinds,
    version: Option<Version>,
}

/// The discovery data of the API server.
#[derive(Debug, Clone, PartialEq)]
struct Served {
    kinds: Knowledge<Arc<ServedKinds>>,
    version: Option<Version>,
}

impl DiscoveryCache {
    /// Returns an empty cache.
    ///
    /// With `classic`, `ClusterServiceVersion`s of OLM Classic count as installed, too.
    pub fn new(client: Client, system_namespace: String, classic: bool) -> Self {
        Self {
            client,
            system_namespace,
            classic,
            served: watch::Sender::new(None),
            defined: ByKey::default(),
            wake: Arc::default(),
        }
    }

    /// Yields whenever it has changed.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        cluster::told(&self.wake)
    }

    /// Keeps what the API server serves up to date, and tells those who wait for a change of a CRD.
    /// Never returns.
    pub(super) async fn keep_current(&self, refusals: &Refusals) {
        const LAST: usize = AFTER_CHANGE.len() - 1;
        let mut changes = Box::pin(changes(&self.client));
        let mut built_in = None;
        let mut step = LAST;
        let mut due = Instant::now();
        let mut classic = tokio::time::interval(CLASSIC);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {
                    if step > LAST {
                        built_in = None;
                    }
                    if step == 0 {
                        refusals.changed(Awaited::CustomResourceDefinitions);
                    }
                    let news = self.read_served(&mut built_in).await;
                    // What was waited for has come, or that comes with an event of its own.
                    step = if news { LAST.max(step + 1) } else { step + 1 };
                    due = Instant::now() + AFTER_CHANGE.get(step).copied().unwrap_or(REGULARLY);
                }
                // Nobody is told of changes of OLM Classic: its objects change all the time.
                _ = classic.tick(), if self.classic => self.changed(),
                Some(()) = changes.next() => {
                    step = 0;
                    due = due.min(Instant::now() + AFTER_CHANGE[0]);
                }
            }
        }
    }

    /// Reads what is served, of what is built in only what is not given; says whether that is new.
    async fn read_served(&self, built_in: &mut Option<BuiltIn>) -> bool {
        let before = self.served.borrow().clone();
        let kinds = match self.served_kinds(built_in).await {
            Ok(kinds) => Knowledge::Known(Arc::new(kinds)),
            Err(error) => {
                tracing::warn!(error = %Sentence(&error), "the kinds that the API server serves cannot be read");
                before.as_ref().map_or(Knowledge::Unreadable, |before| before.kinds.clone())
            }
        };
        let version = built_in.as_ref().and_then(|it| it.version.clone());
        let version = version.or_else(|| before.as_ref()?.version.clone());
        let now = Some(Served { kinds, version });
        let news = before != now;
        if news {
            self.served.send_replace(now);
            self.changed();
        }
        news
    }

    async fn served_kinds(
        &self,
        built_in: &mut Option<BuiltIn>,
    ) -> Result<ServedKinds, kube::Error> {
        let built_in = match built_in {
            Some(known) => known,
            None => built_in.insert(BuiltIn::read(&self.client).await?),
        };
        kinds(&self.client, built_in.kinds.clone()).await
    }

    /// Wakes the extensions whose resolution depended on this.
    pub(super) fn changed(&self) {
        self.wake.notify_one();
    }

    /// Returns the environment for the resolution of an extension; the installed bundles only if it
    /// needs them.
    pub(super) async fn snapshot(&self, extension: &str, installed: bool) -> Environment {
        let mut receiver = self.served.subscribe();
        // The sender lives as long as we do.
        let served = receiver.wait_for(Option::is_some).await;
        let served = served.ok().and_then(|served| served.clone());
        let providers = if installed {
            match self.providers().await {
                Ok(providers) => Knowledge::Known(Arc::new(providers)),
                Err(error) => {
                    tracing::warn!(error = %Sentence(&error), "the installed bundles cannot be read");
                    Knowledge::Unreadable
                }
            }
        } else {
            Knowledge::NotTold
        };
        Environment {
            resolving: extension.to_owned(),
            kube_version: served.as_ref().and_then(|served| served.version.clone()),
            served: served.map(|served| served.kinds).unwrap_or_default(),
            providers,
        }
    }

    /// Reads the installed bundles: the extensions that are not being removed and have a revision that
    /// was rolled out.
    async fn providers(&self) -> Result<Vec<Provider>, kube::Error> {
        // What the API server remembers is as new as the event that brought us here.
        let any = ListParams::default().match_any();
        let mut providers = Vec::new();
        let installed = installed(&self.client, &any).await?;
        let uids: BTreeSet<_> = installed.iter().filter_map(|(_, one)| one.uid()).collect();
        self.defined.lock().retain(|uid, _| uids.contains(uid));
        for (name, revision) in installed {
            let defined = self.defined(&revision).await;
            providers.push(provider(&name, &revision, defined));
        }
        if self.classic {
            providers.extend(classic_providers(&self.client).await?);
        }
        Ok(providers)
    }

    /// Returns the kinds a revision defines; none if its content cannot be read.
    async fn defined(&self, revision: &ClusterObjectSet) -> BTreeSet<GroupVersionKind> {
        let uid = revision.uid().unwrap_or_default();
        if let Some(kinds) = self.defined.get(&uid) {
            return kinds;
        }
        match content(&self.client, revision, &self.system_namespace).await {
            Ok(phases) => {
                let kinds = served_kinds(&phases);
                self.defined.put(&uid, Some(kinds.clone()));
                kinds
            }
            Err(error) => {
                let name = revision.name_any();
                tracing::debug!(error = %Sentence(&error), name, "the content of a revision cannot be read");
                BTreeSet::new()
            }
        }
    }
}

/// Signals when a CRD or an APIService is added, changed or removed.
fn changes(client: &Client) -> impl Stream<Item = ()> + use<> {
    let crds = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    let services = Api::<PartialObjectMeta<APIService>>::all(client.clone());
    let crds = cluster::changes(crds, watcher::Config::default())
        .touched_objects()
        .filter_map(|change| async { change.ok().map(drop) });
    let services = cluster::changes(services, watcher::Config::default())
        .touched_objects()
        .filter_map(|change| async { change.ok().map(drop) });
    futures::stream::select(crds, services)
}

impl BuiltIn {
    async fn read(client: &Client) -> Result<Self, kube::Error> {
        let kinds = built_in_kinds(client).await?;
        let version = match client.apiserver_version().await {
            Ok(info) => Version::of_kubernetes(&info.git_version),
            Err(error) => {
                tracing::warn!(error = %Sentence(&error), "the version of the API server cannot be read");
                None
            }
        };
        Ok(Self { kinds, version })
    }
}
