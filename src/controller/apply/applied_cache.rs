//! What was applied last, so that a pass over a settled revision writes nothing.

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

#[derive(PartialEq, Eq)]
struct Entry {
    live: String,
    content: [u8; 32],
}

impl AppliedCache {
    /// Says whether `live` is as it was left after `content` was applied.
    pub fn is_current(&self, revision: &str, content: &Object, live: &Object) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries
            .get(revision)
            .and_then(|known| known.get(&content.identity()));
        known.is_some_and(|known| *known == entry(content, live))
    }

    /// Remembers that `content` was applied and left the object as `live`.
    pub fn record(&self, revision: &str, content: &Object, live: &Object) {
        let entry = entry(content, live);
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

fn entry(content: &Object, live: &Object) -> Entry {
    let text = go_json::to_string(&Value::Object(content.0.clone()));
    Entry {
        live: fingerprint(live),
        content: Sha256::digest(text).into(),
    }
}
