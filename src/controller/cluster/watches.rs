//! Watching managed objects, so that drift is repaired when it happens.
//!
//! Kinds that hold no secrets are watched by the controller itself (see [`super::shared`]). For all
//! others there is one task per account, kind, namespace and selector. It watches the metadata of
//! everything with our label; where the account may not, each object by name; where it may not do
//! that either, nothing, and the revision polls. Events only wake a revision. Of the objects
//! nothing is kept but their resource versions, so that a reconcile need not read what has not
//! changed. All wake-ups leave through one bounded channel.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::SinkExt as _;
use futures::channel::mpsc;
use futures::stream::{self, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use olm_core::object::Identity;
use olm_core::revision::Account;
use strum::IntoEnumIterator as _;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::changes::of_tenants;
use super::error::Sentence;
use super::kinds::Kind;
use super::shared::SharedWatches;
use super::wake::{CLIMB_AFTER, Mode, News, Pause, Task, Wake, WakeRates, is_refusal, lock};
use super::{FIRST_LIST, version};
use crate::backoff::WatchDelays;

/// Events within this time after one that woke a revision wake it once more.
const GATHER: Duration = Duration::from_millis(100);
/// Wake-ups that wait for the reconciler. Names are gathered in a set before, so this needs no
/// more room than a burst takes.
const CHANNEL: usize = 64;

/// Objects of one kind that a revision wants to be woken for.
#[derive(Debug, Clone)]
pub struct Target {
    pub kind: Kind,
    /// Their namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    pub names: BTreeSet<String>,
}

impl Target {
    pub fn secrets(namespace: String, names: BTreeSet<String>) -> Self {
        let resource = ApiResource::erase::<Secret>(&());
        Self { kind: Kind { resource, namespaced: true }, namespace, names }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    account: Account,
    api_version: String,
    kind: String,
    namespace: String,
    selector: String,
}

/// Names of objects by the revision that wants to hear of them.
type Subscribers = BTreeMap<String, BTreeSet<String>>;

/// The versions ([`super::version`]) that a watch brought, by name.
type Versions = Arc<Mutex<HashMap<String, String>>>;

/// The versions ([`super::version`]) of the objects of a revision, as the watches know them at a moment.
#[derive(Debug, Default)]
pub struct Seen(HashMap<(String, String, String, String), String>);

impl Seen {
    /// Returns the version of an object, if a watch brought it.
    pub fn version(&self, kind: &Kind, object: &Identity) -> Option<&str> {
        let namespace = if kind.namespaced { &object.namespace } else { "" };
        let resource = &kind.resource;
        let key = [&resource.api_version, &resource.kind, namespace, &object.name];
        self.0.get(&key.map(str::to_owned).into()).map(String::as_str)
    }

    /// Returns whether a watch brought an object, whoever it belongs to.
    pub fn knows(&self, object: &Identity) -> bool {
        let Identity { kind, namespace, name, .. } = object.clone();
        self.0.contains_key(&(object.api_version(), kind, namespace, name))
    }
}

struct Entry {
    subscribers: watch::Sender<Subscribers>,
    versions: Versions,
    mode: Arc<Mutex<Mode>>,
    _task: Task,
}

/// The watches of accounts.
#[derive(Default)]
struct Entries {
    open: HashMap<Key, Entry>,
    /// Those that a revision wants.
    wanted: HashMap<String, HashSet<Key>>,
}

/// All watches of managed objects.
pub struct Watches {
    shared: SharedWatches,
    entries: Mutex<Entries>,
    wake: Arc<Wake>,
}

impl Watches {
    /// Returns how many groups of objects are watched in each mode, by its name in metrics.
    pub fn modes(&self) -> BTreeMap<&'static str, usize> {
        let entries = lock(&self.entries);
        let mut modes: BTreeMap<_, _> = Mode::iter().map(|mode| (mode.into(), 0)).collect();
        for mode in entries.open.values().map(|entry| *lock(&entry.mode)).chain(self.shared.modes())
        {
            *modes.entry(mode.into()).or_default() += 1;
        }
        modes
    }

    /// Returns the watches and the names of ClusterObjectSets to look at, in a stream that ends
    /// when the watches are dropped. `client` is the controller's own.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(client: Client) -> (Self, mpsc::Receiver<String>) {
        let (mut sender, receiver) = mpsc::channel(CHANNEL);
        let wake = Arc::<Wake>::default();
        let gathering = Arc::downgrade(&wake);
        tokio::spawn(async move {
            let (mut rates, mut pending) = (WakeRates::default(), BTreeSet::new());
            while let Some(wake) = gathering.upgrade() {
                // The wait is bounded, so that a dropped owner is noticed.
                let _ = tokio::time::timeout(Duration::from_secs(1), wake.notify.notified()).await;
                pending.append(&mut wake.take());
                for name in rates.take_due(&mut pending, Instant::now()) {
                    if sender.send(name).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(GATHER).await;
            }
        });
        let watches = Self {
            shared: SharedWatches::new(client, Arc::clone(&wake)),
            entries: Mutex::default(),
            wake,
        };
        (watches, receiver)
    }

    /// Makes sure that `revision` is woken for `targets` and for nothing else.
    ///
    /// Starting a watch does not wait for it, and a watch that is refused is not an error.
    pub fn ensure(
        &self,
        revision: &str,
        account: &Account,
        client: &Client,
        selector: &str,
        targets: Vec<Target>,
    ) {
        let targets = self.share(revision, targets);
        let mut entries = lock(&self.entries);
        let mut wanted = HashSet::new();
        for target in targets {
            let key = Key {
                account: account.clone(),
                api_version: target.kind.resource.api_version.clone(),
                kind: target.kind.resource.kind.clone(),
                namespace: target.namespace.clone(),
                selector: selector.to_owned(),
            };
            let entry = entries
                .open
                .entry(key.clone())
                .or_insert_with(|| start(client, &target, selector, &self.wake));
            entry.subscribers.send_if_modified(|subscribers| {
                let old = subscribers.insert(revision.to_owned(), target.names.clone());
                old.as_ref() != Some(&target.names)
            });
            wanted.insert(key);
        }
        entries.keep_only(revision, wanted);
    }

    /// Has the controller itself watch what it may, and returns what is left to the account.
    fn share(&self, revision: &str, targets: Vec<Target>) -> Vec<Target> {
        let name = |kind: &Kind| (kind.resource.api_version.clone(), kind.resource.kind.clone());
        let mut kinds: BTreeMap<_, (Kind, BTreeSet<_>)> = BTreeMap::new();
        for target in &targets {
            let same = kinds.entry(name(&target.kind));
            let (_, places) = same.or_insert_with(|| (target.kind.clone(), BTreeSet::new()));
            places.extend(target.names.iter().map(|name| (target.namespace.clone(), name.clone())));
        }
        self.shared.release(revision, &kinds.keys().cloned().collect());
        let subscribed = kinds
            .into_iter()
            .filter(|(_, (kind, places))| self.shared.subscribe(revision, kind, places.clone()));
        let shared: BTreeSet<_> = subscribed.map(|(name, _)| name).collect();
        targets.into_iter().filter(|target| !shared.contains(&name(&target.kind))).collect()
    }

    /// Returns which versions of its objects the watches of `revision` have brought.
    pub fn seen(&self, revision: &str) -> Seen {
        let entries = lock(&self.entries);
        let mut seen = Seen::default();
        let mut note = |place: [&String; 4], version: &str| {
            seen.0.insert(place.map(Clone::clone).into(), version.to_owned());
        };
        self.shared.seen(revision, |(api_version, kind), (namespace, name), version| {
            note([api_version, kind, namespace, name], version);
        });
        for (key, entry) in entries.of(revision) {
            let subscribers = entry.subscribers.borrow();
            let versions = lock(&entry.versions);
            for name in subscribers.get(revision).into_iter().flatten() {
                if let Some(version) = versions.get(name) {
                    note([&key.api_version, &key.kind, &key.namespace, name], version);
                }
            }
        }
        seen
    }

    /// Returns a listener for changes of the objects of `revision`, for as long as it lives. There
    /// is one reconcile of a revision at a time.
    pub fn listen(&self, revision: &str) -> News<'_> {
        let come = Arc::new(Notify::new());
        lock(&self.wake.listening).insert(revision.to_owned(), Arc::clone(&come));
        News { wake: &self.wake, revision: revision.to_owned(), come }
    }

    /// Waits a while until the watches of `revision` have listed what there is.
    pub async fn listed(&self, revision: &str) {
        let news = self.listen(revision);
        let all = async {
            while !self.has_listed(revision) {
                news.come().await;
            }
        };
        // What was not listed by then is read.
        let _ = tokio::time::timeout(FIRST_LIST, all).await;
    }

    fn has_listed(&self, revision: &str) -> bool {
        let entries = lock(&self.entries);
        entries.of(revision).all(|(_, entry)| *lock(&entry.mode) != Mode::Starting)
            && self.shared.has_listed(revision)
    }

    /// Stops waking `revision`. Watches that nobody needs any more end.
    pub fn release(&self, revision: &str) {
        self.shared.release(revision, &BTreeSet::new());
        lock(&self.entries).keep_only(revision, HashSet::new());
    }

    /// Wakes revisions for a reason other than a watched object.
    pub fn wake(&self, revisions: impl IntoIterator<Item = String>) {
        self.wake.all(revisions);
    }

    /// Returns whether some objects of `revision` can only be polled.
    pub fn polls(&self, revision: &str) -> bool {
        lock(&self.entries).of(revision).any(|(_, entry)| *lock(&entry.mode) == Mode::Poll)
    }
}

