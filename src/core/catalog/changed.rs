//! What changes of the versions of a package that stay: where updates to them come from, what they
//! require, and on which OpenShift they run.
//!
//! In: the package before and after. Out: each change in words. What a new version brings along is no
//! change of another: it may take an edge over from the head before it, and a new channel may repeat
//! edges that are known.
//!
//! Source: catalogs.md 2.4.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use olm_api::keys::property;
use schemars::JsonSchema;
use serde::Serialize;

use super::edge::{self, EdgeKind};
use super::index::PackageIndex;
use super::model::{Bundle, Entry};
use super::named::{named, short};
use crate::error::quote;
use crate::version::{SkipRange, VersionRelease};

/// A version that is kept, but changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VersionChange {
    pub version: String,
    /// What changes, in words.
    pub what: String,
}

/// A version before and after.
pub(super) struct Stays<'a> {
    pub(super) version: &'a str,
    /// Its bundle before.
    pub(super) before: &'a Bundle,
    /// Its bundle after.
    pub(super) after: &'a Bundle,
}

/// Returns what changes of the versions that stay; `added` are the names of the bundles of those that
/// are new.
pub(super) fn changes(
    old: &PackageIndex,
    new: &PackageIndex,
    stays: &[Stays<'_>],
    added: &BTreeSet<&str>,
) -> Vec<VersionChange> {
    let taken_over = TakenOver::of(old, new, added);
    let of_version = |stays: &Stays<'_>| {
        let mut found = edges(old, new, stays, &taken_over);
        found.extend(constraints(stays));
        found.extend(max_openshift(stays));
        let version = stays.version.to_owned();
        found.into_iter().map(move |what| VersionChange { version: version.clone(), what })
    };
    stays.iter().flat_map(of_version).collect()
}

/// An edge to a version: its kind, and its value.
type Edge<'a> = (EdgeKind, &'a str);

fn edges_of<'a>(package: &'a PackageIndex, bundle: &str) -> BTreeMap<&'a str, BTreeSet<Edge<'a>>> {
    let mut found: BTreeMap<&str, BTreeSet<Edge<'_>>> = BTreeMap::new();
    for (channel, entry) in package.entries_of(bundle) {
        let edges = edge::edges(entry).map(|edge| (edge.kind, edge.value));
        found.entry(channel).or_default().extend(edges);
    }
    found
}

/// Returns the edges to a version that come or go, one text for each channel.
fn edges(
    old: &PackageIndex,
    new: &PackageIndex,
    stays: &Stays<'_>,
    taken_over: &TakenOver<'_>,
) -> Vec<String> {
    let before = edges_of(old, &stays.before.name);
    let after = edges_of(new, &stays.after.name);
    let anywhere: BTreeSet<Edge<'_>> = before.values().flatten().copied().collect();
    let none = BTreeSet::new();
    let channels: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let in_channel = |channel: &str| {
        let (had, has) =
            (before.get(channel).unwrap_or(&none), after.get(channel).unwrap_or(&none));
        let known = if old.channels.contains_key(channel) { had } else { &anywhere };
        let said = |(kind, value): &Edge<'_>, how: &str| format!("{kind} {} {how}", quote(value));
        let come = has.difference(known).map(|edge| said(edge, "is new"));
        let go = had.difference(has).filter(|edge| !taken_over.has(old, channel, **edge));
        let all: Vec<_> = come.chain(go.map(|edge| said(edge, "is gone"))).collect();
        let channel = quote(channel);
        (!all.is_empty()).then(|| short(&format!("edges in channel {channel}: {}", named(&all))))
    };
    channels.into_iter().filter_map(in_channel).collect()
}

/// Most entries times bundles of a package whose ranges are compared; the largest packages of public
/// catalogs have a tenth.
const MAX_PAIRS: usize = 10_000_000;

/// The names of the bundles that new versions follow, by channel: none of them in a package that is too
/// large to compare, so that each edge that goes counts as gone.
struct TakenOver<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> TakenOver<'a> {
    fn of(old: &'a PackageIndex, new: &'a PackageIndex, added: &BTreeSet<&str>) -> Self {
        let entries = |it: &PackageIndex| -> usize {
            it.channels.values().map(|channel| channel.entries.len()).sum()
        };
        if (entries(old) + entries(new)).saturating_mul(old.bundles.len()) > MAX_PAIRS {
            return Self(BTreeMap::new());
        }
        let of_channel = |entries: &'a [Entry]| {
            let entries = entries.iter().filter(|entry| added.contains(entry.name.as_str()));
            let followed = entries.flat_map(|entry| {
                let names = entry.skips.iter().chain([&entry.replaces]).map(String::as_str);
                names.chain(entry.range().into_iter().flat_map(|range| in_range(old, range)))
            });
            followed.collect()
        };
        let channels = new.channels.iter();
        Self(channels.map(|(name, it)| (name.as_str(), of_channel(&it.entries))).collect())
    }

    /// Returns whether a new version follows every version that an earlier edge started from.
    fn has(&self, old: &PackageIndex, channel: &str, (kind, value): Edge<'_>) -> bool {
        let Some(followed) = self.0.get(channel) else { return false };
        if kind != EdgeKind::SkipRange {
            return followed.contains(value);
        }
        // A value that is not a range leads from no version.
        let Ok(range) = value.parse() else { return true };
        in_range(old, &range).all(|name| followed.contains(name))
    }
}

/// Returns the names of the bundles whose version is in a range.
fn in_range<'a>(package: &'a PackageIndex, range: &SkipRange) -> impl Iterator<Item = &'a str> {
    let bundles = package.bundles.iter();
    let within = bundles
        .filter(|bundle| release(bundle).is_some_and(|release| range.contains(&release.version)));
    within.map(|bundle| bundle.name.as_str())
}

