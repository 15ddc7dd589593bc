//! What another content of a catalog changes for who uses it.
//!
//! In: two contents. Out: for each package that differs, versions that come and go, and what could
//! hurt: an image that changed under its version, and bundles that nothing follows any more.
//!
//! Source: plugin.md 2.1.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::changed::{Stays, VersionChange, changes, release};
use super::graph::behind_their_minor;
use super::index::{Content, PackageIndex};
use super::model::{Bundle, Channel, Entry};
use crate::version::VersionRelease;

/// What changes in a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageDiff {
    /// Name of the package.
    pub name: String,
    /// Why the package cannot be compared, where one of its blobs cannot be read.
    pub unreadable: Option<String>,
    /// Whether nothing of the package is left.
    #[serde(skip)]
    pub is_gone: bool,
    /// Whether there was nothing of the package.
    #[serde(skip)]
    pub is_new: bool,
    /// Versions that come, the lowest first.
    pub added: Vec<String>,
    /// Versions that go.
    pub removed: Vec<String>,
    /// Default channel before and after, where it moves.
    pub default_channel: Option<(String, String)>,
    /// Heads that move.
    pub heads: Vec<HeadMove>,
    /// Bundles whose image changes.
    pub changed_images: Vec<ImageChange>,
    /// What else changes of versions that stay: edges to them, constraints, `olm.maxOpenShiftVersion`.
    pub changed_versions: Vec<VersionChange>,
    /// Earlier versions that are not heads, and that no version replaces or skips: they get no
    /// update.
    pub stranded: Vec<String>,
    /// Versions that reached the newest patch of their minor version before and no longer do.
    pub z_stream: Vec<String>,
    /// Names of what is newly deprecated; empty for the package itself.
    pub deprecated: Vec<String>,
}

/// A channel whose head moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeadMove {
    /// Name of the channel.
    pub channel: String,
    /// Versions of its heads before; empty where it is new.
    pub before: String,
    /// Versions of its heads after; empty where it goes.
    pub after: String,
}

/// A bundle that keeps its version and gets another image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageChange {
    /// Version of the bundle.
    pub version: String,
    /// Image before.
    pub before: String,
    /// Image after.
    pub after: String,
}

impl PackageDiff {
    /// Returns whether users lose versions or update paths, or an image changes.
    pub fn is_bad(&self) -> bool {
        let lists = [&self.removed, &self.stranded, &self.z_stream];
        self.unreadable.is_some()
            || !self.changed_images.is_empty()
            || lists.iter().any(|list| !list.is_empty())
    }

    fn is_empty(&self) -> bool {
        let name = self.name.clone();
        *self == Self { name, ..Self::default() }
    }

    fn of(name: &str, old: &PackageIndex, new: &PackageIndex) -> Self {
        let (before, after) = (versions(old), versions(new));
        let missing = |from: &Versions<'_>, other: &Versions<'_>| {
            let names = from.iter().filter(|(version, _)| !other.contains_key(*version));
            let bundles = names.map(|(_, bundle)| *bundle).sorted_by(|a, b| precedence(a, b));
            bundles.filter_map(version).collect()
        };
        let channels: BTreeSet<&String> = old.channels.keys().chain(new.channels.keys()).collect();
        let heads = channels.into_iter().filter_map(|channel| {
            let (before, after) = (heads(old, channel), heads(new, channel));
            (before != after).then(|| HeadMove { channel: channel.clone(), before, after })
        });
        let images = before.iter().filter_map(|(version, bundle)| {
            let now = after.get(version)?;
            (now.image != bundle.image).then(|| ImageChange {
                version: version.clone(),
                before: bundle.image.clone(),
                after: now.image.clone(),
            })
        });
        let stays = before.iter().filter_map(|(version, bundle)| {
            Some(Stays { version: version.as_str(), before: bundle, after: *after.get(version)? })
        });
        let stays: Vec<_> = stays.collect();
        let added = after.iter().filter(|(version, _)| !before.contains_key(*version));
        let added = added.map(|(_, bundle)| bundle.name.as_str()).collect();
        let moved = old.default_channel != new.default_channel;
        Self {
            name: name.to_owned(),
            unreadable: None,
            is_gone: after.is_empty() && !before.is_empty(),
            is_new: before.is_empty() && !after.is_empty(),
            added: missing(&after, &before),
            removed: missing(&before, &after),
            default_channel: moved
                .then(|| (old.default_channel.clone(), new.default_channel.clone())),
            heads: heads.collect(),
            changed_images: images.collect(),
            changed_versions: changes(old, new, &stays, &added),
            stranded: Vec::new(),
            z_stream: Vec::new(),
            deprecated: newly_deprecated(old, new),
        }
    }

