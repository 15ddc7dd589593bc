//! The state of the cluster that constraints are checked against: the served kinds, the version of
//! the API server and the installed bundles.
//!
//! The served kinds are cached, and read again when a CRD or an APIService is added, changed or removed. The
//! installed bundles are those of the revisions that the watches have brought; the content of these
//! is read only where a constraint asks for kinds, once. Extensions whose resolution depended on any
//! of this are reconciled when it changes.
//!
//! Source: resolution.md 5.2.

use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::Api;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource as _, ResourceExt as _};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_cluster::{built_in_kinds, classic_providers, content, kinds};
use olm_core::resolve::{Environment, GroupVersionKind, Knowledge, Provider, ServedKinds};
use olm_core::revision::{provider, served_kinds};
use olm_core::version::Version;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use crate::by_key::ByKey;
use crate::cluster::{self, Sentence, join_bounded};
use crate::revision::KnownRevisions;

/// The delays of reading the served kinds after a change of a CRD or an APIService: the API server
/// lists a new kind some time after the object that defines it.
const AFTER_CHANGE: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
const LAST: usize = AFTER_CHANGE.len() - 1;
/// The interval of reads without such a change, because a cluster can be updated.
const REGULARLY: Duration = Duration::from_mins(10);
/// The interval of reads of OLM Classic's bundles, if they count.
const CLASSIC: Duration = Duration::from_mins(1);

/// The cluster around the extensions.
pub struct DiscoveryCache {
    client: Client,
    system_namespace: String,
    revisions: Arc<KnownRevisions>,
    extensions: Store<DeserializeGuard<ClusterExtension>>,
    /// Whether bundles of OLM Classic count.
    classic: bool,
    /// These bundles, once somebody has asked for them since it was time to read them again.
    csvs: Mutex<Option<Vec<Provider>>>,
    served: watch::Sender<Option<Served>>,
    /// The kinds that revisions define, by uid: a revision never changes them.
    defined: ByKey<BTreeSet<GroupVersionKind>>,
    /// Held while they are read, so that each is read once.
    defining: Mutex<()>,
    wake: Arc<Notify>,
    /// Told of each change of a CRD.
    crds: Arc<Notify>,
}

