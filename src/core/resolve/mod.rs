//! Chooses a bundle from catalog contents.
//!
//! In: the filter of a ClusterExtension, the installed bundle and the catalogs with their state, as
//! plain values. Out: the chosen bundle or the exact error text, with what is needed to explain it.
//! Nothing is fetched, no clock is read, and the order of catalogs, blobs, channels and entries
//! never matters.
//!
//! Source: resolution.md sections 1 and 4.

mod catalogs;
mod classic;
pub mod constraint;
mod discovery;
mod ending;
mod environment;
mod error;
mod filter;
mod fit;
mod policy;
mod update;
mod validate;
mod verdict;

#[cfg(test)]
pub(crate) mod tests;

pub use crate::catalog::GroupVersionKind;
pub use catalogs::{Catalog, Unavailability};
pub use classic::{ClassicStep, Difference, classic};
pub use ending::Ending;
pub use environment::{Environment, Knowledge, Provider, ProviderOrigin, ServedKinds};
pub use error::{
    CatalogError, CatalogProblem, InstalledError, NoSingleBundle, ResolveError, WalkError,
};
pub use filter::{Exclusion, Reason};
pub use fit::dependents;
pub use policy::{HeldReason, UnknownUpdatePolicy, UpdatePolicy};
pub use update::{Offer, Update, Why, newest, pending};
pub use validate::{Dependencies, ValidationError};

use constraint::Breakage;
use fit::ClusterFacts;
use jiff::Timestamp;
use olm_api::{CatalogFilter, UpgradeConstraintPolicy};
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::{Bundle, BundleVersionError, Deprecations, Lifecycle, schema};
use crate::error::quote;
use crate::selector::Selector;
use crate::version::{VersionRange, VersionRelease};

/// The input of a resolution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// `spec.source.catalog`.
    pub filter: CatalogFilter,
    /// The bundle of the last revision that succeeded, never one that is rolling out.
    pub installed: Option<Installed>,
    /// The catalog that it came from, where that is recorded: a tie goes to it.
    pub home: Option<String>,
    /// Whether what other catalogs offer in its place is held.
    pub moves_held: bool,
}

/// The installed bundle as it is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AskedInstalled")]
pub struct Installed {
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle.
    // With the release as build metadata where it has no field of its own.
    pub version: String,
    /// Release of the bundle, if recorded in a field of its own.
    // Empty means explicitly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// How resolution behaves, from flags, gates and annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Gate `BundleReleaseSupport`.
    pub release_support: bool,
    /// How a catalog that cannot be read is treated.
    pub unavailability: Unavailability,
    /// How far an automatic update may go.
    pub updates: UpdatePolicy,
    /// When automatic updates may begin again, while they may not.
    pub closed_until: Option<Timestamp>,
    /// How declared dependencies are treated.
    pub dependencies: Dependencies,
    /// Whether a version with build metadata, and nothing else, asks for that release, if there is one.
    /// Upstream takes the highest release.
    pub pins_releases: bool,
}

/// The result of a resolution, with its explanation.
#[derive(Debug)]
pub struct Resolution<'a> {
    /// The chosen bundle, or the error whose [`crate::error::Chain`] is the message.
    pub result: Result<Selected<'a>, ResolveError>,
    /// Every selected catalog that is not disabled, by name.
    pub catalogs: Vec<CatalogReport<'a>>,
    /// Bundles that rank above the chosen one but are held back by the update policy or the
    /// cluster, best first within each catalog.
    pub held: Vec<Held<'a>>,
    /// Every bundle that was filtered out, with the first filter it failed, by catalog and then in
    /// the catalog's order of bundles.
    pub excluded: Vec<Exclusion<'a>>,
    decision: Fallback,
    /// About how many steps it took.
    pub(crate) work: u64,
    /// Whether the chosen bundle is the installed one.
    stays: bool,
    /// Whether nothing is chosen because of the catalogs alone, and the installed bundle is of a
    /// version that is asked for: none has such a version, several of the same priority have it, or
    /// one that counts cannot be read.
    pub installed_fits: bool,
}

/// The chosen bundle.
#[derive(Debug, Clone)]
pub struct Selected<'a> {
    pub catalog: &'a str,
    pub(crate) priority: i32,
    pub bundle: &'a Bundle,
    /// Its version and release.
    pub version: VersionRelease,
    /// Whether it is listed as deprecated.
    pub deprecated: bool,
    /// The package's deprecations in that catalog.
    pub deprecations: Option<&'a Deprecations>,
    /// Until when it is supported, where that catalog says so.
    pub lifecycle: Option<&'a Lifecycle>,
    /// What is unexpected about it.
    pub warnings: Vec<Warning>,
}

