//! The content of a catalog that was accepted last, and whether another image is requested since.
//! Pure.
//!
//! Only another reference, as it is written, is a decision about content: neither another edit of the
//! spec nor another version of the cluster, which a template is filled in with (catalogs.md 2.4).

use jiff::Timestamp;
use olm_api::{CatalogTakenStatus, CatalogUpdateStatus, ClusterCatalog};
use olm_image::ImageRef;

use super::plan::{Memory, Wanted, repository_of};

/// The status of a catalog's content after its image was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) held: Option<CatalogUpdateStatus>,
    pub(super) taken: Option<CatalogTakenStatus>,
    /// When the registry was asked, and the value of annotation `refresh` then.
    pub(super) polled: Option<(Timestamp, Option<String>)>,
}

/// The content that was taken last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The image, by digest.
    pub(super) reference: String,
    /// The reference as it was written then. Not known in a status of an earlier version, or where
    /// the CRD prunes it: then only another repository is certainly another reference.
    written: Option<String>,
}

impl Looked {
    /// Newest content was taken.
    pub(super) fn taken(wanted: &Wanted, reference: String) -> Self {
        let taken = CatalogTakenStatus { for_: wanted.written.clone(), ref_: reference };
        Self { taken: Some(taken), ..Self::default() }
    }
}

impl Known {
    /// Returns the accepted content, if there is any: from the memory of this process, because a
    /// status can be edited, otherwise from the status.
    pub(super) fn of(catalog: &ClusterCatalog, memory: Option<&Memory>) -> Option<Self> {
        let remembered = memory.filter(|memory| memory.uid == catalog.metadata.uid);
        let remembered = remembered.and_then(|memory| memory.taken.as_ref());
        let status = catalog.status.as_ref();
        let written = || status.and_then(|status| status.taken.as_ref());
        if let Some(taken) = remembered.or_else(written) {
            let CatalogTakenStatus { for_, ref_ } = taken.clone();
            return Some(Self { reference: ref_, written: Some(for_) });
        }
        Some(Self { reference: catalog.resolved_reference()?.to_owned(), written: None })
    }

    /// Returns whether the reference has changed; `image` is the image that it resolves to.
    pub(super) fn is_decided(&self, wanted: &Wanted, image: &ImageRef) -> bool {
        match &self.written {
            Some(before) if *before != wanted.written => true,
            // The version of the cluster may have changed, and with it the repository.
            Some(_) if wanted.written != wanted.image => false,
            Some(_) | None => !self.is_of(image),
        }
    }

    /// Returns whether it is from the requested repository, so that a user who may write the status
    /// cannot choose the served content.
    pub(super) fn is_of(&self, image: &ImageRef) -> bool {
        repository_of(&self.reference) == image.name()
    }

    /// Returns the status while it stays.
    pub(super) fn stays(self, wanted: &Wanted) -> CatalogTakenStatus {
        let for_ = self.written.unwrap_or_else(|| wanted.written.clone());
        CatalogTakenStatus { for_, ref_: self.reference }
    }
}

#[cfg(test)]
mod tests {
    use olm_api::{
        CatalogSourceType, ClusterCatalogSpec, ClusterCatalogStatus, ResolvedCatalogSource,
        ResolvedImageSource,
    };
    use rstest::rstest;

    use super::*;

    const SERVED: &str = "r.io/c@sha256:a";
    const TEMPLATE: &str = "r.io/c:v1.{kube_minor_version}";

    fn taken(wanted: &str) -> CatalogTakenStatus {
        CatalogTakenStatus { for_: wanted.to_owned(), ref_: SERVED.to_owned() }
    }

    fn wanted(written: &str, image: &str) -> Wanted {
        Wanted { written: written.to_owned(), image: image.to_owned() }
    }

    fn is_decided(known: &Known, written: &str, image: &str) -> bool {
        known.is_decided(&wanted(written, image), &image.parse().unwrap())
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

    fn memory(uid: &str, image: &str) -> Memory {
        Memory { uid: Some(uid.to_owned()), ..Memory::example(Some(taken(image))) }
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
        assert_eq!(is_decided(&known, now, now), want);
        assert_eq!(known.reference, SERVED);
    }

    // catalogs.md 2.4
    #[rstest]
    #[case::same_template(TEMPLATE, TEMPLATE, "r.io/c:v1.34", false)]
    #[case::repository_by_version(
        "r.io/d{kube_minor_version}:1",
        "r.io/d{kube_minor_version}:1",
        "r.io/d34:1",
        false
    )]
    #[case::another_template(TEMPLATE, "r.io/c:{kube_minor_version}", "r.io/c:34", true)]
    #[case::no_template_any_more(TEMPLATE, "r.io/c:v1.33", "r.io/c:v1.33", true)]
    fn another_version_of_the_cluster_is_no_decision(
        #[case] before: &str,
        #[case] written: &str,
        #[case] image: &str,
        #[case] want: bool,
    ) {
        let known = Known::of(&catalog(Some(taken(before))), None).unwrap();
        assert_eq!(is_decided(&known, written, image), want);
        assert_eq!(known.stays(&wanted(written, image)), taken(before));
    }

    #[test]
    fn a_status_edited_by_hand_counts_less_than_what_is_remembered() {
        let edited = catalog(Some(taken("r.io/c:0")));
        let now = "r.io/c:1";
        let decided = |memory| {
            let known = Known::of(&edited, Some(&memory)).unwrap();
            is_decided(&known, now, now)
        };
        assert!(!decided(memory("u", now)));
        // Another object of the same name.
        assert!(decided(memory("v", now)));
    }

    #[test]
    fn what_was_taken_is_known_although_nothing_is_served() {
        let mut off = catalog(Some(taken("r.io/c:1")));
        off.status.as_mut().unwrap().resolved_source = None;
        assert_eq!(
            Known::of(&off, None).unwrap().stays(&wanted("r.io/c:2", "r.io/c:2")),
            taken("r.io/c:1")
        );
        off.status = None;
        assert_eq!(Known::of(&off, None), None);
    }
}
