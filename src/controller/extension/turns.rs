//! Turns at reading a bundle: those in memory together are never more than one of the largest.
//!
//! What is read and rendered takes dozens of times the bytes of its text, so the limit of one
//! bundle bounds nothing while several are read. A turn is held until what was rendered is written.

use std::sync::Arc;

use olm_core::bundle::MAX_MANIFESTS_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that turns are counted in: 1 MiB. Nearly every bundle takes one unit.
const UNIT_BYTES: usize = 1 << 20;
/// Units of all turns together: one of the largest bundles, or sixteen small ones.
const UNITS: usize = MAX_MANIFESTS_BYTES / UNIT_BYTES;

/// Limits the number of extensions that read bundles at the same time.
#[derive(Debug)]
pub struct Turns(Arc<Semaphore>);

/// A turn, until it is dropped. Who has one must not wait for another.
pub(super) type Turn = Option<OwnedSemaphorePermit>;

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNITS)))
    }
}

impl Turns {
    /// Waits until a bundle whose files have so many bytes may be read.
    pub(super) async fn wait(&self, bytes: u64) -> Turn {
        let units = usize::try_from(bytes).map_or(UNITS, |bytes| bytes.div_ceil(UNIT_BYTES));
        let units = u32::try_from(units.clamp(1, UNITS)).unwrap_or(1);
        // It fails when the semaphore is closed, which nobody does.
        Arc::clone(&self.0).acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn small_bundles_are_read_side_by_side_and_the_largest_alone() {
        let turns = Turns::default();
        let small: Vec<_> = (0..UNITS).map(|_| turns.wait(1000).now_or_never().unwrap()).collect();
        assert!(turns.wait(0).now_or_never().is_none());
        drop(small);
        // More than there are units would wait for ever.
        let largest = turns.wait(u64::MAX).now_or_never().unwrap();
        assert!(turns.wait(1).now_or_never().is_none());
        drop(largest);
        assert!(turns.wait(1).now_or_never().is_some());
    }
}
