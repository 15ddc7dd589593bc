//! Which extensions wait for something since their revision was refused before it was written.

use futures::channel::mpsc;
use olm_core::extension::holds::Awaited;

use crate::by_key::ByKey;

/// The awaited changes of extensions, by name.
pub(super) struct Refusals {
    waiting: ByKey<Awaited>,
    wake: mpsc::UnboundedSender<String>,
}

impl Refusals {
    /// Nobody waits. The receiver names the extensions to be looked at again.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (wake, woken) = mpsc::unbounded();
        (Self { waiting: ByKey::default(), wake }, woken)
    }

    /// Notes what an extension waits for; nothing, if it was not refused.
    pub(super) fn note(&self, extension: &str, awaits: Option<Awaited>) {
        self.waiting.put(extension, awaits);
    }

    /// Wakes the extensions that wait for what has changed.
    pub(super) fn changed(&self, what: Awaited) {
        for (name, _) in self.waiting.lock().iter().filter(|(_, awaited)| **awaited == what) {
            // Nobody listens only while the process ends.
            drop(self.wake.unbounded_send(name.clone()));
        }
    }
}
