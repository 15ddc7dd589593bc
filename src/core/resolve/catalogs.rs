//! Chooses the best bundle of each catalog, then between the catalogs.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

use super::error::{
    CatalogError, CatalogProblem, InstalledError, NoSingleBundle, ResolveError, WalkError,
};
use super::filter::{Exclusion, Reason};
use super::{CatalogReport, Held, Query, ValidationError};
use crate::catalog::{Bundle, Content, PackageIndex};

/// A ClusterCatalog as resolution sees it.
#[derive(Debug, Clone)]
pub struct Catalog<'a> {
    /// Name of the ClusterCatalog.
    pub name: &'a str,
    /// Labels of the ClusterCatalog, the one with its own name included.
    pub labels: BTreeMap<String, String>,
    /// `spec.priority`.
    pub priority: i32,
    /// Whether `spec.availabilityMode` is `Available`; otherwise the catalog does not exist.
    pub enabled: bool,
    /// What is wrong with it at present. A stale copy counts as a problem.
    pub problem: Option<CatalogProblem>,
    /// The last complete copy of its content, whatever `problem` says: of the wanted digest, or a
    /// stale one of the same object. Absent if there is none.
    pub content: Option<&'a Content>,
}

impl<'a> Catalog<'a> {
    /// Returns a package, if the catalog has it and it can be read.
    pub fn package(&self, name: &str) -> Option<&'a PackageIndex> {
        self.content?.package(name)?.ok()
    }
}

/// How a catalog that cannot be used is treated (`--catalog-unavailability-policy`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, VariantNames,
)]
pub enum Unavailability {
    /// Any problem of a selected catalog ends the resolution, as upstream does.
    Strict,
    /// A result counts if the catalogs without content cannot change it.
    #[default]
    Provable,
    /// A catalog without content counts as empty, unless its priority is above the winner's.
    BestEffort,
}

/// The outcome of filtering one catalog: what it offers, and what was left out.
#[derive(Default)]
pub(super) struct CatalogSearch<'a> {
    pub(super) report: CatalogReport<'a>,
    pub(super) held: Vec<Held<'a>>,
    pub(super) excluded: Vec<Exclusion<'a>>,
    /// The best of the bundles that do not fit the cluster.
    unfit: Option<CatalogCandidate<'a>>,
    best: Option<CatalogCandidate<'a>>,
    error: Option<WalkError>,
    /// About how many steps it took.
    pub(super) work: u64,
}

/// The best bundle of a catalog.
#[derive(Clone)]
pub(super) struct CatalogCandidate<'a> {
    pub(super) catalog: &'a str,
    pub(super) priority: i32,
    pub(super) package: &'a PackageIndex,
    pub(super) bundle: &'a Bundle,
    pub(super) deprecated: bool,
    /// Why it does not fit the cluster, if it does not.
    pub(super) unfit: Option<Arc<ValidationError>>,
}

