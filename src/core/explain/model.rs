//! The parts of a report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use olm_api::UpgradeConstraintPolicy;
use olm_api::conditions::Reason as Code;
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{CatalogReason, Reason};
use crate::catalog::EdgeKind;
use crate::resolve::Installed;

/// The request of a report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Asked<'a> {
    /// Name of the ClusterExtension; absent for a request made up on a command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<&'a str>,
    /// Name of the package.
    pub package: &'a str,
    /// The version range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<&'a str>,
    /// The requested channels; empty means all.
    pub channels: &'a [String],
    /// The catalog selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<&'a LabelSelector>,
    /// The upgrade constraint policy.
    pub policy: UpgradeConstraintPolicy,
    /// The installed bundle; null if nothing is installed.
    pub installed: Option<&'a Installed>,
}

/// The chosen bundle.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Chosen<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// Name of the bundle.
    pub bundle: &'a str,
    /// Version of the bundle.
    pub version: String,
    /// Release of the bundle, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Image of the bundle.
    pub image: &'a str,
    /// What is unexpected about it.
    pub warnings: Vec<Reason<'a>>,
}

/// The outcome for a catalog.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSummary<'a> {
    /// Name of the catalog.
    pub name: &'a str,
    /// Priority of the catalog.
    pub priority: i32,
    /// The first state that applies, or `Usable`.
    pub state: CatalogState,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether its content was used for the choice.
    pub consulted: bool,
    /// Whether it was used although it has a problem.
    pub used_anyway: bool,
    /// For a catalog that was not used: whether it could not have changed the answer.
    pub dominated: bool,
    /// How many bundles of the package it has.
    pub bundles: usize,
    /// How many pass every filter, or would if the catalog were used.
    pub candidates: usize,
    /// Name of the best candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<&'a str>,
    /// Other reasons that are about the catalog.
    pub reasons: Vec<CatalogReason<'a>>,
}

/// The state of a catalog in a report.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, Serialize, JsonSchema,
)]
pub enum CatalogState {
    /// Its content is cached and has the package.
    #[strum(serialize = "consulted")]
    Usable,
    /// The selector excludes it.
    #[strum(serialize = "excluded by the selector")]
    CatalogNotSelected,
    #[strum(serialize = "disabled")]
    CatalogDisabled,
    /// It is not being served.
    #[strum(serialize = "not being served")]
    CatalogNotServing,
    /// It has no resolved image yet.
    #[strum(serialize = "not resolved yet")]
    CatalogNotResolved,
    /// Its content is not cached.
    #[strum(serialize = "not downloaded yet")]
    CatalogNotCached,
    /// Its content could not be downloaded.
    #[strum(serialize = "cannot be downloaded")]
    CatalogFetchFailed,
    /// The blobs of the package cannot be read.
    #[strum(serialize = "cannot be read")]
    CatalogParseFailed,
    /// Its content is cached, but does not have the package.
    #[strum(serialize = "without the package")]
    PackageNotInCatalog,
}

impl CatalogState {
    /// Returns the stable code.
    pub fn code(self) -> Code {
        match self {
            Self::Usable => Code::Usable,
            Self::CatalogNotSelected => Code::CatalogNotSelected,
            Self::CatalogDisabled => Code::CatalogDisabled,
            Self::CatalogNotServing => Code::CatalogNotServing,
            Self::CatalogNotResolved => Code::CatalogNotResolved,
            Self::CatalogNotCached => Code::CatalogNotCached,
            Self::CatalogFetchFailed => Code::CatalogFetchFailed,
            Self::CatalogParseFailed => Code::CatalogParseFailed,
            Self::PackageNotInCatalog => Code::PackageNotInCatalog,
        }
    }
}

/// Everything known about a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BundleReport<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// Name of the bundle.
    pub name: &'a str,
    /// Version of the bundle; null if it has no valid one.
    pub version: Option<String>,
    /// Release of the bundle, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    pub channels: Vec<&'a str>,
    /// What about it is deprecated.
    #[serde(skip_serializing_if = "Deprecated::is_nothing")]
    pub deprecated: Deprecated<'a>,
    /// The edges that lead to it.
    pub edges: Vec<EdgeAccount<'a>>,
    /// The outcome for the bundle.
    pub verdict: BundleVerdict,
    /// The reasons for the verdict, by stage.
    pub reasons: Vec<Reason<'a>>,
}

/// What about a bundle is deprecated, with the author's messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Deprecated<'a> {
    /// Message about the bundle itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<&'a str>,
    /// Deprecated channels that it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<&'a str>,
    /// Message about the whole package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<&'a str>,
}

impl Deprecated<'_> {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The outcome for a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum BundleVerdict {
    /// It was chosen.
    Selected,
    /// It passed every filter, but another one was preferred.
    Candidate,
    /// It may not be chosen.
    Excluded,
}

/// An edge that leads to a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EdgeAccount<'a> {
    /// The channel of the entry.
    pub channel: &'a str,
    /// The kind of edge.
    pub kind: EdgeKind,
    /// The name of the bundle it starts at, or the text of the range.
    pub value: &'a str,
    /// Whether the channel is one of the requested ones.
    pub considered: bool,
    /// Whether the edge starts at the installed bundle; false if nothing is installed.
    pub matches: bool,
    /// Why a range is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
