//! The memory of this process about revisions, for as long as they exist.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use olm_api::ClusterObjectSet;
use olm_core::object::Identity;
use tokio::time::Instant;

use super::unserved_kinds::UnservedKinds;
use crate::by_key::ByKey;

/// Everything that is kept by the name or the UID of a revision, beside objects and their watches.
#[derive(Debug, Default)]
pub(super) struct PerRevision {
    /// Uninstalls whose account fails: attempts and the first one's time.
    pub(super) failing: ByKey<(u32, Instant)>,
    /// Users' objects, while an uninstall waits for them.
    pub(super) counts: ByKey<Counts>,
    /// Pods of workloads that are not ready.
    pub(super) looks: ByKey<Look>,
    pub(super) unserved: UnservedKinds,
    /// What was published last about objects in the way.
    pub(super) collisions: ByKey<String>,
}

/// The numbers of objects, by the name of their CRD.
pub(super) type Numbers = BTreeMap<String, u64>;

/// The counts of the objects of an extension that is being removed.
#[derive(Debug, Clone)]
pub(super) enum Counts {
    /// There were none then, but for the bundle's own.
    Zero {
        at: Instant,
        own: Numbers,
        /// The API server's numbers at that time.
        stored: Numbers,
    },
    /// Nobody may count them, and since then the API server has shown none.
    Unknown(Instant),
}

/// The reason why pods do not run.
#[derive(Debug, Clone)]
pub(super) struct PodFault {
    pub(super) why: String,
    /// An image cannot be pulled or pods are refused, and have been for minutes.
    pub(super) is_lasting: bool,
}

/// The result of the last check of a workload's pods.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) workload: Identity,
    pub(super) fault: Option<PodFault>,
    /// Since when pods are missing that nothing waits for.
    pub(super) missing: Option<Instant>,
    pub(super) next: Instant,
}

impl PerRevision {
    /// Drops everything of a revision. All fields are named, so that a new one does not compile
    /// without a line here.
    pub(super) fn forget(&self, set: &ClusterObjectSet) {
        let Self { failing, counts, looks, unserved, collisions } = self;
        let uid = set.uid().unwrap_or_default();
        failing.put(&uid, None);
        counts.put(&uid, None);
        looks.put(&uid, None);
        collisions.put(&uid, None);
        unserved.note(&set.name_any(), &[]);
    }
}
