//! Whether the operator would get rights that nobody approved.
//!
//! Source: applying.md 10 (F14).

use olm_api::conditions::Reason;

use super::{Awaited, Facts, Hold};
use crate::extension::{PermissionIncrease, Policy, plan_digest};
use crate::rbac::Powers;
use crate::revision::BundleRecord;
use crate::status::Note;

/// Returns whether `target` needs approval if it gives more rights than the installed bundle.
pub fn asks_for_approval(
    policy: &Policy,
    installed: Option<&BundleRecord>,
    target: &BundleRecord,
) -> bool {
    policy.permission_increase == PermissionIncrease::RequireApproval
        && installed.is_some_and(|installed| !installed.is_same_bundle(target))
}

/// Holds a revision whose pods can do what those of the installed one cannot, unless its plan is
/// approved; one that is there already is not held.
pub(super) fn check(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let asks = asks_for_approval(facts.policy, facts.installed, facts.target);
    let (Some(installed), Some(desired), true) = (facts.present, facts.new_revision(), asks) else {
        return Ok(Vec::new());
    };
    let objects = desired.phases.iter().flat_map(|it| &it.objects);
    let added = Powers::of(objects).beyond(&Powers::of(installed.iter()));
    let plan = plan_digest(facts.extension, desired);
    if added.is_empty() || facts.demand().approved() == Some(plan.as_str()) {
        return Ok(Vec::new());
    }
    Err(Hold {
        message: format!("the bundle would give more rights, and plan {plan} is not approved"),
        note: Note {
            reason: Reason::PermissionIncrease,
            message: format!(
                "plan {plan} gives more rights, so kubectl olm approve {} has to \
                 approve it: {}",
                facts.name(),
                added.join("; ")
            ),
        },
        awaits: Some(Awaited::Approval),
        crds: Vec::new(),
    })
}
