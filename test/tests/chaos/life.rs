//! What must hold for an extension at all times, whatever happens; the comparison at the end of a
//! stage does not check this.
//!
//! - After the first success `Installed` is True with a version, until the uninstall begins; it
//!   may be Unknown, upstream's word for a moment in which the revisions could not be read.
//! - Every object that a user made lives on, with its UID, and so does its CRD: until an uninstall whose
//!   policy lets it go.
//! - In an uninstall those objects are removed before the operator that processes their finalizers.
//! - Content of a catalog that is held is not served.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use olm_test::prelude::*;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::user::INSTANCE;

/// Delay before a broken watch is started again.
const AGAIN: Duration = Duration::from_millis(200);

type Crd = PartialObjectMeta<CustomResourceDefinition>;

/// The stage of an extension's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Age {
    /// No object of it exists.
    #[default]
    Absent,
    /// It is being installed.
    Expected,
    /// It has been installed at least once.
    Installed,
    /// It is being uninstalled.
    Leaving,
    /// It is being deleted and everything it installed is to stay.
    Released,
}

/// What was observed about one extension.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) age: Age,
    /// UID of the object that a user made, by CRD.
    objects: BTreeMap<String, String>,
    /// CRDs that the uninstall removes with their objects.
    removed: BTreeSet<String>,
    /// Whether the order of an uninstall no longer counts.
    pub(crate) unordered: bool,
    /// Each value of `Installed` and the version, in order.
    installed: Vec<String>,
}

/// What is known about a user's object.
#[derive(Debug)]
pub(crate) struct Known {
    /// The age of its extension.
    pub(crate) age: Age,
    /// Its UID, once it is made.
    pub(crate) uid: Option<String>,
    /// Whether it is there and must stay.
    pub(crate) stays: bool,
    /// Whether the order of an uninstall no longer counts.
    pub(crate) unordered: bool,
}

impl Record {
    /// Records the status; returns what is wrong with it.
    pub(crate) fn says(
        &mut self,
        installed: Option<&str>,
        version: Option<&str>,
    ) -> Option<String> {
        let holds = installed == Some("True") && version.is_some();
        if self.age == Age::Expected && holds {
            self.age = Age::Installed;
        }
        let text =
            format!("{} {}", installed.unwrap_or("absent"), version.unwrap_or("without version"));
        let unread = installed == Some("Unknown");
        let wrong = self.age == Age::Installed && !holds && !unread;
        let wrong = wrong.then(|| {
            let before = self.installed.last().map_or("nothing", String::as_str);
            format!("Installed is {text} after {before}")
        });
        if self.installed.last() != Some(&text) {
            self.installed.push(text);
        }
        wrong
    }

    /// Says whether there is an object of a CRD that must stay, and with it the CRD.
    fn keeps(&self, crd: &str) -> bool {
        let may_go = match self.age {
            Age::Absent => true,
            Age::Leaving => self.removed.contains(crd),
            Age::Expected | Age::Installed | Age::Released => false,
        };
        self.objects.contains_key(crd) && !may_go
    }
}

/// Everything that was observed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub(crate) all: BTreeMap<String, Record>,
    wrong: Vec<String>,
    verdict: Verdict,
}

/// Counts what was compared and what was wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Verdict {
    /// Number of users' objects whose life was followed.
    pub(crate) followed: u64,
    /// Number of those that were lost.
    pub(crate) lost: u64,
    /// Number of times that `Installed` was not True after the first success.
    pub(crate) not_installed: u64,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: Self) {
        self.followed += other.followed;
        self.lost += other.lost;
        self.not_installed += other.not_installed;
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { followed, lost, not_installed } = self;
        write!(
            f,
            "{followed} objects of users followed by UID, {lost} lost, Installed not True after a \
             success {not_installed} times"
        )
    }
}

/// What is watched.
pub(crate) struct Watched {
    /// The extension of each CRD.
    pub(crate) crds: BTreeMap<String, String>,
    /// A catalog whose newer content is held, and the digest of what it serves.
    pub(crate) held: (String, String),
}