    fn with_paths(name: &str, old: &PackageIndex, new: &PackageIndex) -> Self {
        let (before, behind_before) = (versions(old), behind(old));
        let is_worse = |it: &String| before.contains_key(it) && !behind_before.contains(it);
        Self {
            stranded: stranded(old, new),
            z_stream: behind(new).into_iter().filter(is_worse).collect(),
            ..Self::of(name, old, new)
        }
    }
}

/// Returns what differs, by the name of the package.
pub fn diff(old: &Content, new: &Content) -> Vec<PackageDiff> {
    packages(old, new, PackageDiff::with_paths)
}

/// Returns what differs without the versions that lose update paths, which takes the square of what a
/// package has.
pub fn quick_diff(old: &Content, new: &Content) -> Vec<PackageDiff> {
    packages(old, new, PackageDiff::of)
}

fn packages(
    old: &Content,
    new: &Content,
    compare: fn(&str, &PackageIndex, &PackageIndex) -> PackageDiff,
) -> Vec<PackageDiff> {
    let empty = PackageIndex::default();
    let names: BTreeSet<&str> = [old, new]
        .into_iter()
        .flat_map(|content| content.packages().map(|(name, _)| name))
        .collect();
    let of_package = |name: &str| {
        // What could not be used cannot be lost.
        let (before, after) = (old.package(name), new.package(name));
        let usable_before = before.and_then(Result::ok);
        match after.transpose() {
            Ok(after) => compare(name, usable_before.unwrap_or(&empty), after.unwrap_or(&empty)),
            Err(error) => PackageDiff {
                name: name.to_owned(),
                unreadable: before.is_none_or(|it| it.is_ok()).then(|| error.to_owned()),
                is_new: before.is_none(),
                ..PackageDiff::default()
            },
        }
    };
    names.into_iter().map(of_package).filter(|package| !package.is_empty()).collect()
}

type Versions<'a> = BTreeMap<String, &'a Bundle>;

/// Returns the bundles of a package that have a version, by that.
fn versions(package: &PackageIndex) -> Versions<'_> {
    package.bundles.iter().filter_map(|bundle| Some((version(bundle)?, bundle))).collect()
}

fn version(bundle: &Bundle) -> Option<String> {
    release(bundle).map(VersionRelease::recorded)
}

fn precedence(a: &Bundle, b: &Bundle) -> std::cmp::Ordering {
    match (release(a), release(b)) {
        (Some(a), Some(b)) => a.precedence(b),
        _ => a.name.cmp(&b.name),
    }
}

/// Returns the versions of the heads of a channel, in the order of the package.
fn heads(package: &PackageIndex, channel: &str) -> String {
    let heads = package.channels.get(channel).map(Channel::heads).unwrap_or_default();
    let found = heads.iter().filter_map(|name| package.position(name)).sorted_unstable();
    found.filter_map(|at| version(&package.bundles[at])).join(", ")
}

/// Returns the versions that do not reach the newest patch of their minor version.
fn behind(package: &PackageIndex) -> BTreeSet<String> {
    let channels: Vec<_> = package.channels.values().collect();
    let bundles = package.bundles.iter();
    let bundles = bundles.filter_map(|bundle| Some((bundle.name.as_str(), release(bundle)?)));
    let bundles: Vec<_> = bundles.collect();
    let behind = behind_their_minor(&channels, &bundles).into_iter();
    behind.map(|(at, _)| bundles[at].1.recorded()).collect()
}

/// Returns the versions of before that nothing follows after, though they are not a head there and
/// something followed them, or they were a head, before.
fn stranded(old: &PackageIndex, new: &PackageIndex) -> Vec<String> {
    let were: BTreeSet<&str> = old.channels.values().flat_map(Channel::heads).collect();
    let are: BTreeSet<&str> = new.channels.values().flat_map(Channel::heads).collect();
    let is_stranded = |it: &&Bundle| {
        let name = it.name.as_str();
        (were.contains(name) || is_followed(old, it))
            && !are.contains(name)
            && !is_followed(new, it)
    };
    old.bundles.iter().rev().filter(is_stranded).filter_map(version).collect()
}

