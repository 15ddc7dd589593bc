//! What holds a step of an extension: the one list that everybody asks.
//!
//! Each hold is a pure function of the [`Facts`] and stands in [`HOLDS`]; a fact that is not known
//! holds nothing. The controller stops at the first before it writes anything ([`first`]): nothing is
//! written then, and the extension is tried again after a delay and when what the hold awaits has
//! changed. `plan` and `why` name all ([`all`]), `status` reads those that were reported
//! ([`reported`]). What a hold is called, and what leads on, is in [`HOLDERS`].

mod advice;
mod approval;
mod crd_upgrade_safety;
mod permission_increase;
mod permissions;

use std::collections::BTreeMap;

use olm_api::conditions::{Reason, status, types};
use olm_api::{ClusterExtension, UpdateStatus};

use super::content::retagged;
use super::{Demand, Policy, ValidExtension};
use crate::annotations::is_paused;
use crate::crd_safety::{Evidence, evidence_text};
use crate::object::Object;
use crate::revision::{BundleRecord, Change, Desired};
use crate::status::extension::text;
use crate::status::{Note, find};
pub use advice::advice;
pub use crd_upgrade_safety::{CrdUpgrades, definitions, is_enforced, rules};
pub use permission_increase::asks_for_approval;
pub use permissions::{Judged, Judgement, RbacPreflight};

/// What is known of a step; what is not known holds nothing.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub extension: ValidExtension<'a>,
    /// What its annotations say.
    pub policy: &'a Policy,
    /// The bundle that it is to have.
    pub target: &'a BundleRecord,
    /// The installed one, if there is one.
    pub installed: Option<&'a BundleRecord>,
    /// Whether an administrator requires that the plan of the step is approved.
    pub takes_approval: bool,
    /// The step that the catalogs offer, if they or the annotations hold it.
    pub offered: Option<&'a UpdateStatus>,
    /// Why the installed operator does not allow an update.
    pub operator: Option<&'a str>,
    /// The note about the rollout of the target, if it was reverted.
    pub reverted: Option<&'a Note>,
    /// Digest of the image that the newest revision of the target was made of, and of the one that is
    /// offered.
    pub images: Option<(&'a str, &'a str)>,
    /// The revision that would be written, and what writing it changes.
    pub revision: Option<(&'a Desired, Change)>,
    /// What the installed revision holds.
    pub present: Option<&'a [Object]>,
    /// What is known of the rights of the account that writes the revision.
    pub permissions: Option<Judged<'a>>,
    /// The CRDs that it would replace.
    pub crds: Option<CrdUpgrades<'a>>,
}

impl<'a> Facts<'a> {
    /// Returns what is known before anybody looks at catalogs, bundles or the cluster.
    pub fn of(
        extension: ValidExtension<'a>,
        policy: &'a Policy,
        target: &'a BundleRecord,
        installed: Option<&'a BundleRecord>,
    ) -> Self {
        Self {
            extension,
            policy,
            target,
            installed,
            takes_approval: false,
            offered: None,
            operator: None,
            reverted: None,
            images: None,
            revision: None,
            present: None,
            permissions: None,
            crds: None,
        }
    }

    /// Returns the revision, if it is not there already.
    fn new_revision(&self) -> Option<&'a Desired> {
        self.revision.filter(|(_, change)| *change != Change::Unchanged).map(|(desired, _)| desired)
    }

    /// Returns which approval the step takes.
    fn demand(&self) -> Demand<'a> {
        self.policy.demand(self.target, self.installed, self.takes_approval)
    }

    fn name(&self) -> &'a str {
        self.extension.object.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Why a step is held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Hold {
    /// What `Progressing` says behind the name of the bundle.
    pub message: String,
    /// What a person should know, and what leads on.
    pub note: Note,
    /// Whose change may end it.
    pub awaits: Option<Awaited>,
    /// The CRDs whose objects would tell how much it matters.
    pub crds: Vec<String>,
}

impl Hold {
    /// Returns what it is called.
    pub fn word(&self) -> &'static str {
        holder(self.note.reason).word
    }

    /// Says what is known of the objects of its CRDs.
    pub fn add_evidence(&mut self, evidence: &BTreeMap<String, Evidence>) {
        self.note.message = format!("{} ({})", self.note.message, evidence_text(evidence));
    }
}

