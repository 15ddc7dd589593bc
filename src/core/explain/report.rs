//! The whole report.
//!
//! The names and shapes of the members are a stable interface, of which
//! `docs/schemas/resolution.report.json` is made; members are only ever added.

use olm_api::conditions::Reason as Code;
use schemars::JsonSchema;
use serde::Serialize;

use super::hint::Hint;
use super::model::{Asked, BundleReport, CatalogSummary, Chosen};
use super::target::Target;
use crate::resolve::constraint::Judgement;
use crate::resolve::{ClassicStep, Ending};
use crate::status::Said;

/// Why a `ClusterExtension` gets the bundle that it gets, or none: `kubectl olm why`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report<'a> {
    /// Assumptions in place of data that could not be read, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub assumed: Vec<&'a str>,
    /// What the status of the extension reports, if it is on a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Said>,
    pub request: Asked<'a>,
    /// How it ended.
    pub result: Ending,
    /// The exact error text, if it ended with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the bundle that comes first may not be installed, if it may not.
    #[serde(skip)]
    pub(super) refused: Option<Headline>,
    /// The chosen bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<Chosen<'a>>,
    /// What holds the chosen bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub holds: Vec<Headline>,
    /// Every catalog, consulted or not, by name.
    pub catalogs: Vec<CatalogSummary<'a>>,
    /// Every bundle of the package in the consulted catalogs, by catalog, the best first.
    pub bundles: Vec<BundleReport<'a>>,
    /// The constraints of the chosen bundle, judged by what is known about the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Judgement>,
    /// What a user can do, the most useful first.
    pub hints: Vec<Hint<'a>>,
    /// How to get to the version that the caller asked about, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target<'a>>,
    /// What OLM Classic would do with the same channels of the decisive catalog.
    pub classic: Vec<ClassicStep<'a>>,
}

/// Why a resolution failed or something newer is held, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Headline {
    /// The class of the reason, a code of the report: `NotSuccessor`, `NextMajorHeld`, ...
    #[schemars(with = "String")]
    pub code: Code,
    /// The sentence, without a full stop: the state, the alternatives, what to do.
    pub text: String,
}
