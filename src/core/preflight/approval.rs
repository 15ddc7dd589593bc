//! Whether what would be written is what was approved.
//!
//! Source: applying.md 10 (F11), decision 35.

use olm_api::conditions::Reason;

use super::{Awaited, Proposal, Refusal};
use crate::extension::{Demand, plan_digest};
use crate::revision::Change;
use crate::status::Note;

/// What a refusal says where every step has to be approved.
pub const NOT_APPROVED: &str = "every step has to be approved, and this one is not";

/// Refuses a revision whose plan is not the one that was approved, or not approved where every step
/// has to be; a revision that is there already is not refused.
pub(super) fn check(proposal: &Proposal<'_>) -> Result<Vec<Note>, Refusal> {
    let demand = proposal.demand;
    if proposal.change == Change::Unchanged || demand == Demand::Nothing {
        return Ok(Vec::new());
    }
    let now = plan_digest(proposal.extension, proposal.desired);
    if demand.allows(&now) {
        return Ok(Vec::new());
    }
    let name = proposal.extension.object.metadata.name.as_deref();
    let name = name.unwrap_or_default();
    let message = match demand {
        Demand::Plan(approved) => format!("plan {approved} is approved, and now it is plan {now}"),
        Demand::Nothing | Demand::Approval(_) => format!("{NOT_APPROVED}: plan {now}"),
    };
    Err(Refusal {
        message,
        awaits: Awaited::Approval,
        notes: vec![unapproved(name, &now, demand)],
        crds: Vec::new(),
    })
}

/// Says why a plan that is not approved is not carried out, and which one is approved.
pub fn unapproved(extension: &str, now: &str, demand: Demand<'_>) -> Note {
    let (reason, what) = match demand {
        Demand::Plan(_) => (Reason::PlanChanged, "what would be is"),
        Demand::Nothing | Demand::Approval(_) => {
            (Reason::ApprovalRequired, "every step has to be approved, and this one is")
        }
    };
    let other = demand.approved();
    let other = other.map(|approved| format!(", and approved is plan {approved}"));
    Note {
        reason,
        message: format!(
            "nothing is applied: {what} plan {now}{}; kubectl olm plan {extension} shows it, \
             kubectl olm approve {extension} approves it",
            other.unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use olm_api::{ClusterExtension, CollisionProtection};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::extension::ValidExtension;
    use crate::revision::{Desired, Extension};

    const REQUIRED: Option<Reason> = Some(Reason::ApprovalRequired);

    // plugin.md U39, U40; applying.md F11
    #[rstest]
    #[case::nobody_asked(Demand::Nothing, Change::Upgrade, None)]
    #[case::another(Demand::Plan("sha256:a"), Change::Upgrade, Some(Reason::PlanChanged))]
    #[case::nothing_is_written(Demand::Plan("sha256:a"), Change::Unchanged, None)]
    #[case::the_same(Demand::Plan(""), Change::Install, None)]
    #[case::required_at_first(Demand::Approval(None), Change::Install, REQUIRED)]
    #[case::required(Demand::Approval(None), Change::Upgrade, REQUIRED)]
    #[case::required_and_another(Demand::Approval(Some("sha256:a")), Change::Upgrade, REQUIRED)]
    #[case::required_and_given(Demand::Approval(Some("")), Change::Upgrade, None)]
    #[case::required_when_it_was_there(Demand::Approval(None), Change::Unchanged, None)]
    fn only_the_approved_plan_is_written(
        #[case] demand: Demand<'_>,
        #[case] change: Change,
        #[case] refused: Option<Reason>,
    ) {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "metadata": {"name": "e"}, "spec": {"namespace": "ns",
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}}))
        .unwrap();
        let extension = ValidExtension::of(&extension).unwrap();
        let desired = Desired {
            extension: Extension::of(extension.object),
            phases: Vec::new(),
            annotations: BTreeMap::new(),
            probes: Vec::new(),
            deadline_minutes: None,
            collision_protection: CollisionProtection::Prevent,
            is_migrated: false,
        };
        let now = plan_digest(extension, &desired);
        let demand = match demand {
            Demand::Plan("") => Demand::Plan(&now),
            Demand::Approval(Some("")) => Demand::Approval(Some(&now)),
            demand => demand,
        };
        let checked = check(&Proposal {
            extension,
            desired: &desired,
            change,
            demand,
            installed: None,
            permissions: None,
            crds: None,
        });
        let said = checked.err().map(|refusal| refusal.notes[0].clone());
        assert_eq!(said.as_ref().map(|note| note.reason), refused);
        if let (Some(note), Some("sha256:a")) = (said, demand.approved()) {
            let both = format!("is plan {now}, and approved is plan sha256:a; ");
            assert!(note.message.contains(&both), "{note:?}");
        }
    }
}