impl From<Note> for Hold {
    fn from(note: Note) -> Self {
        Self { message: note.message.clone(), note, awaits: None, crds: Vec::new() }
    }
}

/// What a held revision waits for, besides a change of its extension or of the catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Its approval, or what was approved.
    Approval,
    /// Any custom resource definition.
    CustomResourceDefinitions,
    /// The rights of the account.
    Permissions,
}

/// Returns what a person should know of a step, or what holds it.
type Check = fn(&Facts<'_>) -> Result<Vec<Note>, Hold>;

#[rustfmt::skip]
const HOLDS: [Check; 9] = [
    paused, offered, operator, reverted, content, approval::check, permission_increase::check,
    permissions::check, crd_upgrade_safety::check,
];

/// What holds steps, in one word; `kubectl olm` prints it.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    pub word: &'static str,
    /// The reasons that are called so, in conditions and in `status.update`.
    reasons: &'static [Reason],
    /// Whether the approval of the plan ends it.
    pub is_approvable: bool,
    /// The command of `kubectl olm` that leads on, before and after the name of the extension.
    command: Option<(&'static str, &'static str)>,
}

/// What a person has to decide; time, other operators or the catalogs end the rest, too.
const OF_PERSONS: [&str; 7] =
    ["pause", "crds", "rights", "approval", "increase", "content", "rollback"];

impl Holder {
    /// Returns whether only a person can end the hold.
    pub fn needs_person(&self) -> bool {
        OF_PERSONS.contains(&self.word)
    }

    /// Returns the command that leads on, if there is one.
    pub fn command(&self, extension: &str) -> Option<String> {
        self.command.map(|(verb, rest)| format!("kubectl olm {verb} {extension}{rest}"))
    }
}

const fn by(
    word: &'static str,
    reasons: &'static [Reason],
    is_approvable: bool,
    command: Option<(&'static str, &'static str)>,
) -> Holder {
    Holder { word, reasons, is_approvable, command }
}

/// In the order in which they are named. The last is what every other reason is called.
static HOLDERS: [Holder; 15] = [
    by("pause", &[Reason::Paused], false, Some(("resume", ""))),
    by("crds", &[Reason::CrdUpgradeRefused], false, None),
    by(
        "rights",
        &[Reason::PermissionsMissing],
        false,
        Some(("rbac", " --missing | kubectl apply -f -")),
    ),
    by("approval", &[Reason::PlanChanged, Reason::ApprovalRequired], true, Some(("approve", ""))),
    by("increase", &[Reason::PermissionIncrease], true, Some(("approve", ""))),
    by("content", &[Reason::ContentChanged], false, None),
    by("rollback", &[Reason::RolledBack], false, Some(("upgrade", ""))),
    // That bundle is not tried again before the spec changes.
    by("rollback", &[Reason::RolloutReverted], false, Some(("upgrade", " --to VERSION"))),
    by("version", &[Reason::Pinned], false, Some(("upgrade", ""))),
    by("window", &[Reason::OutsideWindow], true, None),
    by("move", &[Reason::OtherCatalogHeld], true, None),
    by("operator", &[Reason::OperatorNotUpgradeable], false, None),
    by("catalog", &[Reason::NotSuccessor, Reason::AmbiguousCatalogs], false, Some(("why", ""))),
    by(
        "constraints",
        &[
            Reason::ConstraintInvalid,
            Reason::ConstraintUnmet,
            Reason::ConstraintUnknown,
            Reason::DependencyUnsupported,
            Reason::BreaksInstalled,
        ],
        false,
        Some(("why", "")),
    ),
    by("policy", &[], true, Some(("upgrade", ""))),
];

/// Looks at the holds up to the first that holds. Returns what a person should know, in their order.
///
/// # Errors
/// The first hold: then nothing of the step is written.
pub fn first(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let mut notes = Vec::new();
    for check in HOLDS {
        notes.extend(check(facts)?);
    }
    Ok(notes)
}

