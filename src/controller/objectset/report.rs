//! How a reconcile ended, and what that means for the status.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::conditions::types;
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::error::Chain;
use olm_core::object::Identity;
use olm_core::revision::{Outcome, statements};
use olm_core::status::{object_set, remove_condition};

use super::enact::Ended;
use super::unserved_kinds::names;
use super::{Context, ObjectSetError};
use crate::account::GuardError;
use crate::backoff::resync;
use crate::cluster::RequestError;

/// How a reconcile ended well.
pub(super) struct Settled {
    /// What to report; `None` leaves the status as it is.
    pub(super) outcome: Option<Outcome>,
    /// When to reconcile again.
    pub(super) next: Duration,
    /// Whether our finalizer comes off after the report.
    pub(super) finished: bool,
    /// Earlier revisions that are archived after the report: until this one's success stands on
    /// the cluster, theirs is what is installed.
    pub(super) replaced: Vec<ClusterObjectSet>,
    /// Objects left out because the cluster does not serve their kind; `None` when not all phases
    /// were looked at.
    pub(super) deferred: Option<Vec<Identity>>,
}

impl Settled {
    /// Nothing is left to do until something changes.
    pub(super) fn at_rest(outcome: Option<Outcome>) -> Self {
        Self::again(outcome, resync())
    }

    /// Something is left to do, at the latest after `next`.
    pub(super) fn again(outcome: Option<Outcome>, next: Duration) -> Self {
        Self {
            outcome,
            next,
            finished: false,
            replaced: Vec::new(),
            deferred: None,
        }
    }

    /// Our finalizer comes off.
    pub(super) fn finished(self) -> Self {
        Self {
            finished: true,
            ..self
        }
    }

    /// Reports that it is being deleted and stays, and until when.
    pub(super) fn staying(self, until: &str) -> Self {
        let staying = |outcome| Outcome::Staying(Box::new(outcome), until.to_owned());
        Self {
            outcome: self.outcome.map(staying),
            ..self
        }
    }

    /// Reports something else.
    pub(super) fn reporting(self, outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            ..self
        }
    }
}

fn failure(err: &ObjectSetError) -> Outcome {
    let text = Chain(err).to_string();
    match err {
        ObjectSetError::Blocked(_) => Outcome::Blocked(text),
        ObjectSetError::Guard(GuardError::Reserved(_)) => Outcome::Invalid(text),
        _ => Outcome::Failed(text),
    }
}

/// Writes the status, if it says anything new. Returns the revision as it is then.
pub(super) async fn report(
    ctx: &Context,
    ended: &Ended,
) -> Result<ClusterObjectSet, ObjectSetError> {
    let set = &ended.set;
    let (outcome, deferred) = match &ended.result {
        Ok(settled) => (settled.outcome.clone(), settled.deferred.as_deref()),
        Err(err) => (Some(failure(err)), None),
    };
    let Some(outcome) = outcome else {
        return Ok(set.clone());
    };
    let now = Timestamp::now();
    let mut status = set.status.clone().unwrap_or_default();
    let generation = set.metadata.generation;
    for statement in statements(set, &outcome, now) {
        statement.put(&mut status.conditions, generation, now);
    }
    let archived = set.spec.lifecycle_state == LifecycleState::Archived;
    match deferred {
        Some([]) => {
            remove_condition(&mut status.conditions, types::DEFERRED);
        }
        Some(left_out) => {
            let deferred = object_set::deferred(&names(left_out));
            deferred.put(&mut status.conditions, generation, now);
        }
        None if archived => {
            remove_condition(&mut status.conditions, types::DEFERRED);
        }
        None => {}
    }
    if status.observed_phases.is_empty() {
        status.observed_phases.clone_from(&ended.observed);
    }
    let written = ctx.reconciler.write_status(set, status).await;
    let written = written.map_err(RequestError::doing("error updating status"))?;
    Ok(written.unwrap_or_else(|| set.clone()))
}