impl Entries {
    fn of(&self, revision: &str) -> impl Iterator<Item = (&Key, &Entry)> {
        let keys = self.wanted.get(revision).into_iter().flatten();
        keys.filter_map(|key| self.open.get_key_value(key))
    }

    /// Leaves a revision these watches and no others. Watches that nobody needs any more end.
    fn keep_only(&mut self, revision: &str, wanted: HashSet<Key>) {
        let mut unwanted = self.wanted.remove(revision).unwrap_or_default();
        unwanted.retain(|key| !wanted.contains(key));
        if !wanted.is_empty() {
            self.wanted.insert(revision.to_owned(), wanted);
        }
        for key in unwanted {
            if let Some(entry) = self.open.get(&key) {
                entry.subscribers.send_if_modified(|all| all.remove(revision).is_some());
                if entry.subscribers.borrow().is_empty() {
                    self.open.remove(&key);
                }
            }
        }
    }
}

fn start(client: &Client, target: &Target, selector: &str, wake: &Arc<Wake>) -> Entry {
    let resource = &target.kind.resource;
    let api = if target.kind.namespaced {
        Api::namespaced_with(client.clone(), &target.namespace, resource)
    } else {
        Api::all_with(client.clone(), resource)
    };
    let (subscribers, receiver) = watch::channel(Subscribers::new());
    let mode = Arc::new(Mutex::new(Mode::Starting));
    let versions = Versions::default();
    let watching = Watching {
        api,
        selector: selector.to_owned(),
        subscribers: receiver,
        versions: versions.clone(),
        mode: mode.clone(),
        wake: wake.clone(),
    };
    Entry { subscribers, versions, mode, _task: Task(tokio::spawn(watching.run()).abort_handle()) }
}

