//! Why a bundle or a catalog is not part of the answer: one code each, with its data.

use itertools::Itertools as _;
use jiff::Timestamp;
use olm_api::conditions::Reason as Code;
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::EdgeKind;
use crate::error::Chain;
use crate::resolve::constraint::{Breakage, Judgement};
use crate::resolve::{ResolveError, ValidationError};

/// The stage of a resolution that a reason belongs to; reasons are listed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// A filter excludes the bundle.
    Filter,
    /// The bundle may not be installed here.
    Validation,
    /// Another bundle of the same catalog comes first.
    Order,
    /// Other catalogs keep the bundle from being chosen.
    Catalogs,
    /// The chosen bundle is unexpected.
    Warning,
    /// For information; it decides nothing.
    Note,
}

/// Something found about a bundle, with the stage it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reason<'a> {
    /// The stage it belongs to.
    pub stage: Stage,
    /// What was found about the bundle.
    #[serde(flatten)]
    pub finding: Finding<'a>,
}

/// What can be found about a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum Finding<'a> {
    /// It is in none of the requested channels.
    #[error("{}", only_in(channels))]
    NotInRequestedChannels { channels: Vec<&'a str> },
    /// It has no valid version.
    #[error("has no valid version: {error}")]
    InvalidVersion {
        /// What is wrong with the version.
        error: String,
    },
    /// Its version is not in the range.
    #[error("does not match {}", groups.join(" or "))]
    VersionOutOfRange {
        /// The first term of the first group that refuses it.
        term: String,
        /// The first term that refuses it, of every group of the range.
        groups: Vec<String>,
    },
    /// It is in the range, except that it is a prerelease.
    #[error("is a prerelease, which {}", suggestion.as_ref().map_or_else(
        || "the range excludes".to_owned(), |range| format!("\"{range}\" would include")))]
    PrereleaseNotRequested {
        /// A range that admits it and is otherwise the requested one.
        #[serde(skip_serializing_if = "Option::is_none")]
        suggestion: Option<String>,
    },
    /// No edge leads from the installed bundle to it.
    #[error("{}", way_from(installed, path.as_deref()))]
    NotSuccessor {
        /// Name of the installed bundle.
        installed: &'a str,
        /// The versions of the shortest path to it, both ends included, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<Vec<String>>,
        /// The versions on the path that the range refuses.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
    },
    /// The update policy holds it back: it is lower than the installed version.
    #[error("is lower than the installed version, and held by the update policy")]
    LowerVersionHeld,
    /// The update policy holds it back: its major number is higher.
    #[error("is a new major version, held by the update policy")]
    NextMajorHeld,
    /// The update policy holds it back: its minor number is higher.
    #[error("is a new minor version, held by the update policy")]
    NextMinorHeld,
    /// The update policy holds it back: its patch number, prerelease or release is higher.
    #[error("is newer, but held by the update policy")]
    NextPatchHeld,
    /// No update window is open.
    #[error("is held until the update window opens at {opens}")]
    OutsideWindow {
        /// When the next one opens.
        #[schemars(with = "String")]
        opens: Timestamp,
    },
    /// Moves to another catalog are held.
    #[error("comes from another catalog than the installed bundle ({home}), and is held")]
    OtherCatalogHeld {
        /// The catalog of the installed bundle.
        home: &'a str,
    },
    /// It declares a dependency, and dependencies are not supported.
    #[error("declares a dependency by property {property}, and dependencies are not supported")]
    DependencyUnsupported {
        /// Type of the property.
        property: String,
    },
    /// One of its constraints cannot be parsed.
    #[error("has an invalid {property} at index {index}: {error}")]
    ConstraintInvalid {
        /// Position of its property in the bundle's list, from 0.
        index: usize,
        /// Type of the property.
        property: String,
        /// What is wrong with the constraint.
        error: String,
    },
    /// Some of its constraints are not met.
    #[error("{}", constraints.iter().map(|it| &it.text).join("; "))]
    ConstraintUnmet {
        /// The constraints that are not met.
        constraints: Vec<Judgement>,
    },
    /// Some of its constraints could not be judged.
    #[error("cannot be evaluated: {}", constraints.iter().map(|it| &it.text).join("; "))]
    ConstraintUnknown {
        /// The constraints that could not be judged.
        constraints: Vec<Judgement>,
    },
    /// Installed bundles depend on what it would replace.
    #[error("{}", broken.iter().map(|it| &it.text).join("; "))]
    BreaksInstalled {
        /// The installed bundles that would break, each with its constraints that would no
        /// longer hold.
        broken: Vec<Breakage>,
    },
    /// It is deprecated, and another candidate is not.
    #[error("is deprecated, and {lost_to} is not")]
    Deprecated {
        /// The author's deprecation message, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate has a higher version.
    #[error("is lower than {lost_to}")]
    LowerVersion {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate of the same version has a higher release.
    #[error("has a lower release than {lost_to}")]
    LowerRelease {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate of the same version and release comes first by name.
    #[error("has the same version as {lost_to}, which comes first by name")]
    TieBrokenByName {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// It is deprecated in this catalog, and another catalog offers one that is not.
    #[error("is deprecated, unlike the bundle in catalog {}", catalogs.join(", "))]
    DeprecatedInThisCatalog {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// Catalogs of higher priority take precedence.
    #[error("is in a catalog of lower priority than catalog {}", catalogs.join(", "))]
    LowerPriorityCatalog {
        /// The catalogs of the highest priority.
        catalogs: Vec<&'a str>,
    },
    /// Other catalogs offer the package, and none has precedence.
    #[error("is tied with catalog {} of the same priority", catalogs.join(", "))]
    AmbiguousCatalogs {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// It would be chosen if these catalogs could be read.
    #[error("waits for catalog {}, which cannot be read", catalogs.join(", "))]
    UnreadableCatalogs {
        /// The catalogs that cannot be read.
        catalogs: Vec<String>,
    },
    /// An installed bundle depends on what it replaces, and `SelfCertified` allows it; or it is not
    /// known whether one does.
    #[error("{}", broken.text)]
    StepBreaksInstalled {
        /// The installed bundle that would or might break.
        broken: Breakage,
    },
    /// It is a downgrade of the version or release.
    #[error("is a downgrade from {from} to {to}")]
    SuccessorIsLowerVersion {
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// No edge leads to it, but `SelfCertified` allows it.
    #[error("is a step from {from} to {to} that no edge of the catalog allows")]
    ForcedStep {
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// It is not in any channel.
    #[error("is not in any channel")]
    InNoChannel,
    /// One of its skip ranges is invalid, and is ignored.
    #[error("has an invalid skipRange in channel {channel}: \"{text}\"")]
    InvalidSkipRange {
        /// Channel of the entry.
        channel: &'a str,
        /// Name of the entry.
        entry: &'a str,
        /// The range as written.
        text: &'a str,
        /// What is wrong with the range.
        error: String,
    },
    /// An edge from the installed bundle is ignored, as its channel is not requested.
    #[error("has an edge ({kind}) in channel {channel}, which is not requested")]
    EdgeInUnrequestedChannel {
        channel: &'a str,
        /// The kind of edge.
        kind: EdgeKind,
    },
    /// It is the installed version itself.
    #[error("is the installed version")]
    StaysOnInstalled,
}

impl From<&ValidationError> for Finding<'_> {
    fn from(error: &ValidationError) -> Self {
        match error {
            ValidationError::DependencyUnsupported { property, .. } => {
                let property = property.clone();
                Self::DependencyUnsupported { property }
            }
            ValidationError::ConstraintInvalid { index, property, error } => {
                Self::ConstraintInvalid {
                    index: *index,
                    property: property.clone(),
                    error: error.to_string(),
                }
            }
            ValidationError::ConstraintUnmet(unmet) => {
                Self::ConstraintUnmet { constraints: unmet.clone() }
            }
            ValidationError::ConstraintUnknown(unknown) => {
                Self::ConstraintUnknown { constraints: unknown.clone() }
            }
            ValidationError::BreaksInstalled(broken) => {
                Self::BreaksInstalled { broken: broken.clone() }
            }
        }
    }
}

/// Most steps of a path that a reason spells out.
const MAX_STEPS: usize = 4;

fn only_in(channels: &[&str]) -> String {
    match channels {
        [] => "is not in any channel".to_owned(),
        channels => format!("is only in channel {}", channels.join(", ")),
    }
}

fn way_from(installed: &str, path: Option<&[String]>) -> String {
    let Some(path) = path else {
        return format!("is not a successor of {installed}, and no update path leads to it");
    };
    format!("is {} from {installed}{}", steps(path), way(path, [": ", ""]))
}

pub(super) fn steps(path: &[String]) -> String {
    format!("{} steps", path.len().saturating_sub(1))
}

/// Returns the versions of a path between two texts, unless they are many.
pub(super) fn way(path: &[String], [before, after]: [&str; 2]) -> String {
    let is_short = path.len() <= MAX_STEPS + 1;
    if is_short { format!("{before}{}{after}", path.join(" -> ")) } else { String::new() }
}

impl Finding<'_> {
    /// Returns the bundle that comes first and may not be installed, and why.
    pub(super) fn refusal(error: &ResolveError) -> Option<(&str, Self)> {
        match error {
            ResolveError::Version { bundle, source } => {
                Some((bundle, Self::InvalidVersion { error: Chain(source).to_string() }))
            }
            ResolveError::Validation { bundle, source } => Some((bundle, Self::from(source))),
            ResolveError::Selector(_)
            | ResolveError::Range { .. }
            | ResolveError::Walk(_)
            | ResolveError::NoSingleBundle(_)
            | ResolveError::BundleName(_) => None,
        }
    }

    /// Returns the stage the finding belongs to.
    pub fn stage(&self) -> Stage {
        self.class().0
    }

    /// Returns the stable code.
    pub fn code(&self) -> Code {
        self.class().1
    }

    /// Returns the stage, and the code, which has the name of the variant.
    fn class(&self) -> (Stage, Code) {
        macro_rules! classes {
            ($($stage:ident: $($variant:ident)+;)+) => {
                match self { $($(Self::$variant { .. } => (Stage::$stage, Code::$variant),)+)+ }
            };
        }
        classes! {
            Filter: NotInRequestedChannels InvalidVersion VersionOutOfRange PrereleaseNotRequested
                NotSuccessor LowerVersionHeld NextMajorHeld NextMinorHeld NextPatchHeld
                OutsideWindow OtherCatalogHeld;
            Validation: DependencyUnsupported ConstraintInvalid ConstraintUnmet ConstraintUnknown
                BreaksInstalled;
            Order: Deprecated LowerVersion LowerRelease TieBrokenByName;
            Catalogs: DeprecatedInThisCatalog LowerPriorityCatalog AmbiguousCatalogs
                UnreadableCatalogs;
            Warning: StepBreaksInstalled SuccessorIsLowerVersion ForcedStep;
            Note: InNoChannel InvalidSkipRange EdgeInUnrequestedChannel StaysOnInstalled;
        }
    }

    /// Returns how far a bundle excluded by this is from being usable: a small change of the
    /// request weighs little; a version that was not requested weighs most.
    pub(super) fn weight(&self) -> u32 {
        match self {
            Self::NotSuccessor { .. } => 2,
            Self::NotInRequestedChannels { .. } => 3,
            Self::InvalidVersion { .. } => 50,
            Self::VersionOutOfRange { .. } => 10,
            _ => 1,
        }
    }
}

impl<'a> Reason<'a> {
    /// Says whether it keeps the bundle from being chosen.
    pub fn excludes(&self) -> bool {
        matches!(self.stage, Stage::Filter | Stage::Validation)
    }

    /// Makes a reason why a candidate lost; a missing version, or a lower one, is one of them.
    pub(super) fn of_losing(finding: Finding<'a>) -> Self {
        let stage = match finding.stage() {
            Stage::Filter | Stage::Warning => Stage::Order,
            stage => stage,
        };
        Self { stage, finding }
    }
}

impl<'a> From<Finding<'a>> for Reason<'a> {
    fn from(finding: Finding<'a>) -> Self {
        Self { stage: finding.stage(), finding }
    }
}

/// A reason that is about a whole catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum CatalogReason<'a> {
    /// It does not have the package.
    #[error("does not have the package{}", match similar.as_slice() {
        [] => String::new(), names => format!("; similar: {}", names.join(", ")) })]
    PackageNotInCatalog {
        /// Its packages whose names differ by at most two letters.
        similar: Vec<&'a str>,
    },
    /// It does not have a requested channel.
    #[error("has no channel {channel}")]
    UnknownChannel {
        /// The requested channel.
        channel: &'a str,
        /// The channels of the package.
        existing: Vec<&'a str>,
    },
    /// Its best bundle is deprecated, and another catalog offers one that is not.
    #[error("offers a deprecated bundle, and catalog {} does not", catalogs.join(", "))]
    DeprecatedInThisCatalog {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// Catalogs of higher priority take precedence.
    #[error("has a lower priority than catalog {}", catalogs.join(", "))]
    LowerPriorityCatalog {
        /// The catalogs of the highest priority.
        catalogs: Vec<&'a str>,
    },
    /// Other catalogs offer the package, and none has precedence.
    #[error("is tied with catalog {} of the same priority", catalogs.join(", "))]
    AmbiguousCatalogs {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
}
