//! Checks of a revision between planning and writing it.
//!
//! Each check is a pure function of a [`Proposal`] and stands in [`CHECKS`]; what it needs to know
//! of the cluster becomes a member of the proposal. The controller runs all of them in each
//! reconcile that gets as far as writing or keeping a revision, before it writes anything,
//! certificates included.

mod crd_upgrade_safety;

use crate::extension::ValidExtension;
use crate::revision::{Change, Desired};
use crate::status::Note;

/// The revision that an extension is to have.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// The extension it is for.
    pub extension: ValidExtension<'a>,
    /// What it is to hold.
    pub desired: &'a Desired,
    /// What writing it changes; [`Change::Unchanged`] where the newest revision is the desired one.
    pub change: Change,
}

/// Returns what a person should know of a proposal.
type Check = fn(&Proposal<'_>) -> Option<Note>;

const CHECKS: [Check; 1] = [crd_upgrade_safety::check];

/// Runs all checks. Returns what a person should know, in the order of the checks.
pub fn run(proposal: &Proposal<'_>) -> Vec<Note> {
    CHECKS.iter().filter_map(|check| check(proposal)).collect()
}