type Crd = PartialObjectMeta<CustomResourceDefinition>;

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
    pub fn new(
        revisions: Arc<KnownRevisions>,
        extensions: Store<DeserializeGuard<ClusterExtension>>,
        (client, system_namespace): (Client, String),
        classic: bool,
    ) -> Self {
        Self {
            client,
            system_namespace,
            revisions,
            extensions,
            classic,
            csvs: Mutex::default(),
            served: watch::Sender::new(None),
            defined: ByKey::default(),
            defining: Mutex::default(),
            wake: Arc::default(),
            crds: Arc::default(),
        }
    }

    /// Yields whenever it has changed.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        cluster::told(&self.wake)
    }

    /// Yields whenever a CRD has changed.
    pub(super) fn changes_of_crds(&self) -> impl Stream<Item = ()> + Send + use<> {
        cluster::told(&self.crds)
    }

    /// Keeps what the API server serves up to date. Never returns.
    pub(super) async fn keep_current(&self) {
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
                        self.crds.notify_one();
                    }
                    step = after(step, self.read_served(&mut built_in).await);
                    due = Instant::now() + AFTER_CHANGE.get(step).copied().unwrap_or(REGULARLY);
                }
                // Nobody is told of changes of OLM Classic: its objects change all the time.
                _ = classic.tick(), if self.classic => {
                    // Where they are being read at this moment, they are new.
                    if let Ok(mut csvs) = self.csvs.try_lock() {
                        *csvs = None;
                    }
                    self.changed();
                }
                Some(()) = changes.next() => {
                    step = 0;
                    due = due.min(Instant::now() + AFTER_CHANGE[0]);
                }
            }
        }
    }

    /// Reads what is served, of what is built in only what is not given; says whether that is new, if it
    /// could be read.
    async fn read_served(&self, built_in: &mut Option<BuiltIn>) -> Option<bool> {
        let before = self.served.borrow().clone();
        let read = self.served_kinds(built_in).await;
        let is_read = read.is_ok();
        let kinds = match read {
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
        is_read.then_some(news)
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

    /// Returns the environment for the resolution of an extension, without the installed bundles.
    pub(super) async fn snapshot(&self, extension: &str) -> Environment {
        let mut receiver = self.served.subscribe();
        // The sender lives as long as we do.
        let served = receiver.wait_for(Option::is_some).await;
        let served = served.ok().and_then(|served| served.clone());
        Environment {
            resolving: extension.to_owned(),
            kube_version: served.as_ref().and_then(|served| served.version.clone()),
            served: served.map(|served| served.kinds).unwrap_or_default(),
            providers: Knowledge::NotTold,
        }
    }

    /// Returns the installed bundles: of the extensions that are not being removed and have a revision
    /// that was rolled out. `own` are the revisions of the one that asks. The kinds that they define
    /// are there if `kinds` or one of them asks for those.
    pub(super) async fn installed(
        &self,
        own: (&str, &[ClusterObjectSet]),
        kinds: bool,
    ) -> Knowledge<Arc<Vec<Provider>>> {
        match self.providers(own, kinds).await {
            Ok(providers) => Knowledge::Known(Arc::new(providers)),
            Err(error) => {
                tracing::warn!(error = %Sentence(&error), "the installed bundles cannot be read");
                Knowledge::Unreadable
            }
        }
    }

    async fn providers(
        &self,
        own: (&str, &[ClusterObjectSet]),
        kinds: bool,
    ) -> Result<Vec<Provider>, kube::Error> {
        let installed = self.revisions.installed(&self.extensions, own).await;
        let with = |defined: &dyn Fn(&ClusterObjectSet) -> BTreeSet<GroupVersionKind>| {
            let found = installed.iter().map(|(name, set)| provider(name, set, defined(set)));
            found.collect::<Vec<_>>()
        };
        let mut providers = with(&|_| BTreeSet::new());
        if kinds || providers.iter().any(Provider::asks_for_kinds) {
            self.define(&installed).await;
            providers = with(&|set| self.defined.get(&uid(set)).unwrap_or_default());
        }
        if self.classic {
            let mut csvs = self.csvs.lock().await;
            let known = match csvs.take() {
                Some(known) => known,
                None => classic_providers(&self.client).await?,
            };
            providers.extend_from_slice(csvs.insert(known));
        }
        Ok(providers)
    }

    /// Finds out which kinds the installed revisions define; what cannot be read defines none.
    async fn define(&self, installed: &[(String, ClusterObjectSet)]) {
        let _defining = self.defining.lock().await;
        let uids: BTreeSet<_> = installed.iter().map(|(_, set)| uid(set)).collect();
        self.defined.lock().retain(|uid, _| uids.contains(uid));
        let missing = installed.iter().filter(|(_, set)| self.defined.get(&uid(set)).is_none());
        let reading: Vec<_> = missing.map(|(_, set)| self.read_defined(set)).collect();
        join_bounded(reading).await;
    }

    async fn read_defined(&self, revision: &ClusterObjectSet) {
        match content(&self.client, revision, &self.system_namespace).await {
            Ok(phases) => {
                self.defined.put(&uid(revision), Some(served_kinds(&phases)));
            }
            Err(error) => {
                let name = revision.name_any();
                tracing::debug!(error = %Sentence(&error), name, "the content of a revision cannot be read");
            }
        }
    }
}

/// Returns which delay follows a read after the delay `step`, by whether it brought anything new; what
/// could not be read is read again soon.
fn after(step: usize, news: Option<bool>) -> usize {
    match news {
        // What was waited for has come, or that comes with an event of its own.
        Some(true) => LAST.max(step + 1),
        Some(false) => step + 1,
        None => LAST.min(step + 1),
    }
}

fn uid(revision: &ClusterObjectSet) -> String {
    revision.uid().unwrap_or_default()
}

/// Signals when a CRD is added, changed or removed, or an APIService.
fn changes(client: &Client) -> impl Stream<Item = ()> + use<> {
    let crds = Api::<Crd>::all(client.clone());
    let services = Api::<PartialObjectMeta<APIService>>::all(client.clone());
    let mut known = HashMap::new();
    let crds = cluster::watched(crds, watcher::Config::default(), |metadata| {
        if let Some(entries) = &mut metadata.managed_fields {
            entries.retain(|entry| entry.subresource.is_some());
        }
    })
    .filter_map(move |event| ready(event.ok().filter(|it| defines(it, &mut known)).map(drop)));
    let services = cluster::changes(services, watcher::Config::default())
        .touched_objects()
        .filter_map(|change| async { change.ok().map(drop) });
    futures::stream::select(crds, services)
}

/// Returns whether an event of the watch of CRDs may change what is served: not where only labels,
/// annotations or owners of a known one have changed. When its status was written stands in its
/// managed fields.
fn defines(event: &Event<Crd>, known: &mut HashMap<String, String>) -> bool {
    match event {
        Event::Init => known.clear(),
        Event::InitApply(crd) => drop(known.insert(crd.name_any(), definition(crd))),
        Event::InitDone => return true,
        Event::Apply(crd) => {
            let now = definition(crd);
            return known.insert(crd.name_any(), now.clone()) != Some(now);
        }
        Event::Delete(crd) => {
            known.remove(&crd.name_any());
            return true;
        }
    }
    false
}

/// Returns what of a CRD changes with what it defines: when each part of its status was written counts.
fn definition(crd: &Crd) -> String {
    let of = crd.meta();
    let statuses: Vec<_> = of.managed_fields.iter().flatten().map(|entry| &entry.time).collect();
    format!("{:?}", (&of.uid, of.generation, of.deletion_timestamp.is_some(), statuses))
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube::runtime::reflector;
    use olm_api::keys::{annotation, label};
    use olm_core::revision::CSVS_PATH;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::answering;

    /// An installed revision of an extension, whose content is in Secret `<extension>-1`.
    fn revision(extension: &str, constraints: &Value) -> Value {
        let secret = json!({"name": format!("{extension}-1"), "namespace": "s", "key": "k"});
        json!({
            "metadata": {"name": format!("{extension}-1"), "uid": format!("{extension}-1"),
                "labels": {label::OWNER_NAME: extension},
                "annotations": {annotation::BUNDLE_CONSTRAINTS: constraints.to_string()},
                "ownerReferences": [{"apiVersion": olm_api::API_VERSION, "controller": true,
                    "kind": label::OWNER_KIND_EXTENSION, "name": extension, "uid": extension}]},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
                "phases": [{"name": "p", "objects": [{"ref": secret}]}]},
            "status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "x",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    }

    fn fill<K>(writer: &mut reflector::store::Writer<K>, objects: &[Value])
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Clone + 'static,
    {
        writer.apply_watcher_event(&watcher::Event::Init);
        for object in objects {
            let object = serde_json::from_value(object.clone()).unwrap();
            writer.apply_watcher_event(&watcher::Event::InitApply(object));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
    }

    // resolution.md 5.2
    #[rstest]
    #[case::what_is_waited_for_has_not_come(0, Some(false), AFTER_CHANGE.get(1))]
    #[case::it_has_come(0, Some(true), AFTER_CHANGE.last())]
    #[case::it_does_not_come(LAST, Some(false), None)]
    #[case::not_read_after_a_change(LAST, None, AFTER_CHANGE.last())]
    #[case::not_read_at_the_regular_time(LAST + 1, None, AFTER_CHANGE.last())]
    fn what_could_not_be_read_is_read_again_soon(
        #[case] step: usize,
        #[case] news: Option<bool>,
        #[case] delay: Option<&Duration>,
    ) {
        assert_eq!(AFTER_CHANGE.get(after(step, news)), delay);
    }

    // resolution.md 5.2: what a revision writes on a CRD changes nothing
    #[rstest]
    #[case::a_label(json!({"labels": {"a": "b"}}), false)]
    #[case::its_spec(json!({"generation": 2}), true)]
    #[case::its_status(json!({"managedFields": [
        {"subresource": "status", "time": "2026-01-01T00:00:01Z"}]}), true)]
    #[case::leaving(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), true)]
    #[case::another(json!({"uid": "2"}), true)]
    #[case::added(json!({"name": "b"}), true)]
    fn a_crd_that_defines_the_same_causes_no_read(#[case] change: Value, #[case] want: bool) {
        let crd = |change: &Value| -> Crd {
            let mut metadata = json!({"name": "a", "uid": "1", "generation": 1, "managedFields": [
                {"subresource": "status", "time": "2026-01-01T00:00:00Z"}]});
            let changed = change.as_object().unwrap().clone();
            metadata.as_object_mut().unwrap().extend(changed);
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let (mut known, before) = (HashMap::new(), crd(&json!({})));
        assert!(!defines(&Event::Init, &mut known));
        assert!(!defines(&Event::InitApply(before), &mut known));
        assert!(defines(&Event::InitDone, &mut known));
        assert_eq!(defines(&Event::Apply(crd(&change)), &mut known), want);
        assert!(!defines(&Event::Apply(crd(&change)), &mut known));
        assert!(defines(&Event::Delete(crd(&change)), &mut known));
    }

    // resolution.md 5.2: two reconciles at a time, of which none asks what a watch brings, and one
    // asks for what OLM Classic has installed
    #[tokio::test]
    async fn installed_bundles_are_known_and_their_kinds_are_read_once_if_one_asks() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        let client = answering(move |request| {
            noted.lock().unwrap().push(request.uri().to_string());
            // A ConfigMap.
            let content = "eyJhcGlWZXJzaW9uIjoidjEiLCJraW5kIjoiQ29uZmlnTWFwIn0=";
            (200, json!({"metadata": {"name": "x"}, "data": {"k": content}}))
        });
        let (revisions, mut feed, _names) = KnownRevisions::new(client.clone(), "s".to_owned());
        let (extensions, mut writer) = reflector::store();
        let at = (client, "s".to_owned());
        let cache = DiscoveryCache::new(revisions, extensions, at, true);
        let extension = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        let mut leaving = extension("leaving");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        fill(&mut writer, &[extension("asking"), extension("lamp"), extension("torch"), leaving]);
        let package = json!([{"type": "olm.package.required",
            "value": {"packageName": "p", "versionRange": ">=1.0.0"}}]);
        let kind = json!([{"type": "olm.gvk.required",
            "value": {"group": "g", "version": "v1", "kind": "K"}}]);
        let stored = |of_lamp: &Value| {
            let none = json!([]);
            let all = [("lamp", of_lamp), ("torch", &none), ("leaving", &none)];
            all.map(|(name, constraints)| revision(name, constraints))
        };
        let own: ClusterObjectSet = serde_json::from_value(revision("asking", &package)).unwrap();
        let look = async |kinds| match cache
            .installed(("asking", std::slice::from_ref(&own)), kinds)
            .await
        {
            Knowledge::Known(found) => {
                let mut names: Vec<_> =
                    found.iter().map(|it| it.origin.name().to_owned()).collect();
                names.sort();
                names
            }
            other => panic!("{other:?}"),
        };
        let all = ["asking", "lamp", "torch"];
        fill(&mut feed.revisions, &stored(&package));
        assert_eq!(look(false).await, all);
        let csvs = format!("{CSVS_PATH}&labelSelector=%21{}", label::COPIED_FROM);
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [csvs]);
        fill(&mut feed.revisions, &stored(&kind));
        let (one, other) = tokio::join!(look(false), look(true));
        assert_eq!(
            (one, other),
            (all.map(str::to_owned).to_vec(), all.map(str::to_owned).to_vec())
        );
        let mut asked = asked.lock().unwrap().clone();
        asked.sort();
        let secret = |name: &str| format!("/api/v1/namespaces/s/secrets/{name}-1");
        assert_eq!(asked, all.map(secret));
    }
}
