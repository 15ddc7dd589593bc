//! What the gate and the extensions tell each other: the release of the platform, and that what lifts
//! the hold of an extension is another.

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

/// What both sides hold. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Platform {
    release: Arc<watch::Sender<Release>>,
    ways_out: Arc<Notify>,
    proxies: Arc<Notify>,
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

    /// Says whenever extensions are to be looked at again, because the release is another.
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

    /// Tells the gate that the condition of an extension is another.
    pub fn way_out_changed(&self) {
        self.ways_out.notify_one();
    }

    /// Notes that the proxies of the cluster count.
    pub fn count_proxies(&self) {
        self.proxies.notify_one();
    }

    /// Waits until they do.
    pub async fn proxies_count(&self) {
        self.proxies.notified().await;
    }

    /// Says whenever that was told.
    pub(super) fn ways_out(&self) -> impl Stream<Item = ()> + use<> {
        stream::unfold(Arc::clone(&self.ways_out), |told| async {
            told.notified().await;
            Some(((), told))
        })
    }
}
