//! Whether what would be written is what was approved.
//!
//! Source: applying.md 10 (F11), decision 35.

use olm_api::conditions::Reason;

use super::{Awaited, Facts, Hold};
use crate::extension::plan_digest;
use crate::status::Note;

/// Holds a revision whose plan is not the one that was approved; one that is there already is not
/// held.
pub(super) fn check(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let (Some(approved), Some(desired)) = (facts.approved(), facts.new_revision()) else {
        return Ok(Vec::new());
    };
    let now = plan_digest(facts.extension, desired);
    if approved == now {
        return Ok(Vec::new());
    }
    let name = facts.name();
    Err(Hold {
        message: format!("plan {approved} is approved, and now it is plan {now}"),
        note: Note {
            reason: Reason::PlanChanged,
            message: format!(
                "nothing is applied: what would be is plan {now}, and approved is plan {approved}; \
                 kubectl olm plan {name} shows it, kubectl olm approve {name} approves it"
            ),
        },
        awaits: Some(Awaited::Approval),
        crds: Vec::new(),
    })
}
