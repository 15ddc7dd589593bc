//! Draws entries together that differ in nothing but their version, so that a long channel fits a
//! page.
//!
//! Two kinds of groups are made, each of at least three entries: a run of entries that replace one
//! another, and entries that lead to and from the same others. Runs end where the minor version
//! changes, unless that leaves too much. What is marked (heads, the installed bundle, the next one)
//! always stays by itself.

use std::collections::{BTreeMap, BTreeSet};

use olm_core::catalog::EdgeKind;

use super::model::{Edge, Lane, Mark, Node};
use super::text::named;
use crate::output::counted;

/// The fewest entries worth drawing together.
const MIN_GROUP: usize = 3;
/// The most nodes a channel may have without runs being folded across minor versions.
const MAX_NODES: usize = 12;
/// The most lines for `skips` in a channel; more are written beside their entries.
const MAX_SKIP_LINES: usize = 40;
/// The most nodes of a channel.
const MAX_DRAWN: usize = 200;
/// Marks of nodes that are always drawn separately.
const ALONE: [Mark; 5] = [Mark::Installed, Mark::Next, Mark::Head, Mark::Outside, Mark::Classic];
/// The most names listed in the details of a group.
const MAX_LISTED: usize = 20;

/// Folds a channel.
pub(super) fn fold(mut lane: Lane) -> Lane {
    let is_skip = |edge: &Edge| edge.kind == EdgeKind::Skips && !edge.path && !edge.classic;
    if lane.edges.iter().filter(|edge| is_skip(edge)).count() > MAX_SKIP_LINES {
        write_skips_beside(&mut lane, is_skip);
    }
    let mut minor = folded(&lane, true);
    if minor.nodes.len() > MAX_NODES {
        minor = folded(&lane, false);
    }
    cut(minor)
}

/// Leaves out the lowest versions of a channel that is still too large.
fn cut(mut lane: Lane) -> Lane {
    let excess = lane.nodes.len().saturating_sub(MAX_DRAWN);
    let kept = [Mark::Installed, Mark::Next, Mark::Path, Mark::Classic];
    let dispensable = |node: &Node| !kept.iter().any(|mark| node.has(*mark));
    let nodes = lane.nodes.iter().enumerate();
    let left_out: BTreeSet<usize> =
        nodes.filter(|(_, node)| dispensable(node)).map(|(at, _)| at).take(excess).collect();
    if left_out.is_empty() {
        return lane;
    }
    let versions: usize = left_out.iter().filter_map(|at| Some(lane.nodes.get(*at)?.count)).sum();
    lane.facts.push(format!("not drawn: {}", counted(versions, "lower version")));
    let mut position = BTreeMap::new();
    let mut nodes = Vec::new();
    for (at, node) in lane.nodes.into_iter().enumerate() {
        if !left_out.contains(&at) {
            position.insert(at, nodes.len());
            nodes.push(node);
        }
    }
    lane.nodes = nodes;
    let moved = |edge: Edge| {
        let (from, to) = (*position.get(&edge.from)?, *position.get(&edge.to)?);
        Some(Edge { from, to, ..edge })
    };
    lane.edges = lane.edges.into_iter().filter_map(moved).collect();
    lane
}

/// Turns lines for `skips` into notes beside the entries they lead to.
fn write_skips_beside(lane: &mut Lane, is_skip: impl Fn(&Edge) -> bool) {
    let mut skipped: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in lane.edges.iter().filter(|edge| is_skip(edge)) {
        skipped.entry(edge.to).or_default().push(edge.from);
    }
    lane.edges.retain(|edge| !is_skip(edge));
    for (to, from) in skipped {
        let labels: Vec<_> = from.iter().map(|at| lane.nodes[*at].label.as_str()).collect();
        let note = named("skips", &labels);
        lane.nodes[to].notes.extend(note);
    }
}

/// The common properties of a group of entries.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Likeness {
    marks: BTreeSet<Mark>,
    minor: Option<(u64, u64)>,
}

/// Returns the properties that a node shares with the nodes of its group.
fn likeness(node: &Node, by_minor: bool) -> Option<Likeness> {
    if ALONE.iter().any(|mark| node.has(*mark)) {
        return None;
    }
    let version = node.version.as_ref().map(|version| &version.version);
    let minor = version.map(|version| (version.major, version.minor));
    Some(Likeness { marks: node.marks.clone(), minor: minor.filter(|_| by_minor) })
}

fn folded(lane: &Lane, by_minor: bool) -> Lane {
    let likeness: Vec<_> = lane.nodes.iter().map(|node| likeness(node, by_minor)).collect();
    let mut groups = runs(lane, &likeness);
    groups.extend(alike(lane, &likeness));
    groups.retain(|group| group.len() >= MIN_GROUP);
    let mut target: BTreeMap<usize, usize> = BTreeMap::new();
    for group in &groups {
        if let Some(first) = group.iter().min() {
            target.extend(group.iter().map(|at| (*at, *first)));
        }
    }
    merge(lane, &target)
}

