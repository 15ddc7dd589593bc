//! One catalog with every bundle of the package, checked by the filters of the resolution.

use super::finding::{CatalogReason, Finding, Reason};
use super::model::{BundleReport, BundleVerdict, Deprecated, EdgeAccount};
use super::path::Reach;
use crate::catalog::{Bundle, Edge, PackageIndex, edges, schema};
use crate::error::Chain;
use crate::resolve::{self, Catalog, Ending, HeldReason, Query, Resolution};
use crate::version::VersionRelease;

/// A package of one catalog under a query.
pub(super) struct PackageEvaluation<'a, 'q> {
    pub(super) query: &'q Query<'a>,
    pub(super) catalog: &'a Catalog<'a>,
    pub(super) package: &'a PackageIndex,
    /// The installed version that successors are checked against, if they are checked.
    pub(super) basis: Option<&'q VersionRelease>,
    /// How far the edges lead from the installed bundle.
    pub(super) reach: Option<Reach>,
    /// The bundles that pass every filter, as positions in the package, the best first.
    pub(super) candidates: Vec<usize>,
    /// What each bundle fails, by position in the package.
    pub(super) failures: Vec<Vec<resolve::Reason>>,
}

impl<'a, 'q> PackageEvaluation<'a, 'q> {
    /// Checks every bundle of the package; `None` if the catalog has no readable content of it, or
    /// nothing can be checked because the recorded version of the installed bundle is invalid.
    pub(super) fn new(query: &'q Query<'a>, catalog: &'a Catalog<'a>) -> Option<Self> {
        let package = catalog.package(&query.request.filter.package_name)?;
        let basis = query.successor_basis().ok()?;
        // Those that a resolution judges are judged as it does, before the others spend any steps.
        let (offered, others) =
            (query.offered(catalog.name, package), query.offered(catalog.name, package));
        let failures = |bundle| match query.failures(&offered, bundle, basis).next() {
            None => Vec::new(),
            Some(unfit @ resolve::Reason::Unfit(_)) => vec![unfit],
            Some(_) => query.failures(&others, bundle, basis).collect(),
        };
        let failures: Vec<Vec<_>> = package.bundles.iter().map(failures).collect();
        let passes = |position: &usize| failures[*position].is_empty();
        let mut candidates: Vec<_> = (0..failures.len()).filter(passes).collect();
        let bundle = |position: usize| &package.bundles[position];
        candidates.sort_by(|a, b| query.preference(package, bundle(*a), bundle(*b)));
        Some(Self {
            query,
            catalog,
            package,
            basis,
            reach: basis.map(|installed| Reach::new(query, package, installed)),
            candidates,
            failures,
        })
    }

