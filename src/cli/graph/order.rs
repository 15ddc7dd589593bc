//! The order in which the nodes of a channel are drawn, the heads on top.

use std::collections::BTreeSet;

use super::model::Lane;

/// Returns the nodes so that each comes after everything that replaces it, the higher version first;
/// where a cycle is in the way, the highest of those that are left comes next.
pub(super) fn order(lane: &Lane) -> Vec<usize> {
    let count = lane.nodes.len();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting = vec![0_usize; count];
    for edge in &lane.edges {
        waiting[edge.from] += 1;
        below[edge.to].push(edge.from);
    }
    let mut left: BTreeSet<usize> = (0..count).collect();
    let mut free: BTreeSet<usize> = (0..count).filter(|at| waiting[*at] == 0).collect();
    let mut order = Vec::new();
    // Nodes are in the order of their versions, so the last one is the highest. None is free where all
    // that are left are in a cycle or below one.
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