impl Query<'_> {
    /// Filters and orders the bundles of one catalog.
    pub(super) fn walk<'a>(&self, catalog: &'a Catalog<'a>) -> CatalogSearch<'a> {
        let mut walk = CatalogSearch {
            report: CatalogReport {
                name: catalog.name,
                priority: catalog.priority,
                ..CatalogReport::default()
            },
            ..CatalogSearch::default()
        };
        match self.package(catalog, &mut walk.report) {
            Err(error) => walk.error = Some(error),
            Ok(None) => {}
            Ok(Some(package)) => {
                walk.report.bundles = package.bundles.len();
                match self.successor_basis() {
                    Ok(installed) => self.select(catalog, package, installed, &mut walk),
                    Err(error) => walk.error = Some(WalkError::Edges(error)),
                }
            }
        }
        walk
    }

    /// Returns the package of a catalog, or why it cannot be read.
    fn package<'a>(
        &self,
        catalog: &'a Catalog<'a>,
        report: &mut CatalogReport<'a>,
    ) -> Result<Option<&'a PackageIndex>, WalkError> {
        let name = &self.request.filter.package_name;
        let mut problem = catalog.problem.clone();
        let mut found = None;
        match catalog.content.map(|content| content.package(name)) {
            // A catalog without a problem should have content; trust the content.
            None => problem = problem.or(Some(CatalogProblem::NotCached)),
            Some(Some(Err(cause))) => {
                let unreadable =
                    CatalogProblem::Unreadable { package: name.clone(), cause: cause.to_owned() };
                problem = problem.or(Some(unreadable));
            }
            Some(package) => {
                report.used = true;
                found = package.and_then(Result::ok);
            }
        }
        report.problem =
            problem.map(|problem| CatalogError { catalog: catalog.name.to_owned(), problem });
        let strict = self.options.unavailability == Unavailability::Strict;
        match &report.problem {
            Some(source) if strict || !report.used => {
                Err(WalkError::Package { package: name.clone(), source: source.clone() })
            }
            Some(_) | None => Ok(found),
        }
    }

    /// Returns the installed version that successors are checked against, if they are checked.
    pub(crate) fn successor_basis(
        &self,
    ) -> Result<Option<&crate::version::VersionRelease>, InstalledError> {
        match &self.installed {
            Some(installed) if !self.self_certified => {
                installed.as_ref().map(Some).map_err(Clone::clone)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Splits the bundles of a package into candidates and others, and chooses the best.
    fn select<'a>(
        &self,
        catalog: &'a Catalog<'a>,
        package: &'a PackageIndex,
        installed: Option<&crate::version::VersionRelease>,
        walk: &mut CatalogSearch<'a>,
    ) {
        let mut best: Option<&'a Bundle> = None;
        let mut kept_back = Vec::new();
        let offered = self.offered(catalog.name, package);
        for bundle in &package.bundles {
            if let Err(reason) = self.passes(&offered, bundle, installed) {
                if reason.keeps_back() {
                    kept_back.push((bundle, reason.clone()));
                }
                walk.excluded.push(Exclusion {
                    catalog: catalog.name,
                    bundle: &bundle.name,
                    reason,
                });
                continue;
            }
            walk.report.candidates += 1;
            if best.is_none_or(|best| self.preference(package, bundle, best).is_lt()) {
                best = Some(bundle);
            }
        }
        let contribution =
            |bundle: &'a Bundle, unfit: Option<&Arc<ValidationError>>| CatalogCandidate {
                catalog: catalog.name,
                priority: catalog.priority,
                package,
                bundle,
                deprecated: package.is_deprecated(&bundle.name),
                unfit: unfit.cloned(),
            };
        kept_back.sort_by(|(a, _), (b, _)| self.preference(package, a, b));
        walk.unfit = kept_back.iter().find_map(|(bundle, reason)| match reason {
            Reason::Unfit(why) => Some(contribution(bundle, Some(why))),
            _ => None,
        });
        // Bundles that rank below the best one would have lost anyway, so they are not held back.
        kept_back.retain(|(bundle, _)| {
            best.is_none_or(|best| self.preference(package, bundle, best).is_lt())
        });
        let release_support = self.options.release_support;
        walk.held = kept_back
            .into_iter()
            .filter_map(|(bundle, reason)| {
                Some(Held {
                    catalog: catalog.name,
                    bundle: &bundle.name,
                    version: bundle.version(release_support).ok()?.clone(),
                    reason,
                    outranked: false,
                })
            })
            .collect();
        walk.best = best.map(|bundle| contribution(bundle, None));
        walk.work = offered.work();
    }

    /// Orders the bundles of one catalog, the best first: not deprecated, with a version, the
    /// higher version and release, then the name of the installed bundle, then the smaller name.
    pub(crate) fn preference(&self, package: &PackageIndex, a: &Bundle, b: &Bundle) -> Ordering {
        let release_support = self.options.release_support;
        let versions = a.before(b, release_support);
        let installed = self.request.installed.as_ref();
        let differs = |bundle: &Bundle| installed.is_none_or(|it| it.name != bundle.name);
        let deprecated = |bundle: &Bundle| package.is_deprecated(&bundle.name);
        deprecated(a)
            .cmp(&deprecated(b))
            .then(versions)
            .then_with(|| differs(a).cmp(&differs(b)))
            .then_with(|| a.name.cmp(&b.name))
    }

    /// Chooses between the catalogs: deprecation first, then priority.
    pub(super) fn choose<'w, 'a>(
        &self,
        walks: &'w [CatalogSearch<'a>],
    ) -> Result<&'w CatalogCandidate<'a>, ResolveError> {
        let first_error = walks.iter().find_map(|walk| walk.error.as_ref());
        let mut offers: Vec<_> = walks.iter().filter_map(|walk| walk.best.as_ref()).collect();
        if offers.iter().any(|offer| !offer.deprecated) {
            offers.retain(|offer| !offer.deprecated);
        }
        let top = offers.iter().map(|offer| offer.priority).max();
        let at_top = offers.iter().copied().filter(|offer| Some(offer.priority) == top);
        let at_top: Vec<_> = at_top.collect();
        let winner = match at_top.as_slice() {
            [winner] => Some(*winner),
            tied => tied.iter().copied().find(|offer| self.is_home(offer.catalog)),
        };
        match (winner, first_error) {
            (Some(winner), None) => Ok(self.unless_down(winner, walks)),
            (Some(winner), Some(_)) if self.stands(winner, walks) => {
                Ok(self.unless_down(winner, walks))
            }
            (_, Some(error)) => Err(ResolveError::Walk(Box::new(error.clone()))),
            (None, None) => match best_unfit(walks.iter()) {
                Some(unfit) if offers.is_empty() => Ok(unfit),
                _ => Err(ResolveError::NoSingleBundle(Box::new(self.no_single_bundle(&offers)))),
            },
        }
    }

    /// Returns the winner, unless it is a downgrade only because something better does not fit the
    /// cluster: an unmet requirement is not a reason to downgrade, whatever the edges allow.
    fn unless_down<'w, 'a>(
        &self,
        winner: &'w CatalogCandidate<'a>,
        walks: &'w [CatalogSearch<'a>],
    ) -> &'w CatalogCandidate<'a> {
        let Some(installed) = self.installed_version() else { return winner };
        let release_support = self.options.release_support;
        let is_down = |bundle: &Bundle| {
            let version = bundle.version(release_support);
            version.is_ok_and(|version| version.precedence(installed).is_lt())
        };
        if !is_down(winner.bundle) {
            return winner;
        }
        let outranks = |walk: &&CatalogSearch<'_>| walk.report.priority >= winner.priority;
        best_unfit(walks.iter().filter(outranks)).filter(|it| !is_down(it.bundle)).unwrap_or(winner)
    }

    /// Says whether a winner counts although some catalogs could not be read.
    ///
    /// Whatever an outranked catalog would offer is dropped, either as deprecated because the winner
    /// is not, or as not at the top. And nothing changes if the winner is the installed bundle.
    fn stands(&self, winner: &CatalogCandidate<'_>, walks: &[CatalogSearch<'_>]) -> bool {
        let unusable = || walks.iter().filter(|walk| walk.error.is_some());
        match self.options.unavailability {
            Unavailability::Strict => false,
            Unavailability::BestEffort => {
                unusable().all(|walk| walk.report.priority <= winner.priority)
            }
            Unavailability::Provable => {
                let outranks = |CatalogSearch { report, .. }: &CatalogSearch<'_>| {
                    let other = (report.name, report.priority);
                    self.outranks((winner.catalog, winner.priority), other)
                };
                self.is_installed(winner.bundle) || (!winner.deprecated && unusable().all(outranks))
            }
        }
    }

    /// Says whether a catalog wins over another one, by their priorities, whatever that offers.
    pub(crate) fn outranks(
        &self,
        (catalog, priority): (&str, i32),
        (other, theirs): (&str, i32),
    ) -> bool {
        let wins_tie = theirs == priority && self.is_home(catalog);
        catalog != other && (theirs < priority || wins_tie)
    }

    /// Returns whether the installed bundle came from a catalog.
    fn is_home(&self, catalog: &str) -> bool {
        self.request.home.as_deref() == Some(catalog)
    }

    /// Says whether a bundle is the installed one: name, version and release.
    pub(crate) fn is_installed(&self, bundle: &Bundle) -> bool {
        let is_name = self.request.installed.as_ref().is_some_and(|it| it.name == bundle.name);
        is_name && self.installed_version().is_some_and(|it| self.is_version(bundle, it))
    }

    fn no_single_bundle(&self, offers: &[&CatalogCandidate<'_>]) -> NoSingleBundle {
        let filter = &self.request.filter;
        let installed = self.request.installed.as_ref();
        NoSingleBundle {
            package: filter.package_name.clone(),
            installed: installed.map(|installed| installed.version.clone()),
            version: filter.version.clone().filter(|text| !text.is_empty()),
            channels: filter.channels.clone(),
            catalogs: offers.iter().map(|offer| offer.catalog.to_owned()).collect(),
        }
    }
}

/// Returns the best bundle that does not fit the cluster: not deprecated, of the catalog with the
/// highest priority, then with the smaller name.
fn best_unfit<'w, 'a: 'w>(
    walks: impl Iterator<Item = &'w CatalogSearch<'a>>,
) -> Option<&'w CatalogCandidate<'a>> {
    let unfit = walks.filter_map(|walk| walk.unfit.as_ref());
    unfit.min_by_key(|it| (it.deprecated, Reverse(it.priority)))
}
