//! Whether what would be written is what was approved.
//!
//! Source: applying.md 10 (F11), decision 35.

use olm_api::conditions::Reason;

use super::{Awaited, Proposal, Refusal};
use crate::extension::plan_digest;
use crate::revision::Change;
use crate::status::Note;

/// Refuses a revision whose plan is not the one that was approved; a revision that is there already
/// is not refused.
pub(super) fn check(proposal: &Proposal<'_>) -> Result<Vec<Note>, Refusal> {
    let Some(approved) = proposal.approved else {
        return Ok(Vec::new());
    };
    let now = plan_digest(proposal.extension, proposal.desired);
    if proposal.change == Change::Unchanged || approved == now {
        return Ok(Vec::new());
    }
    let name = proposal.extension.object.metadata.name.as_deref();
    let name = name.unwrap_or_default();
    Err(Refusal {
        message: format!("plan {approved} is approved, and now it is plan {now}"),
        awaits: Awaited::Approval,
        notes: vec![plan_changed(name, &now, approved)],
        crds: Vec::new(),
    })
}

/// Says that another plan than the one that would be carried out is approved.
pub fn plan_changed(extension: &str, now: &str, approved: &str) -> Note {
    Note {
        reason: Reason::PlanChanged,
        message: format!(
            "nothing is applied: what would be is plan {now}, and approved is plan {approved}; \
             kubectl olm plan {extension} shows it, kubectl olm approve {extension} approves it"
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

    // plugin.md U39, U40
    #[rstest]
    #[case::nobody_asked(None, Change::Upgrade, true)]
    #[case::another(Some("sha256:a"), Change::Upgrade, false)]
    #[case::nothing_is_written(Some("sha256:a"), Change::Unchanged, true)]
    #[case::the_same(Some(""), Change::Install, true)]
    fn only_the_approved_plan_is_written(
        #[case] approved: Option<&str>,
        #[case] change: Change,
        #[case] passes: bool,
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
        let approved = approved.map(|text| if text.is_empty() { now.as_str() } else { text });
        let checked = check(&Proposal {
            extension,
            desired: &desired,
            change,
            approved,
            installed: None,
            permissions: None,
            crds: None,
        });
        assert_eq!(checked.is_ok(), passes);
        if let Err(refusal) = checked {
            let both = format!("is plan {now}, and approved is plan sha256:a; ");
            assert!(refusal.notes[0].message.contains(&both), "{refusal:?}");
        }
    }
}
