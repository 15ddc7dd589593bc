//! The revision whose objects are applied.

use olm_api::keys::annotation;
use olm_api::{CollisionProtection, ProgressionProbe};
use olm_core::object::Object;
use olm_core::revision::{Adoption, Claim, Decision, RevisionOwner, Sibling, controller, decide};

/// The revision whose phases are applied.
#[derive(Debug, Clone)]
pub struct Revision {
    /// What its objects are marked with.
    pub owner: RevisionOwner,
    /// `metadata.generation`.
    pub generation: i64,
    /// Other owners of the same extension.
    pub siblings: Vec<Sibling>,
    /// What the user has it take over.
    pub adoption: Adoption,
    /// `spec.progressionProbes`.
    pub probes: Vec<ProgressionProbe>,
    /// Whether it is the first of its extension, and never was complete: its objects are not
    /// expected to be there.
    pub first: bool,
}

impl Revision {
    pub(super) fn claim(&self, protection: CollisionProtection) -> Claim {
        Claim {
            uid: self.owner.uid.clone(),
            revision: self.owner.revision,
            protection,
            owner_name: self.owner.owner_name.clone(),
            adoption: self.adoption.clone(),
        }
    }

    /// Says whether an object is controlled by this revision, or by another owner of its extension.
    pub(super) fn controls(&self, live: &Object) -> bool {
        controller(live).is_some_and(|controller| {
            let mut siblings = self.siblings.iter();
            controller.uid == self.owner.uid || siblings.any(|one| one.uid == controller.uid)
        })
    }

    /// Decides what to do about an object.
    pub(super) fn decide(
        &self,
        live: Option<&Object>,
        protection: CollisionProtection,
    ) -> Decision {
        let claim = self.claim(protection);
        decide(live, &claim, &self.siblings, annotation::REVISION)
    }
}
