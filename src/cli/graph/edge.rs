//! The edges of a channel between its nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Edge, Node};
use super::path::Step;
use super::text::{MAX_LABEL, shown};
use olm_core::catalog::{EdgeKind, Entry, edges};

/// The most ranges of a channel that are considered, from the highest entry down.
const MAX_RANGES: usize = 100;

/// The entries of a channel by name; of several with one name all count.
pub(super) type Entries<'a> = BTreeMap<&'a str, Vec<&'a Entry>>;

/// Returns the edges made by names; of several between two bundles the strongest.
pub(super) fn named_edges(
    entries: &Entries<'_>,
    index: &BTreeMap<&str, usize>,
) -> BTreeMap<(usize, usize), Edge> {
    let mut edges = BTreeMap::new();
    let mut add = |from: &str, to: &str, kind| {
        if let (Some(&from), Some(&to)) = (index.get(from), index.get(to))
            && from != to
        {
            edges.entry((from, to)).or_insert_with(|| Edge::new(from, to, kind));
        }
    };
    let all = || entries.values().flatten();
    for entry in all() {
        add(&entry.replaces, &entry.name, EdgeKind::Replaces);
    }
    for entry in all() {
        for skipped in &entry.skips {
            add(skipped, &entry.name, EdgeKind::Skips);
        }
    }
    edges
}

/// Returns an edge for each node without an edge by name: to the highest entry whose range contains
/// it. More lines would cover everything else, and each range is written beside its entry.
pub(super) fn range_edges(
    entries: &Entries<'_>,
    nodes: &[Node],
    others: &BTreeMap<(usize, usize), Edge>,
) -> Vec<Edge> {
    let leading: BTreeSet<usize> = others.keys().map(|(from, _)| *from).collect();
    let of = |(at, node): (usize, &Node)| {
        let entries = entries.get(node.name.as_str()).into_iter().flatten();
        let entries = entries.filter(|entry| entry.skip_range.is_some());
        entries.map(|entry| (at, *entry)).collect::<Vec<_>>()
    };
    let ranges = nodes.iter().enumerate().rev().flat_map(of);
    let ranges: Vec<(usize, &Entry)> = ranges.take(MAX_RANGES).collect();
    let edge = |(from, node): (usize, &Node)| {
        let version = &node.version.as_ref().filter(|_| !leading.contains(&from))?.version;
        let leads = |(to, entry): &&(usize, &Entry)| {
            *to != from && entry.range().is_some_and(|range| range.contains(version))
        };
        let (to, entry) = ranges.iter().find(leads)?;
        Some(range_edge(from, *to, entry))
    };
    nodes.iter().enumerate().filter_map(edge).collect()
}

/// Returns the edge of a step that is taken, adding it if it was left out before.
pub(super) fn taken<'e>(
    edges: &'e mut BTreeMap<(usize, usize), Edge>,
    entries: &Entries<'_>,
    index: &BTreeMap<&str, usize>,
    from: &Step,
    to: &str,
) -> Option<&'e mut Edge> {
    let (from_at, to_at) = (*index.get(from.name.as_str())?, *index.get(to)?);
    if from_at == to_at {
        return None;
    }
    let entries = entries.get(to)?;
    let kind = kind(entries, from)?;
    let range = || entries.iter().find(|entry| entry.skip_range.is_some());
    let make = || match (kind, range()) {
        (EdgeKind::SkipRange, Some(entry)) => range_edge(from_at, to_at, entry),
        (kind, _) => Edge::new(from_at, to_at, kind),
    };
    Some(edges.entry((from_at, to_at)).or_insert_with(make))
}

fn range_edge(from: usize, to: usize, entry: &Entry) -> Edge {
    let text = entry.skip_range.as_ref().map(|range| range.text.as_str());
    Edge {
        range: shown(text.unwrap_or_default(), MAX_LABEL),
        ..Edge::new(from, to, EdgeKind::SkipRange)
    }
}

/// Returns the strongest reason for which entries may follow a bundle, if any.
pub(super) fn kind(entries: &[&Entry], from: &Step) -> Option<EdgeKind> {
    let version = &from.version.as_ref()?.version;
    let edges = entries.iter().flat_map(|entry| edges(entry));
    edges.filter(|edge| edge.leads_from(&from.name, version)).map(|edge| edge.kind).min()
}
