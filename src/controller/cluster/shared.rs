//! Watching managed objects of kinds that hold no secrets with the controller's own rights: one watch
//! a kind, whoever they belong to.
//!
//! In: which objects a revision wants to hear of. Out: its name, when one of them changes. Of the
//! objects nothing is kept but their resource versions. Where the controller may not watch a kind,
//! the accounts do.
//!
//! Source: decision 42.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use olm_api::keys::label;
use olm_core::rights::SHARED_WATCHES;
use tokio::time::Instant;

use super::changes::of_tenants;
use super::error::Sentence;
use super::kinds::Kind;
use super::wake::{Mode, Pause, Task, Wake, is_refusal, lock};
use crate::backoff::WatchDelays;

/// Namespace and name of an object.
pub(super) type Place = (String, String);
/// API version and name of a kind.
type KindName = (String, String);
type Metadata = PartialObjectMeta<DynamicObject>;

/// The watches that are open, or were refused and are tried again.
pub(super) struct SharedWatches {
    client: Client,
    wake: Arc<Wake>,
    open: Mutex<HashMap<KindName, Shared>>,
}

struct Shared {
    state: Arc<Mutex<State>>,
    _task: Task,
}

#[derive(Default)]
struct State {
    /// Whether the watch was refused, and has not worked since: the accounts watch.
    refused: bool,
    listed: bool,
    /// Versions ([`super::version`]) by object.
    versions: HashMap<Place, String>,
    /// Objects by revision, whoever watches them.
    wanted: BTreeMap<String, BTreeSet<Place>>,
    /// Revisions by object.
    interested: HashMap<Place, BTreeSet<String>>,
}

impl SharedWatches {
    pub(super) fn new(client: Client, wake: Arc<Wake>) -> Self {
        Self { client, wake, open: Mutex::default() }
    }

    /// Makes sure that `revision` is woken for these objects of a kind. Says whether that is so: not
    /// where the kind is none of the table, or its watch was refused.
    pub(super) fn subscribe(&self, revision: &str, kind: &Kind, places: BTreeSet<Place>) -> bool {
        let resource = &kind.resource;
        let is_shared =
            |(group, name): &(&str, &str)| *group == resource.group && *name == resource.kind;
        if !SHARED_WATCHES.iter().any(is_shared) {
            return false;
        }
        let mut open = lock(&self.open);
        let key = (resource.api_version.clone(), resource.kind.clone());
        let shared = open.entry(key).or_insert_with(|| self.start(kind));
        let mut state = lock(&shared.state);
        state.want(revision, places);
        !state.refused
    }

    /// Stops waking `revision`, but for the kinds that it still `wants`. Watches that nobody needs any
    /// more end.
    pub(super) fn release(&self, revision: &str, wants: &BTreeSet<KindName>) {
        lock(&self.open).retain(|key, shared| {
            let mut state = lock(&shared.state);
            if !wants.contains(key) {
                state.want(revision, BTreeSet::new());
            }
            !state.wanted.is_empty()
        });
    }

    /// Calls `tell` with API version, kind, place and version of each object of `revision` that a
    /// watch has brought.
    pub(super) fn seen(&self, revision: &str, mut tell: impl FnMut(&KindName, &Place, &str)) {
        for (key, shared) in &*lock(&self.open) {
            let state = lock(&shared.state);
            for place in state.wanted.get(revision).into_iter().flatten() {
                if let Some(version) = state.versions.get(place) {
                    tell(key, place, version);
                }
            }
        }
    }

    /// Returns whether all that `revision` wants was listed, as far as this watches it.
    pub(super) fn has_listed(&self, revision: &str) -> bool {
        lock(&self.open).values().all(|shared| {
            let state = lock(&shared.state);
            state.listed || state.refused || !state.wanted.contains_key(revision)
        })
    }

    /// Returns how many kinds are watched, or are about to be.
    pub(super) fn modes(&self) -> Vec<Mode> {
        let open = lock(&self.open);
        let states = open.values().map(|shared| lock(&shared.state));
        let watched = states.filter(|state| !state.refused);
        watched.map(|state| if state.listed { Mode::Shared } else { Mode::Starting }).collect()
    }

    fn start(&self, kind: &Kind) -> Shared {
        let api = Api::<Metadata>::all_with(self.client.clone(), &kind.resource);
        let state = Arc::<Mutex<State>>::default();
        let (following, wake) = (Arc::clone(&state), Arc::clone(&self.wake));
        let task = tokio::spawn(async move { keep(api, &following, &wake).await });
        Shared { state, _task: Task(task.abort_handle()) }
    }
}

impl State {
    fn want(&mut self, revision: &str, places: BTreeSet<Place>) {
        if self.wanted.get(revision) == Some(&places) {
            return;
        }
        for place in self.wanted.remove(revision).into_iter().flatten() {
            if let Some(interested) = self.interested.get_mut(&place) {
                interested.remove(revision);
                if interested.is_empty() {
                    self.interested.remove(&place);
                }
            }
        }
        for place in &places {
            self.interested.entry(place.clone()).or_default().insert(revision.to_owned());
        }
        if !places.is_empty() {
            self.wanted.insert(revision.to_owned(), places);
        }
    }

    /// Notes that the watch was refused. Returns whose accounts are to watch from now on.
    fn refuse(&mut self) -> Vec<String> {
        self.versions.clear();
        self.listed = false;
        if std::mem::replace(&mut self.refused, true) {
            return Vec::new();
        }
        self.wanted.keys().cloned().collect()
    }

