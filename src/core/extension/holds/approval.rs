//! Whether what would be written is what was approved.
//!
//! Source: applying.md 10 (F11), decision 35.

use olm_api::conditions::Reason;

use super::{Awaited, Facts, Hold};
use crate::extension::{Demand, plan_digest};
use crate::status::Note;

/// Holds a revision whose plan is not the one that was approved, or not approved where every step has
/// to be; one that is there already is not held.
pub(super) fn check(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let (demand, name) = (facts.demand(), facts.name());
    let Some(desired) = facts.new_revision().filter(|_| demand != Demand::Nothing) else {
        return Ok(Vec::new());
    };
    let now = plan_digest(facts.extension, desired);
    if demand.allows(&now) {
        return Ok(Vec::new());
    }
    let (reason, message, what) = match demand {
        Demand::Plan(approved) => (
            Reason::PlanChanged,
            format!("plan {approved} was approved, but the plan is now {now}"),
            "this step is",
        ),
        Demand::Nothing | Demand::Approval(_) => (
            Reason::ApprovalRequired,
            format!("every step requires approval, and this one is not approved: plan {now}"),
            "every step requires approval, and this one is",
        ),
    };
    let other = demand.approved().map(|approved| format!(", but plan {approved} was approved"));
    Err(Hold {
        message,
        note: Note {
            reason,
            message: format!(
                "nothing is applied: {what} plan {now}{}; kubectl olm plan {name} shows it, kubectl \
                 olm approve {name} approves it",
                other.unwrap_or_default()
            ),
        },
        awaits: Some(Awaited::Approval),
        crds: Vec::new(),
    })
}
