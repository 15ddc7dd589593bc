//! The status after a reconcile.

use jiff::Timestamp;
use olm_api::conditions::{Reason, types};
use olm_api::{ClusterObjectSet, LifecycleState};
use olm_core::error::Chain;
use olm_core::revision::{Outcome, statements};
use olm_core::status::{Note, is_true, object_set, object_set_ready, put_ready, remove_condition};

use super::ended::{Ended, Settled};
use super::unserved_kinds::names;
use super::{Context, ObjectSetError};
use crate::account::GuardError;
use crate::apply::ApplyError;
use crate::cluster::RequestError;

fn failure(err: &ObjectSetError) -> Outcome {
    let text = Chain(err).to_string();
    match err {
        ObjectSetError::Blocked(_) => Outcome::Blocked(text),
        ObjectSetError::Guard(GuardError::Reserved(_)) => Outcome::Invalid(text),
        _ => Outcome::Failed(text),
    }
}

/// Returns who manages objects that the revision may not take.
fn managed(result: &Result<Settled, ObjectSetError>) -> Option<Note> {
    let Err(ObjectSetError::Apply(ApplyError::Collisions { managed, .. })) = result else {
        return None;
    };
    Some(Note { reason: Reason::Retrying, message: managed.clone()? })
}

/// Writes the status, if it says anything new. Returns the revision as it is then.
pub(super) async fn report(
    ctx: &Context,
    ended: &Ended,
) -> Result<ClusterObjectSet, ObjectSetError> {
    let set = &ended.set;
    let before = set.status.as_ref().map(|status| status.conditions.as_slice());
    let (outcome, deferred, stalled) = match &ended.result {
        Ok(settled) => {
            (settled.outcome.clone(), settled.deferred.as_deref(), settled.stalled.clone())
        }
        // Nothing was looked at.
        Err(err) => (Some(failure(err)), None, before.and_then(object_set::of_workload)),
    };
    let Some(outcome) = outcome else { return Ok(set.clone()) };
    let now = Timestamp::now();
    let mut status = set.status.clone().unwrap_or_default();
    let generation = set.metadata.generation;
    for statement in statements(set, &outcome, now, ctx.acting_since()) {
        statement.put(&mut status.conditions, generation, now);
    }
    let archived = set.spec.lifecycle_state == LifecycleState::Archived;
    match deferred {
        Some([]) => {
            remove_condition(&mut status.conditions, types::DEFERRED);
        }
        Some(left_out) => {
            object_set::deferred(&names(left_out)).put(&mut status.conditions, generation, now);
        }
        None if archived => {
            remove_condition(&mut status.conditions, types::DEFERRED);
        }
        None => {}
    }
    let counts = !archived && !is_true(&status.conditions, types::SUCCEEDED);
    if !outcome.is_paused() && !counts {
        remove_condition(&mut status.conditions, types::PAUSED);
    }
    let notes: Vec<_> = managed(&ended.result).into_iter().collect();
    let ready = object_set_ready(&status.conditions, generation, &notes);
    put_ready(&mut status.conditions, ready, stalled, generation, now);
    if status.observed_phases.is_empty() {
        status.observed_phases.clone_from(&ended.observed);
    }
    let written = ctx.reconciler.write_status(set, status).await;
    let written = written.map_err(RequestError::doing("error updating status"))?;
    Ok(written.unwrap_or_else(|| set.clone()))
}
