//! The checks a bundle must pass, besides the filters, to be a candidate.

use std::fmt;

use olm_api::conditions::Reason;

use super::constraint::{Breakage, Items, Judgement};
use crate::catalog::{Bundle, ConstraintError};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidationError {
    /// It declares a dependency, and dependencies are not supported.
    DependencyUnsupported {
        /// Name of the bundle.
        bundle: String,
        /// Type of the first such property.
        property: String,
    },
    /// A constraint cannot be parsed; the first such one.
    ConstraintInvalid {
        /// Position of its property in the bundle's list, from 0.
        index: usize,
        /// Type of the property.
        property: String,
        /// What is wrong with the constraint.
        error: ConstraintError,
    },
    /// Constraints are not met; all of those, in property order.
    ConstraintUnmet(Vec<Judgement>),
    /// No constraint is known to be unmet, but these could not be judged.
    ConstraintUnknown(Vec<Judgement>),
    /// Other installed bundles depend on what is installed now; holds them, by name.
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

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DependencyUnsupported { bundle, property } => write!(
                f,
                "bundle {} has a dependency declared via property {} which is currently not \
                 supported",
                quote(bundle),
                quote(property)
            ),
            Self::ConstraintInvalid { index, property, error } => {
                let property = quote(property);
                write!(f, "invalid constraint: property {property} at index {index}: {error}")
            }
            Self::ConstraintUnmet(unmet) => {
                write!(f, "unmet constraints: {}", Items(unmet))
            }
            Self::ConstraintUnknown(unknown) => {
                write!(f, "constraints could not be evaluated: {}", Items(unknown))
            }
            Self::BreaksInstalled(broken) => match broken.first() {
                Some(first) => first.fmt(f),
                None => Ok(()),
            },
        }
    }
}

impl std::error::Error for ValidationError {}

/// Checks a bundle. `olm.label.required` does not count as a dependency, as upstream.
pub(super) fn validate(bundle: &Bundle, dependencies: Dependencies) -> Result<(), ValidationError> {
    match (dependencies, bundle.dependencies().next()) {
        (Dependencies::Check, _) | (Dependencies::Refuse, None) => Ok(()),
        (Dependencies::Refuse, Some(property)) => Err(ValidationError::DependencyUnsupported {
            bundle: bundle.name.clone(),
            property: property.kind.clone(),
        }),
    }
}
