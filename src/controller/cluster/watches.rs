//! Watching managed objects, so that drift is repaired when it happens.
//!
//! Kinds that hold no secrets are watched with the controller's own rights, one watch a kind, whoever
//! its objects belong to (decision 42). For all others, and where the controller may not, there is one
//! task per account, kind, namespace and selector. It watches the metadata of everything with our label;
//! where the account may not, each object by name; where it may not do that either, nothing, and the
//! revision polls. Events only wake a revision. Of the objects nothing is kept but their resource
//! versions, so that a reconcile need not read what has not changed. All wake-ups leave through one
//! bounded channel.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};
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
use olm_api::keys::label;
use olm_core::object::Identity;
use olm_core::revision::Account;
use olm_core::rights::SHARED_WATCHES;
use strum::IntoEnumIterator as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::changes::of_tenants;
use super::error::Sentence;
use super::kinds::Kind;
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

    /// Returns whether the controller itself may watch the kind.
    fn is_shared(&self) -> bool {
        let resource = &self.kind.resource;
        SHARED_WATCHES.contains(&(resource.group.as_str(), resource.kind.as_str()))
    }
}

/// What one watch is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// As whom; nothing for the controller itself, which watches all namespaces.
    account: Option<Account>,
    api_version: String,
    kind: String,
    namespace: String,
    selector: String,
}

/// Namespace and name of an object.
type Place = (String, String);

type Metadata = PartialObjectMeta<DynamicObject>;

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

/// What a watch that goes on is listing.
#[derive(Default)]
struct Listing {
    versions: HashMap<Place, String>,
    /// Whether it was whole once.
    done: bool,
}

/// What a watch has brought, and who wants to hear of it.
#[derive(Default)]
struct State {
    mode: Mode,
    /// Versions ([`super::version`]) by object.
    versions: HashMap<Place, String>,
    /// Objects by revision.
    wanted: BTreeMap<String, BTreeSet<Place>>,
}

impl State {
    /// Has a revision hear of these objects and no others; says whether that is new.
    fn want(&mut self, revision: &str, places: BTreeSet<Place>) -> bool {
        if places.is_empty() {
            return self.wanted.remove(revision).is_some();
        }
        let new = self.wanted.get(revision) != Some(&places);
        self.wanted.insert(revision.to_owned(), places);
        new
    }

    /// Returns the revisions whose objects are so.
    fn wanting(&self, so: impl Fn(&BTreeSet<Place>) -> bool) -> Vec<String> {
        let wanted = self.wanted.iter().filter(|(_, places)| so(places));
        wanted.map(|(revision, _)| revision.clone()).collect()
    }

    /// Notes that the watch was refused: what it has brought is not kept up to date. Returns who has to
    /// look otherwise from now on.
    fn refuse(&mut self) -> Vec<String> {
        self.versions.clear();
        let before = std::mem::replace(&mut self.mode, Mode::Poll);
        self.wanting(|_| before != Mode::Poll)
    }

    /// Takes in one event of a watch in this mode, of the object `of` if it is for a single one. Returns
    /// who is to be woken: after a list those for whom anything has changed or is missing, after the
    /// first one all.
    fn note(
        &mut self,
        (of, event): (Option<&Place>, Event<Metadata>),
        mode: Mode,
        listing: &mut Listing,
    ) -> Vec<String> {
        let is_listed = |place: &Place| of.is_none_or(|of| of == place);
        match event {
            Event::Init => listing.versions.retain(|place, _| !is_listed(place)),
            Event::InitApply(object) => listing.versions.extend([known(object)]),
            Event::InitDone => {
                self.mode = mode;
                // Whatever was read may have changed before this.
                let first = !std::mem::replace(&mut listing.done, true);
                let (mut before, mut now) = (HashMap::new(), HashMap::new());
                before.extend(self.versions.extract_if(|place, _| is_listed(place)));
                now.extend(listing.versions.extract_if(|place, _| is_listed(place)));
                // What is missing may have come and gone meanwhile, and have been read in between.
                let is_new = |place: &Place| {
                    is_listed(place)
                        && (before.get(place) != now.get(place) || !now.contains_key(place))
                };
                let told = self.wanting(|places| first || places.iter().any(is_new));
                self.versions.extend(now);
                return told;
            }
            Event::Apply(object) => {
                let (place, version) = known(object);
                let told = self.wanting(|places| places.contains(&place));
                self.versions.insert(place, version);
                return told;
            }
            Event::Delete(object) => {
                let (place, _) = known(object);
                self.versions.remove(&place);
                return self.wanting(|places| places.contains(&place));
            }
        }
        Vec::new()
    }
}

