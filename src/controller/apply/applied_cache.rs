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
    /// The resource version in which the object was ready.
    ready: Option<String>,
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

    /// Says whether `content` was applied and the object is ready in this resource version.
    pub fn is_ready(&self, revision: &str, content: &Object, version: &str) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .get(revision)
            .and_then(|known| known.get(&content.identity()));
        known.is_some_and(|known| {
            known.ready.as_deref() == Some(version) && known.content == digest(content)
        })
    }

    /// Remembers that an object that was applied is ready as it is in `live`.
    pub fn record_ready(&self, revision: &str, content: &Object, live: &Object) {
        let version = live.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str).map(str::to_owned);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get_mut(revision);
        if let Some(known) = known.and_then(|known| known.get_mut(&content.identity())) {
            known.ready = version;
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
