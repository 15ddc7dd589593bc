//! What keeps a bundle from being installed, besides the filters.

use olm_api::conditions::Reason;

use super::constraint::{Breakage, Items, Judgement};
use crate::catalog::ConstraintError;
use crate::error::quote;

/// How declared dependencies are treated (gate `ConstraintChecking`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// They are judged by what is known about the cluster; a bundle whose constraints are not met
    /// is not a candidate.
    #[default]
    Check,
    /// A chosen bundle that declares one is refused, as upstream does.
    Refuse,
}

/// Why a bundle cannot be installed; the text is what follows `validating bundle "<b>": `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    /// It declares a dependency, and dependencies are not supported.
    /// `property` is the type of the first such property.
    #[error(
        "bundle {} has a dependency declared via property {} which is currently not supported",
        quote(bundle),
        quote(property)
    )]
    DependencyUnsupported { bundle: String, property: String },
    /// A constraint cannot be parsed; the first such one.
    /// `index` is the position of its property in the bundle's list, from 0.
    #[error("invalid constraint: property {} at index {index}: {error}", quote(property))]
    ConstraintInvalid { index: usize, property: String, error: ConstraintError },
    /// Constraints are not met; all of those, in property order.
    #[error("unmet constraints: {}", Items(.0))]
    ConstraintUnmet(Vec<Judgement>),
    /// No constraint is known to be unmet, but these could not be judged.
    #[error("constraints could not be evaluated: {}", Items(.0))]
    ConstraintUnknown(Vec<Judgement>),
    /// Other installed bundles depend on the present one; holds them, by name.
    #[error("{}", .0.first().map(ToString::to_string).unwrap_or_default())]
    BreaksInstalled(Vec<Breakage>),
}

impl ValidationError {
    /// Returns the stable code (resolution.md 6.2).
    pub fn code(&self) -> Reason {
        match self {
            Self::DependencyUnsupported { .. } => Reason::DependencyUnsupported,
            Self::ConstraintInvalid { .. } => Reason::ConstraintInvalid,
            Self::ConstraintUnmet(_) => Reason::ConstraintUnmet,
            Self::ConstraintUnknown(_) => Reason::ConstraintUnknown,
            Self::BreaksInstalled(_) => Reason::BreaksInstalled,
        }
    }
}
