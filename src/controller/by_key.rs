//! Values kept for objects, by name or UID.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by the name or the UID of an object.
#[derive(Debug)]
pub struct ByKey<V>(Mutex<HashMap<String, V>>);

impl<V> Default for ByKey<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> ByKey<V> {
    /// Gives access to all values.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<String, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `value` in place of the one before, which is returned; `None` keeps nothing.
    pub fn put(&self, key: &str, value: Option<V>) -> Option<V> {
        match value {
            Some(value) => self.lock().insert(key.to_owned(), value),
            None => self.lock().remove(key),
        }
    }

    /// Returns a copy of a value.
    pub fn get(&self, key: &str) -> Option<V>
    where
        V: Clone,
    {
        self.lock().get(key).cloned()
    }

    /// Returns the keys of all values.
    pub fn keys(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}