/// Returns whether another bundle may follow this one.
fn is_followed(package: &PackageIndex, bundle: &Bundle) -> bool {
    let name = bundle.name.as_str();
    let covers = |entry: &Entry| {
        let range = entry.range().filter(|_| entry.name != name);
        range.is_some_and(|range| release(bundle).is_some_and(|it| range.contains(&it.version)))
    };
    let follows = |entry: &Entry| {
        entry.replaces == name || entry.skips.iter().any(|it| it == name) || covers(entry)
    };
    package.channels.values().any(|channel| channel.entries.iter().any(follows))
}

fn newly_deprecated(old: &PackageIndex, new: &PackageIndex) -> Vec<String> {
    let names = |package: &PackageIndex| -> BTreeSet<(String, String)> {
        let entries = package.deprecations.iter().flat_map(|it| &it.entries);
        entries.map(|entry| (entry.schema.clone(), entry.name.clone())).collect()
    };
    let before = names(old);
    names(new).into_iter().filter(|entry| !before.contains(entry)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::hold::suspects;
    use super::*;
    use crate::fixture;

    /// Bundles are named after their version and have an image of their own.
    fn content(entries: &[(&str, &str, &str)]) -> Content {
        let mut lines =
            vec![r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#.to_owned()];
        let mut channel = Vec::new();
        for (name, replaces, image) in entries {
            channel.push(format!(r#"{{"name":"{name}","replaces":"{replaces}"}}"#));
            let version = format!(r#"{{"packageName":"p","version":"{name}"}}"#);
            lines.push(format!(
                r#"{{"schema":"olm.bundle","package":"p","name":"{name}","image":"{image}",
                "properties":[{{"type":"olm.package","value":{version}}}]}}"#
            ));
        }
        lines.push(format!(
            r#"{{"schema":"olm.channel","package":"p","name":"c","entries":[{}]}}"#,
            channel.join(",")
        ));
        fixture::content(lines)
    }

    // plugin.md U70
    #[test]
    fn what_could_hurt_is_told_apart_from_what_is_new() {
        let old = content(&[("1.0.0", "", "a"), ("1.0.1", "1.0.0", "b"), ("1.1.0", "1.0.1", "c")]);
        let next = content(&[
            ("1.0.0", "", "a"),
            ("1.0.1", "1.0.0", "b"),
            ("1.1.0", "1.0.1", "c"),
            ("1.2.0", "1.1.0", "d"),
        ]);
        let found = diff(&old, &next);
        let [package] = &found[..] else { panic!("{found:?}") };
        assert_eq!(package.added, ["1.2.0"]);
        assert_eq!(
            (package.heads[0].before.as_str(), package.heads[0].after.as_str()),
            ("1.1.0", "1.2.0")
        );
        assert!(!package.is_bad(), "{package:?}");
        assert!(diff(&old, &old).is_empty());

        let broken = content(&[("1.0.1", "", "x"), ("1.2.0", "1.0.1", "d")]);
        let found = diff(&old, &broken);
        let [package] = &found[..] else { panic!("{found:?}") };
        assert_eq!(package.removed, ["1.0.0", "1.1.0"]);
        assert_eq!(package.stranded, ["1.0.0", "1.1.0"]);
        assert_eq!(package.changed_images[0].after, "x");
        assert!(package.is_bad());
        let gone = diff(&old, &Content::default());
        assert_eq!(gone[0].removed.len(), 3);
    }

    // catalogs.md 2.4: only a package that became unreadable counts as gone
    #[test]
    fn a_package_that_could_not_be_read_before_has_not_changed() {
        let unreadable = |entries: u8| {
            let channel = r#"{"schema":"olm.channel","package":"p","name":"c","entries":"#;
            fixture::content([format!("{channel}{entries}}}")])
        };
        let found = |old: &Content, new: &Content| {
            let changes = diff(old, new);
            (changes.iter().any(PackageDiff::is_bad), suspects(&changes).is_some())
        };
        let good = content(&[("1.0.0", "", "a")]);
        assert_eq!(found(&good, &unreadable(1)), (true, true));
        assert_eq!(found(&Content::default(), &unreadable(1)), (true, false));
        assert_eq!(found(&unreadable(1), &unreadable(2)), (false, false));
        assert_eq!(found(&unreadable(1), &good), (false, false));
    }
}
