//! The update graph of a channel as authors are to draw it: one head, and one chain from it.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

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

/// Follows `replaces` until it ends or comes to a name that is known; adds the names on the way, and
/// returns them. If the way comes back to itself, its circle is the error.
fn follow<'a>(
    entries: &BTreeMap<&'a str, &'a Entry>,
    from: &'a str,
    known: &mut BTreeSet<&'a str>,
) -> Result<Vec<&'a str>, Vec<&'a str>> {
    let mut path = Vec::new();
    let mut next = Some(from);
    while let Some(name) = next {
        if !known.insert(name) {
            let Some(start) = path.iter().position(|passed| *passed == name) else { break };
            path.push(name);
            return Err(path.split_off(start));
        }
        path.push(name);
        let replaces = entries.get(name).map(|entry| entry.replaces.as_str());
        next = replaces.filter(|replaces| !replaces.is_empty());
    }
    Ok(path)
}

/// Returns the entries of a channel in the order of OLM Classic, from the head along `replaces`;
/// those that some entry skips are left out. The error is why it cannot use the channel.
///
/// Of entries with the same name the last one counts.
pub(crate) fn replacement_chain(channel: &Channel) -> Result<Vec<&Entry>, String> {
    let (entries, skipped) = (by_name(channel), channel.skipped());
    let mut known = BTreeSet::new();
    let chains = channel.heads().into_iter().map(|head| follow(&entries, head, &mut known));
    let chains: Vec<_> = chains.collect::<Result<_, _>>().map_err(|_| "cycle")?;
    match chains.as_slice() {
        // Every entry is replaced or skipped.
        [] => Err("no channel heads".to_owned()),
        [chain] => {
            let left = chain.iter().filter(|name| !skipped.contains(*name));
            Ok(left.filter_map(|name| entries.get(name).copied()).collect())
        }
        chains => Err(format!("{} chains", chains.len())),
    }
}

/// Follows `replaces` from the head.
pub(super) fn chain<'a>(channel: &'a Channel, head: &'a str) -> Chain<'a> {
    let entries = by_name(channel);
    let mut known = BTreeSet::new();
    if let Err(circle) = follow(&entries, head, &mut known) {
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
    let mut circles = names.filter_map(|name| follow(&entries, name, &mut known).err());
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
    // Of each bundle those that it may follow.
    let mut followed: Vec<Vec<usize>> = vec![Vec::new(); bundles.len()];
    for entry in channels.iter().flat_map(|channel| &channel.entries) {
        let leads_from = |(name, it): &(&str, &VersionRelease)| entry.leads_from(name, &it.version);
        for to in bundles.iter().positions(|(name, _)| *name == entry.name) {
            followed[to].extend(bundles.iter().positions(leads_from));
        }
    }
    let mut minors: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (at, (_, VersionRelease { version, .. })) in bundles.iter().enumerate() {
        minors.entry((version.major, version.minor)).or_default().push(at);
    }
    let mut behind = Vec::new();
    for of_minor in minors.into_values() {
        let order = |a: usize, b: usize| bundles[a].1.precedence(bundles[b].1);
        // Of equal ones the first.
        let newest = of_minor.iter().copied();
        let newest = newest.reduce(|best, it| if order(it, best).is_gt() { it } else { best });
        let Some(newest) = newest else { continue };
        let (mut open, mut reached) = (vec![newest], vec![false; bundles.len()]);
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                open.extend(followed[at].iter().filter(|from| !reached[**from]));
            }
        }
        let missed = of_minor.into_iter().filter(|at| !reached[*at]);
        behind.extend(missed.map(|at| (at, newest)));
    }
    behind.sort_unstable();
    behind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::model::SkipRangeText;

    #[test]
    fn the_newest_patch_is_reached_over_any_bundle() {
        let entry = |name: &str, replaces: &str, skipped: &str, range: &str| Entry {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            skips: vec![skipped.to_owned()],
            skip_range: Some(SkipRangeText { text: range.to_owned(), range: range.parse() }),
        };
        let releases = ["1.0.0", "1.0.1", "1.0.1+5", "1.1.0", "1.1.1", "2.0.0"]
            .map(|version| VersionRelease::legacy(version).unwrap());
        let bundles: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().zip(&releases).collect();
        let behind = |entries: Vec<Entry>| behind_their_minor(&[&Channel { entries }], &bundles);
        assert_eq!(behind(Vec::new()), [(0, 2), (1, 2), (3, 4)]);
        let by_name = vec![entry("c", "b", "d", "<0.1.0"), entry("d", "a", "", "")];
        assert_eq!(behind(by_name), [(3, 4)]);
        let by_range = vec![entry("c", "", "f", ">=1.1.0 <2.0.0"), entry("f", "", "", "<1.0.1")];
        assert_eq!(behind(by_range), [(1, 2), (3, 4)]);
    }
}
