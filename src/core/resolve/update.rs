//! The newer version that is offered but not chosen: what could follow the installed bundle if
//! nothing held it back, the newest available, and why it is not chosen.
//!
//! Source: decision 22, resolution.md 6.1.

use std::{fmt, slice};

use olm_api::UpdateStatus;
use olm_api::conditions::Reason as Code;
use olm_api::keys::policy;

use super::filter::Reason;
use super::policy::{HeldReason, UpdatePolicy};
use super::{
    Catalog, Dependencies, Environment, Options, Query, Request, Resolution, ResolveError,
    Selected, Unavailability, ValidationError, resolve,
};
use crate::error::quote;
use crate::version::{VersionRange, VersionRelease};

/// A newer version that is offered but not chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// The newest bundle that could follow the installed one in one step; absent when no path
    /// leads to a newer one.
    pub reachable: Option<Offer<'a>>,
    /// The newest bundle of the requested channels, whether a path leads to it or not.
    pub newest: Offer<'a>,
    /// Why it is not chosen.
    pub why: Why,
}

/// A bundle of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer<'a> {
    pub catalog: &'a str,
    pub bundle: &'a str,
    /// Its version and release.
    pub version: VersionRelease,
}

impl<'a> From<Selected<'a>> for Offer<'a> {
    fn from(selected: Selected<'a>) -> Self {
        let Selected { catalog, bundle, version, .. } = selected;
        Self { catalog, bundle: &bundle.name, version }
    }
}

/// Why a newer version is not chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The requested version range excludes it; holds the range.
    Pinned(String),
    /// The update policy, or what the cluster lacks, holds it back.
    Held(Reason),
    /// No path of the catalog leads to it in one step.
    NotSuccessor,
    /// Several catalogs of the same priority have the package, so nothing is chosen; holds their names.
    Ambiguous(Vec<String>),
    /// A path of its catalog leads to it, but that one is outranked.
    LowerPriority,
    /// Nothing was chosen at all; the error says why.
    Unresolved,
}

impl Why {
    /// Returns the reason in one word.
    pub fn code(&self) -> Code {
        match self {
            Self::Pinned(_) => Code::Pinned,
            Self::Held(reason) => reason.code(),
            Self::NotSuccessor => Reason::NotSuccessor.code(),
            Self::Ambiguous(_) => Code::AmbiguousCatalogs,
            Self::LowerPriority => Code::LowerPriorityCatalog,
            Self::Unresolved => Code::Retrying,
        }
    }
}

impl From<&Update<'_>> for UpdateStatus {
    fn from(update: &Update<'_>) -> Self {
        let offer = update.reachable.as_ref();
        Self {
            version: offer.map(|offer| offer.version.recorded()),
            newest: update.newest.version.recorded(),
            catalog: offer.unwrap_or(&update.newest).catalog.to_owned(),
            reason: update.why.code().to_string(),
            message: update.to_string(),
        }
    }
}

impl fmt::Display for Update<'_> {
    /// Describes why the version is not chosen, and what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offer = self.reachable.as_ref().unwrap_or(&self.newest);
        let version = offer.version.recorded();
        match &self.why {
            Why::Pinned(range) => {
                write!(f, "{version} is available, but version {} excludes it", quote(range))
            }
            Why::Held(Reason::Held(held)) => {
                let (approve, upgrade) = (policy::APPROVE, policy::UPGRADE);
                write!(f, "{version} is available and held{}: ", held.words(offer.catalog))?;
                match held {
                    HeldReason::OutsideWindow(_) | HeldReason::OtherCatalog => {
                        write!(f, "to install it now, set annotation {approve}: {version}")
                    }
                    HeldReason::LowerVersion
                    | HeldReason::NextMajor
                    | HeldReason::NextMinor
                    | HeldReason::NextPatch => write!(
                        f,
                        "edit version, or set annotation {approve}: {version} or {upgrade}: Any"
                    ),
                }
            }
            Why::Held(Reason::Unfit(error)) => {
                write!(f, "{version} is available and held: {error}")?;
                if matches!(**error, ValidationError::BreaksInstalled(_)) {
                    let force = policy::FORCE;
                    write!(f, "; if each waits for the other, set {force}: constraints on one")?;
                }
                Ok(())
            }
            Why::Held(reason) => {
                write!(f, "{version} is available and held: {}", reason.code())
            }
            Why::NotSuccessor => write!(
                f,
                "{version} is available, but no update path of the catalog leads to it in one step"
            ),
            Why::Ambiguous(catalogs) => write!(
                f,
                "{version} is available, but catalogs {} have the same priority: give one a higher \
                 priority, or select one",
                catalogs.join(" and ")
            ),
            Why::LowerPriority => write!(
                f,
                "{version} is available, but its catalog, {}, has a lower priority than another that \
                 has the package: give it a higher priority, or select it",
                offer.catalog
            ),
            Why::Unresolved => write!(f, "{version} is available"),
        }
    }
}

