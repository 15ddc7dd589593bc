//! The outcome for each catalog, including those that were not consulted.

use std::cmp::Reverse;

use super::evaluation::PackageEvaluation;
use super::finding::CatalogReason;
use super::model::{CatalogState, CatalogSummary};
use crate::catalog::{Content, PackageIndex};
use crate::resolve::{Catalog, CatalogError, CatalogProblem, Query, Resolution, Unavailability};
use crate::selector::Selector;
use crate::similar;

/// The most similar package names that are listed.
const MAX_SIMILAR: usize = 5;

/// A catalog, with its survey if it has the package.
pub(super) struct CatalogEvaluation<'a, 'q> {
    pub(super) catalog: &'a Catalog<'a>,
    pub(super) account: CatalogSummary<'a>,
    pub(super) survey: Option<PackageEvaluation<'a, 'q>>,
}

impl<'a, 'q> CatalogEvaluation<'a, 'q> {
    /// Examines one catalog.
    pub(super) fn new(
        query: &'q Query<'a>,
        selector: &Selector,
        catalog: &'a Catalog<'a>,
        resolution: &Resolution<'_>,
    ) -> Self {
        let walked = resolution.catalogs.iter().find(|it| it.name == catalog.name);
        let problem = walked.and_then(|it| it.problem.as_ref());
        let strict = query.options.unavailability == Unavailability::Strict;
        let consulted = walked.is_some_and(|it| it.used) && !(strict && problem.is_some());
        let survey = PackageEvaluation::new(query, catalog);
        let found = catalog.package(&query.request.filter.package_name);
        let state = if !selector.matches(&catalog.labels) {
            CatalogState::CatalogNotSelected
        } else if !catalog.enabled {
            CatalogState::CatalogDisabled
        } else if let Some(problem) = problem {
            state(problem)
        } else if found.is_none() {
            CatalogState::PackageNotInCatalog
        } else {
            CatalogState::Usable
        };
        let mut looked = Self {
            catalog,
            account: CatalogSummary {
                name: catalog.name,
                priority: catalog.priority,
                state,
                error: problem.map(ToString::to_string),
                consulted,
                used_anyway: consulted && problem.is_some(),
                dominated: false,
                bundles: found.map_or(0, |package| package.bundles.len()),
                candidates: survey.as_ref().map_or(0, |it| it.candidates.len()),
                best: survey.as_ref().and_then(|it| Some(it.best()?.name.as_str())),
                reasons: Vec::new(),
            },
            survey,
        };
        looked.account.dominated = !consulted && looked.is_dominated(query, resolution);
        looked.account.reasons = looked.reasons(query, found);
        looked
    }

    /// Says whether the catalog could not have changed the answer, had it been consulted: it is
    /// known to offer nothing, the winner outranks it, or the winner is already installed.
    fn is_dominated(&self, query: &Query<'_>, resolution: &Resolution<'_>) -> bool {
        let readable = self.catalog.content.is_some_and(|content| {
            let package = content.package(&query.request.filter.package_name);
            package.is_none_or(|package| package.is_ok())
        });
        if readable && self.account.candidates == 0 {
            return true;
        }
        let Ok(winner) = &resolution.result else { return false };
        let other = (self.catalog.name, self.catalog.priority);
        let outranks = query.outranks((winner.catalog, winner.priority), other);
        // An unreadable catalog is ignored when the installed bundle stays; a readable one that was
        // left out on purpose may offer more.
        let stays = !readable && query.is_installed(winner.bundle);
        (outranks && !winner.deprecated) || stays
    }