/// Returns the version of a bundle, where it has one.
pub(super) fn release(bundle: &Bundle) -> Option<&VersionRelease> {
    bundle.version(true).ok()
}

fn constraints(stays: &Stays<'_>) -> Option<String> {
    fn declared(bundle: &Bundle) -> BTreeSet<(&str, &str)> {
        let declared = bundle.dependencies();
        declared.map(|property| (property.kind.as_str(), property.value.as_str())).collect()
    }
    let (before, after) = (declared(stays.before), declared(stays.after));
    let kinds = before.symmetric_difference(&after).map(|(kind, _)| kind).dedup().join(", ");
    (!kinds.is_empty()).then(|| format!("constraints change: {kinds}"))
}

fn max_openshift(stays: &Stays<'_>) -> Option<String> {
    fn said(bundle: &Bundle) -> String {
        let properties = bundle.properties.iter();
        let values = properties.filter(|it| it.kind == property::MAX_OPENSHIFT_VERSION);
        let values = values.map(|it| it.value.as_str()).join(", ");
        if values.is_empty() { "none".to_owned() } else { values }
    }
    let (before, after) = (said(stays.before), said(stays.after));
    let max = property::MAX_OPENSHIFT_VERSION;
    (before != after).then(|| short(&format!("{max} {before} -> {after}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::diff::diff;
    use super::super::hold::suspects;
    use crate::fixture::{cases, content};

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    fn bundle(version: &str, properties: &[(&str, Value)]) -> Value {
        let mut all =
            vec![json!({"type": "olm.package", "value": {"packageName": "p", "version": version}})];
        all.extend(properties.iter().map(|(kind, value)| json!({"type": kind, "value": value})));
        json!({"schema": "olm.bundle", "package": "p", "name": format!("v{version}"),
            "image": format!("r/p:{version}"), "properties": all})
    }

    fn channel(name: &str, entries: &Value) -> Value {
        json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries})
    }

    fn head(default: &str) -> Value {
        json!({"schema": "olm.package", "name": "p", "defaultChannel": default})
    }

    /// Two versions, the second replaces the first.
    fn before() -> Vec<Value> {
        vec![
            head("c"),
            channel("c", &json!([{"name": "v1.0.0"}, {"name": "v1.1.0", "replaces": "v1.0.0"}])),
            bundle("1.0.0", &[]),
            bundle(
                "1.1.0",
                &[
                    ("olm.maxOpenShiftVersion", json!("4.19")),
                    ("olm.gvk.required", json!({"group": "g", "version": "v1", "kind": "K"})),
                ],
            ),
        ]
    }

    fn held(after: &[Value]) -> Option<String> {
        held_between(&before(), after)
    }

    fn held_between(before: &[Value], after: &[Value]) -> Option<String> {
        let hold = suspects(&diff(&content(before), &content(after)))?;
        let text = hold.text("sha256:a");
        let text = text.strip_prefix("newer content sha256:a is not served: ").unwrap();
        Some(text.split_once("; to serve it").unwrap().0.to_owned())
    }

    fn with(changes: &[(usize, Value)]) -> Vec<Value> {
        let mut blobs = before();
        for (at, blob) in changes {
            if *at < blobs.len() {
                blobs[*at] = blob.clone();
            } else {
                blobs.push(blob.clone());
            }
        }
        blobs
    }

    const NEW: usize = usize::MAX;

    #[test]
    fn what_changes_of_a_version_that_stays_is_suspicious() {
        let rows = "what_changes_of_a_version_that_stays_is_suspicious";
        for (entries, default, properties, want) in
            cases::<(Option<Value>, Option<&str>, Option<Vec<(&str, Value)>>, Option<&str>)>(
                CASES, rows,
            )
        {
            let changes = [
                default.map(|name| (0, head(name))),
                entries.map(|entries| (1, channel("c", &entries))),
                properties.map(|properties| (3, bundle("1.1.0", &properties))),
            ];
            let changes: Vec<_> = changes.into_iter().flatten().collect();
            assert_eq!(held(&with(&changes)).as_deref(), want);
        }
    }

    #[test]
    fn a_new_version_alone_is_not() {
        for entries in cases::<Value>(CASES, "a_new_version_alone_is_not") {
            let new = bundle("1.2.0", &[("olm.maxOpenShiftVersion", json!("4.21"))]);
            assert_eq!(held(&with(&[(1, channel("c", &entries)), (NEW, new)])), None);
        }
    }

    #[test]
    fn a_new_channel_that_repeats_edges_is_not() {
        let entries = json!([{"name": "v1.1.0", "replaces": "v1.0.0"}]);
        assert_eq!(held(&with(&[(NEW, channel("d", &entries))])), None);
        let other = json!([{"name": "v1.1.0", "replaces": "v0.1.0"}]);
        assert!(held(&with(&[(NEW, channel("d", &other))])).is_some());
    }

    #[test]
    fn a_channel_that_goes_is_also_where_its_versions_stay_and_it_has_no_edges() {
        let one = with(&[(NEW, channel("d", &json!([{"name": "v1.1.0"}])))]);
        let said = held_between(&one, &before());
        assert_eq!(said.as_deref(), Some("p: channel \"d\" is gone"));
        assert_eq!(held(&one), None);
    }

    #[test]
    fn texts_are_short_and_few() {
        let long = "x".repeat(100_000);
        let skips: Vec<_> = (0..100).map(|i| format!("{long}{i}")).collect();
        let entries =
            json!([{"name": "v1.0.0", "skips": skips}, {"name": "v1.1.0", "replaces": "v1.0.0"}]);
        let text = held(&with(&[(1, channel("c", &entries))])).unwrap();
        assert!(text.len() < 1000, "{}", text.len());
    }
}
