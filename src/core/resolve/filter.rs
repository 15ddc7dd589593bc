//! The filters inside one catalog, and why a bundle does not pass.

use std::iter::once_with;
use std::sync::Arc;

use olm_api::conditions::Reason as Code;

use super::Query;
use super::policy::HeldReason;
use super::validate::ValidationError;
use crate::catalog::{Bundle, Entry, PackageIndex, Steps};
use crate::version::VersionRelease;

/// A bundle that some filter removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusion<'a> {
    pub catalog: &'a str,
    pub bundle: &'a str,
    /// The first filter it did not pass.
    pub reason: Reason,
}

/// Why a bundle is not a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is in none of the requested channels.
    NotInRequestedChannels,
    /// A range is requested, and it has no valid version.
    InvalidVersion,
    /// Its version is not in the range.
    VersionOutOfRange,
    /// Its version is in the range, except that it is a prerelease.
    PrereleaseNotRequested,
    /// No edge leads from the installed bundle to it.
    NotSuccessor,
    /// The update policy holds it back, or its catalog is another.
    Held(HeldReason),
    /// The cluster lacks what it needs, or installed bundles need what it would replace.
    Unfit(Arc<ValidationError>),
}

impl Reason {
    /// Returns the stable code of the reason (resolution.md 6.2, decision 22).
    pub fn code(&self) -> Code {
        match self {
            Self::NotInRequestedChannels => Code::NotInRequestedChannels,
            Self::InvalidVersion => Code::InvalidVersion,
            Self::VersionOutOfRange => Code::VersionOutOfRange,
            Self::PrereleaseNotRequested => Code::PrereleaseNotRequested,
            Self::NotSuccessor => Code::NotSuccessor,
            Self::Held(reason) => reason.code(),
            Self::Unfit(error) => error.code(),
        }
    }

    /// Returns the position of its filter among all, from 0: the order in which reasons are shown.
    pub fn stage(&self) -> u8 {
        match self {
            Self::NotInRequestedChannels => 0,
            Self::InvalidVersion => 1,
            Self::VersionOutOfRange => 2,
            Self::PrereleaseNotRequested => 3,
            Self::NotSuccessor => 4,
            Self::Held(_) => 5,
            Self::Unfit(_) => 6,
        }
    }

    /// Says whether the bundle is held back, rather than not requested.
    pub(crate) fn keeps_back(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Unfit(_))
    }
}

/// Steps that a bundle counts as, whatever the filters do with it.
const STEPS_OF_BUNDLE: u64 = 10;

/// A package of a catalog, whose bundles are filtered.
#[derive(Debug)]
pub(crate) struct Offered<'p> {
    pub(crate) catalog: &'p str,
    pub(crate) package: &'p PackageIndex,
    /// Whether it has the release that is asked for, if one is.
    has_pinned: bool,
    /// What the rules of its bundles, and rules about them, may still take.
    steps: Steps,
}

impl Offered<'_> {
    /// Returns about how many steps it took to filter the bundles.
    pub(super) fn work(&self) -> u64 {
        self.package.bundles.len() as u64 * STEPS_OF_BUNDLE + self.steps.taken()
    }
}

