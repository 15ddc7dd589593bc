//! The checks a chosen bundle must pass before it counts.

use crate::catalog::Bundle;
use crate::error::quote;

/// What declared dependencies mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// A bundle that declares one is refused, as upstream does.
    #[default]
    Refuse,
    /// They exclude nothing; a caller that knows no cluster names them instead.
    Ignore,
}

/// Why a chosen bundle cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    /// It declares a dependency.
    #[error(
        "bundle {} has a dependency declared via property {} which is currently not supported",
        quote(.bundle), quote(.property)
    )]
    DependencyUnsupported {
        /// Name of the bundle.
        bundle: String,
        /// Type of the first such property.
        property: String,
    },
}

/// Checks a bundle. `olm.label.required` is no dependency here, as it is none upstream.
pub(super) fn validate(bundle: &Bundle, dependencies: Dependencies) -> Result<(), ValidationError> {
    match (dependencies, bundle.dependencies().next()) {
        (Dependencies::Ignore, _) | (Dependencies::Refuse, None) => Ok(()),
        (Dependencies::Refuse, Some(property)) => Err(ValidationError::DependencyUnsupported {
            bundle: bundle.name.clone(),
            property: property.kind.clone(),
        }),
    }
}