impl Selected<'_> {
    /// Returns what its catalog says of the deprecation of the package, of requested channels and of
    /// the bundle: what is deprecated, and the author's message.
    pub fn deprecations(&self, filter: &CatalogFilter) -> Vec<(String, &str)> {
        let Some(all) = self.deprecations else { return Vec::new() };
        let package = (schema::PACKAGE, "", format!("package {}", filter.package_name));
        let channels = filter.channels.iter();
        let channels = channels.map(|name| (schema::CHANNEL, &**name, format!("channel {name}")));
        let bundle = (schema::BUNDLE, &*self.bundle.name, self.bundle.name.clone());
        let each = [package].into_iter().chain(channels).chain([bundle]);
        each.flat_map(|(schema, name, what)| {
            all.messages(schema, name).map(move |message| (what.clone(), message))
        })
        .collect()
    }
}

/// Something unexpected about the chosen bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// It is a downgrade of the version or release.
    #[error("the bundle is a step to a lower version")]
    SuccessorIsLowerVersion,
    /// No edge of the catalog leads to it; `SelfCertified` allowed it (decision 30).
    #[error("no edge of the catalog leads to the bundle")]
    ForcedStep,
    /// An installed bundle depends on what it replaces, and `SelfCertified` allowed it; or it is
    /// not known whether one does.
    #[error("{0}")]
    BreaksInstalled(Breakage),
}

/// A bundle held back by the update policy, or because it does not fit the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held<'a> {
    pub catalog: &'a str,
    pub bundle: &'a str,
    /// Its version and release.
    pub version: VersionRelease,
    /// Why: [`Reason::Held`] or [`Reason::Unfit`].
    pub reason: Reason,
    /// Whether the chosen bundle would win anyway, because of its catalog.
    pub(crate) outranked: bool,
}

/// The outcome for one catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogReport<'a> {
    pub name: &'a str,
    pub priority: i32,
    /// What is wrong with it, even if its content was used.
    pub problem: Option<CatalogError>,
    /// Whether its content was used.
    pub used: bool,
    /// How many bundles of the package it has.
    pub bundles: usize,
    /// How many passed every filter.
    pub candidates: usize,
}

/// What the reconciler does with a resolution.
#[derive(Debug, Clone, Copy)]
pub enum Decision<'r, 'a> {
    /// Install or keep this bundle.
    Use(&'r Selected<'a>),
    /// Keep the installed bundle: without an error if the request admits it and there are no catalogs,
    /// or its own is gone; otherwise reporting the error as `Retrying`.
    Keep(Option<&'r ResolveError>),
    /// Nothing is desired; the error is the message.
    Fail(&'r ResolveError),
}

/// What happens to the installed bundle when the resolution fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fallback {
    /// Nothing is installed, or the request itself is wrong.
    Fail,
    /// The installed bundle stays, and the error is reported.
    Hold,
    /// The installed bundle stays, and the request still admits it: there are no catalogs, or its
    /// own is gone and no other offers anything in its place.
    Maintain,
}

impl<'a> Resolution<'a> {
    /// Returns the bundles that could be chosen if nothing held them.
    pub fn held_back(&self) -> impl Iterator<Item = &Held<'a>> {
        self.held.iter().filter(|held| !held.outranked)
    }

    /// Says what the reconciler does: use the result, keep the installed bundle, or fail.
    ///
    /// Source: resolution.md 1.11, decision 5.
    pub fn decision(&self) -> Decision<'_, 'a> {
        match (&self.result, self.decision) {
            (Ok(selected), _) => Decision::Use(selected),
            (Err(_), Fallback::Maintain) => Decision::Keep(None),
            (Err(error), Fallback::Hold) => Decision::Keep(Some(error)),
            (Err(error), Fallback::Fail) => Decision::Fail(error),
        }
    }

    /// Returns the note of Event `CatalogUnavailable`, if a bundle was chosen although some catalog
    /// has a problem.
    ///
    /// Example: `resolved without catalog(s) "b": catalog "b" is not being served`.
    pub fn unavailable_note(&self) -> Option<String> {
        let broken = |report: &CatalogReport<'a>| report.problem.clone();
        let problems: Vec<_> = self.catalogs.iter().filter_map(broken).collect();
        let first = problems.first().filter(|_| self.result.is_ok())?;
        let names: Vec<_> = problems.iter().map(|problem| quote(&problem.catalog)).collect();
        let names = names.join(", ");
        Some(format!("resolved without catalog(s) {names}: {first}"))
    }
}

