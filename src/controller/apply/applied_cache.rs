//! A cache of the applied objects, so that a reconcile of a settled revision writes nothing, and
//! does not read objects that a watch reports as unchanged.

use std::collections::HashMap;

use kube::api::ObjectMeta;
use olm_core::go_json;
use olm_core::object::{Identity, Object};
use olm_core::revision::fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::by_key::ByKey;

/// Per revision and object, the state after the last successful apply and a hash of what was
/// wanted. Entries go when their revision goes, so the cache is bounded by what is managed.
#[derive(Default)]
pub struct AppliedCache {
    entries: ByKey<HashMap<Identity, Entry>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    live: String,
    content: [u8; 32],
    probed: Option<Probed>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Probed {
    /// The version ([`crate::cluster::version`]).
    version: String,
    /// The generation of the revision: its probes can be changed.
    generation: i64,
    /// Why it was not ready, if it was not.
    failing: Option<Unready>,
}

/// Why an object is not ready.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unready {
    pub why: String,
    /// Why it cannot progress, if it says so.
    pub stalled: Option<String>,
    /// What its status says: which pods are missing that nothing waits for, or why a condition is not met.
    pub told: Option<String>,
}

/// The objects of a revision, all of them applied and ready, each as it was then.
#[derive(Serialize, Deserialize)]
pub struct Record(Vec<(Identity, Entry)>);

impl Record {
    /// Returns the objects, each with the version in which it was ready.
    pub fn objects(&self) -> Vec<(&Identity, Option<&str>)> {
        let states = self.0.iter().map(|(object, entry)| {
            let probed = entry.probed.as_ref();
            (object, probed.map(|probed| &*probed.version))
        });
        states.collect()
    }
}

impl AppliedCache {
    /// Returns the objects of a revision if all of them, so many, were found ready by the probes of
    /// this generation.
    pub fn record_of(&self, (revision, generation): (&str, i64), count: usize) -> Option<Record> {
        let entries = self.entries.lock();
        let known = entries.get(revision)?;
        let ready = |entry: &Entry| {
            let probed = entry.probed.as_ref();
            probed.is_some_and(|it| it.generation == generation && it.failing.is_none())
        };
        let whole = known.len() == count && known.values().all(ready);
        let mut objects: Vec<_> =
            known.iter().map(|(it, entry)| (it.clone(), entry.clone())).collect();
        objects.sort_by(|one, other| one.0.cmp(&other.0));
        whole.then_some(Record(objects))
    }

    /// Takes over what an earlier process knew of a revision, if this one knows nothing of it yet.
    pub fn restore(&self, revision: &str, record: Record) {
        let mut entries = self.entries.lock();
        entries.entry(revision.to_owned()).or_insert_with(|| record.0.into_iter().collect());
    }

    /// Returns whether `live` is unchanged since `content` was applied.
    pub fn is_current(&self, revision: &str, content: &Object, live: &Object) -> bool {
        let known = self.known(revision, content);
        known.is_some_and(|known| {
            known.content == digest(content) && known.live == fingerprint(content, live)
        })
    }

    /// Returns why the object was not ready, or that it was, if `content` was applied and the object
    /// was probed in this resource version, by the probes of this generation of the revision.
    pub fn probed(
        &self,
        (revision, generation): (&str, i64),
        content: &Object,
        version: &str,
    ) -> Option<Option<Unready>> {
        let known = self.known(revision, content)?;
        let probed = known.probed?;
        let same = probed.version == version && probed.generation == generation;
        (same && known.content == digest(content)).then_some(probed.failing)
    }

    /// Returns what is known of an object. What it is compared with is computed after that, while
    /// others use the cache.
    fn known(&self, revision: &str, content: &Object) -> Option<Entry> {
        let object = content.identity();
        self.entries.lock().get(revision)?.get(&object).cloned()
    }

