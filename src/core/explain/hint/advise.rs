//! Finds out what a user can do about an answer.

use olm_api::keys::label;

use super::super::catalogs::{CatalogEvaluation, consulted};
use super::super::evaluation::Place;
use super::super::finding::CatalogReason;
use super::super::model::CatalogState;
use super::super::what_if::WhatIf;
use super::{Hint, Suggestion};
use crate::resolve::Ending;
use crate::resolve::Reason;
use crate::version::VersionRelease;

/// The most versions that are listed.
const MAX_VERSIONS: usize = 5;

/// Everything that suggestions are derived from.
struct Scene<'t, 'a, 'q> {
    what_if: &'t WhatIf<'a, 'q>,
    all: &'t [CatalogEvaluation<'a, 'q>],
    ending: Ending,
}

/// Returns everything that can be done, the most useful first.
pub(in crate::explain) fn hints<'a>(
    what_if: &WhatIf<'a, '_>,
    all: &[CatalogEvaluation<'a, '_>],
) -> Vec<Hint<'a>> {
    let scene = Scene { what_if, all, ending: what_if.resolution.ending() };
    let mut suggestions = Vec::new();
    suggestions.extend(scene.without_unreadable());
    suggestions.extend(scene.between_catalogs());
    suggestions.extend(scene.package());
    suggestions.extend(scene.channels());
    suggestions.extend(scene.held());
    suggestions.extend(scene.constraint_free());
    suggestions.extend(scene.other_steps());
    suggestions.extend(scene.best_successors());
    suggestions.extend(scene.prerelease());
    suggestions.extend(scene.other_channel());
    if suggestions.is_empty() {
        suggestions.extend(scene.available());
    }
    suggestions.extend(scene.left_out());
    suggestions.into_iter().map(Hint::from).collect()
}