    /// Returns the revisions that want to hear of an object.
    fn of(&self, place: &Place) -> impl Iterator<Item = String> {
        self.interested.get(place).into_iter().flatten().cloned()
    }

    /// Takes in one event of the watch. Returns who is to be woken.
    fn note(
        &mut self,
        event: Event<Metadata>,
        listing: &mut HashMap<Place, String>,
    ) -> Vec<String> {
        match event {
            Event::Init => listing.clear(),
            Event::InitApply(object) => {
                let (place, version) = known(object);
                listing.insert(place, version);
            }
            Event::InitDone => {
                self.refused = false;
                let before = std::mem::replace(&mut self.versions, std::mem::take(listing));
                if !std::mem::replace(&mut self.listed, true) {
                    // Whatever they have read may have changed before this.
                    return self.wanted.keys().cloned().collect();
                }
                let places = self.interested.keys();
                let changed =
                    places.filter(|place| before.get(*place) != self.versions.get(*place));
                return changed.flat_map(|place| self.of(place)).collect();
            }
            Event::Apply(object) => {
                let (place, version) = known(object);
                let told = self.of(&place).collect();
                self.versions.insert(place, version);
                return told;
            }
            Event::Delete(object) => {
                let (place, _) = known(object);
                self.versions.remove(&place);
                return self.of(&place).collect();
            }
        }
        Vec::new()
    }
}

/// Keeps a watch open; one that is refused is asked for again after a while.
async fn keep(api: Api<Metadata>, state: &Mutex<State>, wake: &Wake) {
    let mut pause = Pause::new();
    loop {
        let since = Instant::now();
        let error = follow(&api, state, wake).await;
        tracing::info!(error = %Sentence(&error), "managed objects are watched by the accounts of extensions");
        wake.all(lock(state).refuse());
        pause.wait(since).await;
    }
}

async fn follow(api: &Api<Metadata>, state: &Mutex<State>, wake: &Wake) -> watcher::Error {
    let managed = format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_OLM);
    let config = of_tenants().labels(&managed);
    let events = watcher(api.clone(), config).backoff(WatchDelays::default());
    let mut events = Box::pin(events);
    let mut listing = HashMap::new();
    loop {
        match events.next().await {
            Some(Ok(event)) => {
                let told = lock(state).note(event, &mut listing);
                wake.all(told);
            }
            Some(Err(error)) if is_refusal(&error) => return error,
            Some(Err(error)) => {
                tracing::debug!(error = %Sentence(&error), "watch of managed objects interrupted");
            }
            // A watch has no end.
            None => std::future::pending().await,
        }
    }
}

fn known(object: Metadata) -> (Place, String) {
    let metadata = object.metadata;
    let version = super::version(&metadata).unwrap_or_default();
    let place = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
    (place, version)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ApiResource;
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

    fn listed(state: &mut State, objects: &[(&str, &str)]) -> Vec<String> {
        let mut listing = HashMap::new();
        state.note(Event::Init, &mut listing);
        for (name, version) in objects {
            state.note(Event::InitApply(object(name, version)), &mut listing);
        }
        let mut told = state.note(Event::InitDone, &mut listing);
        told.sort();
        told.dedup();
        told
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
        let mut state = state();
        let mut nothing = HashMap::new();
        let told = state.note(Event::Apply(object(name, "2")), &mut nothing);
        assert_eq!(told, want);
        assert_eq!(state.versions[&place(name)], "2/");
        assert_eq!(state.note(Event::Delete(object(name, "3")), &mut nothing), want);
        assert!(state.versions.is_empty());
    }

    #[test]
    fn a_list_wakes_everybody_once_and_then_those_it_changes_something_for() {
        let mut state = state();
        let first = [("a", "1"), ("b", "1"), ("both", "1")];
        assert_eq!(listed(&mut state, &first), ["a-1", "b-1"]);
        assert!(listed(&mut state, &first).is_empty());
        assert_eq!(listed(&mut state, &[("b", "1"), ("both", "1")]), ["a-1"]);
        let changed = [("b", "2"), ("both", "1")];
        assert_eq!(listed(&mut state, &changed), ["b-1"]);
    }

    // decision 42: where the controller may not watch, accounts do, until it may again
    #[test]
    fn a_refusal_and_its_end_are_told_once() {
        let mut state = state();
        let all = ["a-1", "b-1"];
        listed(&mut state, &[("a", "1")]);
        assert_eq!(state.refuse(), all);
        assert!(state.refused && state.versions.is_empty());
        assert!(state.refuse().is_empty());
        assert_eq!(listed(&mut state, &[("a", "1")]), all);
        assert!(!state.refused);
    }

    // ours: annotations of tenants must not take all memory
    #[tokio::test]
    async fn objects_of_tenants_are_listed_a_few_at_a_time() {
        let client = answering(|request| {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.split('&').any(|it| it == "limit=50"), "{query}");
            refusal(403)
        });
        let api = Api::<Metadata>::all_with(client, &ApiResource::erase::<ConfigMap>(&()));
        assert!(is_refusal(&follow(&api, &Mutex::default(), &Wake::default()).await));
    }

    #[test]
    fn who_wants_nothing_is_forgotten() {
        let mut state = state();
        state.want("a-1", BTreeSet::new());
        assert_eq!(state.of(&place("both")).collect::<Vec<_>>(), ["b-1"]);
        state.want("b-1", [place("b")].into());
        assert!(state.interested.keys().eq([&place("b")]));
        assert_eq!(state.wanted.len(), 1);
    }
}
