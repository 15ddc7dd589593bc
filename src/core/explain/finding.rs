//! Why a bundle or a catalog is not part of the answer: one code each, with its data.

use jiff::Timestamp;
use olm_api::conditions::Reason as Code;
use schemars::JsonSchema;
use serde::Serialize;

use super::constraint::ConstraintReport;
use super::edge::EdgeKind;
use crate::resolve::ValidationError;
use crate::resolve::constraint::{Breakage, Judgement};

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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum Finding<'a> {
    /// It is in none of the requested channels.
    NotInRequestedChannels { channels: Vec<&'a str> },
    /// It has no valid version.
    InvalidVersion {
        /// What is wrong with the version.
        error: String,
    },
    /// Its version is not in the range.
    VersionOutOfRange {
        /// The first term of the first group that refuses it.
        term: String,
        /// The first term that refuses it, of every group of the range.
        groups: Vec<String>,
    },
    /// It is in the range, except that it is a prerelease.
    PrereleaseNotRequested {
        /// A range that admits it and is otherwise the requested one.
        #[serde(skip_serializing_if = "Option::is_none")]
        suggestion: Option<String>,
    },
    /// No edge leads from the installed bundle to it.
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
    LowerVersionHeld,
    /// The update policy holds it back: its major number is higher.
    NextMajorHeld,
    /// The update policy holds it back: its minor number is higher.
    NextMinorHeld,
    /// The update policy holds it back: its patch number, prerelease or release is higher.
    NextPatchHeld,
    /// No update window is open.
    OutsideWindow {
        /// When the next one opens.
        #[schemars(with = "String")]
        opens: Timestamp,
    },
    /// Moves to another catalog are held.
    OtherCatalogHeld {
        /// The catalog that what is installed came from.
        home: &'a str,
    },
    /// It declares a dependency, and dependencies are not supported.
    DependencyUnsupported {
        /// Type of the property.
        property: String,
    },
    /// One of its constraints cannot be parsed.
    ConstraintInvalid {
        /// Position of its property in the bundle's list, from 0.
        index: usize,
        /// Type of the property.
        property: String,
        /// What is wrong with the constraint.
        error: String,
    },
    /// Some of its constraints are not met.
    ConstraintUnmet {
        /// The constraints that are not met.
        constraints: Vec<ConstraintReport>,
    },
    /// Some of its constraints could not be judged.
    ConstraintUnknown {
        /// The constraints that could not be judged.
        constraints: Vec<ConstraintReport>,
    },
    /// Installed bundles depend on what it would replace.
    BreaksInstalled {
        /// The installed bundles that would break, each with its constraints that would no
        /// longer hold.
        broken: Vec<Broken>,
    },
    /// It is deprecated, and another candidate is not.
    Deprecated {
        /// The author's deprecation message, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate has a higher version.
    LowerVersion {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate of the same version has a higher release.
    LowerRelease {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// Another candidate of the same version and release comes first by name.
    TieBrokenByName {
        /// The bundle that comes first.
        lost_to: &'a str,
    },
    /// It is deprecated in this catalog, and another catalog offers one that is not.
    DeprecatedInThisCatalog {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// Catalogs of higher priority take precedence.
    LowerPriorityCatalog {
        /// The catalogs of the highest priority.
        catalogs: Vec<&'a str>,
    },
    /// Other catalogs offer the package, and none has precedence.
    AmbiguousCatalogs {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// It would be chosen if these catalogs could be read.
    UnreadableCatalogs {
        /// The catalogs that cannot be read.
        catalogs: Vec<String>,
    },
    /// An installed bundle depends on what it replaces, and `SelfCertified` allows it; or it is not
    /// known whether one does.
    StepBreaksInstalled {
        /// The installed bundle that would or might break.
        broken: Broken,
    },
    /// It is a downgrade of the version or release.
    SuccessorIsLowerVersion {
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// No edge leads to it, but `SelfCertified` allows it.
    ForcedStep {
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// It is not in any channel.
    InNoChannel,
    /// One of its skip ranges is invalid, and is ignored.
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
    EdgeInUnrequestedChannel {
        channel: &'a str,
        /// The kind of edge.
        kind: EdgeKind,
    },
    /// It is the installed version itself.
    StaysOnInstalled,
}

/// An installed bundle that a step would break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Broken {
    /// Name of the installed bundle.
    pub name: String,
    /// The text users see.
    pub text: String,
    /// Its constraints that would no longer hold.
    pub constraints: Vec<ConstraintReport>,
}

impl From<&Breakage> for Broken {
    fn from(breakage: &Breakage) -> Self {
        let constraints = breakage.constraints.iter();
        Self {
            name: breakage.origin.name().to_owned(),
            text: breakage.to_string(),
            constraints: constraints.map(ConstraintReport::from).collect(),
        }
    }
}

impl From<&ValidationError> for Finding<'_> {
    fn from(error: &ValidationError) -> Self {
        let accounts = |list: &[Judgement]| list.iter().map(ConstraintReport::from).collect();
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
                Self::ConstraintUnmet { constraints: accounts(unmet) }
            }
            ValidationError::ConstraintUnknown(unknown) => {
                Self::ConstraintUnknown { constraints: accounts(unknown) }
            }
            ValidationError::BreaksInstalled(broken) => {
                Self::BreaksInstalled { broken: broken.iter().map(Broken::from).collect() }
            }
        }
    }
}

impl Finding<'_> {
    /// Returns the stage the finding belongs to.
    pub fn stage(&self) -> Stage {
        match self {
            Self::NotInRequestedChannels { .. }
            | Self::InvalidVersion { .. }
            | Self::VersionOutOfRange { .. }
            | Self::PrereleaseNotRequested { .. }
            | Self::NotSuccessor { .. }
            | Self::LowerVersionHeld
            | Self::NextMajorHeld
            | Self::NextMinorHeld
            | Self::NextPatchHeld
            | Self::OutsideWindow { .. }
            | Self::OtherCatalogHeld { .. } => Stage::Filter,
            Self::DependencyUnsupported { .. }
            | Self::ConstraintInvalid { .. }
            | Self::ConstraintUnmet { .. }
            | Self::ConstraintUnknown { .. }
            | Self::BreaksInstalled { .. } => Stage::Validation,
            Self::Deprecated { .. }
            | Self::LowerVersion { .. }
            | Self::LowerRelease { .. }
            | Self::TieBrokenByName { .. } => Stage::Order,
            Self::DeprecatedInThisCatalog { .. }
            | Self::LowerPriorityCatalog { .. }
            | Self::AmbiguousCatalogs { .. }
            | Self::UnreadableCatalogs { .. } => Stage::Catalogs,
            Self::StepBreaksInstalled { .. }
            | Self::SuccessorIsLowerVersion { .. }
            | Self::ForcedStep { .. } => Stage::Warning,
            Self::InNoChannel
            | Self::InvalidSkipRange { .. }
            | Self::EdgeInUnrequestedChannel { .. }
            | Self::StaysOnInstalled => Stage::Note,
        }
    }
}

impl Finding<'_> {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::NotInRequestedChannels { .. } => Code::NotInRequestedChannels,
            Self::InvalidVersion { .. } => Code::InvalidVersion,
            Self::VersionOutOfRange { .. } => Code::VersionOutOfRange,
            Self::PrereleaseNotRequested { .. } => Code::PrereleaseNotRequested,
            Self::NotSuccessor { .. } => Code::NotSuccessor,
            Self::LowerVersionHeld => Code::LowerVersionHeld,
            Self::NextMajorHeld => Code::NextMajorHeld,
            Self::NextMinorHeld => Code::NextMinorHeld,
            Self::NextPatchHeld => Code::NextPatchHeld,
            Self::OutsideWindow { .. } => Code::OutsideWindow,
            Self::OtherCatalogHeld { .. } => Code::OtherCatalogHeld,
            Self::DependencyUnsupported { .. } => Code::DependencyUnsupported,
            Self::ConstraintInvalid { .. } => Code::ConstraintInvalid,
            Self::ConstraintUnmet { .. } => Code::ConstraintUnmet,
            Self::ConstraintUnknown { .. } => Code::ConstraintUnknown,
            Self::BreaksInstalled { .. } => Code::BreaksInstalled,
            Self::Deprecated { .. } => Code::Deprecated,
            Self::LowerVersion { .. } => Code::LowerVersion,
            Self::LowerRelease { .. } => Code::LowerRelease,
            Self::TieBrokenByName { .. } => Code::TieBrokenByName,
            Self::DeprecatedInThisCatalog { .. } => Code::DeprecatedInThisCatalog,
            Self::LowerPriorityCatalog { .. } => Code::LowerPriorityCatalog,
            Self::AmbiguousCatalogs { .. } => Code::AmbiguousCatalogs,
            Self::UnreadableCatalogs { .. } => Code::UnreadableCatalogs,
            Self::StepBreaksInstalled { .. } => Code::StepBreaksInstalled,
            Self::SuccessorIsLowerVersion { .. } => Code::SuccessorIsLowerVersion,
            Self::ForcedStep { .. } => Code::ForcedStep,
            Self::InNoChannel => Code::InNoChannel,
            Self::InvalidSkipRange { .. } => Code::InvalidSkipRange,
            Self::EdgeInUnrequestedChannel { .. } => Code::EdgeInUnrequestedChannel,
            Self::StaysOnInstalled => Code::StaysOnInstalled,
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

    /// Makes a reason why a candidate lost; a missing version is one of them.
    pub(super) fn of_losing(finding: Finding<'a>) -> Self {
        let stage = match finding.stage() {
            Stage::Filter => Stage::Order,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum CatalogReason<'a> {
    /// It does not have the package.
    PackageNotInCatalog {
        /// Its packages whose names differ by at most two letters.
        similar: Vec<&'a str>,
    },
    /// It does not have a requested channel.
    UnknownChannel {
        /// The requested channel.
        channel: &'a str,
        /// The channels of the package.
        existing: Vec<&'a str>,
    },
    /// Its best bundle is deprecated, and another catalog offers one that is not.
    DeprecatedInThisCatalog {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
    /// Catalogs of higher priority take precedence.
    LowerPriorityCatalog {
        /// The catalogs of the highest priority.
        catalogs: Vec<&'a str>,
    },
    /// Other catalogs offer the package, and none has precedence.
    AmbiguousCatalogs {
        /// The other catalogs.
        catalogs: Vec<&'a str>,
    },
}