impl<'a, 'q> Scene<'_, 'a, 'q> {
    /// Returns the bundles of the consulted catalogs whose failures the predicate accepts, the best
    /// first: by priority of the catalog, then in the order of the catalog.
    fn places(&self, accepts: impl Fn(&[Reason]) -> bool) -> Vec<Place<'_, 'a, 'q>> {
        let mut places = Vec::new();
        for survey in consulted(self.all) {
            let mut positions = survey.by_preference();
            positions.retain(|position| accepts(&survey.failures[*position]));
            places.extend(positions.into_iter().map(|position| Place { survey, position }));
        }
        places
    }

    /// Says whether a bundle would be an improvement: there is no answer, or one of lower version.
    fn improves(&self, place: &Place<'_, 'a, 'q>) -> bool {
        match &self.what_if.resolution.result {
            Err(_) => true,
            Ok(selected) => {
                let version = place.version();
                version.is_some_and(|version| version.precedence(&selected.version).is_gt())
            }
        }
    }

    /// Says whether the answer changes nothing: there is none, or it is the installed bundle.
    fn is_stuck(&self) -> bool {
        let result = &self.what_if.resolution.result;
        let moves = result.as_ref().is_ok_and(|it| !self.what_if.query.is_installed(it.bundle));
        !moves
    }

    fn installed(&self) -> Option<&VersionRelease> {
        self.what_if.query.installed_version()
    }

    /// The unreadable catalogs that could change the answer.
    fn without_unreadable(&self) -> Option<Suggestion<'a>> {
        let unread = self.all.iter().filter(|looked| {
            let account = &looked.account;
            account.error.is_some() && !account.consulted && !account.dominated
        });
        let catalogs: Vec<_> = unread.map(|looked| looked.account.name).collect();
        if self.ending != Ending::CatalogError || catalogs.is_empty() {
            return None;
        }
        let then = self.what_if.ask_without(&catalogs);
        Some(Suggestion::DisableCatalog { catalogs, then })
    }

    /// How to choose between catalogs of the same priority, where nothing is chosen or another one has
    /// something better.
    fn between_catalogs(&self) -> Vec<Suggestion<'a>> {
        let is_tied =
            |reason: &CatalogReason<'_>| matches!(reason, CatalogReason::AmbiguousCatalogs { .. });
        let tied: Vec<_> =
            self.all.iter().filter(|it| it.account.reasons.iter().any(is_tied)).collect();
        let catalogs: Vec<_> = tied.iter().map(|looked| looked.account.name).collect();
        let is_better = |looked: &&CatalogEvaluation<'a, 'q>| {
            let survey = looked.survey.as_ref();
            let best = survey
                .and_then(|survey| Some(Place { survey, position: *survey.candidates.first()? }));
            best.is_some_and(|place| self.improves(&place))
        };
        let matters = match self.ending {
            Ending::Ambiguous => true,
            Ending::Resolved | Ending::Held => tied.iter().any(is_better),
            _ => false,
        };
        if !matters {
            return Vec::new();
        }
        let Some(priority) = tied.iter().map(|looked| looked.account.priority).max() else {
            return Vec::new();
        };
        let mut suggestions = vec![
            Suggestion::SetPriority {
                catalogs: catalogs.clone(),
                priority: i64::from(priority) + 1,
            },
            Suggestion::NarrowSelector { catalogs, label: label::METADATA_NAME },
        ];
        suggestions.extend(self.pin(&tied));
        suggestions
    }

    /// The highest version that pinning takes from one of several catalogs.
    fn pin(&self, tied: &[&CatalogEvaluation<'a, 'q>]) -> Option<Suggestion<'a>> {
        let surveys = tied.iter().filter_map(|looked| looked.survey.as_ref());
        let mut offered: Vec<_> = surveys
            .flat_map(|survey| {
                survey.candidates.iter().filter_map(|position| survey.version(*position))
            })
            .collect();
        offered.sort_by(|a, b| b.precedence(a));
        offered.dedup_by(|a, b| a.version.precedence(&b.version).is_eq());
        offered.into_iter().take(MAX_VERSIONS).find_map(|offer| {
            let version = offer.version.clone().without_build().to_string();
            let answer = self.what_if.ask(|filter| filter.version = Some(version.clone()))?;
            let catalog = answer.catalog;
            Some(Suggestion::Pin { version, catalog })
        })
    }

    /// Similar package names, if no catalog has the package.
    fn package(&self) -> Option<Suggestion<'a>> {
        if self.ending != Ending::NoCandidate || self.has_package() {
            return None;
        }
        let reasons = self.all.iter().flat_map(|looked| &looked.account.reasons);
        let similar = reasons.filter_map(|reason| match reason {
            CatalogReason::PackageNotInCatalog { similar } => Some(similar),
            _ => None,
        });
        let mut packages: Vec<_> = similar.flatten().copied().collect();
        packages.sort_unstable();
        packages.dedup();
        (!packages.is_empty()).then_some(Suggestion::SimilarPackage { packages })
    }

    fn has_package(&self) -> bool {
        let consulted = self.all.iter().filter(|looked| looked.account.consulted);
        consulted.map(|looked| looked.account.bundles).sum::<usize>() > 0
    }

    /// The channels that exist, if none of the requested ones does.
    fn channels(&self) -> Option<Suggestion<'a>> {
        let requested = &self.what_if.query.request.filter.channels;
        let packages = consulted(self.all).into_iter().map(|survey| survey.package);
        let mut channels: Vec<_> =
            packages.flat_map(|package| package.channels.keys().map(String::as_str)).collect();
        channels.sort_unstable();
        channels.dedup();
        let exists = |name: &String| channels.contains(&name.as_str());
        let none = !requested.is_empty() && self.has_package() && !requested.iter().any(exists);
        none.then_some(Suggestion::ExistingChannels { channels })
    }

    /// The bundle that the update policy or the cluster holds back.
    fn held(&self) -> Option<Suggestion<'a>> {
        let held = self.what_if.resolution.held_back().next()?;
        let all = self.places(|failures| failures.iter().any(Reason::keeps_back));
        let is_it = |place: &&Place<'_, 'a, 'q>| {
            place.survey.catalog.name == held.catalog && place.name() == held.bundle
        };
        let place = all.iter().find(is_it)?;
        let bundle = place.name();
        let version = held.version.recorded();
        let reason = held.reason.code();
        match &held.reason {
            Reason::Held(why) => Some(Suggestion::HeldByPolicy {
                bundle,
                version,
                reason,
                why: why.words(held.catalog),
                suggested_version: self.range_to(place),
            }),
            Reason::Unfit(error) => {
                let missing = error.to_string();
                Some(Suggestion::HeldByConstraints { bundle, version, reason, missing })
            }
            _ => None,
        }
    }

    /// Another version that fits the cluster as it is.
    fn constraint_free(&self) -> Option<Suggestion<'a>> {
        if self.ending != Ending::ValidationFailed {
            return None;
        }
        let places = self.places(only_version);
        places.iter().take(MAX_VERSIONS).find_map(|place| {
            let version = place.version()?.version.clone().without_build().to_string();
            let answer = self.what_if.ask(|filter| filter.version = Some(version.clone()))?;
            let bundle = answer.bundle;
            Some(Suggestion::ConstraintFreeVersion { bundle, version })
        })
    }

    /// Returns a range under which updates lead to a bundle: a simple one that contains it and the
    /// steps before it, if there is one.
    fn range_to(&self, place: &Place<'_, 'a, 'q>) -> Option<String> {
        let to = &place.version()?.version;
        let mut ranges = place.ranges(to);
        // The exact version is tried last: it would exclude later fixes.
        ranges.rotate_left(1);
        let leads = |range: &String| self.what_if.steps_to(range, place.name(), |_| {}).is_some();
        ranges.into_iter().find(leads)
    }

    /// Bundles that are excluded only because no edge leads to them.
    fn other_steps(&self) -> Option<Suggestion<'a>> {
        // No step and no force decides between catalogs.
        let stuck = self.is_stuck() && self.ending != Ending::Ambiguous;
        let from = self.installed().filter(|_| stuck)?;
        let mut places = self.places(|failures| failures == [Reason::NotSuccessor]);
        places.retain(|place| self.improves(place));
        let reachable =
            places.iter().find_map(|place| Some((place, place.survey.way(place.position)?)));
        if let Some((place, way)) = reachable {
            return Some(Suggestion::NotAdjacent {
                bundle: place.name(),
                path: way.versions,
                refused: way.refused,
                suggested_version: self.range_to(place),
            });
        }
        let place = places.first()?;
        Some(Suggestion::NoPath { bundle: place.name(), from: from.recorded(), to: place.label() })
    }

    /// What may follow the installed bundle, ignoring the version range.
    fn best_successors(&self) -> Option<Suggestion<'a>> {
        let from = self.installed().filter(|_| self.ending == Ending::NoCandidate)?;
        let successors = self.places(only_version);
        let mut versions: Vec<_> = successors
            .iter()
            .filter_map(Place::version)
            .filter(|version| !version.precedence(from).is_eq())
            .collect();
        versions.sort_by(|a, b| b.precedence(a));
        let major = |version: &&&VersionRelease| version.version.major == from.version.major;
        let minor = |version: &&&VersionRelease| {
            major(version) && version.version.minor == from.version.minor
        };
        let recorded = |version: &&VersionRelease| version.recorded();
        Some(Suggestion::BestSuccessors {
            same_minor: versions.iter().find(minor).map(recorded),
            same_major: versions.iter().find(major).map(recorded),
            overall: versions.first().map(recorded)?,
        })
    }

    /// The bundle that is excluded only because it is a prerelease.
    fn prerelease(&self) -> Option<Suggestion<'a>> {
        let places = self.places(|failures| failures == [Reason::PrereleaseNotRequested]);
        let place = places.into_iter().find(|place| self.improves(place))?;
        let version = place.version()?;
        let range = self.what_if.query.range.as_ref()?;
        Some(Suggestion::ExcludedOnlyByPrerelease {
            bundle: place.name(),
            version: version.recorded(),
            suggested_version: range.admitting(&version.version)?,
        })
    }

    /// A better bundle in another channel.
    fn other_channel(&self) -> Option<Suggestion<'a>> {
        if self.what_if.query.request.filter.channels.is_empty() {
            return None;
        }
        let answer = self.what_if.ask(|filter| filter.channels.clear())?;
        let mut places = self.places(|failures| failures.contains(&Reason::NotInRequestedChannels));
        places.retain(|place| {
            let same = place.survey.catalog.name == answer.catalog && place.name() == answer.bundle;
            same && self.improves(place)
        });
        let place = places.first()?;
        let mut channels = place.survey.channels(place.survey.bundle(place.position));
        channels.retain(|channel| {
            let added = self.what_if.ask(|filter| filter.channels.push((*channel).to_owned()));
            added.as_ref() == Some(&answer)
        });
        let version = answer.version.recorded();
        (!channels.is_empty()).then_some(Suggestion::OtherChannel {
            bundle: answer.bundle,
            version,
            channels,
        })
    }

    /// The available versions, if no bundle has a requested one.
    fn available(&self) -> Option<Suggestion<'a>> {
        let fresh = self.what_if.query.request.installed.is_none();
        if !fresh || self.ending != Ending::NoCandidate {
            return None;
        }
        let mut versions: Vec<_> = self.places(only_version).iter().map(Place::label).collect();
        versions.dedup();
        versions.truncate(MAX_VERSIONS);
        (!versions.is_empty()).then_some(Suggestion::AvailableVersions { versions })
    }

    /// Better bundles of catalogs that were left out on purpose: disabled or not selected.
    fn left_out(&self) -> Vec<Suggestion<'a>> {
        let left_out = |looked: &&CatalogEvaluation<'a, 'q>| {
            let state = looked.account.state;
            let on_purpose = [CatalogState::CatalogNotSelected, CatalogState::CatalogDisabled];
            on_purpose.contains(&state) && !looked.account.dominated
        };
        let advise = |looked: &CatalogEvaluation<'a, 'q>| {
            let best = *looked.survey.as_ref()?.candidates.first()?;
            let place = Place { survey: looked.survey.as_ref()?, position: best };
            let suggestion = Suggestion::LeftOutCatalog {
                catalog: looked.account.name,
                bundle: place.name(),
                disabled: looked.account.state == CatalogState::CatalogDisabled,
            };
            self.improves(&place).then_some(suggestion)
        };
        self.all.iter().filter(left_out).filter_map(advise).collect()
    }
}

/// Says whether only the version range excludes a bundle.
fn only_version(failures: &[Reason]) -> bool {
    matches!(failures, [Reason::VersionOutOfRange | Reason::PrereleaseNotRequested])
}
