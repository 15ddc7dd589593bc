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
    use rstest::rstest;

    use super::*;

    const A: Reason = Reason::ContentChanged;
    const B: Reason = Reason::NextMajorHeld;

    /// Notices that the catalogs' answer was part of or not, and how many of them are new.
    type Step = (bool, Vec<(Reason, &'static str)>, usize);

    const ALL: bool = true;
    const SOME: bool = false;

    #[rstest]
    #[case::what_stays_is_told_once(vec![
        (ALL, vec![(A, "a"), (B, "b")], 2), (ALL, vec![(A, "a"), (B, "b")], 0), (ALL, vec![(A, "a"), (B, "c")], 1)])]
    #[case::two_texts_of_one_reason(vec![
        (ALL, vec![(A, "a"), (A, "b")], 2), (ALL, vec![(A, "a"), (A, "b")], 0), (SOME, vec![(A, "a"), (A, "b")], 0),
        (SOME, vec![(A, "c")], 1), (SOME, vec![(A, "a")], 1)])]
    #[case::what_is_added_leaves_the_rest(vec![
        (ALL, vec![(A, "a")], 1), (SOME, vec![(B, "b")], 1), (SOME, vec![(B, "b")], 0), (SOME, vec![], 0),
        (ALL, vec![(A, "a"), (B, "b")], 0)])]
    #[case::what_begins_again_is_told_again(vec![
        (ALL, vec![(A, "a")], 1), (ALL, vec![], 0), (ALL, vec![(A, "a")], 1)])]
    fn a_notice_is_published_when_it_begins_and_when_its_text_changes(#[case] steps: Vec<Step>) {
        let notice = |(reason, note): &(Reason, &str)| Notice {
            is_warning: false,
            reason: *reason,
            note: (*note).to_owned(),
        };
        let published = PublishedNotices::default();
        published.changed("2", vec![notice(&(A, "a"))]);
        for (is_all, notices, new) in &steps {
            let now = notices.iter().map(notice).collect();
            let told =
                if *is_all { published.changed("1", now) } else { published.added("1", now) };
            assert_eq!(told.len(), *new, "{told:?}");
        }
    }
}
