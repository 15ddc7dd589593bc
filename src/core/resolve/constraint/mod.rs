//! Constraints a bundle declares on the cluster, judged: `olm.package.required`,
//! `olm.gvk.required`, `olm.constraint`, and `minKubeVersion`.
//!
//! They are checked against the current state of the cluster. Nothing is ever installed, upgraded
//! or chosen to meet one.
//!
//! Source: resolution.md section 5, decisions 8 and 9.

pub(super) mod judge;
mod text;

use super::environment::ProviderOrigin;
pub use super::verdict::Verdict;
use crate::catalog::GroupVersionKind;
pub(in crate::resolve) use text::Items;

/// One declared constraint of a bundle, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Position of its property in the bundle's list, from 0.
    pub index: usize,
    /// Type of the property.
    pub property: String,
    /// The constraint as a tree with a verdict on every node; its `Display` is the text users see.
    pub node: Node,
    /// Name of a provider that would meet the whole constraint by itself, as OLM Classic required.
    pub single_provider: Option<String>,
}

/// A constraint, or a part of one, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Whether it is met.
    pub verdict: Verdict,
    /// The author's text for when it is not met: on one line, at most 512 characters.
    pub message: Option<String>,
    /// What the constraint requires.
    pub test: Test,
}

/// What a node of a constraint requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// A package in some version.
    /// `range` is in the language of skip ranges; `found` is ordered by name of the providers.
    Package { package: String, range: String, found: Vec<FoundVersion> },
    /// A kind that is served.
    Kind { kind: GroupVersionKind, found: FoundKind },
    /// A CEL rule that the properties of some provider satisfy.
    /// `met_by` names the providers that meet it.
    Cel { rule: String, met_by: Vec<ProviderOrigin> },
    /// A minimum version of Kubernetes.
    /// `minimum` is as the bundle writes it.
    Kubernetes { minimum: String, cluster: String },
    /// Every child is met.
    All(Vec<Node>),
    /// Some child is met.
    Any(Vec<Node>),
    /// No child is met.
    Not(Vec<Node>),
}

/// An installed version of a required package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundVersion {
    /// The provider that has the version.
    pub origin: ProviderOrigin,
    /// The version as recorded.
    pub version: String,
    /// Whether it is in the range.
    pub matches: bool,
    /// Whether it would be installed by the step that is being judged.
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

/// An installed bundle whose constraints a step would break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakage {
    /// The installed bundle.
    pub origin: ProviderOrigin,
    /// Its constraints that are met now but would not be met, or would be unknown, after the step.
    pub constraints: Vec<Judgement>,
}

impl Breakage {
    /// Says whether it is certain to break, rather than only possible.
    pub fn is_certain(&self) -> bool {
        let unmet = |it: &Judgement| it.node.verdict == Verdict::Unmet;
        self.constraints.iter().any(unmet)
    }
}
