//! How far the edges of a package lead, step by step.

use std::collections::BTreeMap;

use crate::catalog::{Bundle, Entry, PackageIndex};
use crate::resolve::Query;
use crate::version::VersionRelease;

/// The longest path that is considered, in steps.
const MAX_STEPS: usize = 200;
/// Most bundles times entries of a package whose paths are looked for: each entry may lead from each
/// bundle. The largest packages of public catalogs have a tenth.
const MAX_PAIRS: usize = 10_000_000;
/// How many names that an entry skips take as long to compare as its range.
const SKIPS_OF_ENTRY: usize = 10;

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

impl Reach {
    /// Walks from the installed bundle over the edges of the considered channels.
    pub(super) fn new<'p>(
        query: &Query<'_>,
        package: &'p PackageIndex,
        installed: &'p VersionRelease,
    ) -> Self {
        let mut from = BTreeMap::new();
        let entries = package.channels.values().flat_map(|channel| &channel.entries);
        let entries: usize = entries.map(|entry| 1 + entry.skips.len() / SKIPS_OF_ENTRY).sum();
        if package.bundles.len().saturating_mul(entries) > MAX_PAIRS {
            return Self { from };
        }
        let is_same = |bundle: &&Bundle| query.is_version(bundle, installed);
        // A bundle without a version cannot be installed, so no path goes through it.
        let target = |(position, bundle): (usize, &'p Bundle)| {
            let version = bundle.version(query.options.release_support).ok()?;
            let entries: Vec<_> = query.considered(package, bundle).collect();
            let state = State { position: Some(position), name: &bundle.name, version };
            (!is_same(&bundle)).then_some((state, entries))
        };
        let mut open: Vec<_> = package.bundles.iter().enumerate().filter_map(target).collect();
        let name = query.request.installed.as_ref().map_or("", |it| it.name.as_str());
        // The installed version may have another name in the catalog, and edges from that.
        let renamed = package.bundles.iter().filter(is_same).map(|bundle| bundle.name.as_str());
        let start = |name| State { position: None, name, version: installed };
        let mut frontier: Vec<_> = [name].into_iter().chain(renamed).map(start).collect();
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for State { position, name, version } in frontier {
                let leads = |(_, entries): &mut (State<'_>, Vec<&Entry>)| {
                    entries.iter().any(|entry| entry.leads_from(name, &version.version))
                };
                for (target, _) in open.extract_if(.., leads) {
                    from.extend(target.position.map(|target| (target, position)));
                    next.push(target);
                }
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
