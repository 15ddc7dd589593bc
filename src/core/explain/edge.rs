//! The kinds of edges of an update graph.

use schemars::JsonSchema;
use serde::Serialize;

/// The kinds of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EdgeKind {
    /// From the one bundle it replaces.
    Replaces,
    /// From a bundle it skips.
    Skips,
    /// From every version in a range.
    SkipRange,
}
