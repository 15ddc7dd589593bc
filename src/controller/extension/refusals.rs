//! Which extensions wait for something since their revision was refused before it was written.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::channel::mpsc;
use olm_core::extension::holds::Awaited;

/// What extensions wait for, by name.
pub struct Refusals {
    waiting: Mutex<BTreeMap<String, Awaited>>,
    wake: mpsc::UnboundedSender<String>,
}

impl Refusals {
    /// Nobody waits. The receiver names the extensions to be looked at again.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (wake, woken) = mpsc::unbounded();
        let waiting = Mutex::default();
        (Self { waiting, wake }, woken)
    }

    /// Notes what an extension waits for; nothing, if it was not refused.
    pub(super) fn note(&self, extension: &str, awaits: Option<Awaited>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match awaits {
            Some(awaits) => drop(waiting.insert(extension.to_owned(), awaits)),
            None => drop(waiting.remove(extension)),
        }
    }

    /// Wakes the extensions that wait for what has changed.
    pub(super) fn changed(&self, what: Awaited) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, _) in waiting.iter().filter(|(_, awaited)| **awaited == what) {
            // Nobody listens only while the process ends.
            drop(self.wake.unbounded_send(name.clone()));
        }
    }
}
