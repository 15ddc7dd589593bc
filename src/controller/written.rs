//! The status that this process wrote last to each object.
//!
//! A reconcile works on a copy that a watch brought, and that may be older than the last write: a
//! failure that was reported a moment ago is not in it. A status that equals that of the copy would
//! then not be written, and the failure would stay.
//!
//! Of the statuses that a watch brings, it tells what somebody else wrote from what was written here.

use std::hash::{DefaultHasher, Hasher as _};

use serde::Serialize;

use crate::by_key::ByKey;

/// How many of the statuses written last a watch may still bring.
const OWN: usize = 4;

/// The statuses of objects, by UID.
#[derive(Debug, Default)]
pub struct Written(ByKey<Statuses>);

/// The statuses of an object, as hashes.
#[derive(Debug, Default)]
struct Statuses {
    /// What was written last.
    last: Option<u64>,
    /// Whether a write was not answered.
    unanswered: bool,
    /// What a watch brought last.
    seen: Option<u64>,
    /// What was sent and answered.
    own: Vec<u64>,
    /// How often somebody else has changed it.
    foreign: u64,
}

impl Written {
    /// Returns whether `status`, which equals that of the cached copy, is the one on the cluster,
    /// as far as this process knows.
    pub fn is_current(&self, uid: &str, status: &impl Serialize) -> bool {
        let all = self.0.lock();
        all.get(uid)
            .is_none_or(|of| !of.unanswered && of.last.is_none_or(|last| last == hash(status)))
    }

    /// Notes that a write of `status` begins.
    pub fn begin(&self, uid: &str, status: &impl Serialize) {
        self.note(uid, hash(status), true);
    }

    /// Notes what the API server has answered to a write.
    pub fn end(&self, uid: &str, status: &impl Serialize) {
        self.note(uid, hash(status), false);
    }

    fn note(&self, uid: &str, status: u64, unanswered: bool) {
        let mut all = self.0.lock();
        let of = all.entry(uid.to_owned()).or_default();
        (of.last, of.unanswered) = (Some(status), unanswered);
        if !of.own.contains(&status) {
            of.own.push(status);
            let most = of.own.len().saturating_sub(OWN);
            of.own.drain(..most);
        }
    }

    /// Takes the status that a watch has brought, and returns how often one came that this process
    /// did not write.
    pub fn foreign(&self, uid: &str, status: &impl Serialize) -> u64 {
        let status = hash(status);
        let mut all = self.0.lock();
        let of = all.entry(uid.to_owned()).or_default();
        let before = of.seen.replace(status);
        if before.is_some_and(|before| before != status) && !of.own.contains(&status) {
            of.foreign += 1;
        }
        of.foreign
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
        written.begin("u", &"failed");
        assert!(!written.is_current("u", &"good"), "nobody knows");
        written.end("u", &"failed");
        assert!(!written.is_current("u", &"good"));
        assert!(written.is_current("u", &"failed"));
        assert!(written.is_current("v", &"good"), "another object");
        written.forget("u");
        assert!(written.is_current("u", &"good"));
    }
    // ours: one write, one reconcile; what somebody edited or wiped is put right
    #[test]
    fn only_a_status_that_somebody_else_wrote_counts() {
        let written = Written::default();
        let brought = |status: &str| written.foreign("u", &status);
        assert_eq!(brought("before this process began"), 0);
        // The watch may be faster than the answer, or two writes late.
        written.begin("u", &"one");
        assert_eq!(brought("one"), 0);
        written.end("u", &"one, as answered");
        written.begin("u", &"two");
        written.end("u", &"two");
        assert_eq!(["one, as answered", "two", "two"].map(brought), [0, 0, 0]);
        assert_eq!(["edited", "edited", "two", "edited"].map(brought), [1, 1, 1, 2]);
        written.forget("u");
        assert_eq!(brought("two"), 0);
    }
}