/// Returns the newer version that is offered but not chosen, if there is one.
///
/// `resolution` is what the same request, catalogs, environment and options led to; `taken` is the
/// version that is installed or on its way. Deprecated bundles are not offered.
pub fn pending<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: &Options,
    resolution: &Resolution<'a>,
    taken: &VersionRelease,
) -> Option<Update<'a>> {
    let installed = request.installed.as_ref()?;
    let newer = |offer: &Offer<'_>| offer.version.precedence(taken).is_gt();
    let newest = newest(request, catalogs, *options).filter(newer)?;
    let reachable = reachable(request, catalogs, *options);
    let is_taken = |version: &VersionRelease| version.precedence(taken).is_eq();
    if reachable.as_ref().is_ok_and(|offer| is_taken(&offer.version))
        && !installed.parse().is_ok_and(|version| is_taken(&version))
    {
        // A step of a longer path; what follows is reported after it.
        return None;
    }
    let is_unread = matches!(reachable, Err(ResolveError::Walk(_)));
    let chosen = reachable.as_ref().ok().map(|offer| offer.catalog);
    let reachable = reachable.ok().filter(newer);
    let why = match &reachable {
        None if is_unread => Why::Unresolved,
        None => match &resolution.result {
            Err(ResolveError::NoSingleBundle(_)) | Ok(_) => {
                let tied = tied(request, catalogs, *options);
                let leads = |name: &str| {
                    let named = |catalog: &&Catalog<'_>| catalog.name == name;
                    let catalog = catalogs.iter().find(named).map(slice::from_ref);
                    let offer = catalog.and_then(|it| self::reachable(request, it, *options).ok());
                    offer.as_ref().is_some_and(newer)
                };
                let other = newest.catalog;
                let outranks = |one| priority(catalogs, one) > priority(catalogs, other);
                if tied.iter().any(|name| leads(name)) {
                    Why::Ambiguous(tied)
                } else if leads(other) && chosen.is_none_or(outranks) {
                    Why::LowerPriority
                } else {
                    Why::NotSuccessor
                }
            }
            Err(_) => Why::Unresolved,
        },
        Some(offer) => {
            let excluded = resolution.excluded.iter().find(|excluded| {
                (excluded.catalog, excluded.bundle) == (offer.catalog, offer.bundle)
            });
            match excluded.map(|excluded| &excluded.reason) {
                Some(
                    Reason::VersionOutOfRange
                    | Reason::PrereleaseNotRequested
                    | Reason::InvalidVersion,
                ) => Why::Pinned(request.filter.version.clone().unwrap_or_default()),
                Some(reason) => Why::Held(reason.clone()),
                None if resolution.result.is_err() => Why::Unresolved,
                // It was a candidate like the chosen one, which was preferred.
                None => return None,
            }
        }
    };
    Some(Update { reachable, newest, why })
}

fn priority(catalogs: &[Catalog<'_>], name: &str) -> Option<i32> {
    catalogs.iter().find(|catalog| catalog.name == name).map(|catalog| catalog.priority)
}

/// Returns the catalogs of the same priority of which none would be chosen, had nothing been
/// installed from one of them.
fn tied(request: &Request, catalogs: &[Catalog<'_>], options: Options) -> Vec<String> {
    let homeless = Request { home: None, ..free(request) };
    // One that cannot be read ends no tie of others.
    let has_package = |it: &&Catalog<'_>| it.package(&request.filter.package_name).is_some();
    let readable: Vec<_> = catalogs.iter().filter(has_package).cloned().collect();
    let result = resolve_freely(&homeless, &readable, options);
    let Err(ResolveError::NoSingleBundle(found)) = result else { return Vec::new() };
    let mut tied = found.catalogs;
    let top = tied.iter().map(|name| priority(catalogs, name)).max();
    tied.retain(|name| Some(priority(catalogs, name)) == top);
    tied
}

/// Returns the bundle that would follow if nothing held it back.
fn reachable<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: Options,
) -> Result<Offer<'a>, ResolveError> {
    resolve_freely(&free(request), catalogs, options).map(Offer::from)
}

/// Resolves where neither the update policy nor the cluster holds anything back, as far as the catalogs
/// can be read.
fn resolve_freely<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: Options,
) -> Result<Selected<'a>, ResolveError> {
    let options = Options {
        updates: UpdatePolicy::Any,
        closed_until: None,
        dependencies: Dependencies::Check,
        unavailability: Unavailability::BestEffort,
        ..options
    };
    resolve(request, catalogs, &Environment::default(), &options).result
}

/// Returns the request without what holds back versions and catalogs.
fn free(request: &Request) -> Request {
    let mut free = Request { moves_held: false, ..request.clone() };
    free.filter.version = unpinned(request);
    free
}

/// Returns a range that admits every version; prereleases only if the requested range or the
/// installed version has one.
fn unpinned(request: &Request) -> Option<String> {
    let pinned = request.filter.version.as_ref().filter(|text| !text.is_empty())?;
    let range = pinned.parse::<VersionRange>();
    let prerelease = |text: &str| text.split('+').next().is_some_and(|text| text.contains('-'));
    let installed = request.installed.as_ref();
    let had = range.is_ok_and(|range| range.names_prereleases())
        || installed.is_some_and(|it| prerelease(&it.version));
    Some(if had { "*-0" } else { "*" }.to_owned())
}

/// Returns the bundle of the highest version in the requested channels of the selected catalogs.
pub fn newest<'a>(
    request: &Request,
    catalogs: &'a [Catalog<'a>],
    options: Options,
) -> Option<Offer<'a>> {
    let (free, environment) = (free(request), Environment::default());
    let (query, selector) = Query::new(&free, &environment, &options).ok()?;
    let mut best: Option<Offer<'a>> = None;
    for catalog in catalogs.iter().filter(|it| it.enabled && selector.matches(&it.labels)) {
        let Some(package) = catalog.package(&free.filter.package_name) else { continue };
        for bundle in &package.bundles {
            let Ok(version) = bundle.version(options.release_support) else { continue };
            let higher = best.as_ref().is_none_or(|best| version.precedence(&best.version).is_gt());
            let offered =
                query.is_requested(package, bundle) && !package.is_deprecated(&bundle.name);
            if higher && offered {
                let (catalog, version) = (catalog.name, version.clone());
                best = Some(Offer { catalog, bundle: &bundle.name, version });
            }
        }
    }
    best
}