impl Query<'_> {
    /// Returns what is to be known of a package before its bundles are filtered.
    pub(crate) fn offered<'p>(&self, catalog: &'p str, package: &'p PackageIndex) -> Offered<'p> {
        let has_pinned = self.has_pinned(package);
        Offered { catalog, package, has_pinned, steps: Steps::default() }
    }

    /// Says whether a package has the release that is asked for, if one is.
    pub(super) fn has_pinned(&self, package: &PackageIndex) -> bool {
        let mut versions =
            package.bundles.iter().map(|it| it.version(self.options.release_support));
        versions.any(|version| version.is_ok_and(|version| self.is_pinned(version)))
    }

    /// Runs a bundle through the filters; the first filter it fails is the reason.
    pub(super) fn passes(
        &self,
        offered: &Offered<'_>,
        bundle: &Bundle,
        installed: Option<&VersionRelease>,
    ) -> Result<(), Reason> {
        let mut failures = self.failures(offered, bundle, installed);
        failures.next().map_or(Ok(()), Err)
    }

    /// Returns why a bundle is not a candidate, at most one reason per filter, in the order of the
    /// filters; they are evaluated lazily.
    pub(crate) fn failures<'q>(
        &'q self,
        offered: &'q Offered<'q>,
        bundle: &'q Bundle,
        installed: Option<&'q VersionRelease>,
    ) -> impl Iterator<Item = Reason> + 'q {
        let Offered { catalog, package, has_pinned, steps } = offered;
        let channel = once_with(move || self.in_channels(package, bundle));
        let version = once_with(move || self.in_range(*has_pinned, bundle));
        let successor = once_with(move || self.follows(offered, bundle, installed?).err());
        let home = once_with(move || self.comes_from_home(catalog, bundle).err());
        let cluster = once_with(move || {
            let unfit = self.fits(bundle, steps).err()?;
            Some(Reason::Unfit(Arc::new(unfit)))
        });
        let failed = channel.chain(version).map(Result::err);
        failed.chain(successor).chain(home).chain(cluster).flatten()
    }

    /// Says whether a bundle is in a requested channel and in the range.
    pub(super) fn is_requested(&self, package: &PackageIndex, bundle: &Bundle) -> bool {
        self.in_channels(package, bundle).is_ok() && self.in_range(false, bundle).is_ok()
    }

    fn in_channels(&self, package: &PackageIndex, bundle: &Bundle) -> Result<(), Reason> {
        let requested = !self.request.filter.channels.is_empty();
        if requested && self.considered(package, bundle).next().is_none() {
            return Err(Reason::NotInRequestedChannels);
        }
        Ok(())
    }

    /// Only successors are checked against the update policy: other bundles are never held back.
    fn follows(
        &self,
        offered: &Offered<'_>,
        bundle: &Bundle,
        installed: &VersionRelease,
    ) -> Result<(), Reason> {
        if !self.may_follow(offered.package, bundle, installed) {
            return Err(Reason::NotSuccessor);
        }
        // A range contains every release of its versions: that another one is asked for shows here.
        if offered.has_pinned && !self.is_pinned(installed) {
            return Ok(());
        }
        let version = bundle.version(self.options.release_support);
        let held = version.ok().and_then(|version| {
            let held = self.updates.keeps_back(installed, version);
            held.or_else(|| self.outside_window(installed, version))
        });
        held.map_or(Ok(()), |reason| Err(Reason::Held(reason)))
    }

    /// Only the installed bundle may come from elsewhere, where moves to another catalog are held: that
    /// changes nothing.
    fn comes_from_home(&self, catalog: &str, bundle: &Bundle) -> Result<(), Reason> {
        let home = self.request.home.as_deref().filter(|_| self.request.moves_held);
        if home.is_none_or(|home| home == catalog) || self.is_installed(bundle) {
            return Ok(());
        }
        Err(Reason::Held(HeldReason::OtherCatalog))
    }

    /// Returns why another version is held until a window opens, if that is so.
    fn outside_window(
        &self,
        installed: &VersionRelease,
        version: &VersionRelease,
    ) -> Option<HeldReason> {
        let moves = !version.precedence(installed).is_eq();
        let opens = self.closed_until.filter(|_| moves)?;
        Some(HeldReason::OutsideWindow(opens))
    }

    pub(super) fn in_range(&self, has_pinned: bool, bundle: &Bundle) -> Result<(), Reason> {
        let Some(range) = &self.range else { return Ok(()) };
        let release = bundle.version(self.options.release_support);
        let release = release.map_err(|_| Reason::InvalidVersion)?;
        let version = &release.version;
        let other_is_pinned = || has_pinned && !self.is_pinned(release);
        if range.contains(version) {
            if other_is_pinned() { Err(Reason::VersionOutOfRange) } else { Ok(()) }
        } else if range.contains_admitting_prereleases(version) {
            Err(Reason::PrereleaseNotRequested)
        } else {
            Err(Reason::VersionOutOfRange)
        }
    }

    /// Says whether a version is the release that is asked for.
    pub(super) fn is_pinned(&self, version: &VersionRelease) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| version.recorded() == pinned.recorded())
    }

    /// Says whether a bundle is the installed one or a successor of it.
    ///
    /// Edges of all considered channels count together; a bundle of the same version and release
    /// is the installed one whatever its name.
    pub(super) fn may_follow(
        &self,
        package: &PackageIndex,
        bundle: &Bundle,
        installed: &VersionRelease,
    ) -> bool {
        if self.is_version(bundle, installed) {
            return true;
        }
        let name = self.request.installed.as_ref().map(|it| it.name.as_str());
        self.considered(package, bundle)
            .any(|entry| entry.leads_from(name.unwrap_or_default(), &installed.version))
    }

    /// Says whether a bundle has this version and release, whatever its name.
    pub(crate) fn is_version(&self, bundle: &Bundle, installed: &VersionRelease) -> bool {
        let version = bundle.version(self.options.release_support);
        version.is_ok_and(|version| version.precedence(installed).is_eq())
    }

    /// Returns the entries of a bundle in the requested channels, or in all if none is requested.
    pub(crate) fn considered<'p>(
        &self,
        package: &'p PackageIndex,
        bundle: &'p Bundle,
    ) -> impl Iterator<Item = &'p Entry> {
        let entries = package.entries_of(&bundle.name);
        entries.filter(|(channel, _)| self.considers(channel)).map(|(_, entry)| entry)
    }

    /// Says whether a channel is requested, or none is.
    pub(crate) fn considers(&self, channel: &str) -> bool {
        let channels = &self.request.filter.channels;
        channels.is_empty() || channels.iter().any(|requested| requested == channel)
    }
}
