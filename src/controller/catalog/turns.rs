//! Turns of pulls: an unpacked catalog is in memory until it is on disk, so that few are pulled at the
//! same time; and one registry that hangs or trickles leaves a turn to the others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::by_key::ByKey;

/// Catalogs that are pulled at the same time.
const ALL: usize = 4;
/// The same from one registry.
const OF_ONE: usize = 3;

#[derive(Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    by_registry: ByKey<Arc<Semaphore>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), by_registry: ByKey::default() }
    }
}

impl Turns {
    /// Waits for a turn to pull from a registry; what is returned is held for as long as that takes.
    pub(super) async fn next(&self, registry: &str) -> [Option<OwnedSemaphorePermit>; 2] {
        let own = {
            let mut known = self.by_registry.lock();
            known.retain(|_, turns| Arc::strong_count(turns) > 1);
            let new = || Arc::new(Semaphore::new(OF_ONE));
            Arc::clone(known.entry(registry.to_owned()).or_insert_with(new))
        };
        // They fail when a semaphore is closed, which nobody does.
        let own = own.acquire_owned().await.ok();
        [own, Arc::clone(&self.all).acquire_owned().await.ok()]
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_registry_that_hangs_leaves_a_turn_to_others() {
        let turns = Turns::default();
        let next = |registry| turns.next(registry).now_or_never();
        let hanging: Vec<_> = (0..OF_ONE).map(|_| next("a").expect("a turn")).collect();
        assert!(next("a").is_none());
        let other = next("b").expect("a turn");
        assert!(next("b").is_none(), "there are {ALL} in all");
        drop((hanging, other));
        let again: Vec<_> = ["a", "b", "c", "d"].map(next).into_iter().flatten().collect();
        assert_eq!(again.len(), ALL);
        drop(again);
        assert!(next("e").is_some());
        assert_eq!(turns.by_registry.keys(), ["e"], "who pulls nothing is forgotten");
    }
}