    /// Remembers whether an object that was applied is ready as it is in `live`.
    pub fn record_probed(
        &self,
        (revision, generation): (&str, i64),
        content: &Object,
        live: &Object,
        failing: Option<Unready>,
    ) {
        let probed = version(live).map(|version| Probed { version, generation, failing });
        let mut entries = self.entries.lock();
        let known = entries.get_mut(revision);
        if let Some(known) = known.and_then(|known| known.get_mut(&content.identity())) {
            known.probed = probed;
        }
    }

    pub fn knows(&self, revision: &str, content: &Object) -> bool {
        let entries = self.entries.lock();
        let known = entries.get(revision);
        known.is_some_and(|known| known.contains_key(&content.identity()))
    }

    /// Remembers that `content` was applied and left the object as `live`.
    pub fn record(&self, revision: &str, content: &Object, live: &Object) {
        let entry =
            Entry { live: fingerprint(content, live), content: digest(content), probed: None };
        let mut entries = self.entries.lock();
        entries.entry(revision.to_owned()).or_default().insert(content.identity(), entry);
    }

    /// Forgets everything about a revision, given by the UID of its ClusterObjectSet.
    pub fn forget(&self, revision: &str) {
        self.entries.put(revision, None);
    }
}

fn version(live: &Object) -> Option<String> {
    let text = |pointer: &str| Some(live.pointer(pointer)?.as_str()?.to_owned());
    crate::cluster::version(&ObjectMeta {
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        ..ObjectMeta::default()
    })
}

fn digest(content: &Object) -> [u8; 32] {
    let mut text = String::new();
    go_json::push_object(&mut text, &content.0);
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(version: &str, value: &str) -> Object {
        let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": version});
        let content = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"k": value}});
        Object::from_value(content).unwrap()
    }

    fn unready(why: &str) -> Unready {
        Unready { why: why.to_owned(), stalled: None, told: None }
    }

    // ours: only what is ready as a whole is written down, and comes back as it was
    #[test]
    fn a_record_is_of_all_objects_and_of_one_generation() {
        let (cache, content) = (AppliedCache::default(), object("", "v"));
        cache.record("uid", &content, &object("5", "v"));
        assert!(cache.record_of(("uid", 1), 1).is_none(), "not probed yet");
        cache.record_probed(("uid", 1), &content, &object("5", "v"), None);
        assert!(cache.record_of(("uid", 1), 2).is_none(), "one is missing");
        assert!(cache.record_of(("uid", 2), 1).is_none(), "other probes");
        let record = cache.record_of(("uid", 1), 1).unwrap();
        let bytes = serde_json::to_vec(&record).unwrap();
        let record: Record = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(record.objects(), [(&content.identity(), Some("5/"))]);
        let later = AppliedCache::default();
        later.restore("uid", record);
        assert_eq!(later.probed(("uid", 1), &content, "5/"), Some(None));
        assert!(later.is_current("uid", &content, &object("5", "v")));
        cache.record_probed(("uid", 1), &content, &object("6", "v"), Some(unready("no")));
        assert!(cache.record_of(("uid", 1), 1).is_none(), "not ready");
    }

    // ours: what is not read again was applied as it is wanted, and probed by the same probes.
    #[rstest]
    #[case::ready(None)]
    #[case::not_ready(Some(unready("0 of 1 replicas are available")))]
    fn an_object_was_probed_in_one_version_for_one_generation_and_content(
        #[case] failing: Option<Unready>,
    ) {
        let (cache, content) = (AppliedCache::default(), object("", "v"));
        let probe =
            || cache.record_probed(("uid", 1), &content, &object("5", "v"), failing.clone());
        let known =
            |generation, content, version| cache.probed(("uid", generation), content, version);
        probe();
        assert_eq!(known(1, &content, "5/"), None, "never applied");
        cache.record("uid", &content, &object("5", "v"));
        assert_eq!(known(1, &content, "5/"), None, "not probed yet");
        probe();
        assert_eq!(known(1, &content, "5/"), Some(failing.clone()));
        assert_eq!(known(1, &content, "6/"), None);
        assert_eq!(known(2, &content, "5/"), None);
        let other = object("", "w");
        assert_eq!(known(1, &other, "5/"), None);
        cache.forget("uid");
        assert_eq!(known(1, &content, "5/"), None);
    }
}