/// Returns the longest runs in which each entry replaces the one before and nothing else leads
/// between them.
fn runs(lane: &Lane, likeness: &[Option<Likeness>]) -> Vec<Vec<usize>> {
    let (mut ways_in, mut ways_out) = (vec![0; lane.nodes.len()], vec![0; lane.nodes.len()]);
    for edge in &lane.edges {
        ways_in[edge.to] += 1;
        ways_out[edge.from] += 1;
    }
    let is_link = |edge: &&Edge| {
        let (from, to) = (&likeness[edge.from], &likeness[edge.to]);
        let alike = from.is_some() && from == to;
        let single = ways_out[edge.from] == 1 && ways_in[edge.to] == 1;
        edge.kind == EdgeKind::Replaces && alike && single
    };
    let links: BTreeMap<usize, usize> =
        lane.edges.iter().filter(is_link).map(|edge| (edge.from, edge.to)).collect();
    let ends: BTreeSet<usize> = links.values().copied().collect();
    let starts = links.keys().filter(|at| !ends.contains(at));
    let run = |start: &usize| {
        let mut run = vec![*start];
        let mut at = start;
        while let Some(next) = links.get(at) {
            run.push(*next);
            at = next;
        }
        run
    };
    starts.map(run).collect()
}

/// Returns groups of entries that nothing leads to and that lead to the same others in the same
/// way, if anywhere.
fn alike(lane: &Lane, likeness: &[Option<Likeness>]) -> Vec<Vec<usize>> {
    type Ways = BTreeSet<(usize, EdgeKind, bool)>;
    let mut ways_out: Vec<Ways> = vec![Ways::new(); lane.nodes.len()];
    let mut entered = BTreeSet::new();
    for edge in &lane.edges {
        ways_out[edge.from].insert((edge.to, edge.kind, edge.superseded));
        entered.insert(edge.to);
    }
    let mut groups: BTreeMap<(&Likeness, Ways), Vec<usize>> = BTreeMap::new();
    for (at, (likeness, ways)) in likeness.iter().zip(ways_out).enumerate() {
        if let Some(likeness) = likeness
            && !entered.contains(&at)
        {
            groups.entry((likeness, ways)).or_default().push(at);
        }
    }
    groups.into_values().collect()
}

/// Draws together the nodes that have the same target.
fn merge(lane: &Lane, target: &BTreeMap<usize, usize>) -> Lane {
    let mut members: BTreeMap<usize, Vec<&Node>> = BTreeMap::new();
    for (at, node) in lane.nodes.iter().enumerate() {
        members.entry(target.get(&at).copied().unwrap_or(at)).or_default().push(node);
    }
    let position: BTreeMap<usize, usize> =
        members.keys().enumerate().map(|(new, old)| (*old, new)).collect();
    let moved = |at: usize| position[target.get(&at).unwrap_or(&at)];
    let mut edges: BTreeMap<(usize, usize, EdgeKind), Edge> = BTreeMap::new();
    for edge in &lane.edges {
        let (from, to) = (moved(edge.from), moved(edge.to));
        if from == to {
            continue;
        }
        let moved = Edge { from, to, ..edge.clone() };
        let kept = edges.entry((from, to, edge.kind)).or_insert(moved);
        kept.path |= edge.path;
        kept.classic |= edge.classic;
        kept.superseded &= edge.superseded;
    }
    Lane {
        name: lane.name.clone(),
        is_channel: lane.is_channel,
        facts: lane.facts.clone(),
        nodes: members.values().map(|nodes| group(nodes)).collect(),
        edges: edges.into_values().collect(),
    }
}

/// Makes one node of several, the lowest version first.
fn group(members: &[&Node]) -> Node {
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return Node::default();
    };
    if members.len() == 1 {
        return (*first).clone();
    }
    let mut details: Vec<String> =
        members.iter().take(MAX_LISTED).filter_map(|node| node.details.first().cloned()).collect();
    if members.len() > MAX_LISTED {
        details.push(format!("and {} more", members.len() - MAX_LISTED));
    }
    let mut notes = vec![format!("{} versions", members.len())];
    for kind in [EdgeKind::Skips, EdgeKind::SkipRange] {
        let has_kind = |node: &&&Node| {
            node.notes.iter().any(|note| note.split(' ').next() == Some(kind.into()))
        };
        let count = members.iter().filter(has_kind).count();
        if count > 0 {
            notes.push(format!("{count} with {kind}"));
        }
    }
    Node {
        name: first.name.clone(),
        label: format!("{} … {}", first.label, last.label),
        version: last.version.clone(),
        marks: first.marks.clone(),
        notes,
        details,
        count: members.len(),
    }
}
