//! The edges of an entry: what it says it may follow.

use schemars::JsonSchema;
use serde::Serialize;

use super::model::Entry;
use crate::version::{SkipRange, SkipRangeError, Version};

/// One permission to go from an installed bundle to the bundle of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Edge<'p> {
    pub kind: EdgeKind,
    /// The name of the bundle that it starts at, which need not exist, or the text of a range.
    pub value: &'p str,
    /// The range, or why its text is not one.
    pub range: Option<Result<&'p SkipRange, &'p SkipRangeError>>,
}

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

/// Returns the edges of an entry: `replaces`, then each of `skips`, then `skipRange`.
pub fn edges(entry: &Entry) -> impl Iterator<Item = Edge<'_>> {
    let replaces = Some(&entry.replaces).filter(|name| !name.is_empty());
    let replaces = replaces.map(|name| (EdgeKind::Replaces, name));
    let skips = entry.skips.iter().map(|name| (EdgeKind::Skips, name));
    let named = replaces.into_iter().chain(skips);
    let range = entry.skip_range.as_ref().map(|it| {
        let range = Some(it.range.as_ref());
        Edge { kind: EdgeKind::SkipRange, value: &it.text, range }
    });
    named.map(|(kind, value)| Edge { kind, value, range: None }).chain(range)
}

impl Edge<'_> {
    /// Says whether the edge starts at a bundle; an invalid skip range never does.
    pub fn leads_from(self, name: &str, version: &Version) -> bool {
        match self.range {
            None => self.value == name,
            Some(range) => range.is_ok_and(|range| range.contains(version)),
        }
    }
}

impl Entry {
    /// Returns the versions that it may follow as well, where its `skipRange` is a range.
    pub fn range(&self) -> Option<&SkipRange> {
        self.skip_range.as_ref()?.range.as_ref().ok()
    }

    /// Says whether some edge of it starts at a bundle.
    pub fn leads_from(&self, name: &str, version: &Version) -> bool {
        edges(self).any(|edge| edge.leads_from(name, version))
    }
}
