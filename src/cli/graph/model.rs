//! The graph that is drawn: nodes and edges by channel, with their texts sanitized for display.

use std::collections::BTreeSet;

use olm_core::catalog::EdgeKind;
use olm_core::version::VersionRelease;

/// The update graph of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Name of the package.
    pub(super) package: String,
    /// Facts about the package: deprecation, the installed bundle, the next update.
    pub(super) facts: Vec<String>,
    /// The channels, the default channel first, then by name with numbers in their order.
    pub(super) channels: Vec<Lane>,
}

/// One channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) name: String,
    /// Whether it is a channel; false for the lane of bundles that are in no channel.
    pub(super) is_channel: bool,
    /// Facts about the channel, such as its deprecation.
    pub(super) facts: Vec<String>,
    /// The entries, and bundles outside that edges lead from; the lowest version first.
    pub(super) nodes: Vec<Node>,
    /// Edges from what is replaced to what replaces it, in order.
    pub(super) edges: Vec<Edge>,
}

/// One entry, or several drawn together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Name of the bundle.
    pub(super) name: String,
    /// Its identity in the channel: the version, or the name.
    pub(super) label: String,
    pub(super) version: Option<VersionRelease>,
    pub(super) marks: BTreeSet<Mark>,
    /// Notes on edges to it that are not drawn.
    pub(super) notes: Vec<String>,
    /// Everything known about it, one line each.
    pub(super) details: Vec<String>,
    /// The number of entries that it represents.
    pub(super) count: usize,
}

/// The marks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// It is the installed bundle.
    Installed,
    /// Resolution chooses it next.
    Next,
    /// Automatic updates go through it.
    Path,
    /// No entry of the channel replaces or skips it.
    Head,
    /// Its catalog lists it as deprecated.
    Deprecated,
    /// Some entry skips it.
    Skipped,
    /// It has no bundle, so it can never be chosen.
    Virtual,
    /// It is not an entry of the channel.
    Outside,
    /// OLM Classic would choose it next.
    Classic,
}

/// An edge from one bundle to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    /// Position of the bundle that is replaced.
    pub(super) from: usize,
    /// Position of the bundle that replaces it.
    pub(super) to: usize,
    /// The kind of edge; of several the first one is drawn.
    pub(super) kind: EdgeKind,
    /// The range of [`EdgeKind::SkipRange`].
    pub(super) range: String,
    /// Whether automatic updates follow it.
    pub(super) path: bool,
    /// Whether OLM Classic would follow it next.
    pub(super) classic: bool,
    /// Whether OLM Classic would never follow it, because its end is skipped.
    pub(super) superseded: bool,
}

impl Mark {
    /// Returns the word for the mark beside a node, if it has one.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Installed => Some("installed"),
            Self::Next => Some("next"),
            Self::Path => None,
            Self::Head => Some("head"),
            Self::Deprecated => Some("deprecated"),
            Self::Skipped => Some("skipped"),
            Self::Virtual => Some("no bundle"),
            Self::Outside => Some("not in this channel"),
            Self::Classic => Some("Classic's next"),
        }
    }
}

impl Node {
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// Returns the words for the marks of the node.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.marks.iter().filter_map(|mark| mark.word()).collect()
    }
}

impl Edge {
    pub(super) fn new(from: usize, to: usize, kind: EdgeKind) -> Self {
        Self {
            from,
            to,
            kind,
            range: String::new(),
            path: false,
            classic: false,
            superseded: false,
        }
    }

    /// Returns `replaces`, `skips` or `skipRange(<text>)`.
    pub(super) fn label(&self) -> String {
        match self.kind {
            EdgeKind::Replaces | EdgeKind::Skips => self.kind.to_string(),
            EdgeKind::SkipRange => format!("skipRange({})", self.range),
        }
    }
}
