//! Events about an extension: what happened is published once, and what is the case when it begins
//! and when its text changes, not on every attempt.

use std::collections::HashSet;

use olm_api::conditions::Reason;
use olm_core::extension::Notice;

use crate::by_key::ByKey;

/// The notices that were published last, by UID of the extension.
#[derive(Debug, Default)]
pub(super) struct PublishedNotices(ByKey<HashSet<(Reason, String)>>);

impl PublishedNotices {
    /// Returns which of these are new, and remembers all of them in place of those before.
    pub(super) fn changed(&self, uid: &str, now: Vec<Notice>) -> Vec<Notice> {
        let texts: HashSet<_> = now.iter().map(key).collect();
        let before = self.0.put(uid, (!texts.is_empty()).then_some(texts)).unwrap_or_default();
        now.into_iter().filter(|one| !before.contains(&key(one))).collect()
    }

    /// Returns which of these are new, and remembers them beside those before: what else is the case
    /// was not found out.
    pub(super) fn added(&self, uid: &str, now: Vec<Notice>) -> Vec<Notice> {
        if now.is_empty() {
            return now;
        }
        let mut published = self.0.lock();
        let before = published.entry(uid.to_owned()).or_default();
        let texts: HashSet<_> = now.iter().map(key).collect();
        let new = now.into_iter().filter(|one| !before.contains(&key(one))).collect();
        // Of a reason that is said again, what it said before is over.
        let is_over = |old: &(Reason, String)| texts.iter().any(|(reason, _)| *reason == old.0);
        before.retain(|old| !is_over(old));
        before.extend(texts);
        new
    }

    /// Forgets an extension that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.0.put(uid, None);
    }
}

fn key(notice: &Notice) -> (Reason, String) {
    (notice.reason, notice.note.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Reason = Reason::ContentChanged;
    const B: Reason = Reason::NextMajorHeld;

    fn notice(reason: Reason, note: &str) -> Notice {
        Notice { is_warning: false, reason, note: note.to_owned() }
    }

    #[test]
    fn what_stays_the_case_is_told_once() {
        let published = PublishedNotices::default();
        let both = || vec![notice(A, "a"), notice(B, "b")];
        assert_eq!(published.changed("1", both()).len(), 2);
        assert_eq!(published.changed("1", both()), []);
        let other = notice(B, "other");
        let changed = published.changed("1", vec![notice(A, "a"), other.clone()]);
        assert_eq!(changed, [other]);
    }

    #[test]
    fn two_texts_of_one_reason_are_told_once_each() {
        let published = PublishedNotices::default();
        let both = || vec![notice(A, "a"), notice(A, "b")];
        assert_eq!(published.changed("1", both()).len(), 2);
        assert_eq!(published.changed("1", both()), []);
        assert_eq!(published.added("1", both()), []);
        assert_eq!(published.added("1", vec![notice(A, "c")]).len(), 1);
        assert_eq!(published.added("1", vec![notice(A, "a")]).len(), 1);
    }

    #[test]
    fn what_is_added_leaves_the_rest_remembered() {
        let published = PublishedNotices::default();
        assert_eq!(published.changed("1", vec![notice(A, "a")]).len(), 1);
        assert_eq!(published.added("1", vec![notice(B, "b")]).len(), 1);
        assert_eq!(published.added("1", vec![notice(B, "b")]), []);
        assert_eq!(published.added("1", Vec::new()), []);
        let both = vec![notice(A, "a"), notice(B, "b")];
        assert_eq!(published.changed("1", both), []);
    }

    #[test]
    fn what_ends_and_begins_again_is_told_again() {
        let published = PublishedNotices::default();
        assert_eq!(published.changed("1", vec![notice(A, "a")]).len(), 1);
        assert_eq!(published.changed("1", Vec::new()), []);
        assert_eq!(published.changed("1", vec![notice(A, "a")]).len(), 1);
        assert_eq!(published.changed("2", vec![notice(A, "a")]).len(), 1);
    }
}
