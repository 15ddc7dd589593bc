//! The outcome for each catalog, including those that were not consulted.

use std::cmp::Reverse;

use super::evaluation::PackageEvaluation;
use super::finding::CatalogReason;
use super::model::{CatalogState, CatalogSummary};
use crate::catalog::{Content, PackageIndex};
use crate::resolve::{Catalog, CatalogError, CatalogProblem, Query, Resolution, Unavailability};
use crate::selector::Selector;

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
            .map(|(name, _)| (strsim::levenshtein(wanted, name), name))
            .filter(|(distance, _)| *distance <= 2)
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

/// Adds to each catalog that offers a bundle but does not win why it loses to others.
pub(super) fn compare(all: &mut [CatalogEvaluation<'_, '_>], resolution: &Resolution<'_>) {
    let offers: Vec<_> = all.iter().filter_map(Offer::of).collect();
    let winner = resolution.result.as_ref().ok().map(|winner| winner.catalog);
    for looked in all.iter_mut() {
        let name = looked.account.name;
        let offer = offers.iter().find(|offer| offer.catalog == name);
        let lost = offer.filter(|_| winner != Some(name));
        let reason = lost.and_then(|offer| offer.loses_to(&offers));
        looked.account.reasons.extend(reason);
    }
}

/// The best bundle of a consulted catalog, reduced to what is compared.
struct Offer<'a> {
    catalog: &'a str,
    priority: i32,
    deprecated: bool,
}

impl<'a> Offer<'a> {
    fn of(looked: &CatalogEvaluation<'a, '_>) -> Option<Self> {
        let survey = looked.survey.as_ref().filter(|_| looked.account.consulted)?;
        Some(Self {
            catalog: looked.account.name,
            priority: looked.account.priority,
            deprecated: survey.package.is_deprecated(&survey.best()?.name),
        })
    }

    /// Returns why other offers win over this one or make the choice ambiguous.
    fn loses_to(&self, offers: &[Self]) -> Option<CatalogReason<'a>> {
        let sound: Vec<_> = offers.iter().filter(|it| !it.deprecated).collect();
        let names = |offers: &[&Self]| offers.iter().map(|it| it.catalog).collect();
        if self.deprecated && !sound.is_empty() {
            let catalogs = names(&sound);
            return Some(CatalogReason::DeprecatedInThisCatalog { catalogs });
        }
        let left: Vec<_> = offers.iter().filter(|it| it.deprecated == self.deprecated).collect();
        let top = left.iter().map(|it| it.priority).max();
        let at_top = |it: &&&Self| Some(it.priority) == top && it.catalog != self.catalog;
        let others: Vec<_> = left.iter().filter(at_top).copied().collect();
        let catalogs = names(&others);
        if Some(self.priority) != top {
            Some(CatalogReason::LowerPriorityCatalog { catalogs })
        } else if others.is_empty() {
            None
        } else {
            Some(CatalogReason::AmbiguousCatalogs { catalogs })
        }
    }
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
