//! Decides whether a revision may take over an object that is already on the cluster.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::CollisionProtection;
use olm_api::keys::{annotation, label, policy};
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
    fn allows(&self, live: &Object) -> bool {
        let kind = live.kind();
        let full = format!("{kind}.{}", live.group());
        let named = [Self::ALL, kind, &full].iter().any(|it| self.0.contains(*it));
        let is_owned = live.list_at("/metadata/ownerReferences").next().is_some();
        named && (live.annotation(annotation::REVISION).is_none() || !is_owned)
    }
}

/// What marks an object as managed by a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionOwner {
    /// Name of the ClusterObjectSet.
    pub name: String,
    /// UID of the ClusterObjectSet.
    pub uid: String,
    /// `spec.revision`.
    pub revision: i64,
    /// Its `owner-name` label; object sets made by hand have none, and then none is written.
    pub owner_name: Option<String>,
    /// UIDs of the revisions of the same extension that are archived.
    pub archived: Vec<String>,
}

/// A revision that wants objects, and who else counts.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The labels and owner of its objects.
    pub owner: RevisionOwner,
    /// Other owners of the same extension.
    pub siblings: Vec<Sibling>,
    /// UIDs of the known revisions with the same label that are not of the same extension.
    pub strangers: BTreeSet<String>,
    /// What the user lets it take over.
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

impl Claim {
    /// Returns whether an object is controlled by this revision, or by another owner of its
    /// extension.
    pub fn controls(&self, live: &Object) -> bool {
        controller(live).is_some_and(|it| it.uid == self.owner.uid || self.sibling(&it).is_some())
    }

    fn sibling(&self, controller: &OwnerReference) -> Option<&Sibling> {
        self.siblings.iter().find(|sibling| sibling.uid == controller.uid)
    }

    /// Decides what to do about an object: `live` is the one on the cluster, if it exists, and
    /// `protection` the effective one of the object, else its phase, else the revision.
    ///
    /// The annotation with the revision number on managed objects orders siblings and marks an object that
    /// was just orphaned, but is never proof of ownership.
    ///
    /// An object whose controller was a revision that was deleted by hand still names the claimant as
    /// an owner, which keeps the garbage collector from deleting it: it goes back to the claimant. So
    /// does an object that an earlier revision of the same extension released because it holds data.
    /// What nobody controls is also taken over where the user asks for it ([`Adoption`]).
    ///
    /// Source: applying.md 3.6 and 7.3, boxcutter `machinery/objects.go`.
    pub fn decide(&self, live: Option<&Object>, protection: CollisionProtection) -> Decision {
        let Some(live) = live else { return Decision::Create };
        let Some(controller) = controller(live) else {
            if has_owner(live, &self.owner.uid)
                || is_retained_for(live, self.owner.owner_name.as_deref())
                || self.adoption.allows(live)
            {
                return Decision::Adopt;
            }
            // The garbage collector may still delete an object whose owner was just removed.
            let orphaned = live.annotation(annotation::REVISION).is_some();
            return if orphaned || protection == CollisionProtection::Prevent {
                Decision::Collide(None)
            } else {
                Decision::Adopt
            };
        };
        if controller.uid == self.owner.uid {
            return Decision::Update;
        }
        let Some(sibling) = self.sibling(&controller) else {
            if self.is_of_later_revision(live, &controller) {
                return Decision::Superseded;
            }
            return match protection {
                CollisionProtection::None => Decision::Adopt,
                CollisionProtection::Prevent | CollisionProtection::IfNoController => {
                    Decision::Collide(Some(controller))
                }
            };
        };
        match number_of(live).unwrap_or(sibling.revision).cmp(&self.owner.revision) {
            Ordering::Greater => Decision::Superseded,
            Ordering::Less => Decision::Adopt,
            Ordering::Equal => Decision::Collide(Some(controller)),
        }
    }

    /// Returns whether a later revision of the same extension controls `live`, which was created after
    /// the siblings were read: an object taken back from it would be deleted when the claimant is
    /// archived.
    fn is_of_later_revision(&self, live: &Object, controller: &OwnerReference) -> bool {
        let owner = live.label(label::OWNER_NAME);
        controller.kind == "ClusterObjectSet"
            && !self.strangers.contains(&controller.uid)
            && owner.is_some_and(|owner| Some(owner) == self.owner.owner_name.as_deref())
            && number_of(live).is_some_and(|number| number > self.owner.revision)
    }
}

/// Returns the number of the revision that an object was applied by last.
fn number_of(live: &Object) -> Option<i64> {
    live.annotation(annotation::REVISION)?.parse().ok()
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
    /// It does not belong to us.
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
pub fn removal(live: &Object, uid: &str, heirs: &BTreeSet<String>) -> Removal {
    if !has_owner(live, uid) {
        return Removal::Gone;
    }
    let ours = controller(live).is_none_or(|controller| controller.uid == uid);
    match live.pointer("/metadata/deletionTimestamp") {
        Some(_) if ours => Removal::Wait,
        None if ours && !heirs.iter().any(|heir| has_owner(live, heir)) => Removal::Delete,
        _ => Removal::Release,
    }
}

/// Says whether `live`, which is not being deleted, belongs to one of these owners, by UID: one of them is
/// its controller, or is its owner while nobody is its controller.
pub fn belongs_to(live: &Object, owners: &BTreeSet<String>) -> bool {
    let mut owners = owners.iter();
    owners.any(|owner| removal(live, owner, &BTreeSet::new()) == Removal::Delete)
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
