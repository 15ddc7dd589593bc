//! The edges of an entry: what it says it may follow.

use crate::catalog::{Entry, SkipRangeText};
use crate::version::Version;

/// One permission to go from an installed bundle to the bundle of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge<'p> {
    /// From the bundle of this name.
    Replaces(&'p str),
    /// From the bundle of this name, which need not exist.
    Skips(&'p str),
    /// From every version in the range.
    SkipRange(&'p SkipRangeText),
}

/// Returns the edges of an entry: `replaces`, then each of `skips`, then `skipRange`.
pub fn edges(entry: &Entry) -> impl Iterator<Item = Edge<'_>> {
    let replaces = Some(entry.replaces.as_str()).filter(|name| !name.is_empty());
    let skips = entry.skips.iter().map(|name| Edge::Skips(name));
    let skip_range = entry.skip_range.as_ref().map(Edge::SkipRange);
    replaces.map(Edge::Replaces).into_iter().chain(skips).chain(skip_range)
}

impl Edge<'_> {
    /// Says whether the edge starts at a bundle; an invalid skip range never does.
    pub fn leads_from(self, name: &str, version: &Version) -> bool {
        match self {
            Self::Replaces(from) | Self::Skips(from) => from == name,
            Self::SkipRange(skip_range) => {
                let range = skip_range.range.as_ref();
                range.is_ok_and(|range| range.contains(version))
            }
        }
    }
}