struct Watching {
    api: Api<Metadata>,
    selector: String,
    subscribers: watch::Receiver<Subscribers>,
    versions: Versions,
    mode: Arc<Mutex<Mode>>,
    wake: Arc<Wake>,
}

type Metadata = PartialObjectMeta<DynamicObject>;
/// Events, each with the name of the object that its watch is for, if it is for one.
type Events =
    Pin<Box<dyn Stream<Item = (Option<String>, watcher::Result<Event<Metadata>>)> + Send>>;

impl Watching {
    async fn run(mut self) {
        let mut pause = Pause::new();
        loop {
            let since = Instant::now();
            // Whoever may watch all of them may watch the one, too.
            if self.names().len() > 1 {
                let labels = of_tenants().labels(&self.selector);
                let collection = events(self.api.clone(), labels, None);
                self.follow(collection, Mode::Collection).await;
            }
            let _ = tokio::time::timeout(CLIMB_AFTER, self.follow_names()).await;
            if *lock(&self.mode) == Mode::Poll {
                pause.wait(since).await;
            }
        }
    }

    /// Returns the names of all objects that a revision wants to hear of.
    fn names(&mut self) -> BTreeSet<String> {
        self.subscribers.borrow_and_update().values().flatten().cloned().collect()
    }

    /// Watches each object by name until that is refused, or there are more than the only one.
    async fn follow_names(&mut self) {
        let alone = self.names().len() <= 1;
        loop {
            let names = self.names();
            if alone && names.len() > 1 {
                return;
            }
            let watches = names.iter().map(|name| {
                let by_name = format!("metadata.name={name}");
                let config = watcher::Config::default().fields(&by_name);
                events(self.api.clone(), config, Some(name.clone()))
            });
            let all: Events = Box::pin(stream::select_all(watches));
            if self.follow(all, Mode::Named).await {
                return self.poll();
            }
        }
    }

