//! The update graph of a channel as authors are to draw it: one head, and one chain from it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Range;

use super::model::{Channel, Entry};
use crate::version::{Version, VersionRelease, joined};

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

/// Bundles in the order of their versions. A place is a position in it.
struct Ordered<'a> {
    /// The index of the bundle at each place.
    indices: Vec<usize>,
    versions: Vec<&'a Version>,
    places: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Ordered<'a> {
    fn of(bundles: &[(&'a str, &'a VersionRelease)]) -> Self {
        let mut indices: Vec<usize> = (0..bundles.len()).collect();
        indices.sort_by(|a, b| bundles[*a].1.version.precedence(&bundles[*b].1.version));
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, index) in indices.iter().enumerate() {
            places.entry(bundles[*index].0).or_default().push(place);
        }
        let versions = indices.iter().map(|index| &bundles[*index].1.version).collect();
        Self { indices, versions, places }
    }

    fn places(&self, name: &str) -> &[usize] {
        self.places.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the places of the bundles whose version is in the range of an entry.
    fn in_range(&self, entry: &Entry) -> Vec<Range<usize>> {
        entry.range().map(|range| range.runs(&self.versions)).unwrap_or_default()
    }

    /// Returns for each place the places of the bundles that the one there follows.
    fn followed(&self, channels: &[&Channel]) -> Vec<Vec<Range<usize>>> {
        let mut followed = vec![Vec::new(); self.indices.len()];
        for entry in channels.iter().flat_map(|channel| &channel.entries) {
            let at = self.places(&entry.name);
            if at.is_empty() {
                continue;
            }
            let follows = iter::once(&entry.replaces).chain(&entry.skips);
            let named = follows.flat_map(|name| self.places(name));
            let mut from: Vec<_> = named.map(|place| *place..place + 1).collect();
            from.extend(self.in_range(entry));
            for place in at {
                followed[*place].extend(from.iter().cloned());
            }
        }
        followed.into_iter().map(joined).collect()
    }
}

/// The places that were reached; those that were not are found without looking at the others.
struct Reached {
    /// For each place itself, or if it was reached a later one up to which all were.
    next: Vec<usize>,
    reached: Vec<usize>,
}

impl Reached {
    fn new(places: usize) -> Self {
        Self { next: (0..=places).collect(), reached: Vec::new() }
    }

    fn has(&self, place: usize) -> bool {
        self.next[place] != place
    }

    /// Reaches a place, if it was not.
    fn add(&mut self, place: usize) {
        if !self.has(place) {
            self.next[place] = place + 1;
            self.reached.push(place);
        }
    }

    /// Reaches all in a range; those that were not reached before are the last of `reached`.
    fn add_all(&mut self, range: &Range<usize>) {
        let mut place = self.open_from(range.start);
        while place < range.end {
            self.add(place);
            place = self.open_from(place);
        }
    }

    /// Returns the first place from this one on that was not reached; the number of places if none is.
    fn open_from(&mut self, mut place: usize) -> usize {
        while self.has(place) {
            self.next[place] = self.next[self.next[place]];
            place = self.next[place];
        }
        place
    }

    fn clear(&mut self) {
        for place in self.reached.drain(..) {
            self.next[place] = place;
        }
    }
}

