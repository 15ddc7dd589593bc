//! The result of a reconcile of a revision, from enacting to reporting.

use std::time::Duration;

use olm_api::{ClusterObjectSet, ObservedPhase};
use olm_core::object::Identity;
use olm_core::revision::{Account, Outcome};
use olm_core::status::Statement;

use super::ObjectSetError;
use crate::backoff::resync;

/// How a reconcile ended well.
#[derive(Default)]
pub(super) struct Settled {
    /// The outcome to report; `None` leaves the status unchanged.
    pub(super) outcome: Option<Outcome>,
    /// When to reconcile again.
    pub(super) next: Duration,
    /// Whether our finalizer comes off after the report.
    pub(super) finished: bool,
    /// Earlier revisions that are archived after the report: until this one's success stands on
    /// the cluster, their bundle is the installed one.
    pub(super) replaced: Vec<ClusterObjectSet>,
    /// Objects left out because the cluster does not serve their kind; `None` when not all phases
    /// were looked at.
    pub(super) deferred: Option<Vec<Identity>>,
    /// Which object is not ready or cannot progress, and why, where that is known.
    pub(super) stalled: Option<Statement>,
    /// The account that has applied all of it.
    pub(super) applied_by: Option<Account>,
}

impl Settled {
    /// Nothing is left to do until something changes.
    pub(super) fn at_rest(outcome: Option<Outcome>) -> Self {
        Self::again(outcome, resync())
    }

    /// Something is left to do, at the latest after `next`.
    pub(super) fn again(outcome: Option<Outcome>, next: Duration) -> Self {
        Self { outcome, next, ..Self::default() }
    }

    pub(super) fn finished(self) -> Self {
        Self { finished: true, ..self }
    }

    /// Reports that nothing was applied, because it is paused.
    pub(super) fn paused(self) -> Self {
        let paused = |outcome| Outcome::Paused(Box::new(outcome));
        Self { outcome: self.outcome.map(paused), ..self }
    }

    /// Reports that it is being deleted and stays, and until when.
    pub(super) fn staying(self, until: &str) -> Self {
        let staying = |outcome| Outcome::Staying(Box::new(outcome), until.to_owned());
        Self { outcome: self.outcome.map(staying), ..self }
    }
}

/// The result of a reconcile, successful or not.
pub(super) struct Ended {
    /// The object, with the resource version of the last write.
    pub(super) set: ClusterObjectSet,
    /// Digests of the content that was read, to store if none are stored yet.
    pub(super) observed: Vec<ObservedPhase>,
    pub(super) result: Result<Settled, ObjectSetError>,
}

impl Ended {
    /// It ended before content was read or the object written.
    pub(super) fn early(set: &ClusterObjectSet, result: Result<Settled, ObjectSetError>) -> Self {
        Self { set: set.clone(), observed: Vec::new(), result }
    }
}