fn known(object: Metadata) -> (Place, String) {
    let metadata = object.metadata;
    let version = version(&metadata).unwrap_or_default();
    let place = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
    (place, version)
}

struct Entry {
    state: Arc<Mutex<State>>,
    /// Told when somebody wants to hear of other objects.
    changed: Arc<Notify>,
    _task: Task,
}

impl Entry {
    fn want(&self, revision: &str, places: BTreeSet<Place>) {
        if lock(&self.state).want(revision, places) {
            self.changed.notify_one();
        }
    }
}

#[derive(Default)]
struct Entries {
    open: HashMap<Key, Entry>,
    /// Those that a revision wants.
    wanted: HashMap<String, HashSet<Key>>,
}

/// All watches of managed objects.
pub struct Watches {
    client: Client,
    entries: Mutex<Entries>,
    wake: Arc<Wake>,
}

impl Watches {
    /// Returns how many groups of objects are watched in each mode, by its name in metrics.
    pub fn modes(&self) -> BTreeMap<&'static str, usize> {
        let entries = lock(&self.entries);
        let mut modes: BTreeMap<_, _> = Mode::iter().map(|mode| (mode.into(), 0)).collect();
        for (key, entry) in &entries.open {
            let mode = lock(&entry.state).mode;
            // Where the controller is refused, the accounts watch.
            if key.account.is_some() || mode != Mode::Poll {
                *modes.entry(mode.into()).or_default() += 1;
            }
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
        (Self { client, entries: Mutex::default(), wake }, receiver)
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
        let mut entries = lock(&self.entries);
        let managed = format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_OLM);
        let (shared, mut others): (Vec<_>, _) = targets.into_iter().partition(Target::is_shared);
        let shared = groups(None, &managed, shared);
        let mut wanted: HashSet<_> = shared.keys().cloned().collect();
        for (key, targets) in shared {
            if self.open(&mut entries, revision, key, &self.client, &targets) == Mode::Poll {
                others.extend(targets);
            }
        }
        for (key, targets) in groups(Some(account), selector, others) {
            wanted.insert(key.clone());
            self.open(&mut entries, revision, key, client, &targets);
        }
        entries.keep_only(revision, wanted);
    }

    /// Has `revision` woken by the watch for these objects, which is started if there is none. Returns its
    /// mode.
    fn open(
        &self,
        entries: &mut Entries,
        revision: &str,
        key: Key,
        client: &Client,
        targets: &[Target],
    ) -> Mode {
        let places = targets.iter().flat_map(|target| {
            target.names.iter().map(|name| (target.namespace.clone(), name.clone()))
        });
        let places = places.collect();
        match entries.open.entry(key) {
            hash_map::Entry::Occupied(entry) => {
                entry.get().want(revision, places);
                lock(&entry.get().state).mode
            }
            hash_map::Entry::Vacant(vacant) => {
                if let Some(Target { kind, .. }) = targets.first() {
                    let mut state = State::default();
                    state.want(revision, places);
                    let entry = self.start(client, kind, vacant.key(), state);
                    vacant.insert(entry);
                }
                Mode::Starting
            }
        }
    }

    /// Returns which versions of its objects the watches of `revision` have brought.
    pub fn seen(&self, revision: &str) -> Seen {
        let entries = lock(&self.entries);
        let mut seen = Seen::default();
        for (key, entry) in entries.of(revision) {
            let state = lock(&entry.state);
            for place in state.wanted.get(revision).into_iter().flatten() {
                if let Some(version) = state.versions.get(place) {
                    let (namespace, name) = place.clone();
                    let object = (key.api_version.clone(), key.kind.clone(), namespace, name);
                    seen.0.insert(object, version.clone());
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
        entries.of(revision).all(|(_, entry)| lock(&entry.state).mode != Mode::Starting)
    }

    /// Stops waking `revision`. Watches that nobody needs any more end.
    pub fn release(&self, revision: &str) {
        lock(&self.entries).keep_only(revision, HashSet::new());
    }

    /// Wakes revisions for a reason other than a watched object.
    pub fn wake(&self, revisions: impl IntoIterator<Item = String>) {
        self.wake.all(revisions);
    }

    /// Returns whether some objects of `revision` can only be polled.
    pub fn polls(&self, revision: &str) -> bool {
        let entries = lock(&self.entries);
        let mut of_account = entries.of(revision).filter(|(key, _)| key.account.is_some());
        of_account.any(|(_, entry)| lock(&entry.state).mode == Mode::Poll)
    }

    fn start(&self, client: &Client, kind: &Kind, key: &Key, state: State) -> Entry {
        let resource = &kind.resource;
        let api = if kind.namespaced && key.account.is_some() {
            Api::namespaced_with(client.clone(), &key.namespace, resource)
        } else {
            Api::all_with(client.clone(), resource)
        };
        let watching = Watching {
            api,
            is_shared: key.account.is_none(),
            selector: key.selector.clone(),
            state: Arc::new(Mutex::new(state)),
            changed: Arc::default(),
            wake: Arc::clone(&self.wake),
        };
        let (state, changed) = (Arc::clone(&watching.state), Arc::clone(&watching.changed));
        Entry { state, changed, _task: Task(tokio::spawn(watching.run()).abort_handle()) }
    }
}

/// Groups targets by the watch that is for them.
fn groups(
    account: Option<&Account>,
    selector: &str,
    targets: Vec<Target>,
) -> HashMap<Key, Vec<Target>> {
    let mut groups: HashMap<_, Vec<_>> = HashMap::new();
    for target in targets {
        let resource = &target.kind.resource;
        let key = Key {
            account: account.cloned(),
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: account.map(|_| target.namespace.clone()).unwrap_or_default(),
            selector: selector.to_owned(),
        };
        groups.entry(key).or_default().push(target);
    }
    groups
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
                entry.want(revision, BTreeSet::new());
                let is_idle = lock(&entry.state).wanted.is_empty();
                if is_idle {
                    self.open.remove(&key);
                }
            }
        }
    }
}