/// A request whose parts are parsed.
pub(crate) struct Query<'r> {
    pub(crate) request: &'r Request,
    pub(crate) options: &'r Options,
    cluster: ClusterFacts<'r>,
    pub(crate) range: Option<VersionRange>,
    /// The release that is asked for.
    pinned: Option<VersionRelease>,
    /// The installed version; an invalid one only matters once some catalog has the package.
    pub(crate) installed: Option<Result<VersionRelease, InstalledError>>,
    pub(crate) self_certified: bool,
    /// The update policy; `Any` where it does not apply.
    pub(crate) updates: UpdatePolicy,
    /// When automatic updates may begin again, where that counts.
    pub(crate) closed_until: Option<Timestamp>,
}

/// Chooses the bundle a ClusterExtension gets.
///
/// Candidates of one catalog are the bundles of the package in a requested channel, in the version
/// range, and that may follow the installed bundle; the best of them is not deprecated and of the
/// highest version and release. Of several catalogs the one of highest priority wins, deprecated
/// bundles losing to others; two at the top are an error unless the installed bundle came from one.
pub fn resolve<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    environment: &Environment,
    options: &Options,
) -> Resolution<'a> {
    match Query::new(request, environment, options) {
        Ok((query, selector)) => {
            let mut selected: Vec<_> = catalogs
                .iter()
                .filter(|catalog| catalog.enabled && selector.matches(&catalog.labels))
                .collect();
            selected.sort_by(|a, b| a.name.cmp(b.name));
            query.run(&selected)
        }
        Err(error) => Resolution {
            result: Err(error),
            catalogs: Vec::new(),
            held: Vec::new(),
            excluded: Vec::new(),
            decision: Fallback::Fail,
            work: 0,
            stays: false,
            installed_fits: false,
        },
    }
}

impl<'r> Query<'r> {
    /// Checks selector and range, in this order, before any catalog is read.
    pub(crate) fn new(
        request: &'r Request,
        environment: &'r Environment,
        options: &'r Options,
    ) -> Result<(Self, Selector), ResolveError> {
        let filter = &request.filter;
        let selector = Selector::new(filter.selector.as_ref()).map_err(ResolveError::Selector)?;
        let text = filter.version.as_deref().filter(|text| !text.is_empty());
        let range = text.map(str::parse::<VersionRange>).transpose();
        let range = range.map_err(|source| ResolveError::Range {
            range: text.unwrap_or_default().to_owned(),
            source,
        })?;
        let policy = filter.upgrade_constraint_policy.unwrap_or_default();
        let installed = request.installed.as_ref().map(Installed::parse);
        let self_certified = policy == UpgradeConstraintPolicy::SelfCertified;
        let mut query = Self {
            request,
            options,
            cluster: ClusterFacts::new(environment, request),
            range,
            pinned: text.filter(|_| options.pins_releases).and_then(release),
            installed,
            self_certified,
            updates: UpdatePolicy::Any,
            closed_until: None,
        };
        // A range that excludes the installed version is the administrator's decision, so the
        // update policy does not apply; nor does it to a release that is asked for (`follows`).
        if !self_certified && query.installed_satisfies_range() {
            query.updates = options.updates;
            query.closed_until = options.closed_until;
        }
        Ok((query, selector))
    }

    /// Returns the installed version, if it is valid.
    pub(crate) fn installed_version(&self) -> Option<&VersionRelease> {
        self.installed.as_ref()?.as_ref().ok()
    }

    /// Says whether the installed version is valid and in the range, if a range is requested.
    fn installed_satisfies_range(&self) -> bool {
        let contains = |it: &VersionRelease| {
            self.range.as_ref().is_none_or(|range| range.contains(&it.version))
        };
        self.installed_version().is_some_and(contains)
    }

