//! What was taken of a catalog last, and whether another image is wanted since. Pure.
//!
//! Only another reference is a decision about content, whatever else of the spec is edited
//! (catalogs.md 2.4).

use jiff::Timestamp;
use olm_api::{CatalogTakenStatus, CatalogUpdateStatus, ClusterCatalog};
use olm_image::ImageRef;

use super::plan::{Memory, repository_of};

/// What is to be said of the content of a catalog after a look at its image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Newer content that is held back.
    pub(super) held: Option<CatalogUpdateStatus>,
    /// What was taken last.
    pub(super) taken: Option<CatalogTakenStatus>,
    /// When the registry was asked, and the value of annotation `refresh` then.
    pub(super) polled: Option<(Timestamp, Option<String>)>,
}

/// The content that was taken last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The image, by digest.
    pub(super) reference: String,
    /// The reference that was wanted then. Not known in a status of an earlier version, or where the
    /// CRD prunes it: then only another repository is certainly another reference.
    wanted: Option<String>,
}

impl Looked {
    /// Newest content was taken.
    pub(super) fn taken(wanted: &str, reference: String) -> Self {
        let taken = CatalogTakenStatus { for_: wanted.to_owned(), ref_: reference };
        Self { taken: Some(taken), ..Self::default() }
    }
}

impl Known {
    /// Returns what was taken, if anything was: what this process remembers, because a status can be
    /// edited, else what the status says.
    pub(super) fn of(catalog: &ClusterCatalog, memory: Option<&Memory>) -> Option<Self> {
        let remembered = memory.filter(|memory| memory.uid == catalog.metadata.uid);
        let remembered = remembered.and_then(|memory| memory.taken.as_ref());
        let status = catalog.status.as_ref();
        let written = || status.and_then(|status| status.taken.as_ref());
        if let Some(taken) = remembered.or_else(written) {
            let CatalogTakenStatus { for_, ref_ } = taken.clone();
            return Some(Self { reference: ref_, wanted: Some(for_) });
        }
        Some(Self { reference: catalog.resolved_reference()?.to_owned(), wanted: None })
    }

    /// Says whether another reference is wanted now.
    pub(super) fn is_decided(&self, image: &str, wanted: &ImageRef) -> bool {
        self.wanted.as_deref().is_some_and(|before| before != image) || !self.is_of(wanted)
    }

    /// Says whether it is of the repository that is wanted: whoever may write the status does not
    /// choose what is served.
    pub(super) fn is_of(&self, wanted: &ImageRef) -> bool {
        repository_of(&self.reference) == wanted.name()
    }

    /// Returns what the status says while it stays.
    pub(super) fn stays(self, image: &str) -> CatalogTakenStatus {
        let for_ = self.wanted.unwrap_or_else(|| image.to_owned());
        CatalogTakenStatus { for_, ref_: self.reference }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use olm_api::{
        CatalogSourceType, ClusterCatalogSpec, ClusterCatalogStatus, ResolvedCatalogSource,
        ResolvedImageSource,
    };
    use rstest::rstest;

    use super::*;

    const SERVED: &str = "r.io/c@sha256:a";

    fn taken(wanted: &str) -> CatalogTakenStatus {
        CatalogTakenStatus { for_: wanted.to_owned(), ref_: SERVED.to_owned() }
    }

    fn catalog(taken: Option<CatalogTakenStatus>) -> ClusterCatalog {
        let mut catalog = ClusterCatalog::new("c", ClusterCatalogSpec::default());
        catalog.metadata.uid = Some("u".to_owned());
        catalog.status = Some(ClusterCatalogStatus {
            resolved_source: Some(ResolvedCatalogSource {
                type_: CatalogSourceType::Image,
                image: ResolvedImageSource { ref_: SERVED.to_owned() },
            }),
            taken,
            ..ClusterCatalogStatus::default()
        });
        catalog
    }

    fn memory(uid: &str, wanted: &str) -> Memory {
        Memory {
            uid: Some(uid.to_owned()),
            generation: Some(1),
            image: wanted.to_owned(),
            taken: Some(taken(wanted)),
            polled: Instant::now(),
            polled_at: Timestamp::UNIX_EPOCH,
            refreshed: None,
            jitter: 0.0,
        }
    }

    #[rstest]
    #[case::same_reference(Some("r.io/c:1"), "r.io/c:1", false)]
    #[case::another_tag(Some("r.io/c:1"), "r.io/c:2", true)]
    #[case::another_repository(Some("r.io/c:1"), "r.io/d:1", true)]
    #[case::status_of_an_earlier_version(None, "r.io/c:2", false)]
    #[case::another_repository_after_an_upgrade(None, "r.io/d:1", true)]
    fn only_another_reference_is_a_decision(
        #[case] before: Option<&str>,
        #[case] now: &str,
        #[case] want: bool,
    ) {
        let mut catalog = catalog(before.map(taken));
        catalog.spec.priority = 7;
        catalog.metadata.generation = Some(9);
        let known = Known::of(&catalog, None).unwrap();
        assert_eq!(known.is_decided(now, &now.parse().unwrap()), want);
        assert_eq!(known.reference, SERVED);
    }

    #[test]
    fn a_status_edited_by_hand_counts_less_than_what_is_remembered() {
        let edited = catalog(Some(taken("r.io/c:0")));
        let now = "r.io/c:1";
        let decided = |memory| {
            let known = Known::of(&edited, Some(&memory)).unwrap();
            known.is_decided(now, &now.parse().unwrap())
        };
        assert!(!decided(memory("u", now)));
        // Another object of the same name.
        assert!(decided(memory("v", now)));
    }

    #[test]
    fn what_was_taken_is_known_although_nothing_is_served() {
        let mut off = catalog(Some(taken("r.io/c:1")));
        off.status.as_mut().unwrap().resolved_source = None;
        assert_eq!(Known::of(&off, None).unwrap().stays("r.io/c:1"), taken("r.io/c:1"));
        off.status = None;
        assert_eq!(Known::of(&off, None), None);
    }
}
