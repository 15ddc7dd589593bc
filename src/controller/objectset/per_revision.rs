//! What this process remembers of revisions as long as they exist.

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
    /// Kinds that revisions wait for.
    pub(super) unserved: UnservedKinds,
}

/// What is remembered of the objects of an extension that is being removed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counts {
    /// There were none then.
    Zero(Instant),
    /// Nobody may count them, and since then the API server has shown none.
    Unknown(Instant),
}

/// What was found when the pods of a workload were last looked at.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) workload: Identity,
    pub(super) fault: Option<String>,
    pub(super) next: Instant,
}

impl PerRevision {
    /// Drops everything of a revision. All fields are named, so that a new one does not compile
    /// without a line here.
    pub(super) fn forget(&self, set: &ClusterObjectSet) {
        let Self { failing, counts, looks, unserved } = self;
        let uid = set.uid().unwrap_or_default();
        failing.put(&uid, None);
        counts.put(&uid, None);
        looks.put(&uid, None);
        unserved.note(&set.name_any(), &[]);
    }
}
