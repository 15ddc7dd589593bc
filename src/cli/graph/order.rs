//! The order in which the nodes of a channel are drawn, the heads on top.

use std::collections::BTreeSet;

use super::model::{Edge, Lane};

/// Returns the nodes so that each comes after everything that replaces it, as far as cycles allow, the
/// higher version first.
pub(super) fn order(lane: &Lane) -> Vec<usize> {
    let count = lane.nodes.len();
    let turned = turned(count, &lane.edges);
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting = vec![0_usize; count];
    for (at, edge) in lane.edges.iter().enumerate() {
        let (lower, upper) =
            if turned.contains(&at) { (edge.to, edge.from) } else { (edge.from, edge.to) };
        waiting[lower] += 1;
        below[upper].push(lower);
    }
    let mut free: BTreeSet<usize> = (0..count).filter(|at| waiting[*at] == 0).collect();
    let mut order = Vec::new();
    // Nodes are in the order of their versions, so the last one is the highest.
    while let Some(at) = free.pop_last() {
        order.push(at);
        for &lower in &below[at] {
            waiting[lower] -= 1;
            if waiting[lower] == 0 {
                free.insert(lower);
            }
        }
    }
    order
}

/// Returns the edges that close a cycle when edges are followed from the lowest version on.
fn turned(count: usize, edges: &[Edge]) -> BTreeSet<usize> {
    let mut ways: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
    for (at, edge) in edges.iter().enumerate() {
        ways[edge.from].push((at, edge.to));
    }
    let mut turned = BTreeSet::new();
    let (mut open, mut done) = (vec![false; count], vec![false; count]);
    for start in 0..count {
        // Each node with how many of its ways were followed; no recursion, chains are long.
        let mut pending = vec![(start, 0)];
        while let Some((node, next)) = pending.pop() {
            if next == 0 && done[node] {
                continue;
            }
            open[node] = true;
            let Some(&(edge, to)) = ways[node].get(next) else {
                open[node] = false;
                done[node] = true;
                continue;
            };
            pending.push((node, next + 1));
            if open[to] {
                turned.insert(edge);
            } else {
                pending.push((to, 0));
            }
        }
    }
    turned
}