/// Returns for each bundle, by name and with its version, if it has one, whether it is a head, or
/// another one may follow it.
pub(super) fn have_a_future(
    channels: &[&Channel],
    bundles: &[(&str, Option<&VersionRelease>)],
) -> Vec<bool> {
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for channel in channels {
        named.extend(channel.heads());
        let entries = channel.entries.iter();
        named.extend(
            entries
                .flat_map(|entry| iter::once(&entry.replaces).chain(&entry.skips))
                .map(String::as_str),
        );
    }
    let mut found: Vec<_> = bundles.iter().map(|(name, _)| named.contains(name)).collect();
    let (indices, versioned): (Vec<_>, Vec<_>) = bundles
        .iter()
        .enumerate()
        .filter_map(|(index, (name, release))| Some((index, (*name, (*release)?))))
        .unzip();
    let ordered = Ordered::of(&versioned);
    // How many ranges begin and end at each place, and how many of an own entry a bundle is in.
    let mut ends = vec![(0_usize, 0_usize); versioned.len() + 1];
    let mut own = vec![0_usize; versioned.len()];
    for entry in channels.iter().flat_map(|channel| &channel.entries) {
        let runs = ordered.in_range(entry);
        for place in ordered.places(&entry.name) {
            own[*place] += usize::from(runs.iter().any(|run| run.contains(place)));
        }
        for run in runs {
            ends[run.start].0 += 1;
            ends[run.end].1 += 1;
        }
    }
    let mut covering = 0;
    for (place, index) in ordered.indices.iter().enumerate() {
        covering = covering + ends[place].0 - ends[place].1;
        found[indices[*index]] |= covering > own[place];
    }
    found
}

