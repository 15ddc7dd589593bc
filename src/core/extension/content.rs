//! Other content under the version that is installed (decision 29).

use olm_api::conditions::Reason;
use olm_api::keys::policy;

use super::Policy;
use crate::revision::BundleRecord;
use crate::status::Note;

/// Returns the note about content that changed under the installed version, if the catalog offers
/// the same bundle with another image and nobody accepted that.
pub(super) fn content_changed(
    policy: &Policy,
    installed: &BundleRecord,
    offered: &BundleRecord,
) -> Option<Note> {
    let (old, new) = (digest(&installed.image)?, digest(&offered.image)?);
    retagged(policy, Some(old), new)
}

/// Returns the note about a tag that names other content than the revision was made of, whose
/// digest is `recorded`, unless somebody accepted that.
pub fn retagged(policy: &Policy, recorded: Option<&str>, offered: &str) -> Option<Note> {
    let installed = recorded?;
    if installed == offered || policy.accepts(offered) {
        return None;
    }
    Some(Note {
        reason: Reason::ContentChanged,
        message: format!(
            "the catalog offers the installed version with other content: installed {installed}, \
             offered {offered}; to install it, set annotation {}: {offered}",
            policy::ACCEPT_IMAGE
        ),
    })
}

/// Returns the digest in a reference, if it has one.
fn digest(image: &str) -> Option<&str> {
    let (_, digest) = image.rsplit_once('@')?;
    digest.contains(':').then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");

    fn record(image: &str) -> BundleRecord {
        BundleRecord { image: image.to_owned(), ..BundleRecord::example("1.0.0") }
    }

    // decision 29
    #[test]
    fn other_content_is_said_until_it_is_accepted() {
        for (installed, offered, accepted, said) in cases::<(&str, &str, Option<&str>, bool)>(
            CASES,
            "other_content_is_said_until_it_is_accepted",
        ) {
            let accepted_image = accepted.map(str::to_owned);
            let policy = Policy { accepted_image, ..Policy::example(&[]) };
            let note = content_changed(&policy, &record(installed), &record(offered));
            assert_eq!(note.is_some(), said);
        }
    }

    #[test]
    fn a_tag_that_moved_is_said() {
        let policy = Policy::example(&[]);
        assert_eq!(retagged(&policy, Some("sha256:a"), "sha256:a"), None);
        assert_eq!(retagged(&policy, None, "sha256:b"), None);
        let note = retagged(&policy, Some("sha256:a"), "sha256:b").unwrap();
        assert!(note.message.ends_with("accept-image: sha256:b"), "{}", note.message);
    }
}
