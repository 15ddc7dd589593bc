//! The status that this process wrote last to each object.
//!
//! A reconcile works on a copy that a watch brought, and that may be older than the last write: a
//! failure that was reported a moment ago is not in it. A status that equals that of the copy would
//! then not be written, and the failure would stay.

use std::hash::{DefaultHasher, Hasher as _};

use serde::Serialize;

use crate::by_key::ByKey;

/// A hash of the status written last, by UID; `None` while the answer to a write is not known.
#[derive(Debug, Default)]
pub struct Written(ByKey<Option<u64>>);

impl Written {
    /// Returns whether `status`, which equals that of the cached copy, is the one on the cluster,
    /// as far as this process knows.
    pub fn is_current(&self, uid: &str, status: &impl Serialize) -> bool {
        let last = self.0.get(uid);
        last.is_none_or(|last| last == Some(hash(status)))
    }

    /// Notes that a write begins.
    pub fn begin(&self, uid: &str) {
        self.0.put(uid, Some(None));
    }

    /// Notes what the API server has answered to a write.
    pub fn end(&self, uid: &str, status: &impl Serialize) {
        self.0.put(uid, Some(Some(hash(status))));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.0.put(uid, None);
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