/// Returns the bundles from which no chain of updates leads to the newest patch of their minor
/// version: their index, and that of the newest.
pub(super) fn behind_their_minor(
    channels: &[&Channel],
    bundles: &[(&str, &VersionRelease)],
) -> Vec<(usize, usize)> {
    let ordered = Ordered::of(bundles);
    let followed = ordered.followed(channels);
    let mut minors: BTreeMap<(u64, u64), Range<usize>> = BTreeMap::new();
    for (place, version) in ordered.versions.iter().enumerate() {
        minors.entry((version.major, version.minor)).or_insert(place..place).end = place + 1;
    }
    let mut reached = Reached::new(bundles.len());
    let mut behind = Vec::new();
    for places in minors.into_values().filter(|places| places.len() > 1) {
        let indices = places.clone().map(|place| (ordered.indices[place], place));
        // Of equal ones the first.
        let newest = indices.reduce(|best, other| {
            let order = bundles[other.0].1.precedence(bundles[best.0].1);
            if order.is_gt() || (order.is_eq() && other.0 < best.0) { other } else { best }
        });
        let Some((top, place)) = newest else { continue };
        reached.add(place);
        let mut looked = 0;
        while let Some(place) = reached.reached.get(looked).copied() {
            followed[place].iter().for_each(|range| reached.add_all(range));
            looked += 1;
            if reached.open_from(places.start) >= places.end {
                break;
            }
        }
        let missed = places.filter(|place| !reached.has(*place));
        behind.extend(missed.map(|place| (ordered.indices[place], top)));
        reached.clear();
    }
    behind.sort_unstable();
    behind
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::model::SkipRangeText;

    fn entry(name: &str, replaces: &str, skips: &[&str], range: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            skips: skips.iter().map(ToString::to_string).collect(),
            skip_range: (!range.is_empty())
                .then(|| SkipRangeText { text: range.to_owned(), range: range.parse() }),
        }
    }

    /// Says it by the definition: whether an entry leads from a bundle.
    fn follows(entry: &Entry, (name, release): &(&str, &VersionRelease)) -> bool {
        entry.replaces == *name
            || entry.skips.iter().any(|skipped| skipped == name)
            || entry.range().is_some_and(|range| range.contains(&release.version))
    }

    fn behind_by_definition(
        channel: &Channel,
        bundles: &[(&str, &VersionRelease)],
    ) -> Vec<(usize, usize)> {
        let minor = |at: usize| (bundles[at].1.version.major, bundles[at].1.version.minor);
        let all = 0..bundles.len();
        let newest = |at: usize| {
            let of_minor = all.clone().filter(|other| minor(*other) == minor(at));
            of_minor.reduce(|best, other| {
                if bundles[other].1.precedence(bundles[best].1).is_gt() { other } else { best }
            })
        };
        let reaches = |from: usize, to: usize| {
            let (mut known, mut open) = (BTreeSet::from([from]), vec![from]);
            while let Some(at) = open.pop() {
                let next = channel.entries.iter().filter(|entry| follows(entry, &bundles[at]));
                let next: Vec<_> = next.map(|entry| entry.name.as_str()).collect();
                let next = all.clone().filter(|to| next.contains(&bundles[*to].0));
                open.extend(next.filter(|to| known.insert(*to)));
            }
            known.contains(&to)
        };
        let pairs = all.clone().filter_map(|at| Some((at, newest(at)?)));
        pairs.filter(|(at, newest)| !reaches(*at, *newest)).collect()
    }

    fn has_future_by_definition(channel: &Channel, bundle: (&str, &VersionRelease)) -> bool {
        let named = |entry: &Entry| {
            entry.replaces == bundle.0 || entry.skips.iter().any(|skipped| skipped == bundle.0)
        };
        let followed =
            |entry: &Entry| named(entry) || (entry.name != bundle.0 && follows(entry, &bundle));
        channel.heads().contains(bundle.0) || channel.entries.iter().any(followed)
    }

    const VERSIONS: [&str; 8] =
        ["1.0.0", "1.0.1-rc.1", "1.0.1", "1.0.1+5", "1.1.0", "1.1.1", "2.0.0", "2.0.1"];
    const RANGES: [&str; 7] = [
        "",
        "<1.1.0",
        ">=1.0.0 <1.0.1",
        "1.1.x",
        ">1.0.0 !=1.0.1 <=2.0.0",
        "<1.0.1 || >1.1.0",
        ">2.0.0 <1.0.0",
    ];

    proptest! {
        #[test]
        fn what_is_found_is_what_the_definition_says(
            entries in proptest::collection::vec((0..9_usize, 0..9_usize, 0..9_usize, 0..7_usize), 0..10),
        ) {
            let name = |at: usize| VERSIONS.get(at).copied().unwrap_or_default();
            let entries = entries.iter().map(|(at, replaces, skipped, range)| {
                entry(name(*at), name(*replaces), &[name(*skipped)], RANGES[*range])
            });
            let channel = Channel { entries: entries.collect() };
            let releases = VERSIONS.map(|version| VersionRelease::legacy(version).unwrap());
            let bundles: Vec<_> = VERSIONS.into_iter().zip(&releases).collect();
            prop_assert_eq!(
                behind_their_minor(&[&channel], &bundles),
                behind_by_definition(&channel, &bundles)
            );
            let versioned: Vec<_> = bundles.iter().map(|(name, it)| (*name, Some(*it))).collect();
            let wanted: Vec<_> =
                bundles.iter().map(|bundle| has_future_by_definition(&channel, *bundle)).collect();
            prop_assert_eq!(have_a_future(&[&channel], &versioned), wanted);
        }
    }

    // catalogs.md 2.4: newer content of a large package is compared in a moment, not in minutes.
    #[test]
    fn a_package_of_many_minors_is_looked_through() {
        const MINORS: usize = 1500;
        let version = |minor: usize, patch: usize| format!("1.{minor}.{patch}");
        // Each newest patch follows that of the minor before only, and the second is in no channel.
        let entries = (0..MINORS).flat_map(|minor| {
            let before = minor.checked_sub(1).map(|before| version(before, 2)).unwrap_or_default();
            [
                entry(&version(minor, 0), "", &[], ""),
                entry(&version(minor, 2), &before, &[], &format!("<1.0.0 || >2.{minor}.0")),
            ]
        });
        let channel = Channel { entries: entries.collect() };
        let names: Vec<_> = (0..MINORS * 3).map(|number| version(number / 3, number % 3)).collect();
        let releases: Vec<_> =
            names.iter().map(|name| VersionRelease::legacy(name).unwrap()).collect();
        let bundles: Vec<_> = names.iter().map(String::as_str).zip(&releases).collect();
        assert_eq!(behind_their_minor(&[&channel], &bundles).len(), MINORS * 2);
        let versioned: Vec<_> = bundles.iter().map(|(name, it)| (*name, Some(*it))).collect();
        let fine = have_a_future(&[&channel], &versioned);
        assert_eq!(fine.iter().filter(|fine| !**fine).count(), MINORS);
    }
}
