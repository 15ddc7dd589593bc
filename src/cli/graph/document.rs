//! The graph for programs.

use olm_core::version::VersionRelease;
use schemars::JsonSchema;
use serde::Serialize;

use super::model::{Graph, Lane, Mark};

/// The update graph of a package: `kubectl olm graph`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Drawn<'a> {
    /// Name of the package.
    package: &'a str,
    /// Its deprecation, the installed bundle and the next update.
    facts: &'a [String],
    /// Its channels, the default channel first.
    channels: Vec<Channel<'a>>,
}

/// A channel, or the bundles that are in none.
#[derive(Debug, Serialize, JsonSchema)]
struct Channel<'a> {
    /// Name of the channel; absent for bundles that are in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Facts about the channel, such as its deprecation.
    facts: &'a [String],
    /// Its entries and the bundles that they replace, the lowest version first.
    bundles: Vec<Bundle<'a>>,
    /// Its edges.
    edges: Vec<Step<'a>>,
}

/// A bundle.
#[derive(Debug, Serialize, JsonSchema)]
struct Bundle<'a> {
    /// Name of the bundle.
    name: &'a str,
    /// Its version, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Its marks, such as `installed`, `next`, `head` or `deprecated`.
    marks: Vec<&'static str>,
    /// Whether automatic updates go through it.
    path: bool,
    /// Notes about edges that are not drawn.
    notes: &'a [String],
}

/// An edge.
#[derive(Debug, Serialize, JsonSchema)]
struct Step<'a> {
    /// The bundle that is replaced.
    from: &'a str,
    /// The bundle that replaces it.
    to: &'a str,
    /// The field that makes the edge: `replaces`, `skips` or `skipRange`.
    field: &'static str,
    /// Whether automatic updates follow it.
    path: bool,
}

impl Graph {
    /// Returns the graph as programs read it.
    pub(crate) fn document(&self) -> Drawn<'_> {
        let channels = self.channels.iter().map(channel).collect();
        Drawn { package: &self.package, facts: &self.facts, channels }
    }
}

fn channel(lane: &Lane) -> Channel<'_> {
    let name = |position: usize| lane.nodes.get(position).map(|node| node.name.as_str());
    let bundles = lane.nodes.iter().map(|node| Bundle {
        name: &node.name,
        version: node.version.as_ref().map(VersionRelease::recorded),
        marks: node.words(),
        path: node.has(Mark::Path),
        notes: &node.notes,
    });
    let edges = lane.edges.iter().filter_map(|edge| {
        let (from, to) = (name(edge.from)?, name(edge.to)?);
        Some(Step { from, to, field: edge.kind.into(), path: edge.path })
    });
    Channel {
        name: lane.is_channel.then_some(&*lane.name),
        facts: &lane.facts,
        bundles: bundles.collect(),
        edges: edges.collect(),
    }
}
