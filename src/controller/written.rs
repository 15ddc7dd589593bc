//! What this process wrote last into the status of each object.
//!
//! A reconcile works on a copy that a watch brought, and that may be older than the last write: a
//! failure that was reported a moment ago is not in it. A status that equals that of the copy would
//! then not be written, and the failure would stay.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// A hash of the status written last, by UID; `None` while the answer to a write is not known.
#[derive(Debug, Default)]
pub struct Written(Mutex<HashMap<String, Option<u64>>>);

impl Written {
    /// Says whether `status`, which equals that of the copy, is what stands on the cluster as far
    /// as this process can know.
    pub fn is_current(&self, uid: &str, status: &impl Serialize) -> bool {
        let last = self.locked().get(uid).copied();
        last.is_none_or(|last| last == Some(hash(status)))
    }

    /// Notes that a write begins.
    pub fn begin(&self, uid: &str) {
        self.locked().insert(uid.to_owned(), None);
    }

    /// Notes what the API server has answered to a write.
    pub fn end(&self, uid: &str, status: &impl Serialize) {
        self.locked().insert(uid.to_owned(), Some(hash(status)));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.locked().remove(uid);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(status: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What cannot be written as JSON was not sent either.
    hasher.write(&serde_json::to_vec(status).unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_older_than_the_last_write_is_not_trusted() {
        let written = Written::default();
        assert!(written.is_current("u", &"good"), "nothing was written");
        written.begin("u");
        assert!(!written.is_current("u", &"good"), "nobody knows");
        written.end("u", &"failed");
        assert!(!written.is_current("u", &"good"));
        assert!(written.is_current("u", &"failed"));
        assert!(written.is_current("v", &"good"), "another object");
        written.forget("u");
        assert!(written.is_current("u", &"good"));
    }
}