    /// Returns a bundle by its position in the package.
    pub(super) fn bundle(&self, position: usize) -> &'a Bundle {
        &self.package.bundles[position]
    }

    /// Returns the best candidate.
    pub(super) fn best(&self) -> Option<&'a Bundle> {
        self.candidates.first().map(|position| self.bundle(*position))
    }

    /// Returns the positions of all bundles, the best first.
    pub(super) fn by_preference(&self) -> Vec<usize> {
        let mut positions: Vec<_> = (0..self.package.bundles.len()).collect();
        positions
            .sort_by(|a, b| self.query.preference(self.package, self.bundle(*a), self.bundle(*b)));
        positions
    }

    /// Returns the version of a bundle, or its name if it has none.
    pub(super) fn label(&self, position: usize) -> String {
        let version = self.version(position).map(VersionRelease::recorded);
        version.unwrap_or_else(|| self.bundle(position).name.clone())
    }

    /// Returns the version of a bundle, if it has a valid one.
    pub(super) fn version(&self, position: usize) -> Option<&'a VersionRelease> {
        let release_support = self.query.options.release_support;
        self.bundle(position).version(release_support).ok()
    }

    /// Returns the version of the first bundle on the path to another one.
    pub(super) fn first_step(&self, position: usize) -> Option<&'a VersionRelease> {
        let steps = self.reach.as_ref()?.path_to(position)?;
        steps.first().and_then(|first| self.version(*first))
    }

    /// Returns the reports of all bundles, the best first.
    ///
    /// `standing` holds the reasons about the catalog; its best bundle gets them.
    pub(super) fn accounts(
        &self,
        resolution: &Resolution<'_>,
        standing: &[CatalogReason<'a>],
    ) -> Vec<BundleReport<'a>> {
        let positions = self.by_preference();
        let account = |position| self.account(position, resolution, standing);
        positions.into_iter().map(account).collect()
    }

    fn account(
        &self,
        position: usize,
        resolution: &Resolution<'_>,
        standing: &[CatalogReason<'a>],
    ) -> BundleReport<'a> {
        let bundle = self.bundle(position);
        let version = self.version(position);
        let release = version.and_then(|version| version.release.as_ref());
        let mut reasons: Vec<Reason<'a>> = self
            .exclusions(position)
            .chain(self.refusal(bundle, resolution))
            .map(Reason::from)
            .collect();
        let selected = resolution.result.as_ref().ok();
        let verdict = if !reasons.is_empty() {
            BundleVerdict::Excluded
        } else if selected.is_some_and(|it| it.catalog == self.catalog.name && it.bundle == bundle)
        {
            BundleVerdict::Selected
        } else {
            BundleVerdict::Candidate
        };
        if verdict == BundleVerdict::Candidate {
            let best = self.best().filter(|best| *best != bundle);
            let lost = best.map_or_else(
                || self.outdone(position, standing, resolution),
                |best| self.lost_to(bundle, best),
            );
            reasons.extend(lost.into_iter().map(Reason::of_losing));
        }
        reasons.extend(self.notes(bundle).into_iter().map(Reason::from));
        BundleReport {
            catalog: self.catalog.name,
            name: &bundle.name,
            version: version.map(|version| version.version.to_string()),
            release: release.map(ToString::to_string),
            channels: self.channels(bundle),
            deprecated: self.deprecated(bundle),
            edges: self.edges(bundle),
            verdict,
            reasons,
        }
    }

    /// Returns the channels a bundle is in.
    pub(super) fn channels(&self, bundle: &Bundle) -> Vec<&'a str> {
        let entries = self.package.entries_of(&bundle.name);
        let mut channels: Vec<_> = entries.map(|(channel, _)| channel).collect();
        // A channel may list a bundle more than once.
        channels.dedup();
        channels
    }

    /// Returns the filters that a bundle fails, with the data that explains it.
    fn exclusions(&self, position: usize) -> impl Iterator<Item = Finding<'a>> {
        self.failures[position].iter().map(move |reason| self.explained(position, reason))
    }

    fn explained(&self, position: usize, reason: &resolve::Reason) -> Finding<'a> {
        let bundle = self.bundle(position);
        let version = bundle.version(self.query.options.release_support);
        let range = self.query.range.as_ref();
        match reason {
            resolve::Reason::NotInRequestedChannels => {
                Finding::NotInRequestedChannels { channels: self.channels(bundle) }
            }
            resolve::Reason::InvalidVersion => Finding::InvalidVersion {
                error: version.err().map_or_else(String::new, |it| Chain(it).to_string()),
            },
            resolve::Reason::VersionOutOfRange => {
                let version = version.ok().map(|it| &it.version);
                let groups = range.zip(version).map(|(range, it)| range.refusing_terms(it));
                let groups = groups.into_iter().flatten().map(ToOwned::to_owned);
                let mut groups: Vec<String> = groups.collect();
                if groups.is_empty() {
                    // The range contains it, and asks for another release.
                    groups.extend(self.query.request.filter.version.clone());
                }
                Finding::VersionOutOfRange {
                    term: groups.first().cloned().unwrap_or_default(),
                    groups,
                }
            }
            resolve::Reason::PrereleaseNotRequested => Finding::PrereleaseNotRequested {
                suggestion: range
                    .zip(version.ok())
                    .and_then(|(range, it)| range.admitting(&it.version)),
            },
            resolve::Reason::NotSuccessor => self.not_successor(position),
            resolve::Reason::Held(held) => match held {
                HeldReason::LowerVersion => Finding::LowerVersionHeld,
                HeldReason::NextMajor => Finding::NextMajorHeld,
                HeldReason::NextMinor => Finding::NextMinorHeld,
                HeldReason::NextPatch => Finding::NextPatchHeld,
                HeldReason::OutsideWindow(opens) => Finding::OutsideWindow { opens: *opens },
                HeldReason::OtherCatalog => Finding::OtherCatalogHeld {
                    home: self.query.request.home.as_deref().unwrap_or_default(),
                },
            },
            resolve::Reason::Unfit(error) => Finding::from(error.as_ref()),
        }
    }

    fn not_successor(&self, position: usize) -> Finding<'a> {
        let way = self.way(position);
        let installed = self.query.request.installed.as_ref();
        Finding::NotSuccessor {
            installed: installed.map(|it| it.name.as_str()).unwrap_or_default(),
            refused: way.as_ref().map(|way| way.refused.clone()).unwrap_or_default(),
            path: way.map(|way| way.versions),
        }
    }

    /// Returns the shortest path from the installed bundle to another one.
    pub(super) fn way(&self, position: usize) -> Option<Way> {
        let steps = self.reach.as_ref()?.path_to(position)?;
        let refuses = |position: &&usize| {
            let version = self.version(**position);
            let range = self.query.range.as_ref();
            range.is_some_and(|range| !version.is_some_and(|it| range.contains(&it.version)))
        };
        let label = |position: &usize| self.label(*position);
        let from = self.basis.map(VersionRelease::recorded);
        Some(Way {
            refused: steps.iter().filter(refuses).map(label).collect(),
            versions: from.into_iter().chain(steps.iter().map(label)).collect(),
        })
    }

    /// Returns the finding for a winner that was refused after it was chosen.
    fn refusal(&self, bundle: &Bundle, resolution: &Resolution<'_>) -> Option<Finding<'a>> {
        let (refused, finding) = Finding::refusal(resolution.result.as_ref().err()?)?;
        (*refused == bundle.name && self.best() == Some(bundle)).then_some(finding)
    }

    /// Returns why the best candidate is preferred to another one.
    fn lost_to(&self, bundle: &Bundle, best: &'a Bundle) -> Vec<Finding<'a>> {
        let lost_to = best.name.as_str();
        let mut findings = Vec::new();
        let deprecated = |bundle: &Bundle| self.package.is_deprecated(&bundle.name);
        if deprecated(bundle) && !deprecated(best) {
            let message = self.deprecated(bundle).bundle.filter(|text| !text.is_empty());
            findings.push(Finding::Deprecated { message, lost_to });
        }
        let release_support = self.query.options.release_support;
        match (bundle.version(release_support), best.version(release_support)) {
            (Ok(version), Ok(other)) => {
                let versions = version.version.precedence(&other.version);
                let releases = version.precedence(other);
                if versions.is_lt() {
                    findings.push(Finding::LowerVersion { lost_to });
                } else if versions.is_eq() && releases.is_lt() {
                    findings.push(Finding::LowerRelease { lost_to });
                } else if releases.is_eq() && findings.is_empty() {
                    findings.push(Finding::TieBrokenByName { lost_to });
                }
            }
            (Err(error), Ok(_)) => {
                findings.push(Finding::InvalidVersion { error: Chain(error).to_string() });
            }
            (Err(_), Err(_)) if findings.is_empty() => {
                findings.push(Finding::TieBrokenByName { lost_to });
            }
            (_, Err(_)) => {}
        }
        findings
    }

    /// Returns why the best bundle of a catalog is not the answer.
    fn outdone(
        &self,
        position: usize,
        standing: &[CatalogReason<'a>],
        resolution: &Resolution<'_>,
    ) -> Vec<Finding<'a>> {
        let of_catalog = |reason: CatalogReason<'a>| match reason {
            CatalogReason::DeprecatedInThisCatalog { catalogs } => {
                Some(Finding::DeprecatedInThisCatalog { catalogs })
            }
            CatalogReason::LowerPriorityCatalog { catalogs } => {
                Some(Finding::LowerPriorityCatalog { catalogs })
            }
            CatalogReason::AmbiguousCatalogs { catalogs } => {
                Some(Finding::AmbiguousCatalogs { catalogs })
            }
            CatalogReason::PackageNotInCatalog { .. } | CatalogReason::UnknownChannel { .. } => {
                None
            }
        };
        let findings: Vec<_> = standing.iter().cloned().filter_map(of_catalog).collect();
        if !findings.is_empty() {
            return findings;
        }
        // Nothing is preferred to it: a better bundle that does not fit is not a reason to go back.
        let error = resolution.result.as_ref().err();
        if error.is_some_and(|error| error.ending() == Ending::ValidationFailed) {
            let from = self.query.installed_version().map(VersionRelease::recorded);
            let (from, to) = (from.unwrap_or_default(), self.label(position));
            return vec![Finding::SuccessorIsLowerVersion { from, to }];
        }
        // Or catalogs that cannot be read keep it from being chosen.
        let unread = resolution.catalogs.iter().filter(|it| it.problem.is_some());
        let catalogs = unread.map(|it| it.name.to_owned()).collect();
        vec![Finding::UnreadableCatalogs { catalogs }]
    }

    /// Returns what is worth knowing about a bundle but decides nothing.
    fn notes(&self, bundle: &'a Bundle) -> Vec<Finding<'a>> {
        let mut notes = Vec::new();
        let mut places = 0;
        for (channel, entry) in self.package.entries_of(&bundle.name) {
            places += 1;
            let broken = entry.skip_range.as_ref();
            if let Some((range, error)) = broken.and_then(|it| Some((it, it.range.as_ref().err()?)))
            {
                notes.push(Finding::InvalidSkipRange {
                    channel,
                    entry: &entry.name,
                    text: &range.text,
                    error: error.to_string(),
                });
            }
            let void =
                edges(entry).find(|edge| !self.query.considers(channel) && self.starts(*edge));
            let note =
                |edge: Edge<'_>| Finding::EdgeInUnrequestedChannel { channel, kind: edge.kind };
            notes.extend(void.map(note));
        }
        if places == 0 {
            notes.push(Finding::InNoChannel);
        }
        if self.basis.is_some_and(|it| self.query.is_version(bundle, it)) {
            notes.push(Finding::StaysOnInstalled);
        }
        notes
    }

    /// Says whether an edge starts at the installed bundle.
    fn starts(&self, edge: Edge<'_>) -> bool {
        let installed = self.query.request.installed.as_ref();
        let both = installed.zip(self.query.installed_version());
        both.is_some_and(|(installed, it)| edge.leads_from(&installed.name, &it.version))
    }

    fn edges(&self, bundle: &'a Bundle) -> Vec<EdgeAccount<'a>> {
        let entries = self.package.entries_of(&bundle.name);
        let of_entry = |(channel, entry)| edges(entry).map(move |edge| (channel, edge));
        let account = |(channel, edge): (_, Edge<'a>)| EdgeAccount {
            channel,
            kind: edge.kind,
            value: edge.value,
            considered: self.query.considers(channel),
            matches: self.starts(edge),
            error: edge.range.and_then(Result::err).map(ToString::to_string),
        };
        entries.flat_map(of_entry).map(account).collect()
    }

    fn deprecated(&self, bundle: &Bundle) -> Deprecated<'a> {
        let Some(all) = &self.package.deprecations else { return Deprecated::default() };
        // Of several entries about the same the last one counts.
        let message = |schema, name| {
            let last = all.about(schema, name).next_back();
            last.map(|entry| entry.message.as_str())
        };
        let is_deprecated = |channel: &&str| all.about(schema::CHANNEL, channel).next().is_some();
        Deprecated {
            package: message(schema::PACKAGE, ""),
            channels: self.channels(bundle).into_iter().filter(is_deprecated).collect(),
            bundle: message(schema::BUNDLE, &bundle.name),
        }
    }
}

/// A bundle of a catalog.
pub(super) struct Place<'s, 'a, 'q> {
    pub(super) survey: &'s PackageEvaluation<'a, 'q>,
    pub(super) position: usize,
}

impl<'a> Place<'_, 'a, '_> {
    pub(super) fn name(&self) -> &'a str {
        &self.survey.bundle(self.position).name
    }

    pub(super) fn version(&self) -> Option<&'a VersionRelease> {
        self.survey.version(self.position)
    }

    pub(super) fn label(&self) -> String {
        self.survey.label(self.position)
    }
}

/// A path from the installed bundle to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// The versions on the path, both ends included.
    pub(super) versions: Vec<String>,
    /// The versions on the path that the range refuses.
    pub(super) refused: Vec<String>,
}
