//! The graph that is drawn: nodes and edges by channel, with their texts made safe to show.

use std::collections::BTreeSet;

use crate::version::VersionRelease;

/// The update graph of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Name of the package.
    pub(super) package: String,
    /// What is known about the whole: deprecation, what is installed, what comes next.
    pub(super) facts: Vec<String>,
    /// The channels, the default channel first, then by name with numbers in their order.
    pub(super) channels: Vec<Lane>,
    /// Whether entries were drawn together.
    pub(super) folded: bool,
}

/// One channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) name: String,
    /// Whether it is a channel, and not the place of bundles that are in none.
    pub(super) is_channel: bool,
    /// What is known about it.
    pub(super) facts: Vec<String>,
    /// The entries, and bundles outside that edges lead from; the lowest version first.
    pub(super) nodes: Vec<Node>,
    /// From what is replaced to what replaces it, in order.
    pub(super) edges: Vec<Edge>,
}

/// One entry, or several drawn together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Name of the bundle.
    pub(super) name: String,
    /// What identifies it in the channel: its version, or its name.
    pub(super) label: String,
    pub(super) version: Option<VersionRelease>,
    pub(super) marks: BTreeSet<Mark>,
    /// What it may follow without a line being drawn.
    pub(super) notes: Vec<String>,
    /// Everything known about it, a line each.
    pub(super) details: Vec<String>,
    /// How many entries it stands for, if for several.
    pub(super) count: usize,
}

/// What distinguishes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// It is the installed bundle.
    Installed,
    /// Resolution takes it next.
    Next,
    /// Automatic updates come through it.
    Path,
    /// No entry of the channel replaces or skips it.
    Head,
    /// Its catalog lists it as deprecated.
    Deprecated,
    /// Some entry skips it.
    Skipped,
    /// It has no bundle, so it can never be chosen.
    Virtual,
    /// It is no entry of the channel.
    Outside,
    /// OLM Classic would take it next.
    Classic,
}

/// A way from one bundle to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    /// Position of the bundle that is replaced.
    pub(super) from: usize,
    /// Position of the bundle that replaces it.
    pub(super) to: usize,
    pub(super) kind: Kind,
    /// The range of [`Kind::SkipRange`].
    pub(super) range: String,
    /// Automatic updates go this way.
    pub(super) path: bool,
    /// OLM Classic would go this way next.
    pub(super) classic: bool,
    /// OLM Classic would never go this way, because the end is skipped.
    pub(super) superseded: bool,
}

/// What makes an edge; of several the first one is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Replaces,
    Skips,
    SkipRange,
}

impl Mark {
    /// Returns the word for it beside a node.
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

impl Kind {
    /// Returns the name of the field that makes the edge.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Replaces => "replaces",
            Self::Skips => "skips",
            Self::SkipRange => "skipRange",
        }
    }
}

impl Node {
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// Returns the words of its marks.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.marks.iter().filter_map(|mark| mark.word()).collect()
    }
}

impl Edge {
    pub(super) fn new(from: usize, to: usize, kind: Kind) -> Self {
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
            Kind::Replaces | Kind::Skips => self.kind.word().to_owned(),
            Kind::SkipRange => format!("skipRange({})", self.range),
        }
    }
}
