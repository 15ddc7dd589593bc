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
    /// Returns which of these are new, and remembers them: in place of those before if they are `all` that is
    /// the case, else beside those of other reasons.
    pub(super) fn new_of(&self, uid: &str, now: Vec<Notice>, all: bool) -> Vec<Notice> {
        let mut published = self.0.lock();
        let before = published.entry(uid.to_owned()).or_default();
        let texts: HashSet<_> = now.iter().map(key).collect();
        let new = now.into_iter().filter(|one| !before.contains(&key(one))).collect();
        before.retain(|(reason, _)| !all && texts.iter().all(|(again, _)| again != reason));
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
        published.new_of("2", vec![notice(&(A, "a"))], ALL);
        for (is_all, notices, new) in &steps {
            let told = published.new_of("1", notices.iter().map(notice).collect(), *is_all);
            assert_eq!(told.len(), *new, "{told:?}");
        }
    }
}
