//! How to get to one version: every way named here was tried.

use std::fmt;

use olm_api::{CatalogFilter, UpgradeConstraintPolicy};
use schemars::JsonSchema;
use serde::Serialize;

use super::catalogs::{CatalogEvaluation, consulted};
use super::evaluation::{PackageEvaluation, Place};
use super::what_if::WhatIf;
use crate::version::{Version, VersionRelease};

/// The most versions that are listed for one that does not exist.
const MAX_NEAREST: usize = 3;

/// What is known about one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target<'a> {
    /// The version, or the name of a bundle, as requested.
    pub version: &'a str,
    /// The bundles of that version, with their catalogs; empty if no consulted catalog has one.
    pub found: Vec<TargetBundle<'a>>,
    /// The closest versions below and above, if no bundle has the version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// Whether it is the answer already.
    pub selected: bool,
    /// The versions of the shortest path to it, both ends included; null if there is none,
    /// nothing is installed, or the package is too large to look for one.
    pub path: Option<Vec<String>>,
    /// The versions on the path that the range refuses.
    pub refused: Vec<String>,
    /// Changes of the request that lead to it, the least intrusive first.
    pub ways: Vec<SpecChange>,
}

/// A bundle of the wanted version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetBundle<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// Name of the bundle.
    pub bundle: &'a str,
}

/// A change of the request after which updates lead to the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpecChange {
    /// The version range to request.
    pub version: String,
    /// The channels to request, if they must change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
    /// Whether upgrade constraints must be disabled: no edge of the catalog leads there.
    pub forced: bool,
    /// How many updates it takes.
    #[schemars(range(min = 1))]
    pub steps: usize,
}

impl fmt::Display for SpecChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version \"{}\"", self.version)?;
        if let Some(channels) = &self.channels {
            write!(f, ", channels [{}]", channels.join(", "))?;
        }
        if self.forced {
            f.write_str(", upgradeConstraintPolicy SelfCertified")?;
        }
        Ok(())
    }
}

/// Looks for a version and for ways to it.
pub(super) fn target<'a>(
    what_if: &WhatIf<'a, '_>,
    all: &[CatalogEvaluation<'a, '_>],
    version: &'a str,
) -> Target<'a> {
    let surveys = consulted(all);
    let mut places = Vec::new();
    for &survey in &surveys {
        let all = survey.by_preference().into_iter().map(|position| Place { survey, position });
        places.extend(all.filter(|place| place.is_meant(version)));
    }
    let bundle = |it: &Place<'_, 'a, '_>| TargetBundle {
        catalog: it.survey.catalog.name,
        bundle: it.name(),
    };
    let found: Vec<_> = places.iter().map(bundle).collect();
    let way = places.iter().find_map(|place| place.survey.way(place.position));
    let selected = what_if.resolution.result.as_ref().ok();
    let selected = selected.is_some_and(|selected| {
        let is_it = |found: &TargetBundle<'_>| {
            found.catalog == selected.catalog && found.bundle == selected.bundle.name
        };
        found.iter().any(is_it)
    });
    let ways = if selected { Vec::new() } else { ways(what_if, &places) };
    Target {
        version,
        nearest: if found.is_empty() { nearest(&surveys, version) } else { Vec::new() },
        found,
        selected,
        refused: way.as_ref().map(|way| way.refused.clone()).unwrap_or_default(),
        path: way.map(|way| way.versions),
        ways,
    }
}

