//! Turns at registries: what is pulled is in memory or in temporary files until it is on disk, so
//! that few pulls go on at the same time; and one registry that hangs or trickles leaves turns to the
//! others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::by_key::ByKey;

/// Turns to pull, some at a time from all registries together and from each of them.
#[derive(Debug)]
pub struct RegistryTurns {
    all: Arc<Semaphore>,
    of_one: usize,
    by_registry: ByKey<Arc<Semaphore>>,
}

impl RegistryTurns {
    pub fn new(all: usize, of_one: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), of_one, by_registry: ByKey::default() }
    }

    /// Waits for a turn to pull from a registry; what is returned is held for as long as that takes.
    /// What waits for its registry takes no turn of the others.
    pub fn next(
        &self,
        registry: &str,
    ) -> impl Future<Output = [Option<OwnedSemaphorePermit>; 2]> + Send + use<> {
        let mut known = self.by_registry.lock();
        known.retain(|_, turns| Arc::strong_count(turns) > 1);
        let new = || Arc::new(Semaphore::new(self.of_one));
        let own = Arc::clone(known.entry(registry.to_owned()).or_insert_with(new));
        let all = Arc::clone(&self.all);
        // They fail when a semaphore is closed, which nobody does.
        async { [own.acquire_owned().await.ok(), all.acquire_owned().await.ok()] }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const ALL: usize = 4;
    const OF_ONE: usize = 3;

    #[test]
    fn a_registry_that_hangs_leaves_a_turn_to_others() {
        let turns = RegistryTurns::new(ALL, OF_ONE);
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
