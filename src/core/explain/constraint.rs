//! Judged constraints in the form the report shows.

use schemars::JsonSchema;
use serde::Serialize;

use crate::resolve::ProviderOrigin;
use crate::resolve::constraint::{FoundKind, Judgement, Node, Test, Verdict};

/// A declared constraint, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintReport {
    /// Position of its property in the bundle's list, from 0.
    pub index: usize,
    /// Type of the property.
    pub property: String,
    /// The text users see.
    pub text: String,
    /// A provider that would meet the whole constraint by itself, as OLM Classic required.
    pub single_provider: Option<String>,
    /// The constraint with a verdict on every part.
    pub tree: NodeAccount,
}

/// A constraint, or a part of one, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAccount {
    /// Whether it is met.
    pub verdict: Verdict,
    /// The author's text for when it is not met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Names of the providers that meet it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// What the constraint requires.
    #[serde(flatten)]
    pub test: TestAccount,
}

/// What a node of a constraint requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "test", rename_all = "camelCase")]
pub enum TestAccount {
    /// A package in some version.
    Package {
        /// Name of the package.
        package: String,
        /// The version range as written.
        range: String,
        /// The versions that are installed.
        installed: Vec<String>,
    },
    /// A kind that is served.
    Gvk {
        /// API group, empty for the core group.
        group: String,
        /// API version, for example `v1`.
        version: String,
        /// Kind, for example `ConfigMap`.
        kind: String,
    },
    /// A CEL rule that some provider satisfies.
    Cel {
        /// The rule as written.
        rule: String,
    },
    /// A minimum version of Kubernetes.
    MinKubeVersion {
        /// The minimum version.
        minimum: String,
        /// The version of the cluster.
        cluster: String,
    },
    /// Every one of the parts.
    All {
        /// The parts of the constraint.
        constraints: Vec<NodeAccount>,
    },
    /// At least one of the parts.
    Any {
        /// The parts of the constraint.
        constraints: Vec<NodeAccount>,
    },
    /// None of the parts.
    Not {
        /// The parts of the constraint.
        constraints: Vec<NodeAccount>,
    },
}

impl From<&Judgement> for ConstraintReport {
    fn from(judgement: &Judgement) -> Self {
        Self {
            index: judgement.index,
            property: judgement.property.clone(),
            text: judgement.to_string(),
            single_provider: judgement.single_provider.clone(),
            tree: NodeAccount::from(&judgement.node),
        }
    }
}

impl From<&Node> for NodeAccount {
    fn from(node: &Node) -> Self {
        Self {
            verdict: node.verdict,
            message: node.message.clone(),
            witnesses: witnesses(&node.test),
            test: TestAccount::from(&node.test),
        }
    }
}

fn witnesses(test: &Test) -> Vec<String> {
    let name = |origin: &ProviderOrigin| origin.name().to_owned();
    match test {
        Test::Package { found, .. } => {
            found.iter().filter(|found| found.matches).map(|found| name(&found.origin)).collect()
        }
        Test::Kind { found, .. } => match found {
            FoundKind::NotServedYet(origin) => vec![name(origin)],
            FoundKind::Nowhere | FoundKind::Served | FoundKind::Itself | FoundKind::Unknown => {
                Vec::new()
            }
        },
        Test::Cel { met_by, .. } => met_by.iter().map(name).collect(),
        Test::Kubernetes { .. } | Test::All(_) | Test::Any(_) | Test::Not(_) => Vec::new(),
    }
}

impl From<&Test> for TestAccount {
    fn from(test: &Test) -> Self {
        let parts = |nodes: &[Node]| nodes.iter().map(NodeAccount::from).collect();
        match test {
            Test::Package { package, range, found } => Self::Package {
                package: package.clone(),
                range: range.clone(),
                installed: found.iter().map(|found| found.version.clone()).collect(),
            },
            Test::Kind { kind, .. } => Self::Gvk {
                group: kind.group.clone(),
                version: kind.version.clone(),
                kind: kind.kind.clone(),
            },
            Test::Cel { rule, .. } => Self::Cel { rule: rule.clone() },
            Test::Kubernetes { minimum, cluster } => {
                Self::MinKubeVersion { minimum: minimum.clone(), cluster: cluster.clone() }
            }
            Test::All(nodes) => Self::All { constraints: parts(nodes) },
            Test::Any(nodes) => Self::Any { constraints: parts(nodes) },
            Test::Not(nodes) => Self::Not { constraints: parts(nodes) },
        }
    }
}
