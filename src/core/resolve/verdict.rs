//! What came of judging a constraint.

use schemars::JsonSchema;
use serde::Serialize;

/// Whether a constraint is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ConstraintVerdict")]
pub enum Verdict {
    /// The constraint is met.
    Met,
    /// The constraint is not met.
    Unmet,
    /// What it depends on could not be read.
    Unknown,
    /// What it depends on was not given.
    // It excludes nothing, see `Knowledge::NotTold`.
    NotJudged,
}
