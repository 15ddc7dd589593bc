//! The update graph of a channel as authors are to draw it: one head, and one chain from it.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Channel, Entry};
use crate::version::VersionRelease;

/// The entries that are found by following `replaces` from the head of a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chain<'a> {
    /// Every entry is reached, or skipped.
    Whole,
    /// It comes back to an entry.
    Circle(Vec<&'a str>),
    /// These are neither reached nor skipped.
    Without(Vec<&'a str>),
}

fn by_name(channel: &Channel) -> BTreeMap<&str, &Entry> {
    channel.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect()
}

/// Follows `replaces` until it ends or comes to a name that is known; adds the names on the way.
/// Returns the circle, if the way comes back to itself.
fn follow<'a>(
    entries: &BTreeMap<&'a str, &'a Entry>,
    from: &'a str,
    known: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    let mut path = Vec::new();
    let mut next = Some(from);
    while let Some(name) = next {
        if !known.insert(name) {
            let start = path.iter().position(|passed| *passed == name)?;
            path.push(name);
            return Some(path.split_off(start));
        }
        path.push(name);
        let replaces = entries.get(name).map(|entry| entry.replaces.as_str());
        next = replaces.filter(|replaces| !replaces.is_empty());
    }
    None
}

/// Follows `replaces` from the head.
pub(super) fn chain<'a>(channel: &'a Channel, head: &'a str) -> Chain<'a> {
    let entries = by_name(channel);
    let mut known = BTreeSet::new();
    if let Some(circle) = follow(&entries, head, &mut known) {
        return Chain::Circle(circle);
    }
    known.extend(channel.skipped());
    known.insert("");
    let missed: Vec<_> = entries.into_keys().filter(|name| !known.contains(name)).collect();
    if missed.is_empty() { Chain::Whole } else { Chain::Without(missed) }
}

/// Returns the skipped entry at which opm stops to follow `replaces` from the head, and the entries that
/// it therefore does not reach.
pub(super) fn behind_a_skip<'a>(
    channel: &'a Channel,
    head: &'a str,
) -> Option<(&'a str, Vec<&'a str>)> {
    let (entries, skipped) = (by_name(channel), channel.skipped());
    let mut known = BTreeSet::from([head, ""]);
    let mut at = head;
    loop {
        let replaced = entries.get(at)?.replaces.as_str();
        if skipped.contains(replaced) {
            known.extend(skipped);
            let behind: Vec<_> = entries.into_keys().filter(|it| !known.contains(it)).collect();
            return (!behind.is_empty()).then_some((replaced, behind));
        }
        if !known.insert(replaced) {
            return None;
        }
        at = replaced;
    }
}

/// Returns the circle that `replaces` form, where there is no single head to begin at.
pub(super) fn circle(channel: &Channel) -> Chain<'_> {
    let entries = by_name(channel);
    let mut known = BTreeSet::new();
    let names = channel.entries.iter().map(|entry| entry.name.as_str());
    let mut circles = names.filter_map(|name| follow(&entries, name, &mut known));
    let circle = circles.find(|names| names.len() > 2);
    circle.map_or(Chain::Whole, Chain::Circle)
}

/// Returns pairs of entries that replace the same and of which neither skips the other: position
/// of the second, both names, and what they replace.
pub(super) fn double_replacements(channel: &Channel) -> Vec<(usize, &str, &str, &str)> {
    let mut replacing: BTreeMap<&str, (&Entry, BTreeSet<&str>)> = BTreeMap::new();
    let mut found = Vec::new();
    for (i, entry) in channel.entries.iter().enumerate() {
        let replaced = entry.replaces.as_str();
        if replaced.is_empty() {
            continue;
        }
        let Some((first, skips)) = replacing.get(replaced) else {
            let skips = entry.skips.iter().map(String::as_str);
            replacing.insert(replaced, (entry, skips.collect()));
            continue;
        };
        let skipped = skips.contains(entry.name.as_str()) || entry.skips.contains(&first.name);
        if first.name != entry.name && !skipped {
            found.push((i, first.name.as_str(), entry.name.as_str(), replaced));
        }
    }
    found
}

/// Returns the bundles from which no chain of updates leads to the newest patch of their minor
/// version: their index, and that of the newest.
pub(super) fn behind_their_minor(
    channels: &[&Channel],
    bundles: &[(&str, &VersionRelease)],
) -> Vec<(usize, usize)> {
    let mut newest: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (i, (_, release)) in bundles.iter().enumerate() {
        let minor = (release.version.major, release.version.minor);
        let best = newest.entry(minor).or_insert(i);
        if release.precedence(bundles[*best].1).is_gt() {
            *best = i;
        }
    }
    let mut entries: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in channels.iter().flat_map(|channel| &channel.entries) {
        entries.entry(&entry.name).or_default().push(entry);
    }
    let follows = |entry: &Entry, (name, release): &(&str, &VersionRelease)| {
        entry.replaces == *name
            || entry.skips.iter().any(|skipped| skipped == name)
            || entry.range().is_some_and(|range| range.contains(&release.version))
    };
    let mut behind = Vec::new();
    for (minor, top) in newest {
        let mut reaching = BTreeSet::from([top]);
        let mut open = vec![top];
        while let Some(next) = open.pop() {
            for entry in entries.get(bundles[next].0).into_iter().flatten() {
                let before = (0..bundles.len()).filter(|i| follows(entry, &bundles[*i]));
                open.extend(before.filter(|i| reaching.insert(*i)));
            }
        }
        let of_minor =
            |release: &VersionRelease| (release.version.major, release.version.minor) == minor;
        let missed = (0..bundles.len()).filter(|i| of_minor(bundles[*i].1));
        behind.extend(missed.filter(|i| !reaching.contains(i)).map(|i| (i, top)));
    }
    behind.sort_unstable();
    behind
}
