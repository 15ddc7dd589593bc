//! What came of judging a constraint.

/// Whether a constraint is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The constraint is met.
    Met,
    /// The constraint is not met.
    Unmet,
    /// What it depends on could not be read.
    Unknown,
    /// What it depends on was not given (see [`super::Knowledge::NotTold`]); it excludes nothing.
    NotJudged,
}
