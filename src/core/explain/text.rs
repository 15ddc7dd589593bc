//! Reasons as text.

use std::fmt;

use super::constraint::ConstraintReport;
use super::edge::EdgeKind;
use super::finding::{CatalogReason, Finding};
use super::model::CatalogState;

/// The longest path that is written out, in steps.
const MAX_STEPS: usize = 4;

impl fmt::Display for Finding<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each code")]
    /// Writes what follows the name of the bundle: a clause without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInRequestedChannels { channels } if channels.is_empty() => {
                f.write_str("is in no channel")
            }
            Self::NotInRequestedChannels { channels } => {
                write!(f, "is only in channel {}", channels.join(", "))
            }
            Self::InvalidVersion { error } => write!(f, "has no valid version: {error}"),
            Self::VersionOutOfRange { groups, .. } => {
                write!(f, "is not {}", groups.join(" nor "))
            }
            Self::PrereleaseNotRequested { suggestion: None } => {
                f.write_str("is a prerelease, which the range does not ask for")
            }
            Self::PrereleaseNotRequested { suggestion: Some(range) } => {
                write!(f, "is a prerelease, which \"{range}\" would admit")
            }
            Self::NotSuccessor { installed, path: None, .. } => {
                write!(f, "does not follow {installed}, and no path leads there")
            }
            Self::NotSuccessor { installed, path: Some(path), .. } => {
                let (steps, way) = (path.len().saturating_sub(1), path.join(" -> "));
                if steps <= MAX_STEPS {
                    write!(f, "is {steps} steps from {installed}: {way}")
                } else {
                    write!(f, "is {steps} steps from {installed}")
                }
            }
            Self::LowerVersionHeld => {
                f.write_str("is lower than what is installed, and held by the update policy")
            }
            Self::NextMajorHeld => {
                f.write_str("is of the next major version, and held by the update policy")
            }
            Self::NextMinorHeld => {
                f.write_str("is of the next minor version, and held by the update policy")
            }
            Self::NextPatchHeld => f.write_str("is newer, and held by the update policy"),
            Self::OutsideWindow { opens } => {
                write!(f, "is held until the update window opens at {opens}")
            }
            Self::OtherCatalogHeld { home } => {
                write!(f, "is of another catalog than what is installed, {home}, and held")
            }
            Self::DependencyUnsupported { property } => {
                write!(f, "declares a dependency by {property}, which is not supported")
            }
            Self::ConstraintInvalid { index, property, error } => {
                write!(f, "has an invalid {property} at index {index}: {error}")
            }
            Self::ConstraintUnmet { constraints } => joined(f, "", constraints),
            Self::ConstraintUnknown { constraints } => joined(f, "cannot be judged: ", constraints),
            Self::BreaksInstalled { broken } => {
                let texts: Vec<_> = broken.iter().map(|it| it.text.as_str()).collect();
                f.write_str(&texts.join("; "))
            }
            Self::Deprecated { lost_to, .. } => {
                write!(f, "is deprecated, and {lost_to} is not")
            }
            Self::LowerVersion { lost_to } => write!(f, "is lower than {lost_to}"),
            Self::LowerRelease { lost_to } => write!(f, "has a lower release than {lost_to}"),
            Self::TieBrokenByName { lost_to } => {
                write!(f, "is the same version as {lost_to}, which comes first by name")
            }
            Self::DeprecatedInThisCatalog { catalogs } => {
                write!(f, "is deprecated here, and what {} offers is not", names(catalogs))
            }
            Self::LowerPriorityCatalog { catalogs } => {
                write!(f, "loses to {} of higher priority", names(catalogs))
            }
            Self::AmbiguousCatalogs { catalogs } => {
                write!(f, "is tied with {} of the same priority", names(catalogs))
            }
            Self::UnreadableCatalogs { catalogs } => {
                let list = catalogs.join(", ");
                write!(f, "waits for catalog {list}, which cannot be read")
            }
            Self::StepBreaksInstalled { broken } => f.write_str(&broken.text),
            Self::SuccessorIsLowerVersion { from, to } => {
                write!(f, "is a step down from {from} to {to}")
            }
            Self::ForcedStep { from, to } => {
                write!(f, "is a step from {from} to {to} that no edge of the catalog allows")
            }
            Self::InNoChannel => f.write_str("is in no channel"),
            Self::InvalidSkipRange { channel, text, .. } => {
                write!(f, "has a skipRange in channel {channel} that cannot be read: \"{text}\"")
            }
            Self::EdgeInUnrequestedChannel { channel, kind } => {
                write!(f, "has an edge ({kind}) in channel {channel}, which is not requested")
            }
            Self::StaysOnInstalled => f.write_str("is the installed version"),
        }
    }
}

impl fmt::Display for CatalogReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PackageNotInCatalog { similar } if similar.is_empty() => {
                f.write_str("does not have the package")
            }
            Self::PackageNotInCatalog { similar } => {
                write!(f, "does not have the package; similar: {}", similar.join(", "))
            }
            Self::UnknownChannel { channel, .. } => write!(f, "has no channel {channel}"),
            Self::DeprecatedInThisCatalog { catalogs } => {
                write!(f, "offers a deprecated bundle, and {} does not", names(catalogs))
            }
            Self::LowerPriorityCatalog { catalogs } => {
                write!(f, "loses to {} of higher priority", names(catalogs))
            }
            Self::AmbiguousCatalogs { catalogs } => {
                write!(f, "is tied with {} of the same priority", names(catalogs))
            }
        }
    }
}

impl fmt::Display for CatalogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usable => "consulted",
            Self::CatalogNotSelected => "left out by the selector",
            Self::CatalogDisabled => "disabled",
            Self::CatalogNotServing => "not being served",
            Self::CatalogNotResolved => "not resolved yet",
            Self::CatalogNotCached => "not downloaded yet",
            Self::CatalogFetchFailed => "cannot be downloaded",
            Self::CatalogParseFailed => "cannot be read",
            Self::PackageNotInCatalog => "without the package",
        })
    }
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange => "skipRange",
        })
    }
}

fn names(catalogs: &[&str]) -> String {
    format!("catalog {}", catalogs.join(", "))
}

fn joined(
    f: &mut fmt::Formatter<'_>,
    prefix: &str,
    constraints: &[ConstraintReport],
) -> fmt::Result {
    let texts: Vec<_> = constraints.iter().map(|it| it.text.as_str()).collect();
    write!(f, "{prefix}{}", texts.join("; "))
}
