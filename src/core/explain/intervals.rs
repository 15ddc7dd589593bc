//! Intervals of positions, to be found by a position they contain.

use std::ops::Range;

/// An interval among the versions of a package, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) versions: Range<usize>,
    pub(super) target: usize,
}

/// Intervals, each of which is found once.
#[derive(Debug)]
pub(super) struct Intervals {
    /// Ordered by where they start.
    all: Vec<Interval>,
    /// The highest end below each node of a binary tree with the intervals as leaves; the children of
    /// node `n` are `2n` and `2n + 1`. An interval that was found ends at 0.
    ends: Vec<usize>,
}

impl Intervals {
    pub(super) fn new(mut all: Vec<Interval>) -> Self {
        all.sort_by_key(|interval| interval.versions.start);
        let leaves = all.len().next_power_of_two();
        let mut ends = vec![0; leaves];
        ends.extend(all.iter().map(|interval| interval.versions.end));
        ends.resize(2 * leaves, 0);
        for node in (1..leaves).rev() {
            ends[node] = ends[2 * node].max(ends[2 * node + 1]);
        }
        Self { all, ends }
    }

    /// Takes out the intervals that contain a position, and adds their targets to `found`.
    pub(super) fn take(&mut self, position: usize, found: &mut Vec<usize>) {
        let started = self.all.partition_point(|it| it.versions.start <= position);
        let leaves = self.ends.len() / 2;
        while let Some(leaf) = self.first_beyond(position).filter(|leaf| *leaf < started) {
            found.push(self.all[leaf].target);
            let mut node = leaves + leaf;
            self.ends[node] = 0;
            while node > 1 {
                node /= 2;
                self.ends[node] = self.ends[2 * node].max(self.ends[2 * node + 1]);
            }
        }
    }

    /// Returns the first interval that ends beyond a position.
    fn first_beyond(&self, position: usize) -> Option<usize> {
        let leaves = self.ends.len() / 2;
        let mut node = 1;
        if self.ends[node] <= position {
            return None;
        }
        while node < leaves {
            node *= 2;
            if self.ends[node] <= position {
                node += 1;
            }
        }
        Some(node - leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_interval_is_found_once_by_the_first_position_in_it(
            intervals in prop::collection::vec((0usize..9, 0usize..9), 0..12),
            positions in prop::collection::vec(0usize..10, 0..12),
        ) {
            let interval = |(target, (start, end)): (usize, &(usize, usize))| {
                Interval { versions: *start..*end, target }
            };
            let mut left: Vec<_> = intervals.iter().enumerate().map(interval).collect();
            let mut tree = Intervals::new(left.clone());
            for position in positions {
                let mut found = Vec::new();
                tree.take(position, &mut found);
                found.sort_unstable();
                let contains = |it: &&Interval| it.versions.contains(&position);
                let want: Vec<_> = left.iter().filter(contains).map(|it| it.target).collect();
                prop_assert_eq!(found, want);
                left.retain(|it| !it.versions.contains(&position));
            }
        }
    }
}
