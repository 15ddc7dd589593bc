//! How to get to one version: every way named here was tried.

use std::fmt;

use olm_api::{CatalogFilter, UpgradeConstraintPolicy};
use schemars::JsonSchema;
use serde::Serialize;

use super::catalogs::CatalogEvaluation;
use super::evaluation::PackageEvaluation;
use super::what_if::WhatIf;
use crate::version::Version;

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
    /// The versions of the shortest path to it, both ends included; null if there is none, or
    /// nothing is installed.
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
    let consulted = all.iter().filter(|looked| looked.account.consulted);
    let mut surveys: Vec<_> = consulted.filter_map(|it| it.survey.as_ref()).collect();
    surveys.sort_by_key(|survey| std::cmp::Reverse(survey.catalog.priority));
    let mut places = Vec::new();
    for survey in &surveys {
        let all = survey.by_preference().into_iter();
        let meant = all.filter(|position| is_meant(survey, *position, version));
        places.extend(meant.map(|position| (*survey, position)));
    }
    let found: Vec<_> = places
        .iter()
        .map(|(survey, position)| TargetBundle {
            catalog: survey.catalog.name,
            bundle: &survey.bundle(*position).name,
        })
        .collect();
    let way = places.iter().find_map(|(survey, position)| survey.way(*position));
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

/// Says whether a bundle matches a version, with or without its release, or a name.
fn is_meant(survey: &PackageEvaluation<'_, '_>, position: usize, wanted: &str) -> bool {
    let bundle = survey.bundle(position);
    let recorded = survey.version(position);
    bundle.name == wanted
        || recorded.is_some_and(|version| {
            version.recorded() == wanted
                || wanted.parse::<Version>().is_ok_and(|wanted| {
                    wanted.build.is_empty() && wanted.precedence(&version.version).is_eq()
                })
        })
}

/// Returns the closest versions below and above one that does not exist.
fn nearest(surveys: &[&PackageEvaluation<'_, '_>], wanted: &str) -> Vec<String> {
    let wanted = wanted.strip_prefix('v').unwrap_or(wanted).parse::<Version>();
    let mut versions: Vec<_> = surveys
        .iter()
        .flat_map(|survey| (0..survey.package.bundles.len()).map(|it| survey.version(it)))
        .flatten()
        .collect();
    versions.sort_by(|a, b| a.precedence(b));
    versions.dedup_by(|a, b| a.precedence(b).is_eq());
    let Ok(wanted) = wanted else {
        return Vec::new();
    };
    let above = versions.partition_point(|version| version.version.precedence(&wanted).is_lt());
    let first = above.saturating_sub(MAX_NEAREST);
    let last = versions.len().min(above + MAX_NEAREST);
    let around = versions.get(first..last).unwrap_or_default();
    around.iter().rev().map(|version| version.recorded()).collect()
}

/// Returns the changes that lead to the version: without force in as few channels as needed, and
/// with force unless one step without it is enough.
fn ways(
    what_if: &WhatIf<'_, '_>,
    places: &[(&PackageEvaluation<'_, '_>, usize)],
) -> Vec<SpecChange> {
    let mut ways = Vec::new();
    for (survey, position) in places {
        let wider = channels(what_if, survey, *position);
        let mut found =
            wider.iter().find_map(|it| gentle(what_if, survey, *position, it.as_deref()));
        ways.append(&mut found.take().into_iter().collect());
        let direct = ways.iter().any(|way: &SpecChange| way.steps == 1);
        let forced =
            || wider.iter().find_map(|it| forced(what_if, survey, *position, it.as_deref()));
        if !direct {
            ways.extend(forced());
        }
        if !ways.is_empty() {
            break;
        }
    }
    ways
}

/// Returns the channels to try: the requested ones first, then one more of those the bundle is in.
fn channels(
    what_if: &WhatIf<'_, '_>,
    survey: &PackageEvaluation<'_, '_>,
    position: usize,
) -> Vec<Option<Vec<String>>> {
    let requested = &what_if.query.request.filter.channels;
    let mut tried = vec![None];
    if requested.is_empty() {
        return tried;
    }
    let all = survey.channels(survey.bundle(position)).into_iter();
    let missing = all.filter(|channel| !what_if.query.considers(channel));
    tried.extend(missing.map(|channel| {
        let mut channels = requested.clone();
        channels.push(channel.to_owned());
        Some(channels)
    }));
    tried
}

/// Looks for a range under which updates lead to a bundle; one step if possible.
fn gentle(
    what_if: &WhatIf<'_, '_>,
    survey: &PackageEvaluation<'_, '_>,
    position: usize,
    channels: Option<&[String]>,
) -> Option<SpecChange> {
    let bundle = &survey.bundle(position).name;
    let to = &survey.version(position)?.version;
    let ranges = ranges(survey, position, to);
    let with = |filter: &mut CatalogFilter| {
        if let Some(channels) = channels {
            filter.channels = channels.to_vec();
        }
    };
    let steps = ranges.into_iter().filter_map(|range| {
        let steps = what_if.steps_to(&range, bundle, with)?;
        Some((steps, range))
    });
    let (steps, version) = steps.min_by_key(|(steps, _)| *steps)?;
    Some(SpecChange { version, channels: channels.map(<[String]>::to_vec), forced: false, steps })
}

/// Returns ranges that may lead to a version, the simplest first.
pub(super) fn ranges(
    survey: &PackageEvaluation<'_, '_>,
    position: usize,
    to: &Version,
) -> Vec<String> {
    let to = to.clone().without_build();
    let (major, minor) = (to.major, to.minor);
    let mut ranges = vec![to.to_string(), format!("{major}.{minor}.x"), format!("{major}.x")];
    if let Some(first) = survey.first_step(position) {
        let first = first.version.clone().without_build();
        ranges.push(format!(">={first} <={to}"));
    }
    ranges
}

/// Says whether disabling the upgrade constraints leads to a bundle.
fn forced(
    what_if: &WhatIf<'_, '_>,
    survey: &PackageEvaluation<'_, '_>,
    position: usize,
    channels: Option<&[String]>,
) -> Option<SpecChange> {
    let bundle = survey.bundle(position);
    let version = survey.version(position)?.version.clone().without_build().to_string();
    let answer = what_if.ask(|filter| {
        filter.version = Some(version.clone());
        filter.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
        if let Some(channels) = channels {
            filter.channels = channels.to_vec();
        }
    })?;
    (answer.bundle == bundle.name).then(|| SpecChange {
        version,
        channels: channels.map(<[String]>::to_vec),
        forced: true,
        steps: 1,
    })
}
