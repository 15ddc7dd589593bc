//! Whether the operator would get rights that nobody approved.
//!
//! Source: applying.md 10 (F14).

use olm_api::conditions::Reason;

use super::{Awaited, Proposal, Refusal};
use crate::extension::{Demand, plan_digest};
use crate::rbac::Powers;
use crate::revision::Change;
use crate::status::Note;

/// Refuses a revision whose pods can do what those of the installed one cannot, unless its plan is
/// approved; a revision that is there already is not refused.
pub(super) fn check(proposal: &Proposal<'_>) -> Result<Vec<Note>, Refusal> {
    // That it is the approved plan is the check before this one.
    let is_asked = proposal.change == Change::Upgrade && proposal.demand == Demand::Nothing;
    let Some(installed) = proposal.installed.filter(|_| is_asked) else {
        return Ok(Vec::new());
    };
    let objects = proposal.desired.phases.iter().flat_map(|it| &it.objects);
    let added = Powers::of(objects).beyond(&Powers::of(installed.iter()));
    if added.is_empty() {
        return Ok(Vec::new());
    }
    let name = proposal.extension.object.metadata.name.as_deref();
    let name = name.unwrap_or_default();
    let plan = plan_digest(proposal.extension, proposal.desired);
    Err(Refusal {
        message: format!("the operator would get more rights, and plan {plan} is not approved"),
        awaits: Awaited::Approval,
        notes: vec![increase(name, &plan, &added)],
        crds: Vec::new(),
    })
}

/// Says that a plan waits for its approval, because of these rights.
pub fn increase(extension: &str, plan: &str, added: &[String]) -> Note {
    Note {
        reason: Reason::PermissionIncrease,
        message: format!(
            "plan {plan} gives the operator more rights, so kubectl olm approve {extension} has to \
             approve it: {}",
            added.join("; ")
        ),
    }
}