    /// Gives up watching. The revisions learn that they have to look themselves: what was known of
    /// the objects is not kept up to date.
    fn poll(&self) {
        lock(&self.versions).clear();
        let before = std::mem::replace(&mut *lock(&self.mode), Mode::Poll);
        if before != Mode::Poll {
            self.wake.all(self.subscribers.borrow().keys().cloned());
        }
    }

    /// Wakes subscribers until the watch is refused (`true`) or, where each name has its own, the
    /// names change (`false`). What is listed first says that it is not refused.
    async fn follow(&mut self, mut events: Events, mode: Mode) -> bool {
        lock(&self.versions).clear();
        loop {
            tokio::select! {
                changed = self.subscribers.changed() => {
                    if changed.is_err() {
                        // The owner is gone; it aborts this task.
                        std::future::pending::<()>().await;
                    }
                    if mode == Mode::Named {
                        return false;
                    }
                }
                seen = events.next() => match seen {
                    Some((of, Ok(event))) => self.note(of.as_ref(), event, mode),
                    Some((_, Err(error))) if is_refusal(&error) => return true,
                    Some((_, Err(error))) => {
                        tracing::debug!(error = %Sentence(&error), "watch of managed objects interrupted");
                    }
                    None => {
                        let _ = self.subscribers.changed().await;
                        return false;
                    }
                },
            }
        }
    }

    /// Takes in one event, and wakes whom it is about; all of them when everything was listed, because
    /// anything may have changed.
    fn note(&self, of: Option<&String>, event: Event<Metadata>, mode: Mode) {
        let mut versions = lock(&self.versions);
        let changed = match event {
            // It begins anew: nothing is known, or nothing about the one object it is for.
            Event::Init => return versions.retain(|name, _| of.is_some_and(|of| of != name)),
            Event::InitApply(object) => {
                let version = version(&object.metadata);
                versions.extend(object.metadata.name.zip(version));
                return;
            }
            Event::InitDone => {
                *lock(&self.mode) = mode;
                None
            }
            Event::Apply(object) => {
                let version = version(&object.metadata);
                let name = object.metadata.name.unwrap_or_default();
                match version {
                    Some(version) => versions.insert(name.clone(), version),
                    None => versions.remove(&name),
                };
                Some(name)
            }
            Event::Delete(object) => {
                let name = object.metadata.name.unwrap_or_default();
                versions.remove(&name);
                Some(name)
            }
        };
        drop(versions);
        let subscribers = self.subscribers.borrow().clone();
        let told = subscribers
            .into_iter()
            .filter(|(_, names)| changed.as_ref().is_none_or(|name| names.contains(name)));
        self.wake.all(told.map(|(revision, _)| revision));
    }
}

/// Watches; `of` names the object that `config` selects, if it is one.
fn events(api: Api<Metadata>, config: watcher::Config, of: Option<String>) -> Events {
    let events = watcher(api, config).backoff(WatchDelays::default());
    Box::pin(events.map(move |event| (of.clone(), event)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    // applying.md 3.10
    #[tokio::test]
    async fn what_is_only_polled_is_not_taken_for_what_a_watch_brought() {
        let (_subscribers, receiver) = watch::channel(Subscribers::new());
        let watching = Watching {
            api: Api::all_with(answering(|_| refusal(403)), &ApiResource::erase::<ConfigMap>(&())),
            selector: String::new(),
            subscribers: receiver,
            versions: Arc::new(Mutex::new([("c".to_owned(), "1".to_owned())].into())),
            mode: Arc::new(Mutex::new(Mode::Named)),
            wake: Arc::default(),
        };
        watching.poll();
        assert_eq!(*lock(&watching.mode), Mode::Poll);
        assert!(lock(&watching.versions).is_empty());
    }
}