struct Watching {
    api: Api<Metadata>,
    /// Whether the controller itself watches, for all extensions.
    is_shared: bool,
    selector: String,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    wake: Arc<Wake>,
}

/// Events, each with the object that its watch is for, if it is for one.
type Events = Pin<Box<dyn Stream<Item = (Option<Place>, watcher::Result<Event<Metadata>>)> + Send>>;

impl Watching {
    async fn run(self) {
        let mut pause = Pause::new();
        loop {
            let since = Instant::now();
            if self.is_shared {
                self.follow_all(Mode::Shared).await;
                self.poll();
            } else {
                // Whoever may watch all of them may watch the one, too.
                if self.places().len() > 1 {
                    self.follow_all(Mode::Collection).await;
                }
                let _ = tokio::time::timeout(CLIMB_AFTER, self.follow_names()).await;
            }
            if lock(&self.state).mode == Mode::Poll {
                pause.wait(since).await;
            }
        }
    }

    /// Returns all objects that a revision wants to hear of.
    fn places(&self) -> BTreeSet<Place> {
        lock(&self.state).wanted.values().flatten().cloned().collect()
    }

    /// Watches everything with the label until that is refused.
    async fn follow_all(&self, mode: Mode) {
        let labels = of_tenants().labels(&self.selector);
        self.follow(events(self.api.clone(), labels, None), mode).await;
    }

    /// Watches each object by name until that is refused, or there are more than the only one.
    async fn follow_names(&self) {
        let alone = self.places().len() <= 1;
        loop {
            let places = self.places();
            if alone && places.len() > 1 {
                return;
            }
            let watches = places.into_iter().map(|place| {
                let by_name = format!("metadata.name={}", place.1);
                let config = watcher::Config::default().fields(&by_name);
                events(self.api.clone(), config, Some(place))
            });
            let all: Events = Box::pin(stream::select_all(watches));
            if self.follow(all, Mode::Named).await {
                return self.poll();
            }
        }
    }

    /// Gives up watching. The revisions learn that others have to look, or they themselves.
    fn poll(&self) {
        let told = lock(&self.state).refuse();
        self.wake.all(told);
    }

    /// Wakes who wants to hear of an event until the watch is refused (`true`) or, where each name has
    /// its own, the names change (`false`). What is listed first says that it is not refused.
    async fn follow(&self, mut events: Events, mode: Mode) -> bool {
        lock(&self.state).versions.clear();
        let mut listing = Listing::default();
        loop {
            tokio::select! {
                () = self.changed.notified() => if mode == Mode::Named {
                    return false;
                },
                Some((of, event)) = events.next() => match event {
                    Ok(event) => {
                        let told = lock(&self.state).note((of.as_ref(), event), mode, &mut listing);
                        self.wake.all(told);
                    }
                    Err(error) if is_refusal(&error) => {
                        if self.is_shared {
                            tracing::info!(error = %Sentence(&error), "managed objects are watched by the accounts of extensions");
                        }
                        return true;
                    }
                    Err(error) => {
                        tracing::debug!(error = %Sentence(&error), "watch of managed objects interrupted");
                    }
                },
            }
        }
    }
}