    /// Returns the reasons that do not depend on other catalogs.
    fn reasons(
        &self,
        query: &Query<'a>,
        found: Option<&'a PackageIndex>,
    ) -> Vec<CatalogReason<'a>> {
        let Some(package) = found else {
            let similar = self.similar(&query.request.filter.package_name);
            let absent = self.account.state == CatalogState::PackageNotInCatalog;
            return Vec::from_iter(
                absent.then_some(CatalogReason::PackageNotInCatalog { similar }),
            );
        };
        let channels = query.request.filter.channels.iter();
        let unknown = channels.filter(|channel| !package.channels.contains_key(*channel));
        let existing = || package.channels.keys().map(String::as_str).collect();
        unknown
            .map(|channel| CatalogReason::UnknownChannel { channel, existing: existing() })
            .collect()
    }

    /// Returns packages of the catalog with similar names, the most similar first.
    fn similar(&self, wanted: &str) -> Vec<&'a str> {
        let packages = self.catalog.content.into_iter().flat_map(Content::packages);
        let mut similar: Vec<_> = packages
            .filter_map(|(name, _)| {
                Some((similar::distance(wanted, name, similar::MAX_DISTANCE)?, name))
            })
            .collect();
        similar.sort_unstable();
        similar.truncate(MAX_SIMILAR);
        similar.into_iter().map(|(_, name)| name).collect()
    }
}

/// Returns the surveys of the consulted catalogs, those of the highest priority first.
pub(super) fn consulted<'s, 'a, 'q>(
    all: &'s [CatalogEvaluation<'a, 'q>],
) -> Vec<&'s PackageEvaluation<'a, 'q>> {
    let consulted = all.iter().filter(|looked| looked.account.consulted);
    let mut surveys: Vec<_> = consulted.filter_map(|it| it.survey.as_ref()).collect();
    surveys.sort_by_key(|survey| Reverse(survey.catalog.priority));
    surveys
}

/// Adds to each catalog that offers a bundle but does not win why it loses to others, or makes the
/// choice ambiguous.
pub(super) fn compare<'a>(all: &mut [CatalogEvaluation<'a, '_>], resolution: &Resolution<'_>) {
    let offer = |looked: &CatalogEvaluation<'a, '_>| Some((rank(looked)?, looked.account.name));
    let offers: Vec<_> = all.iter().filter_map(offer).collect();
    let Some(best) = offers.iter().map(|(rank, _)| *rank).min() else { return };
    let winner = resolution.result.as_ref().ok().map(|winner| winner.catalog);
    for looked in all.iter_mut().filter(|looked| winner != Some(looked.account.name)) {
        let Some(own) = rank(looked) else { continue };
        let name = looked.account.name;
        let others = |is: &dyn Fn(Rank) -> bool| {
            let others = offers.iter().filter(|(rank, other)| *other != name && is(*rank));
            others.map(|(_, other)| *other).collect()
        };
        let catalogs: Vec<_> = others(&|rank| rank == best);
        let reason = if own.0 && !best.0 {
            CatalogReason::DeprecatedInThisCatalog { catalogs: others(&|rank| !rank.0) }
        } else if own != best {
            CatalogReason::LowerPriorityCatalog { catalogs }
        } else if catalogs.is_empty() {
            continue;
        } else {
            CatalogReason::AmbiguousCatalogs { catalogs }
        };
        looked.account.reasons.push(reason);
    }
}

/// What decides between catalogs, the least first: whether the best bundle is deprecated, and the
/// priority.
type Rank = (bool, Reverse<i32>);

/// Returns the rank of what a consulted catalog offers.
fn rank(looked: &CatalogEvaluation<'_, '_>) -> Option<Rank> {
    let survey = looked.survey.as_ref().filter(|_| looked.account.consulted)?;
    let best = &survey.best()?.name;
    Some((survey.package.is_deprecated(best), Reverse(looked.account.priority)))
}

fn state(error: &CatalogError) -> CatalogState {
    match &error.problem {
        CatalogProblem::NotServing => CatalogState::CatalogNotServing,
        CatalogProblem::NoResolvedSource | CatalogProblem::NoImage => {
            CatalogState::CatalogNotResolved
        }
        CatalogProblem::FetchFailed(_) => CatalogState::CatalogFetchFailed,
        CatalogProblem::NotCached => CatalogState::CatalogNotCached,
        CatalogProblem::Unreadable { .. } => CatalogState::CatalogParseFailed,
    }
}
