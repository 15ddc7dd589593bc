//! The memory of this process about extensions, for as long as they exist.

use std::collections::BTreeMap;

use futures::channel::mpsc;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use olm_api::ClusterExtension;
use olm_core::crd_safety::Evidence;
use olm_core::revision::has_orphan_finalizer;
use olm_image::Resolved;

use super::events::PublishedNotices;
use super::pull_state::PullState;
use super::pulls::{Pulls, ended};
use super::settled::Settled;
use crate::by_key::ByKey;

/// Everything that is kept by the name or the UID of an extension.
pub struct PerExtension {
    /// Events that were published last.
    pub(super) published: PublishedNotices,
    /// Extensions, by UID, on which the finalizer of the garbage collector was seen. An event with it
    /// may be followed by one without it before anybody looks.
    orphaning: ByKey<()>,
    /// Extensions whose revision a check refused that a change of a CRD may let pass.
    pub(super) refused: ByKey<()>,
    /// What their refusals say about the objects of CRDs.
    pub(super) evidence: ByKey<BTreeMap<String, Evidence>>,
    /// Secrets and failures of pulls.
    pub(super) pull_state: PullState,
    /// Tags that are being resolved.
    pub(super) digests: Pulls<Resolved>,
    /// Bundles that are being pulled.
    pub(super) images: Pulls<()>,
    /// Extensions that need not be rendered again.
    pub(super) settled: Settled,
    /// Extensions whose last resolution depended on the rest of the cluster.
    pub(super) dependents: ByKey<()>,
}

impl PerExtension {
    /// Returns it empty, and the names of extensions whose pull has ended.
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (ended, pulled) = ended();
        let kept = Self {
            published: PublishedNotices::default(),
            orphaning: ByKey::default(),
            refused: ByKey::default(),
            evidence: ByKey::default(),
            pull_state: PullState::default(),
            digests: Pulls::new(ended.clone()),
            images: Pulls::new(ended),
            settled: Settled::default(),
            dependents: ByKey::default(),
        };
        (kept, pulled)
    }

    /// Drops everything of an extension that is gone. All fields are named, so that a new one
    /// does not compile without a line here.
    pub(super) fn forget(&self, extension: &ClusterExtension) {
        let Self {
            published,
            orphaning,
            refused,
            evidence,
            pull_state,
            digests,
            images,
            settled,
            dependents,
        } = self;
        let name = extension.name_any();
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        published.forget(uid);
        orphaning.put(uid, None);
        refused.put(&name, None);
        evidence.put(&name, None);
        pull_state.forget(&name);
        digests.forget(&name);
        images.forget(&name);
        settled.forget(&name);
        dependents.put(&name, None);
    }

    /// Notes an extension that a watch has brought, if it has the finalizer of the garbage collector.
    pub(super) fn note_orphaning(&self, extension: &ObjectMeta) {
        if let Some(uid) = extension.uid.as_ref().filter(|_| has_orphan_finalizer(extension)) {
            self.orphaning.put(uid, Some(()));
        }
    }

    /// Returns whether an extension has, or had, the finalizer of the garbage collector.
    pub(super) fn is_orphaning(&self, extension: &ObjectMeta) -> bool {
        let uid = extension.uid.as_deref().unwrap_or_default();
        has_orphan_finalizer(extension) || self.orphaning.lock().contains_key(uid)
    }
}
