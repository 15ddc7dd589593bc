//! Constraints a bundle declares on the cluster, judged: `olm.package.required`,
//! `olm.gvk.required`, `olm.constraint`, and `minKubeVersion`.
//!
//! They are checked against what is there. Nothing is ever installed, upgraded or chosen to meet
//! one.
//!
//! Source: resolution.md section 5, decisions 8 and 9.

pub(super) mod judge;
mod text;

use super::environment::Origin;
use crate::catalog::GroupVersionKind;
pub(in crate::resolve) use text::Items;

/// One declared constraint of a bundle, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Position of its property in the bundle's list, from 0.
    pub index: usize,
    /// Type of the property.
    pub property: String,
    /// The tree with a verdict on every node; its `Display` is the text a user sees.
    pub node: Node,
    /// Name of a provider that would meet the whole by itself; OLM Classic asked for one.
    pub single_provider: Option<String>,
}

/// A constraint, or a part of one, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Whether it is met.
    pub verdict: Verdict,
    /// What the author says when it is not: on one line, at most 512 characters.
    pub message: Option<String>,
    /// What is asked for.
    pub test: Test,
}

/// Whether a constraint is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Unmet,
    /// What it depends on could not be read.
    Unknown,
    /// What it depends on was not told (see [`super::Knowledge::NotTold`]); it excludes nothing.
    NotJudged,
}

/// What a node of a constraint asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// A package in some version.
    Package {
        /// Name of the package.
        package: String,
        /// The range, in the language of skip ranges.
        range: String,
        /// The versions of the package that are installed, by name of their provider.
        found: Vec<FoundVersion>,
    },
    /// A kind that is served.
    Kind {
        /// The kind.
        kind: GroupVersionKind,
        /// Where it was found.
        found: FoundKind,
    },
    /// A CEL rule that some provider's properties meet.
    Cel {
        /// The rule.
        rule: String,
        /// The providers that meet it, by name.
        met_by: Vec<Origin>,
    },
    /// A version of Kubernetes, or a later one.
    Kubernetes {
        /// The version as the bundle writes it.
        minimum: String,
        /// The version of the cluster.
        cluster: String,
    },
    /// Every child is met.
    All(Vec<Node>),
    /// Some child is met.
    Any(Vec<Node>),
    /// No child is met.
    Not(Vec<Node>),
}

/// An installed version of a package that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundVersion {
    /// Who provides it.
    pub origin: Origin,
    /// The version as recorded.
    pub version: String,
    /// Whether it is in the range.
    pub matches: bool,
    /// Whether it would be installed by the very step that is judged.
    pub would_become: bool,
}

/// Where a kind was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundKind {
    /// Nowhere.
    Nowhere,
    /// The API server serves it.
    Served,
    /// The bundle that asks for it brings it.
    Itself,
    /// Something installed should bring it, but it is not served yet.
    NotServedYet(Origin),
    /// The discovery of its group failed, or nobody looked.
    Unknown,
}

/// Something installed whose constraints a step would break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakage {
    /// What would break.
    pub origin: Origin,
    /// Those of its constraints that are met now and would not be afterwards, or would be unknown.
    pub constraints: Vec<Judgement>,
}

impl Breakage {
    /// Says whether it would break for certain, rather than maybe.
    pub fn is_certain(&self) -> bool {
        let unmet = |it: &Judgement| it.node.verdict == Verdict::Unmet;
        self.constraints.iter().any(unmet)
    }
}