    /// Says whether a release is asked for that some catalog has, and another version is installed.
    fn asks_for_other_release(&self, catalogs: &[&Catalog<'_>]) -> bool {
        let name = &self.request.filter.package_name;
        let mut packages = catalogs.iter().filter_map(|catalog| catalog.package(name));
        self.installed_version().is_some_and(|it| !self.is_pinned(it))
            && packages.any(|package| self.has_pinned(package))
    }

    /// Returns whether any catalog has a requested version, in whatever channel.
    fn is_in_some(&self, catalogs: &[&Catalog<'_>]) -> bool {
        let name = &self.request.filter.package_name;
        let packages = catalogs.iter().filter_map(|catalog| catalog.package(name));
        packages.flat_map(|package| &package.bundles).any(|it| self.in_range(false, it).is_ok())
    }

    fn run<'a>(&self, catalogs: &[&'a Catalog<'a>]) -> Resolution<'a> {
        let walks: Vec<_> = catalogs.iter().map(|catalog| self.walk(catalog)).collect();
        let result = self.choose(&walks).and_then(|winner| self.finish(winner));
        let maintained = self.request.installed.is_some()
            && (self.range.is_none() || self.installed_satisfies_range())
            && !self.asks_for_other_release(catalogs);
        let ending = result.as_ref().err().map(ResolveError::ending);
        let is_of_catalogs = match ending {
            Some(Ending::Ambiguous | Ending::CatalogError) => true,
            Some(Ending::NoCandidate) => !self.is_in_some(catalogs),
            _ => false,
        };
        let is_gone = |home: &str| catalogs.iter().all(|catalog| catalog.name != home);
        let is_absent = ending == Some(Ending::NoCandidate)
            && walks.iter().all(|walk| walk.held.is_empty())
            && self.request.home.as_deref().is_some_and(is_gone);
        let decision = match &self.request.installed {
            None => Fallback::Fail,
            Some(_) if maintained && (catalogs.is_empty() || is_absent) => Fallback::Maintain,
            Some(_) => Fallback::Hold,
        };
        let work = walks.iter().map(|walk| walk.work).sum::<u64>() + self.cluster.work();
        let chosen = result.as_ref().ok();
        let (mut reports, mut held, mut excluded) = (Vec::new(), Vec::new(), Vec::new());
        for walk in walks {
            let other = (walk.report.name, walk.report.priority);
            let wins = |it: &Selected<'_>| self.outranks((it.catalog, it.priority), other);
            let outranked = chosen.is_some_and(|chosen| !chosen.deprecated && wins(chosen));
            held.extend(walk.held.into_iter().map(|it| Held { outranked, ..it }));
            reports.push(walk.report);
            excluded.extend(walk.excluded);
        }
        Resolution {
            stays: chosen.is_some_and(|selected| self.is_installed(selected.bundle)),
            installed_fits: is_of_catalogs && maintained,
            result,
            catalogs: reports,
            held,
            excluded,
            decision,
            work,
        }
    }

    /// Checks the winner and adds its warnings.
    fn finish<'a>(
        &self,
        winner: &catalogs::CatalogCandidate<'a>,
    ) -> Result<Selected<'a>, ResolveError> {
        let bundle = winner.bundle;
        let version = bundle.version(self.options.release_support);
        let version = version.map_err(|error: &BundleVersionError| ResolveError::Version {
            bundle: bundle.name.clone(),
            source: Box::new(error.clone()),
        })?;
        let invalid = |source| ResolveError::Validation { bundle: bundle.name.clone(), source };
        if let Some(unfit) = &winner.unfit {
            return Err(invalid(unfit.as_ref().clone()));
        }
        let refuses = self.options.dependencies == Dependencies::Refuse;
        if let Some(property) = bundle.dependencies().next().filter(|_| refuses) {
            let (bundle, property) = (bundle.name.clone(), property.kind.clone());
            return Err(invalid(ValidationError::DependencyUnsupported { bundle, property }));
        }
        Ok(Selected {
            catalog: winner.catalog,
            priority: winner.priority,
            bundle,
            version: version.clone(),
            deprecated: winner.deprecated,
            deprecations: winner.package.deprecations.as_ref(),
            lifecycle: winner.package.lifecycle_of(&version.version),
            warnings: self.warnings(winner, version),
        })
    }

    fn warnings(
        &self,
        winner: &catalogs::CatalogCandidate<'_>,
        version: &VersionRelease,
    ) -> Vec<Warning> {
        let broken = self.breaks(winner.bundle).into_iter();
        let mut warnings: Vec<_> = broken.map(Warning::BreaksInstalled).collect();
        let Some(installed) = self.installed_version() else { return warnings };
        if version.precedence(installed).is_lt() {
            warnings.push(Warning::SuccessorIsLowerVersion);
        }
        if !self.may_follow(winner.package, winner.bundle, installed) {
            warnings.push(Warning::ForcedStep);
        }
        warnings
    }
}

/// Returns the release that a range is, if it is one.
fn release(range: &str) -> Option<VersionRelease> {
    let version = range.trim().trim_start_matches('=').trim_start().trim_start_matches('v');
    VersionRelease::legacy(version).ok().filter(|_| version.contains('+'))
}

impl Installed {
    /// Parses the recorded version: a release in a field of its own selects the explicit rule.
    pub fn parse(&self) -> Result<VersionRelease, InstalledError> {
        match &self.release {
            Some(release) => {
                VersionRelease::explicit(&self.version, release).map_err(InstalledError::Explicit)
            }
            None => VersionRelease::legacy(&self.version).map_err(InstalledError::Legacy),
        }
    }
}
