//! How a resolution ended, in one word.

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;

use super::{Decision, Resolution, ResolveError, WalkError};

/// How a resolution ended: for the report, the metric and the decision what to do next.
///
/// Source: resolution.md 6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, IntoStaticStr)]
pub enum Ending {
    /// A bundle was chosen, and if it is the installed one, nothing better is held back.
    Resolved,
    /// The installed bundle stays, without an error: something newer is held back, or no catalog is
    /// left to resolve from.
    Held,
    /// No bundle passed all filters.
    NoCandidate,
    /// Several catalogs of the same priority offer the package.
    Ambiguous,
    /// A catalog that cannot be read could change the answer.
    CatalogError,
    /// The request, or the recorded version of the installed bundle, is invalid.
    InvalidRequest,
    /// The best bundle may not be installed.
    ValidationFailed,
}

impl Resolution<'_> {
    /// Returns how it ended.
    pub fn ending(&self) -> Ending {
        match (&self.result, self.decision()) {
            (Ok(_), _) if self.stays && self.held_back().next().is_some() => Ending::Held,
            (Ok(_), _) => Ending::Resolved,
            (Err(_), Decision::Keep(None)) => Ending::Held,
            (Err(error), _) => error.ending(),
        }
    }
}

impl ResolveError {
    /// Returns how a resolution with this error ended.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Selector(_) | Self::Range { .. } => Ending::InvalidRequest,
            Self::Walk(error) => match **error {
                WalkError::Package { .. } => Ending::CatalogError,
                WalkError::Edges(_) => Ending::InvalidRequest,
            },
            Self::NoSingleBundle(error) if error.catalogs.is_empty() => Ending::NoCandidate,
            Self::NoSingleBundle(_) => Ending::Ambiguous,
            Self::Version { .. } | Self::Validation { .. } | Self::BundleName(_) => {
                Ending::ValidationFailed
            }
        }
    }
}
