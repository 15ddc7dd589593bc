//! Values that are kept until newer ones need their room.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The values put in last, each with the memory it takes: so many, of so many bytes together.
#[derive(Debug)]
pub struct Recent<K, V, const KEPT: usize, const BYTES: usize>(Mutex<VecDeque<(K, V, usize)>>);

impl<K, V, const KEPT: usize, const BYTES: usize> Default for Recent<K, V, KEPT, BYTES> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V: Clone, const KEPT: usize, const BYTES: usize> Recent<K, V, KEPT, BYTES> {
    /// Returns a copy of a value.
    pub fn get(&self, key: &K) -> Option<V> {
        self.lock().iter().find(|(other, ..)| other == key).map(|(_, value, _)| value.clone())
    }

    /// Keeps a value in place of the oldest, unless it is too large on its own.
    pub fn put(&self, key: K, value: V, bytes: usize) {
        self.retain(|other| *other != key);
        if bytes > BYTES {
            return;
        }
        let mut kept = self.lock();
        kept.push_back((key, value, bytes));
        let mut total: usize = kept.iter().map(|(.., bytes)| bytes).sum();
        while kept.len() > KEPT || total > BYTES {
            total -= kept.pop_front().map_or(total, |(.., bytes)| bytes);
        }
    }

    /// Drops the values whose keys are not to be kept.
    pub fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.lock().retain(|(key, ..)| keep(key));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(K, V, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
