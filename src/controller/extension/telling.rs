//! Events about an extension: what happened is told once, and what is the case is told when it
//! begins and when its text changes, not on every attempt.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use kube::runtime::events::EventType;

/// Something that is the case, as an Event tells it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Telling {
    /// Whether anybody should worry.
    pub(super) type_: EventType,
    /// Reason of the Event.
    pub(super) reason: &'static str,
    /// Its text.
    pub(super) note: String,
}

/// What was told last, by uid of the extension and reason.
#[derive(Debug, Default)]
pub struct Told(Mutex<HashMap<String, BTreeMap<&'static str, String>>>);

impl Told {
    /// Returns which of these are new, and remembers all of them in place of those before.
    pub(super) fn news(&self, uid: &str, now: Vec<Telling>) -> Vec<Telling> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = now.iter().map(|one| (one.reason, one.note.clone()));
        let texts: BTreeMap<_, _> = texts.collect();
        let before = if texts.is_empty() {
            told.remove(uid)
        } else {
            told.insert(uid.to_owned(), texts)
        };
        let before = before.unwrap_or_default();
        now.into_iter()
            .filter(|one| before.get(one.reason) != Some(&one.note))
            .collect()
    }

    /// Forgets an extension that is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling(reason: &'static str, note: &str) -> Telling {
        Telling {
            type_: EventType::Normal,
            reason,
            note: note.to_owned(),
        }
    }

    #[test]
    fn what_stays_the_case_is_told_once() {
        let told = Told::default();
        let both = || vec![telling("A", "a"), telling("B", "b")];
        assert_eq!(told.news("1", both()).len(), 2);
        assert_eq!(told.news("1", both()), []);
        let other = telling("B", "other");
        let news = told.news("1", vec![telling("A", "a"), other.clone()]);
        assert_eq!(news, [other]);
    }

    #[test]
    fn what_ends_and_begins_again_is_told_again() {
        let told = Told::default();
        assert_eq!(told.news("1", vec![telling("A", "a")]).len(), 1);
        assert_eq!(told.news("1", Vec::new()), []);
        assert_eq!(told.news("1", vec![telling("A", "a")]).len(), 1);
        assert_eq!(told.news("2", vec![telling("A", "a")]).len(), 1);
    }
}