/// Watches; `of` is the object that `config` selects, if it is one.
fn events(api: Api<Metadata>, config: watcher::Config, of: Option<Place>) -> Events {
    let events = watcher(api, config).backoff(WatchDelays::default());
    Box::pin(events.map(move |event| (of.clone(), event)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    fn object(name: &str, version: &str) -> Metadata {
        let metadata = json!({"namespace": "n", "name": name, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn place(name: &str) -> Place {
        ("n".to_owned(), name.to_owned())
    }

    /// Lists objects, all of them or one; returns who is woken.
    fn listed(
        (state, listing): (&mut State, &mut Listing),
        of: Option<&str>,
        objects: &[(&str, &str)],
    ) -> Vec<String> {
        let of = of.map(place);
        let mut note = |event| state.note((of.as_ref(), event), Mode::Named, listing);
        note(Event::Init);
        for (name, version) in objects {
            note(Event::InitApply(object(name, version)));
        }
        note(Event::InitDone)
    }

    fn state() -> State {
        let mut state = State::default();
        state.want("a-1", [place("a"), place("both")].into());
        state.want("b-1", [place("b"), place("both")].into());
        state
    }

    // decision 42: a change wakes whom it is about, and nobody else
    #[rstest]
    #[case::own("a", &["a-1"])]
    #[case::common("both", &["a-1", "b-1"])]
    #[case::nobodys("c", &[])]
    fn a_change_wakes_whom_it_is_about(#[case] name: &str, #[case] want: &[&str]) {
        let (mut state, mut nothing) = (state(), Listing::default());
        let mut note = |event| state.note((None, event), Mode::Shared, &mut nothing);
        assert_eq!(note(Event::Apply(object(name, "2"))), want);
        assert_eq!(note(Event::Delete(object(name, "3"))), want);
        assert!(state.versions.is_empty());
    }

    #[test]
    fn a_list_wakes_everybody_once_and_then_those_it_changes_something_for() {
        let (mut state, mut listing) = (state(), Listing::default());
        let mut told = |of, objects: &[_]| listed((&mut state, &mut listing), of, objects);
        let first = [("a", "1"), ("b", "1"), ("both", "1")];
        assert_eq!(told(None, &first), ["a-1", "b-1"]);
        assert!(told(None, &first).is_empty());
        assert_eq!(told(None, &[("b", "1"), ("both", "1")]), ["a-1"]);
        assert_eq!(told(None, &[("b", "2"), ("both", "1")]), ["a-1", "b-1"]);
        // A watch of one object says nothing of the others.
        assert_eq!(told(Some("a"), &[("a", "1")]), ["a-1"]);
        assert_eq!(told(Some("b"), &[]), ["b-1"]);
        let mut known: Vec<_> = state.versions.into_keys().map(|(_, name)| name).collect();
        known.sort();
        assert_eq!(known, ["a", "both"]);
    }

    // applying.md 3.10, decision 42: what was brought before a refusal does not count after it
    #[test]
    fn a_refusal_and_its_end_are_told_once() {
        let (mut state, all) = (state(), ["a-1", "b-1"]);
        let list =
            |state: &mut State| listed((state, &mut Listing::default()), None, &[("a", "1")]);
        list(&mut state);
        assert_eq!(state.refuse(), all);
        assert!(state.mode == Mode::Poll && state.versions.is_empty());
        assert!(state.refuse().is_empty());
        assert_eq!(list(&mut state), all);
        assert!(state.mode == Mode::Named);
    }

    // decision 42: where the controller may not watch a kind, the account does
    #[tokio::test]
    async fn what_is_refused_to_the_controller_is_watched_by_the_account() {
        let client = answering(|request| {
            let query = request.uri().query().unwrap_or_default();
            // ours: annotations of tenants must not take all memory
            assert!(query.split('&').any(|it| it == "limit=50"), "{query}");
            refusal(403)
        });
        let (watches, _woken) = Watches::new(client);
        let resource = ApiResource::erase::<Deployment>(&());
        let kind = Kind { resource, namespaced: true };
        let names = ["a", "b"].map(str::to_owned).into();
        let targets = vec![Target { kind, namespace: "n".to_owned(), names }];
        let (account, broken) = ("n/a".parse().unwrap(), answering(|_| refusal(500)));
        let ensure = || watches.ensure("r", &account, &broken, "x=y", targets.clone());
        ensure();
        watches.listed("r").await;
        assert!(watches.modes().values().all(|count| *count == 0) && !watches.polls("r"));
        ensure();
        assert_eq!(lock(&watches.entries).open.len(), 2);
        assert_eq!(watches.modes()["starting"], 1);
        watches.release("r");
        assert!(lock(&watches.entries).open.is_empty());
    }
}
