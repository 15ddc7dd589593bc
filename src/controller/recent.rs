//! Values that are kept until newer ones need their room.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values put in last, each with the memory it takes: so many, of so many bytes together.
#[derive(Debug)]
pub struct Recent<K, V, const KEPT: usize, const BYTES: usize>(Mutex<Kept<K, V>>);

#[derive(Debug)]
struct Kept<K, V> {
    values: HashMap<Arc<K>, (V, usize, u64)>,
    /// The keys by when they were put in.
    order: BTreeMap<u64, Arc<K>>,
    bytes: usize,
    next: u64,
}

impl<K, V, const KEPT: usize, const BYTES: usize> Default for Recent<K, V, KEPT, BYTES> {
    fn default() -> Self {
        let (values, order) = (HashMap::new(), BTreeMap::new());
        Self(Mutex::new(Kept { values, order, bytes: 0, next: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone, const KEPT: usize, const BYTES: usize> Recent<K, V, KEPT, BYTES> {
    /// Returns a copy of a value.
    pub fn get(&self, key: &K) -> Option<V> {
        self.lock().values.get(key).map(|(value, ..)| value.clone())
    }

    /// Keeps a value in place of the oldest, unless it is too large on its own.
    pub fn put(&self, key: K, value: V, bytes: usize) {
        let mut kept = self.lock();
        kept.remove(&key);
        if bytes > BYTES {
            return;
        }
        let (key, place) = (Arc::new(key), kept.next);
        kept.next += 1;
        kept.bytes += bytes;
        kept.order.insert(place, Arc::clone(&key));
        kept.values.insert(key, (value, bytes, place));
        while kept.values.len() > KEPT || kept.bytes > BYTES {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            kept.remove(&oldest);
        }
    }

    /// Drops the values whose keys are not to be kept.
    pub fn retain(&self, keep: impl Fn(&K) -> bool) {
        let mut kept = self.lock();
        let gone: Vec<_> = kept.values.keys().filter(|key| !keep(key)).cloned().collect();
        for key in gone {
            kept.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some((_, bytes, place)) = self.values.remove(key) {
            self.bytes -= bytes;
            self.order.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_where_there_are_too_many_or_too_large_ones() {
        let recent = Recent::<u8, u8, 3, 10>::default();
        let kept = || (0..9).filter(|key| recent.get(key).is_some()).collect::<Vec<_>>();
        for key in 0..4 {
            recent.put(key, key, 1);
        }
        assert_eq!(kept(), [1, 2, 3]);
        recent.put(4, 4, 9);
        assert_eq!(kept(), [3, 4]);
        recent.put(5, 5, 11);
        assert_eq!(kept(), [3, 4], "too large on its own");
        recent.put(3, 9, 1);
        assert_eq!((kept(), recent.get(&3)), (vec![3, 4], Some(9)));
        recent.put(6, 6, 1);
        assert_eq!(kept(), [3, 6], "the one put in last is not the oldest");
        recent.retain(|key| *key == 6);
        assert_eq!(kept(), [6]);
    }
}
