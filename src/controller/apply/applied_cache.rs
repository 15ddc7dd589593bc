//! What was applied last, so that a pass over a settled revision writes nothing, and reads nothing that
//! a watch knows to be unchanged.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use olm_core::go_json;
use olm_core::object::{Identity, Object};
use olm_core::revision::fingerprint;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Per revision and object, the state after the last successful apply and a hash of what was
/// wanted. Entries go when their revision goes, so the cache is bounded by what is managed.
#[derive(Default)]
pub struct AppliedCache {
    entries: Mutex<HashMap<String, HashMap<Identity, Entry>>>,
}

struct Entry {
    live: String,
    content: [u8; 32],
    /// The resource version in which the object was ready, for a generation of its revision: the
    /// probes can be changed.
    ready: Option<(String, i64)>,
}

impl AppliedCache {
    /// Says whether `live` is as it was left after `content` was applied.
    pub fn is_current(&self, revision: &str, content: &Object, live: &Object) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .get(revision)
            .and_then(|known| known.get(&content.identity()));
        known.is_some_and(|known| {
            known.content == digest(content) && known.live == fingerprint(live)
        })
    }

    /// Says whether `content` was applied and the object was ready in this resource version, by the
    /// probes of this generation of the revision.
    pub fn is_ready(
        &self,
        (revision, generation): (&str, i64),
        content: &Object,
        version: &str,
    ) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .get(revision)
            .and_then(|known| known.get(&content.identity()));
        let ready = (version.to_owned(), generation);
        known.is_some_and(|known| {
            known.ready.as_ref() == Some(&ready) && known.content == digest(content)
        })
    }

    /// Remembers that an object that was applied is ready as it is in `live`.
    pub fn record_ready(
        &self,
        (revision, generation): (&str, i64),
        content: &Object,
        live: &Object,
    ) {
        let version = live.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str);
        let ready = version.map(|version| (version.to_owned(), generation));
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get_mut(revision);
        if let Some(known) = known.and_then(|known| known.get_mut(&content.identity())) {
            known.ready = ready;
        }
    }

    /// Says whether the object of `content` was applied.
    pub fn knows(&self, revision: &str, content: &Object) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(revision);
        known.is_some_and(|known| known.contains_key(&content.identity()))
    }

    /// Remembers that `content` was applied and left the object as `live`.
    pub fn record(&self, revision: &str, content: &Object, live: &Object) {
        let entry = Entry {
            live: fingerprint(live),
            content: digest(content),
            ready: None,
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.entry(revision.to_owned()).or_default();
        known.insert(content.identity(), entry);
    }

    /// Forgets everything about a revision, given by the UID of its ClusterObjectSet.
    pub fn forget(&self, revision: &str) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(revision);
    }
}

fn digest(content: &Object) -> [u8; 32] {
    Sha256::digest(go_json::to_string(&Value::Object(content.0.clone()))).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str, value: &str) -> Object {
        let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": version});
        let content = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"k": value}});
        Object::from_value(content).unwrap()
    }

    // ours: what is not read again was applied as it is wanted, and ready by the same probes.
    #[test]
    fn an_object_is_ready_in_one_version_for_one_generation_and_content() {
        let (cache, content) = (AppliedCache::default(), object("", "v"));
        cache.record_ready(("uid", 1), &content, &object("5", "v"));
        assert!(!cache.is_ready(("uid", 1), &content, "5"), "never applied");
        cache.record("uid", &content, &object("5", "v"));
        assert!(!cache.is_ready(("uid", 1), &content, "5"), "not ready yet");
        cache.record_ready(("uid", 1), &content, &object("5", "v"));
        assert!(cache.is_ready(("uid", 1), &content, "5"));
        assert!(!cache.is_ready(("uid", 1), &content, "6"));
        assert!(!cache.is_ready(("uid", 2), &content, "5"));
        assert!(!cache.is_ready(("uid", 1), &object("", "w"), "5"));
        cache.forget("uid");
        assert!(!cache.is_ready(("uid", 1), &content, "5"));
    }
}
