//! The kinds of edges of an update graph.

use schemars::JsonSchema;
use serde::Serialize;

use crate::resolve::Edge;

/// The kinds of edges.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    JsonSchema,
    strum::Display,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum EdgeKind {
    /// From the one bundle it replaces.
    Replaces,
    /// From a bundle it skips.
    Skips,
    /// From every version in a range.
    SkipRange,
}

impl From<Edge<'_>> for EdgeKind {
    fn from(edge: Edge<'_>) -> Self {
        match edge {
            Edge::Replaces(_) => Self::Replaces,
            Edge::Skips(_) => Self::Skips,
            Edge::SkipRange(_) => Self::SkipRange,
        }
    }
}
