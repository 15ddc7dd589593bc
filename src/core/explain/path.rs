//! How far the edges of a package lead, step by step.

use std::collections::BTreeMap;

use super::intervals::{Interval, Intervals};
use crate::catalog::{Bundle, PackageIndex};
use crate::resolve::Query;
use crate::resolve::{Edge, edges};
use crate::version::{Version, VersionRelease};

/// The longest path that is considered, in steps.
const MAX_STEPS: usize = 200;

/// Everything that can be reached from the installed bundle within one catalog, with the shortest
/// path to each; of several the one over higher versions.
///
/// The version range is ignored here: a step it refuses is still a step.
#[derive(Debug)]
pub(super) struct Reach {
    /// For each reachable position in the package, its predecessor; `None` for a first step.
    from: BTreeMap<usize, Option<usize>>,
}

/// A bundle that a path may continue from.
struct State<'a> {
    position: Option<usize>,
    name: &'a str,
    version: &'a VersionRelease,
}

/// The edges of a package by where they start.
struct Starts<'a> {
    named: BTreeMap<&'a str, Vec<usize>>,
    /// The versions at which edges start, in ascending order.
    versions: Vec<&'a Version>,
    /// The ranges of those that were not followed yet, as positions among the versions.
    ranges: Intervals,
}

impl Reach {
    /// Walks from the installed bundle over the edges of the considered channels.
    pub(super) fn new(
        query: &Query<'_>,
        package: &PackageIndex,
        installed: &VersionRelease,
    ) -> Self {
        let mut starts = Starts::new(query, package, installed);
        let release_support = query.options.release_support;
        let name = query.request.installed.as_ref();
        let start = |name| State { position: None, name, version: installed };
        let mut frontier = vec![start(name.map_or("", |it| it.name.as_str()))];
        // The installed version may have another name in the catalog, and edges from that.
        let same = |bundle: &&Bundle| query.is_version(bundle, installed);
        let renamed = package.bundles.iter().filter(same);
        frontier.extend(renamed.map(|bundle| start(&bundle.name)));
        let mut from = BTreeMap::new();
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for state in &frontier {
                for target in starts.targets(state.name, &state.version.version) {
                    let bundle = &package.bundles[target];
                    // A bundle without a version cannot be installed, so no path goes through it.
                    let Ok(version) = bundle.version(release_support) else { continue };
                    if from.contains_key(&target) || query.is_version(bundle, installed) {
                        continue;
                    }
                    from.insert(target, state.position);
                    next.push(State { position: Some(target), name: &bundle.name, version });
                }
            }
            if next.is_empty() {
                break;
            }
            // Bundles are ordered by descending version, so the higher version comes first.
            next.sort_by_key(|state| state.position);
            frontier = next;
        }
        Self { from }
    }

    /// Returns the positions of the bundles on the path to `target`, which is the last; `None` if
    /// it cannot be reached.
    pub(super) fn path_to(&self, target: usize) -> Option<Vec<usize>> {
        let mut path = vec![target];
        let mut from = *self.from.get(&target)?;
        while let Some(position) = from {
            path.push(position);
            from = self.from.get(&position).copied().flatten();
        }
        path.reverse();
        Some(path)
    }
}

impl<'a> Starts<'a> {
    fn new(query: &Query<'_>, package: &'a PackageIndex, installed: &'a VersionRelease) -> Self {
        let release_support = query.options.release_support;
        let versions = package.bundles.iter().filter_map(|it| it.version(release_support).ok());
        let mut versions: Vec<_> =
            versions.chain([installed]).map(|version| &version.version).collect();
        versions.sort_by(|a, b| a.precedence(b));
        versions.dedup_by(|a, b| a.precedence(b).is_eq());
        let mut named: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut ranges = Vec::new();
        for (position, bundle) in package.bundles.iter().enumerate() {
            for edge in query.considered(package, bundle).flat_map(edges) {
                match edge {
                    Edge::Replaces(name) | Edge::Skips(name) => {
                        named.entry(name).or_default().push(position);
                    }
                    Edge::SkipRange(it) => {
                        let range = it.range.as_ref().ok();
                        let among = range.map(|range| range.runs(&versions));
                        let interval = |versions| Interval { versions, target: position };
                        ranges.extend(among.into_iter().flatten().map(interval));
                    }
                }
            }
        }
        Self { named, versions, ranges: Intervals::new(ranges) }
    }

    /// Returns the bundles one step away, some of them perhaps more than once, except by ranges that
    /// were followed before: their bundles have been reached.
    fn targets(&mut self, name: &str, version: &Version) -> Vec<usize> {
        let mut targets = self.named.get(name).cloned().unwrap_or_default();
        if let Ok(at) = self.versions.binary_search_by(|other| other.precedence(version)) {
            self.ranges.take(at, &mut targets);
        }
        targets
    }
}