/// Returns a version without the letter that a range may have too: `v1.0.0` is 1.0.0.
fn plain(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

/// Returns the closest versions below and above one that does not exist.
fn nearest(surveys: &[&PackageEvaluation<'_, '_>], wanted: &str) -> Vec<String> {
    let wanted = plain(wanted).parse::<Version>();
    let mut versions: Vec<_> = surveys
        .iter()
        .flat_map(|survey| (0..survey.package.bundles.len()).map(|it| survey.version(it)))
        .flatten()
        .collect();
    versions.sort_by(|a, b| a.precedence(b));
    versions.dedup_by(|a, b| a.precedence(b).is_eq());
    let Ok(wanted) = wanted else { return Vec::new() };
    let above = versions.partition_point(|version| version.version.precedence(&wanted).is_lt());
    let first = above.saturating_sub(MAX_NEAREST);
    let last = versions.len().min(above + MAX_NEAREST);
    let around = versions.get(first..last).unwrap_or_default();
    around.iter().rev().map(|version| version.recorded()).collect()
}

/// Returns the changes that lead to the version: without force in as few channels as needed, and
/// with force unless one step without it is enough.
fn ways(what_if: &WhatIf<'_, '_>, places: &[Place<'_, '_, '_>]) -> Vec<SpecChange> {
    let mut ways = Vec::new();
    for place in places {
        let wider = place.channels(what_if);
        ways.extend(wider.iter().find_map(|it| place.gentle(what_if, it)));
        let direct = ways.iter().any(|way: &SpecChange| way.steps == 1);
        if !direct {
            ways.extend(wider.iter().find_map(|it| place.forced(what_if, it)));
        }
        if !ways.is_empty() {
            break;
        }
    }
    ways
}

impl Place<'_, '_, '_> {
    /// Says whether it matches a version, with or without its release, or a name.
    fn is_meant(&self, wanted: &str) -> bool {
        if self.name() == wanted {
            return true;
        }
        let wanted = plain(wanted);
        let is_version = |version: &VersionRelease| {
            version.recorded() == wanted
                || wanted.parse::<Version>().is_ok_and(|wanted| {
                    wanted.build.is_empty() && wanted.precedence(&version.version).is_eq()
                })
        };
        self.version().is_some_and(is_version)
    }

    /// Returns the channels to try: the requested ones first, then one more of those the bundle is
    /// in.
    fn channels(&self, what_if: &WhatIf<'_, '_>) -> Vec<Vec<String>> {
        let requested = &what_if.query.request.filter.channels;
        let all = self.survey.channels(self.survey.bundle(self.position)).into_iter();
        let missing = all.filter(|channel| !what_if.query.considers(channel));
        let wider = missing.map(|channel| [requested.as_slice(), &[channel.to_owned()]].concat());
        std::iter::once(requested.clone()).chain(wider).collect()
    }

    /// Looks for a range under which updates lead to it; one step if possible.
    fn gentle(&self, what_if: &WhatIf<'_, '_>, channels: &[String]) -> Option<SpecChange> {
        let ranges = self.ranges(&self.version()?.version);
        let steps = ranges.into_iter().filter_map(|range| {
            let with = |filter: &mut CatalogFilter| filter.channels = channels.to_vec();
            let steps = what_if.steps_to(&range, self.name(), with)?;
            Some((steps, range))
        });
        let (steps, version) = steps.min_by_key(|(steps, _)| *steps)?;
        Some(SpecChange { version, channels: changed(what_if, channels), forced: false, steps })
    }

    /// Returns ranges that may lead to its version, the simplest first.
    pub(super) fn ranges(&self, to: &Version) -> Vec<String> {
        let to = to.clone().without_build();
        let (major, minor) = (to.major, to.minor);
        let mut ranges = vec![to.to_string(), format!("{major}.{minor}.x"), format!("{major}.x")];
        if let Some(first) = self.survey.first_step(self.position) {
            let first = first.version.clone().without_build();
            ranges.push(format!(">={first} <={to}"));
        }
        ranges
    }

    /// Says whether disabling the upgrade constraints leads to it.
    fn forced(&self, what_if: &WhatIf<'_, '_>, channels: &[String]) -> Option<SpecChange> {
        let version = self.version()?.version.clone().without_build().to_string();
        let answer = what_if.ask(|filter| {
            filter.version = Some(version.clone());
            filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
            filter.channels = channels.to_vec();
        })?;
        let channels = changed(what_if, channels);
        let change = SpecChange { version, channels, forced: true, steps: 1 };
        (answer.bundle == self.name()).then_some(change)
    }
}

/// Returns channels, unless they are the requested ones.
fn changed(what_if: &WhatIf<'_, '_>, channels: &[String]) -> Option<Vec<String>> {
    (what_if.query.request.filter.channels != channels).then(|| channels.to_vec())
}
