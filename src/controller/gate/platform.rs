//! The exchange between the gate and the extensions: the release of the platform, and changes of
//! the way to release an extension's hold.

use std::sync::Arc;

use futures::stream::{self, Stream};
use olm_core::gate::MinorRelease;
use tokio::sync::{Notify, watch};

/// The release of the platform, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Release {
    /// It is not read yet, or cannot be read.
    #[default]
    Unread,
    /// Nobody says that there is one.
    Absent,
    /// It is this one.
    At(MinorRelease),
}

/// The shared state of both sides; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Platform {
    release: Arc<watch::Sender<Release>>,
    /// Told when the condition of an extension is another, or an extension is gone.
    pub ways_out: Arc<Notify>,
    /// Told when the proxies of the cluster count.
    pub proxies: Arc<Notify>,
}

impl Platform {
    pub fn release(&self) -> Release {
        *self.release.borrow()
    }

    /// Notes the release.
    pub(super) fn set(&self, release: Release) {
        self.release.send_if_modified(|known| {
            let changed = *known != release;
            *known = release;
            changed
        });
    }

    /// Signals that extensions must be reconciled, because the release has changed.
    pub fn changes(&self) -> impl Stream<Item = ()> + use<> {
        stream::unfold(self.release.subscribe(), |mut release| async {
            loop {
                // The sender lives as long as the process.
                release.changed().await.ok()?;
                if matches!(*release.borrow_and_update(), Release::At(_)) {
                    return Some(((), release));
                }
            }
        })
    }
}
