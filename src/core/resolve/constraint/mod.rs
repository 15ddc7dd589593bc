//! Constraints a bundle declares on the cluster, judged: `olm.package.required`,
//! `olm.gvk.required`, `olm.constraint`, and `minKubeVersion`.
//!
//! They are checked against the current state of the cluster. Nothing is ever installed, upgraded
//! or chosen to meet one.
//!
//! Source: resolution.md section 5, decisions 8 and 9.

pub(super) mod judge;
mod text;

use schemars::JsonSchema;
use serde::Serialize;

use super::environment::ProviderOrigin;
pub use super::verdict::Verdict;
use crate::catalog::GroupVersionKind;
pub(in crate::resolve) use text::Items;

/// A declared constraint, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ConstraintReport")]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// Position of its property in the bundle's list, from 0.
    pub index: usize,
    /// Type of the property.
    pub property: String,
    /// The text users see.
    pub text: String,
    /// A provider that would meet the whole constraint by itself, as OLM Classic required.
    pub single_provider: Option<String>,
    /// The constraint with a verdict on every part.
    pub tree: Node,
}

/// A constraint, or a part of one, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NodeAccount")]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Whether it is met.
    pub verdict: Verdict,
    /// The author's text for when it is not met.
    // On one line, at most 512 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Names of the providers that meet it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// What the constraint requires.
    #[serde(flatten)]
    pub test: Test,
}

/// What a node of a constraint requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TestAccount")]
#[serde(tag = "test", rename_all = "camelCase")]
pub enum Test {
    /// A package in some version.
    Package {
        /// Name of the package.
        package: String,
        /// The version range as written.
        // In the language of skip ranges.
        range: String,
        /// The versions that are installed.
        // Ordered by name of the providers.
        #[serde(rename = "installed")]
        #[schemars(with = "Vec<String>")]
        found: Vec<FoundVersion>,
    },
    /// A kind that is served.
    #[serde(rename = "gvk")]
    Kind {
        #[serde(flatten)]
        kind: GroupVersionKind,
        #[serde(skip)]
        found: FoundKind,
    },
    /// A CEL rule that some provider satisfies.
    Cel {
        /// The rule as written.
        rule: String,
        /// The providers that meet it.
        #[serde(skip)]
        met_by: Vec<ProviderOrigin>,
        /// Unless it is set, the rules take too many steps together, and some were not looked at.
        #[serde(skip)]
        is_evaluated: bool,
    },
    /// A minimum version of Kubernetes.
    #[serde(rename = "minKubeVersion")]
    Kubernetes {
        /// The minimum version.
        // As the bundle writes it.
        minimum: String,
        /// The version of the cluster.
        cluster: String,
    },
    /// Every one of the parts.
    All {
        /// The parts of the constraint.
        constraints: Vec<Node>,
    },
    /// At least one of the parts.
    Any {
        /// The parts of the constraint.
        constraints: Vec<Node>,
    },
    /// None of the parts.
    Not {
        /// The parts of the constraint.
        constraints: Vec<Node>,
    },
}

/// An installed version of a required package, written as the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct FoundVersion {
    /// The provider that has the version.
    #[serde(skip)]
    pub origin: ProviderOrigin,
    /// The version as recorded.
    pub version: String,
    /// Whether it is in the range.
    #[serde(skip)]
    pub matches: bool,
    /// Whether it would be installed by the step that is being judged.
    #[serde(skip)]
    pub would_become: bool,
}

/// Where a kind was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundKind {
    /// It is not served, or only by a bundle that does not count here; no other bundle provides it.
    Nowhere,
    /// The API server serves it.
    Served,
    /// The bundle that requires it provides it.
    Itself,
    /// An installed bundle should provide it, but it is not served yet.
    NotServedYet(ProviderOrigin),
    /// The discovery of its group failed, or was not done.
    Unknown,
}

/// An installed bundle that a step would break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Broken")]
pub struct Breakage {
    #[serde(skip)]
    pub origin: ProviderOrigin,
    /// Name of the installed bundle.
    pub name: String,
    /// The text users see.
    pub text: String,
    /// Its constraints that would no longer hold.
    // They are met now, and would not be met, or would be unknown, after the step.
    pub constraints: Vec<Judgement>,
}

impl Judgement {
    pub(in crate::resolve) fn new(
        (index, property): (usize, &str),
        tree: Node,
        single_provider: Option<String>,
    ) -> Self {
        let (property, text) = (property.to_owned(), String::new());
        let mut judgement = Self { index, property, text, single_provider, tree };
        judgement.text = Items(std::slice::from_ref(&judgement)).to_string();
        judgement
    }
}

impl Node {
    pub(in crate::resolve) fn new(verdict: Verdict, message: Option<String>, test: Test) -> Self {
        let origins: Vec<_> = match &test {
            Test::Package { found, .. } => {
                found.iter().filter(|found| found.matches).map(|found| &found.origin).collect()
            }
            Test::Kind { found: FoundKind::NotServedYet(origin), .. } => vec![origin],
            Test::Cel { met_by, .. } => met_by.iter().collect(),
            _ => Vec::new(),
        };
        let witnesses = origins.into_iter().map(|origin| origin.name().to_owned()).collect();
        Self { verdict, message, witnesses, test }
    }
}

impl Breakage {
    pub(in crate::resolve) fn new(origin: ProviderOrigin, constraints: Vec<Judgement>) -> Self {
        let (name, text) = (origin.name().to_owned(), String::new());
        let mut breakage = Self { origin, name, text, constraints };
        let would = if breakage.is_certain() { "would" } else { "could" };
        let items = Items(&breakage.constraints);
        breakage.text = format!("{would} break installed {}: {items}", breakage.origin);
        breakage
    }

    /// Says whether it is certain to break, rather than only possible.
    pub fn is_certain(&self) -> bool {
        let unmet = |it: &Judgement| it.tree.verdict == Verdict::Unmet;
        self.constraints.iter().any(unmet)
    }
}
