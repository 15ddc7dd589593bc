//! Checks of a revision between planning and writing it.
//!
//! Each check is a pure function of a [`Proposal`] and stands in [`CHECKS`]; what it needs to know
//! of the cluster becomes a member of the proposal. The controller runs them in each reconcile that
//! gets as far as writing or keeping a revision, before it writes anything, certificates included.
//! A check gives notes, or a [`Refusal`]: then nothing is written, and the extension is tried again
//! after a delay and when what it awaits has changed.

mod approval;
mod crd_upgrade_safety;
mod permission_increase;
mod permissions;

use std::collections::BTreeMap;

use crate::crd_safety::{Evidence, evidence_text};
use crate::extension::{Demand, ValidExtension};
use crate::object::Object;
use crate::revision::{Change, Desired};
use crate::status::Note;
pub use approval::{NOT_APPROVED, unapproved};
pub use crd_upgrade_safety::{CrdUpgrades, definitions, is_enforced};
pub use permission_increase::increase;
pub use permissions::{Judged, Judgement, RbacPreflight};

/// The revision that an extension is to have.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// The extension it is for.
    pub extension: ValidExtension<'a>,
    /// What it is to hold.
    pub desired: &'a Desired,
    /// What writing it changes; [`Change::Unchanged`] where the newest revision is the desired one.
    pub change: Change,
    /// Which approval writing it takes.
    pub demand: Demand<'a>,
    /// What is installed, where more rights than that gives have to be approved.
    pub installed: Option<&'a [Object]>,
    /// What is known of the rights of the account that writes it, where somebody looked.
    pub permissions: Option<Judged<'a>>,
    /// The CRDs that it would replace, where their upgrades are checked.
    pub crds: Option<CrdUpgrades<'a>>,
}

/// Why a revision is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What `Progressing` says behind the name of the bundle.
    pub message: String,
    /// Whose change may make it pass.
    pub awaits: Awaited,
    /// What a person should know besides.
    pub notes: Vec<Note>,
    /// The CRDs whose objects would tell how much it matters.
    pub crds: Vec<String>,
}

impl Refusal {
    /// Says what is known of the objects of its CRDs.
    pub fn add_evidence(&mut self, evidence: &BTreeMap<String, Evidence>) {
        for note in &mut self.notes {
            note.message = format!("{} ({})", note.message, evidence_text(evidence));
        }
    }
}

/// What a refused revision waits for, besides a change of its extension or of the catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Its approval, or what was approved.
    Approval,
    /// Any custom resource definition.
    CustomResourceDefinitions,
    /// The rights of the account.
    Permissions,
}

/// Returns what a person should know of a proposal, or why it is not written.
type Check = fn(&Proposal<'_>) -> Result<Vec<Note>, Refusal>;

const CHECKS: [Check; 4] =
    [approval::check, permission_increase::check, permissions::check, crd_upgrade_safety::check];

/// Runs the checks up to the first that refuses. Returns what a person should know, in the order of
/// the checks.
///
/// # Errors
///
/// If a check refuses the proposal: then nothing of it is written.
pub fn run(proposal: &Proposal<'_>) -> Result<Vec<Note>, Refusal> {
    let mut notes = Vec::new();
    for check in CHECKS {
        notes.extend(check(proposal)?);
    }
    Ok(notes)
}