/// Returns everything that holds a step.
pub fn all(facts: &Facts<'_>) -> Vec<Hold> {
    HOLDS.iter().filter_map(|check| check(facts).err()).collect()
}

/// Returns what a reason of a hold is called.
pub fn holder(reason: Reason) -> &'static Holder {
    named(reason).unwrap_or(&HOLDERS[HOLDERS.len() - 1])
}

fn named(reason: Reason) -> Option<&'static Holder> {
    HOLDERS.iter().find(|holder| holder.reasons.contains(&reason))
}

/// Returns whether the approval of a plan ends the hold with this word.
pub fn is_approvable(word: &str) -> bool {
    HOLDERS.iter().any(|holder| holder.word == word && holder.is_approvable)
}

/// Returns the update that an extension waits for; one that is being deleted waits for none.
pub fn awaited(extension: &ClusterExtension) -> Option<&UpdateStatus> {
    let is_kept = extension.metadata.deletion_timestamp.is_none();
    extension.status.as_ref().filter(|_| is_kept)?.update.as_ref()
}

/// Returns what holds an update, or the rollout that is under way, as the status of an extension and
/// its annotations say it.
pub fn reported(extension: &ClusterExtension) -> Vec<&'static Holder> {
    let update = awaited(extension);
    // The other reasons hold nothing, or are also those of a condition, which may be newer.
    let is_told_here =
        |reason: &Reason| !matches!(reason, Reason::RollingOut | Reason::Retrying | Reason::Paused);
    let update = update.map(of_update).filter(is_told_here);
    holders(conditioned(extension).into_iter().chain(update))
}

/// Returns the holders of these reasons, each once, in the order in which they are named.
fn holders(reasons: impl Iterator<Item = Reason>) -> Vec<&'static Holder> {
    let held: Vec<_> = reasons.map(holder).collect();
    HOLDERS.iter().filter(|holder| held.contains(holder)).collect()
}

/// Returns the reasons of what holds an extension, as its conditions and annotations say it.
fn conditioned(extension: &ClusterExtension) -> Vec<Reason> {
    let annotations = extension.metadata.annotations.as_ref();
    let seen = extension.status.as_ref();
    let condition = |type_| seen.and_then(|status| find(&status.conditions, type_));
    let mut found = Vec::new();
    found.extend(annotations.is_some_and(is_paused).then_some(Reason::Paused));
    let lacks = condition(types::PERMISSIONS).is_some_and(|it| it.status == status::FALSE);
    found.extend(lacks.then_some(Reason::PermissionsMissing));
    // What keeps the installed version from changing is a reason of an extension that is ready.
    found.extend(condition(types::READY).and_then(|ready| {
        let reason =
            ready.reason.parse::<Reason>().ok().filter(|reason| named(*reason).is_some())?;
        let stays =
            matches!(reason, Reason::ContentChanged | Reason::RolledBack | Reason::RolloutReverted);
        (stays || ready.status == status::FALSE).then_some(reason)
    }));
    found
}

/// Returns why a newer version is not taken.
fn of_update(update: &UpdateStatus) -> Reason {
    update.reason.parse().unwrap_or(Reason::NextMajorHeld)
}

fn paused(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let paused = facts.policy.paused;
    held(paused.then(|| Note { reason: Reason::Paused, message: text::paused() }))
}

/// What the catalogs offer and the annotations or the spec hold.
fn offered(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let offered = facts.offered.filter(|it| of_update(it) != Reason::Paused);
    held(offered.map(|it| Note { reason: of_update(it), message: it.message.clone() }))
}

fn operator(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let note =
        |says: &str| Note { reason: Reason::OperatorNotUpgradeable, message: says.to_owned() };
    held(facts.operator.map(note))
}

fn reverted(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    held(facts.reverted.cloned())
}

/// Other content of a version that has a revision.
fn content(facts: &Facts<'_>) -> Result<Vec<Note>, Hold> {
    let images = facts.images;
    held(images.and_then(|(recorded, offered)| retagged(facts.policy, Some(recorded), offered)))
}

fn held(note: Option<Note>) -> Result<Vec<Note>, Hold> {
    note.map_or(Ok(Vec::new()), |note| Err(note.into()))
}

#[cfg(test)]
mod tests;
