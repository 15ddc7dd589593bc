//! What can go wrong in a resolution; joined by [`crate::error::Chain`], the texts are those that
//! clients of upstream match on (resolution.md 1.2, 1.4, 1.9).

use std::fmt;

use super::validate::ValidationError;
use crate::catalog::BundleVersionError;
use crate::error::quote;
use crate::selector::SelectorError;
use crate::version::{VersionRangeError, VersionReleaseError};

/// Why no bundle was chosen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    /// `spec.source.catalog.selector` is invalid.
    #[error("desired catalog selector is invalid")]
    Selector(#[source] SelectorError),
    /// `spec.source.catalog.version` is invalid.
    #[error("desired version range {} is invalid", quote(.range))]
    Range { range: String, source: VersionRangeError },
    /// A catalog, or the installed version, cannot be used.
    #[error("error walking catalogs")]
    Walk(#[source] Box<WalkError>),
    /// There is no candidate, or there are several.
    #[error(transparent)]
    NoSingleBundle(Box<NoSingleBundle>),
    /// The best candidate has no valid version.
    #[error("error getting resolved bundle version for bundle {}", quote(.bundle))]
    Version { bundle: String, source: Box<BundleVersionError> },
    /// The chosen bundle cannot be installed.
    #[error("validating bundle {}", quote(.bundle))]
    Validation { bundle: String, source: ValidationError },
    /// The API server does not let the status of an extension name the chosen bundle.
    #[error(
        "the name of bundle {} is not a DNS subdomain (RFC 1123), and no status can show it: its \
         catalog has to rename it",
        quote(.0)
    )]
    BundleName(String),
}

impl ResolveError {
    /// Says whether the request itself is invalid, which only a change of the spec can fix.
    pub fn is_invalid_request(&self) -> bool {
        match self {
            Self::Selector(_) | Self::Range { .. } => true,
            Self::Walk(_)
            | Self::NoSingleBundle(_)
            | Self::Version { .. }
            | Self::Validation { .. }
            | Self::BundleName(_) => false,
        }
    }
}

/// What went wrong while going through the catalogs.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WalkError {
    /// The blobs of the package cannot be read.
    #[error("error getting package {} from catalog {}", quote(.package), quote(&.source.catalog))]
    Package { package: String, source: CatalogError },
    /// Successors cannot be found.
    #[error("error finding upgrade edges")]
    Edges(#[source] InstalledError),
}

/// What can be wrong with a catalog, in the order in which it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogProblem {
    /// Condition `Serving` is not True.
    NotServing,
    /// `status.resolvedSource` is missing.
    NoResolvedSource,
    /// `status.resolvedSource.image` is missing.
    NoImage,
    /// The last download for the wanted digest failed, with this text.
    FetchFailed(String),
    /// The content of the wanted digest is not cached.
    NotCached,
    /// The content is cached, but the blobs of the package cannot be read.
    Unreadable { package: String, cause: String },
}

/// A catalog with a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogError {
    pub catalog: String,
    pub problem: CatalogProblem,
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = quote(&self.catalog);
        match &self.problem {
            CatalogProblem::NotServing => write!(f, "catalog {name} is not being served"),
            CatalogProblem::NoResolvedSource => {
                write!(f, "error: catalog {name} has a nil status.resolvedSource value")
            }
            CatalogProblem::NoImage => {
                write!(f, "error: catalog {name} has a nil status.resolvedSource.image value")
            }
            CatalogProblem::FetchFailed(cause) => {
                write!(f, "error retrieving cache for catalog {name}: {cause}")
            }
            CatalogProblem::NotCached => write!(f, "cache for catalog {name} not found"),
            CatalogProblem::Unreadable { package, cause } => {
                write!(f, "error loading package {}: {cause}", quote(package))
            }
        }
    }
}

impl std::error::Error for CatalogError {}

/// The recorded version of the installed bundle is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstalledError {
    /// Version and release are recorded in one field.
    #[error("failed to get version and release of installed bundle")]
    Legacy(#[source] VersionReleaseError),
    /// The release is recorded in a field of its own.
    #[error("failed to parse installed bundle version and release")]
    Explicit(#[source] VersionReleaseError),
}

/// There is not exactly one bundle.
///
/// The message is known to mislead: it says that no bundle was found when one exists that is not a
/// successor. Upstream's tests compare the whole text, so the explanation goes elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NoSingleBundle {
    pub package: String,
    /// The recorded version of the installed bundle.
    pub installed: Option<String>,
    /// The requested version range.
    pub version: Option<String>,
    /// The requested channels, in their order.
    pub channels: Vec<String>,
    /// The catalogs that each have a candidate, by name; empty if none has.
    pub catalogs: Vec<String>,
}

impl fmt::Display for NoSingleBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(installed) = &self.installed {
            let installed = quote(installed);
            write!(f, "error upgrading from currently installed version {installed}: ")?;
        }
        let found = if self.catalogs.is_empty() { "no bundles found" } else { "found bundles" };
        write!(f, "{found} for package {}", quote(&self.package))?;
        if let Some(version) = &self.version {
            write!(f, " matching version {}", quote(version))?;
        }
        if !self.channels.is_empty() {
            write!(f, " in channels [{}]", self.channels.join(" "))?;
        }
        if !self.catalogs.is_empty() {
            let catalogs = self.catalogs.join(" ");
            write!(f, " in multiple catalogs with the same priority [{catalogs}]")?;
        }
        Ok(())
    }
}
