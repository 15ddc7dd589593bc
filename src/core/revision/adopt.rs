//! Decides whether a revision may take over an object that is already on the cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::CollisionProtection;
use olm_api::keys::{label, policy};
use serde::Deserialize as _;

use crate::object::Object;

/// Which existing objects a user has a revision take over although they are protected: those that
/// somebody installed by hand, or that another installer left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adoption(BTreeSet<String>);

impl Adoption {
    const ALL: &'static str = "all";

    /// Reads what the annotations of an extension ask for.
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let words = annotations.get(policy::ADOPT).map(String::as_str);
        let words = words.unwrap_or_default().split(',').map(str::trim);
        Self(words.map(str::to_owned).collect())
    }

    /// Returns whether `live` may be taken over: its kind is listed, and it has no owner. An object
    /// that still names a deleted revision may be removed by the garbage collector at any moment.
    fn allows(&self, live: &Object, revision_key: &str) -> bool {
        let kind = live.kind();
        let full = format!("{kind}.{}", live.group());
        let named = [Self::ALL, kind, &full].iter().any(|it| self.0.contains(*it));
        let is_owned = live.list_at("/metadata/ownerReferences").next().is_some();
        named && (live.annotation(revision_key).is_none() || !is_owned)
    }
}

/// The revision that wants an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// UID of the ClusterObjectSet.
    pub uid: String,
    /// `spec.revision`.
    pub revision: i64,
    /// Effective collision protection: of the object, else its phase, else the revision.
    pub protection: CollisionProtection,
    /// The `owner-name` label of the revision, if it has one.
    pub owner_name: Option<String>,
    /// UIDs of the known revisions with the same label that are not of the same extension.
    pub strangers: BTreeSet<String>,
    /// What is taken over on request.
    pub adoption: Adoption,
}

/// Another owner of the same extension: an active revision, or the ClusterExtension itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// UID of the owner.
    pub uid: String,
    /// Its revision number; 0 for the ClusterExtension, whose objects any revision may take.
    pub revision: i64,
}

/// What to do about one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is absent: create it, failing if it appears meanwhile.
    Create,
    /// It is ours: apply without force, and with force where another manager took our fields.
    Update,
    /// It is taken over: the other owner references stay without `controller`, applied with force.
    Adopt,
    /// A later revision already owns it: leave it, it counts as done.
    Superseded,
    /// Something else owns it: leave it and report the controller, if there is one.
    Collide(Option<OwnerReference>),
}

/// Returns the owner reference of `live` that is marked as controller.
pub fn controller(live: &Object) -> Option<OwnerReference> {
    let mut references = live.list_at("/metadata/ownerReferences");
    OwnerReference::deserialize(references.find(|it| it["controller"] == true)?).ok()
}

/// Decides what `claim` may do about an object.
///
/// `live` is the object on the cluster, if it exists. `revision_key` is the annotation with the
/// revision number on managed objects; it orders siblings and marks an object that was just
/// orphaned, but is never proof of ownership.
///
/// An object whose controller was a revision that was deleted by hand still names the claimant as
/// an owner, which keeps the garbage collector from deleting it: it goes back to the claimant. So
/// does an object that an earlier revision of the same extension released because it holds data.
/// What nobody controls is also taken over where the user asks for it ([`Adoption`]).
///
/// Source: applying.md 3.6 and 7.3, boxcutter `machinery/objects.go`.
pub fn decide(
    live: Option<&Object>,
    claim: &Claim,
    siblings: &[Sibling],
    revision_key: &str,
) -> Decision {
    let Some(live) = live else { return Decision::Create };
    let Some(controller) = controller(live) else {
        if has_owner(live, &claim.uid)
            || is_retained_for(live, claim.owner_name.as_deref())
            || claim.adoption.allows(live, revision_key)
        {
            return Decision::Adopt;
        }
        // The garbage collector may still delete an object whose owner was just removed.
        let orphaned = live.annotation(revision_key).is_some();
        return if orphaned || claim.protection == CollisionProtection::Prevent {
            Decision::Collide(None)
        } else {
            Decision::Adopt
        };
    };
    if controller.uid == claim.uid {
        return Decision::Update;
    }
    let Some(sibling) = siblings.iter().find(|sibling| sibling.uid == controller.uid) else {
        if is_of_later_revision(live, &controller, claim, revision_key) {
            return Decision::Superseded;
        }
        return match claim.protection {
            CollisionProtection::None => Decision::Adopt,
            CollisionProtection::Prevent | CollisionProtection::IfNoController => {
                Decision::Collide(Some(controller))
            }
        };
    };
    let annotated = live.annotation(revision_key);
    let theirs = annotated.and_then(|text| text.parse::<i64>().ok()).unwrap_or(sibling.revision);
    match theirs.cmp(&claim.revision) {
        std::cmp::Ordering::Greater => Decision::Superseded,
        std::cmp::Ordering::Less => Decision::Adopt,
        std::cmp::Ordering::Equal => Decision::Collide(Some(controller)),
    }
}

/// Returns whether a later revision of the same extension controls `live`, which was created after
/// the siblings were read: an object taken back from it would be deleted when the claimant is
/// archived.
fn is_of_later_revision(
    live: &Object,
    controller: &OwnerReference,
    claim: &Claim,
    revision_key: &str,
) -> bool {
    let owner = live.label(label::OWNER_NAME);
    let number = live.annotation(revision_key).and_then(|text| text.parse::<i64>().ok());
    controller.kind == "ClusterObjectSet"
        && !claim.strangers.contains(&controller.uid)
        && owner.is_some_and(|owner| Some(owner) == claim.owner_name.as_deref())
        && number.is_some_and(|number| number > claim.revision)
}

/// What to do about one object of a revision that is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// It is ours: delete it.
    Delete,
    /// It is ours and already being deleted: wait.
    Wait,
    /// It is not ours, or not ours alone, but names us as an owner: remove only that reference.
    Release,
    /// It is absent or does not belong to us.
    Gone,
}

/// Decides what a revision with the given UID does about an object when it is removed.
///
/// Only the controller reference is proof of ownership; the revision annotation is not, because two
/// extensions can have the same number. An object without a controller that names the revision as
/// an owner lost its controller when a revision was deleted by hand, so nobody else removes it. What one
/// of `heirs` owns as well goes back to that.
///
/// Source: applying.md 3.9.
pub fn removal(live: Option<&Object>, uid: &str, heirs: &BTreeSet<String>) -> Removal {
    let Some(live) = live else { return Removal::Gone };
    let named = has_owner(live, uid);
    let ours = match controller(live) {
        Some(controller) => controller.uid == uid,
        None => named,
    };
    if ours {
        return match live.pointer("/metadata/deletionTimestamp") {
            Some(_) => Removal::Wait,
            None if heirs.iter().any(|heir| has_owner(live, heir)) => Removal::Release,
            None => Removal::Delete,
        };
    }
    if named { Removal::Release } else { Removal::Gone }
}

/// Says whether an owner reference of `live`, controller or not, has this UID.
pub fn has_owner(live: &Object, uid: &str) -> bool {
    let mut references = live.list_at("/metadata/ownerReferences");
    references.any(|reference| reference["uid"] == uid)
}

/// Says whether an earlier revision of the extension `owner` released `live` to keep its data.
pub fn is_retained_for(live: &Object, owner: Option<&str>) -> bool {
    let retained = live.label(label::RETAINED_BY);
    retained.is_some() && retained == owner
}
