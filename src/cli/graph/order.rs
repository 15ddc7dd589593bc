//! The order in which the nodes of a channel are drawn, the heads on top.

use std::collections::BTreeSet;

use super::model::Lane;

/// Returns the nodes so that each comes after everything that replaces it, as far as cycles allow, the
/// higher version first.
pub(super) fn order(lane: &Lane) -> Vec<usize> {
    let count = lane.nodes.len();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting = vec![0_usize; count];
    for edge in lane.edges.iter().filter(|edge| edge.from != edge.to) {
        waiting[edge.from] += 1;
        below[edge.to].push(edge.from);
    }
    let mut left: BTreeSet<usize> = (0..count).collect();
    let mut free: BTreeSet<usize> = (0..count).filter(|at| waiting[*at] == 0).collect();
    let mut order = Vec::new();
    // Nodes are in the order of their versions, so the last one is the highest. In a cycle none is free.
    while let Some(at) = free.pop_last().or_else(|| left.last().copied()) {
        left.remove(&at);
        order.push(at);
        for &lower in &below[at] {
            waiting[lower] -= 1;
            if waiting[lower] == 0 && left.contains(&lower) {
                free.insert(lower);
            }
        }
    }
    order
}