/// Observes all extensions of a world, as the administrator, without the proxy.
#[derive(Clone)]
pub(crate) struct Life {
    records: Arc<Mutex<Records>>,
    watched: Arc<Watched>,
    watches: Arc<Mutex<Vec<JoinHandle<()>>>>,
    client: kube::Client,
    since: Instant,
}

impl Life {
    /// Starts to observe; it ends with the test.
    pub(crate) fn observe(client: &kube::Client, watched: Watched) -> Self {
        let life = Self {
            records: Arc::default(),
            watched: Arc::new(watched),
            watches: Arc::default(),
            client: client.clone(),
            since: Instant::now(),
        };
        for name in life.watched.crds.values() {
            life.lock().all.insert(name.clone(), Record::default());
        }
        life.watch();
        life
    }

    /// Starts all watches, in the place of those that were started before.
    fn watch(&self) {
        let client = &self.client;
        let (extensions, crds, catalogs) = (self.clone(), self.clone(), self.clone());
        let started = [
            tokio::spawn(follow(
                Api::<ClusterExtension>::all(client.clone()),
                move |found, gone| {
                    extensions.look_at_extension(found, gone);
                },
            )),
            tokio::spawn(follow(Api::<Crd>::all(client.clone()), move |found, gone| {
                crds.look_at_crd(found, gone);
            })),
            tokio::spawn(follow(Api::<ClusterCatalog>::all(client.clone()), move |found, _| {
                catalogs.look_at_catalog(found);
            })),
        ];
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        for before in std::mem::replace(&mut *watches, started.into()) {
            before.abort();
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all that was observed so far, to go back to.
    pub(crate) fn observed(&self) -> Records {
        self.lock().clone()
    }

    /// Goes back with the cluster to what was observed before, and watches it anew: a watch hears
    /// nothing until the cluster has caught up with what the watch knew.
    pub(crate) fn go_back(&self, before: Records) {
        *self.lock() = before;
        self.watch();
    }

    /// Records that `name` is at this stage of its life from now on.
    pub(crate) fn enters(&self, name: &str, age: Age) {
        let mut records = self.lock();
        let record = records.all.entry(name.to_owned()).or_default();
        record.age = age;
        if age == Age::Absent {
            *record = Record::default();
        }
    }

    /// Records that `name` is being uninstalled, these CRDs with their objects included.
    pub(crate) fn leaves(&self, name: &str, removed: BTreeSet<String>) {
        let mut records = self.lock();
        let record = records.all.entry(name.to_owned()).or_default();
        (record.age, record.removed) = (Age::Leaving, removed);
    }

    /// Records that operators may go before the objects whose finalizers they process.
    pub(crate) fn lets_operators_go(&self, name: &str) {
        if let Some(record) = self.lock().all.get_mut(name) {
            record.unordered = true;
        }
    }

    /// Returns what is known about the user's object of a CRD.
    pub(crate) fn known(&self, name: &str, crd: &str) -> Known {
        let records = self.lock();
        let record = &records.all[name];
        Known {
            age: record.age,
            uid: record.objects.get(crd).cloned(),
            stays: record.keeps(crd),
            unordered: record.unordered,
        }
    }

    /// Returns how many objects users have of the CRDs of an extension.
    pub(crate) fn objects(&self, name: &str) -> usize {
        self.lock().all.get(name).map_or(0, |record| record.objects.len())
    }

    /// Records the UID of an object that a user has made.
    pub(crate) fn made(&self, name: &str, crd: &str, uid: String) {
        let mut records = self.lock();
        records.verdict.followed += 1;
        if let Some(record) = records.all.get_mut(name) {
            record.objects.insert(crd.to_owned(), uid);
        }
    }

    /// Records that something happened to `name` that must never happen.
    fn wrong(&self, name: &str, what: &str) {
        self.note(&mut self.lock(), name, what);
    }

    /// Records what happened to the object of `name` that was `known`, unless the extension is at
    /// another stage of its life meanwhile. Once: everything after it is a consequence.
    pub(crate) fn lost(&self, name: &str, crd: &str, known: &Known, what: &str) {
        let mut records = self.lock();
        let record = records.all.get_mut(name).filter(|record| record.age == known.age);
        if let Some(record) = record
            && let Some(uid) = record.objects.remove(crd)
        {
            record.unordered = true;
            records.verdict.lost += 1;
            self.note(&mut records, name, &format!("{crd} {INSTANCE}, UID {uid}, {what}"));
        }
    }

    fn note(&self, records: &mut Records, name: &str, what: &str) {
        let line = format!("{name} ({:.1?}): {what}", self.since.elapsed());
        println!("LIFE: {line}");
        records.wrong.push(line);
    }

    /// Returns everything recorded that must never happen, and clears it.
    pub(crate) fn take_wrongs(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().wrong)
    }

    /// Counts what was compared and what was wrong so far.
    pub(crate) fn verdict(&self) -> Verdict {
        self.lock().verdict
    }

    fn look_at_extension(&self, extension: &ClusterExtension, gone: bool) {
        let name = extension.name_any();
        let installed = condition(extension, "Installed").map(|found| found.status.as_str());
        let mut records = self.lock();
        let Some(record) = records.all.get_mut(&name) else { return };
        let wrong = if gone {
            (record.age == Age::Installed).then(|| "it is gone".to_owned())
        } else {
            record.says(installed, installed_version(extension))
        };
        if let Some(wrong) = wrong {
            records.verdict.not_installed += 1;
            self.note(&mut records, &name, &wrong);
        }
    }

    fn look_at_crd(&self, crd: &Crd, gone: bool) {
        let going = gone || crd.metadata.deletion_timestamp.is_some();
        let crd = crd.name_any();
        let Some(name) = self.watched.crds.get(&crd).filter(|_| going) else { return };
        let keeps = self.lock().all.get(name).is_some_and(|record| record.keeps(&crd));
        if keeps {
            self.wrong(name, &format!("its CRD {crd} is deleted"));
        }
    }

    fn look_at_catalog(&self, catalog: &ClusterCatalog) {
        let (name, digest) = &self.watched.held;
        if catalog.name_any() != *name {
            return;
        }
        let status = serde_json::to_value(&catalog.status).unwrap_or_default();
        let served = status.pointer("/resolvedSource/image/ref").and_then(Value::as_str);
        if let Some(other) = served.filter(|served| !served.ends_with(digest.as_str())) {
            self.wrong(name, &format!("it serves {other} instead of {digest}"));
        }
    }
}

/// Calls `seen` with each object that is there or changes, and with whether it is gone.
async fn follow<K>(api: Api<K>, mut seen: impl FnMut(&K, bool) + Send)
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => seen(&object, false),
            Ok(Event::Delete(object)) => seen(&object, true),
            Ok(Event::Init | Event::InitDone) => {}
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_may_not_go_back_after_the_first_success() {
        let mut record = Record { age: Age::Expected, ..Record::default() };
        assert_eq!(record.says(None, None), None);
        assert_eq!(record.says(Some("False"), None), None);
        assert_eq!(record.says(Some("True"), Some("1.0.0")), None);
        assert_eq!(record.says(Some("Unknown"), None), None);
        assert_eq!(record.says(Some("True"), Some("1.1.0")), None);
        let wrong = record.says(Some("False"), None);
        assert_eq!(wrong.as_deref(), Some("Installed is False without version after True 1.1.0"));
        assert!(record.says(None, Some("1.1.0")).is_some());
        assert!(record.says(Some("True"), None).is_some());
        record.age = Age::Leaving;
        assert_eq!(record.says(Some("False"), None), None);
    }

    #[test]
    fn an_object_may_go_only_with_a_crd_that_the_uninstall_removes() {
        let objects = ["kept", "removed"].map(|crd| (crd.to_owned(), "uid".to_owned()));
        let mut record = Record {
            objects: objects.into(),
            removed: ["removed".to_owned()].into(),
            ..Record::default()
        };
        let cases = [
            (Age::Absent, [false, false, false]),
            (Age::Expected, [true, true, false]),
            (Age::Installed, [true, true, false]),
            (Age::Leaving, [true, false, false]),
            (Age::Released, [true, true, false]),
        ];
        for (age, expected) in cases {
            record.age = age;
            let kept = ["kept", "removed", "never made"].map(|crd| record.keeps(crd));
            assert_eq!(kept, expected, "{age:?}");
        }
    }
}
