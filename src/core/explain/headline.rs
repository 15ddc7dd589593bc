//! One sentence for users: what prevents the installation or update, what is available instead, and
//! what to do.

use itertools::Itertools as _;

use super::finding::{CatalogReason, Finding};
use super::hint::Suggestion;
use super::model::{BundleReport, BundleVerdict, CatalogSummary};
use super::report::{Headline, Report};
use crate::error::{first_of, quote};
use crate::resolve::Ending;
use crate::version::VersionRange;
use olm_api::conditions::Reason as Code;

/// Most catalogs that are named.
const MAX_CATALOGS: usize = 5;

impl Report<'_> {
    /// Returns the sentence; `None` if all is well, or the message says everything.
    pub fn headline(&self) -> Option<Headline> {
        let told = match self.result {
            Ending::Resolved | Ending::Held => self.held(),
            Ending::NoCandidate => Some(self.no_candidate()),
            Ending::Ambiguous => Some(self.ambiguous()),
            Ending::CatalogError => self.catalog_error(),
            Ending::ValidationFailed => self.refused(),
            Ending::InvalidRequest => None,
        };
        told.map(|(code, parts)| Headline { code, text: parts.join("; ") })
    }

    fn text_of(&self, wanted: impl Fn(&Suggestion<'_>) -> bool) -> Option<String> {
        let hint = self.hints.iter().find(|hint| wanted(&hint.suggestion));
        hint.map(|hint| hint.text.clone())
    }

    fn held(&self) -> Option<(Code, Vec<String>)> {
        self.hints.iter().find_map(|hint| match &hint.suggestion {
            Suggestion::HeldByPolicy { version, reason, why, .. } => {
                let what = format!("{version} is available and held{why}");
                Some((*reason, vec![what, hint.text.clone()]))
            }
            Suggestion::HeldByConstraints { version, reason, missing, .. } => {
                let what = format!("{version} is available and held: {missing}");
                Some((*reason, vec![what]))
            }
            _ => None,
        })
    }

    fn no_candidate(&self) -> (Code, Vec<String>) {
        let package = quote(self.request.package);
        if self.bundles.is_empty() {
            let mut parts = vec![if self.catalogs.is_empty() {
                "there is no catalog; to add one: kubectl olm catalog add NAME IMAGE".to_owned()
            } else if self.catalogs.iter().all(|catalog| !catalog.consulted) {
                let names = self.catalogs.iter().map(|catalog| catalog.name);
                format!("every catalog is excluded or disabled: {}", first_of(names, MAX_CATALOGS))
            } else {
                format!("no consulted catalog has package {package}")
            }];
            parts.extend(self.text_of(|it| matches!(it, Suggestion::SimilarPackage { .. })));
            parts.extend(self.text_of(|it| matches!(it, Suggestion::LeftOutCatalog { .. })));
            let consulted = self.catalogs.iter().find(|catalog| catalog.consulted);
            let decisive = consulted.or(self.catalogs.first());
            return (decisive.map_or(Code::NoCatalog, |it| it.state.code()), parts);
        }
        if let Some(text) = self.text_of(|it| matches!(it, Suggestion::ExistingChannels { .. })) {
            let channels = self.request.channels.join(", ");
            let what = format!("package {package} has no channel {channels}");
            return (Code::UnknownChannel, vec![what, text]);
        }
        if let Some(held) = self.held() {
            return held;
        }
        let Some(nearest) = self.nearest() else {
            return (Code::NoCandidate, vec![format!("package {package} is empty")]);
        };
        let code = nearest.exclusions().next().map_or(Code::NoCandidate, Finding::code);
        (code, self.about(nearest))
    }

    /// Returns the excluded bundle that is closest to being usable: with the fewest and lightest
    /// reasons against it; of several one to which updates lead, else the first in the report.
    fn nearest(&self) -> Option<&BundleReport<'_>> {
        let excluded =
            self.bundles.iter().filter(|bundle| bundle.verdict == BundleVerdict::Excluded);
        let reached = self.hints.iter().find_map(|hint| match hint.suggestion {
            Suggestion::NotAdjacent { bundle, .. } | Suggestion::NoPath { bundle, .. } => {
                Some(bundle)
            }
            _ => None,
        });
        excluded.min_by_key(|bundle| {
            let weight: u32 = bundle.exclusions().map(Finding::weight).sum();
            (weight, reached != Some(bundle.name))
        })
    }

    /// Says what excludes a bundle and what to do.
    fn about(&self, bundle: &BundleReport<'_>) -> Vec<String> {
        let label = bundle.label();
        let installed = self.request.installed.map_or("", |it| it.version.as_str());
        let successors = self.text_of(|it| matches!(it, Suggestion::BestSuccessors { .. }));
        let none = || format!("{installed} has no available successor");
        let place = bundle.place();
        let reasons: Vec<_> = bundle.exclusions().collect();
        let admit = || self.text_of(|it| matches!(it, Suggestion::ExcludedOnlyByPrerelease { .. }));
        let channel = self.text_of(|it| matches!(it, Suggestion::OtherChannel { .. }));
        match (reasons.as_slice(), channel) {
            ([Finding::NotSuccessor { .. }], _) => {
                let what = format!("{label} exists {place} but is not a successor of {installed}");
                let force = self.text_of(|it| {
                    matches!(it, Suggestion::NotAdjacent { .. } | Suggestion::NoPath { .. })
                });
                [what, successors.unwrap_or_else(none)].into_iter().chain(force).collect()
            }
            ([Finding::PrereleaseNotRequested { .. }], _) => {
                let what = || format!("{label} is a prerelease, which the range excludes");
                vec![admit().unwrap_or_else(what)]
            }
            ([Finding::NotInRequestedChannels { .. }, ..], Some(channel)) => vec![channel],
            _ => {
                let what = self.lost().unwrap_or_else(|| self.nothing_matches());
                let instead = self.text_of(|it| matches!(it, Suggestion::AvailableVersions { .. }));
                let instead = successors.or(instead);
                std::iter::once(what).chain(instead).collect()
            }
        }
    }

    /// Returns the sentence about an installed version that is requested and no longer in any catalog.
    fn lost(&self) -> Option<String> {
        let (installed, text) = (self.request.installed?, self.request.version?);
        let range = text.parse::<VersionRange>().ok()?;
        let is_asked_for = range.contains(&installed.parse().ok()?.version);
        let is_other = |finding: &Finding<'_>| {
            matches!(
                finding,
                Finding::VersionOutOfRange { .. }
                    | Finding::PrereleaseNotRequested { .. }
                    | Finding::InvalidVersion { .. }
            )
        };
        let all_other = self.bundles.iter().all(|bundle| bundle.exclusions().any(is_other));
        (is_asked_for && all_other).then(|| {
            format!(
                "the installed version {} is no longer in any catalog, and nothing else{} matches {}",
                installed.version,
                self.place(),
                quote(text)
            )
        })
    }

    fn place(&self) -> String {
        match self.request.channels {
            [] => String::new(),
            [channel] => format!(" in channel {channel}"),
            channels => format!(" in channels {}", channels.join(", ")),
        }
    }

    fn nothing_matches(&self) -> String {
        let place = self.place();
        let follows = self.request.installed.map_or_else(String::new, |installed| {
            format!(" that may follow {}", installed.version)
        });
        let version = self.request.version;
        let matches =
            version.map_or_else(String::new, |range| format!(" matches {}", quote(range)));
        if matches.is_empty() {
            format!("there is nothing{place}{follows}")
        } else {
            format!("nothing{place}{follows}{matches}")
        }
    }

    fn ambiguous(&self) -> (Code, Vec<String>) {
        let tied = |catalog: &&CatalogSummary<'_>| {
            let reasons = &mut catalog.reasons.iter();
            reasons.any(|it| matches!(it, CatalogReason::AmbiguousCatalogs { .. }))
        };
        let tied: Vec<_> = self.catalogs.iter().filter(tied).collect();
        let offers: Vec<_> = tied
            .iter()
            .map(|catalog| format!("{} ({})", catalog.name, catalog.best.unwrap_or_default()))
            .collect();
        let priority = tied.first().map(|catalog| catalog.priority).unwrap_or_default();
        let what = format!(
            "catalogs {} offer package {} at the same priority {priority}",
            offers.join(" and "),
            quote(self.request.package)
        );
        let priority = self.text_of(|it| matches!(it, Suggestion::SetPriority { .. }));
        let selector = self.text_of(|it| matches!(it, Suggestion::NarrowSelector { .. }));
        let ways = priority.into_iter().chain(selector).join(", or ");
        (Code::AmbiguousCatalogs, vec![what, ways])
    }

    fn catalog_error(&self) -> Option<(Code, Vec<String>)> {
        let unread = |catalog: &&CatalogSummary<'_>| catalog.error.is_some() && !catalog.dominated;
        let unread: Vec<_> = self.catalogs.iter().filter(unread).collect();
        let first = unread.first()?;
        let names: Vec<_> = unread.iter().map(|catalog| catalog.name).collect();
        let what =
            format!("catalog {} cannot be read and could offer another version", names.join(", "));
        let way = self.text_of(|it| matches!(it, Suggestion::DisableCatalog { .. }));
        Some((first.state.code(), std::iter::once(what).chain(way).collect()))
    }

    /// Explains why the best bundle may not be installed, and names a version that may, if there is
    /// one.
    fn refused(&self) -> Option<(Code, Vec<String>)> {
        let Headline { code, text } = self.refused.clone()?;
        let free = self.text_of(|it| matches!(it, Suggestion::ConstraintFreeVersion { .. }));
        Some((code, std::iter::once(text).chain(free).collect()))
    }
}

impl BundleReport<'_> {
    /// Returns the findings that exclude the bundle.
    pub fn exclusions(&self) -> impl Iterator<Item = &Finding<'_>> {
        self.reasons.iter().filter(|reason| reason.excludes()).map(|reason| &reason.finding)
    }

    /// Returns version and release, or the name if there is no valid version.
    pub fn label(&self) -> String {
        match (&self.version, &self.release) {
            (Some(version), Some(release)) if !release.is_empty() => format!("{version}+{release}"),
            (Some(version), _) => version.clone(),
            (None, _) => self.name.to_owned(),
        }
    }

    fn place(&self) -> String {
        match self.channels.as_slice() {
            [] => format!("in catalog {}", self.catalog),
            [channel] => format!("in channel {channel}"),
            channels => format!("in channels {}", channels.join(", ")),
        }
    }
}
