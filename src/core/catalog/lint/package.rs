//! Rules about a whole package, asked after all files.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Linter, Origin, Rule, Severity, listed};
use crate::catalog::graph::{self, Chain};
use crate::catalog::model::{Channel, Deprecations, SkipRangeText, schema};
use crate::error::quote;
use crate::version::VersionRelease;

/// What is known of a package.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// Its `olm.package` blobs with their default channels.
    pub(super) heads: Vec<(Origin, String)>,
    pub(super) channels: Vec<ChannelBlob>,
    pub(super) bundles: Vec<BundleBlob>,
    pub(super) deprecations: Vec<(Origin, Deprecations)>,
}

/// A channel that could be read.
#[derive(Debug)]
pub(super) struct ChannelBlob {
    pub(super) origin: Origin,
    pub(super) channel: Channel,
}

/// A bundle.
#[derive(Debug)]
pub(super) struct BundleBlob {
    pub(super) origin: Origin,
    pub(super) version: Option<VersionRelease>,
    /// Whether it holds what its CSV says of it.
    pub(super) described: bool,
}

impl Package {
    /// Returns the names of the channels.
    fn channel_names(&self) -> BTreeSet<&str> {
        self.channels.iter().map(|channel| channel.origin.name.as_str()).collect()
    }

    /// Returns the names of the bundles.
    fn bundle_names(&self) -> BTreeSet<&str> {
        self.bundles.iter().map(|bundle| bundle.origin.name.as_str()).collect()
    }
}

impl Linter {
    pub(super) fn whole_package(&mut self, name: &str, package: &Package) {
        self.heads(name, package);
        let channels = package.channels.iter().map(|channel| &channel.origin);
        self.defined_twice(channels, Rule::Channel, "channel ");
        let bundles = package.bundles.iter().map(|bundle| &bundle.origin);
        self.defined_twice(bundles, Rule::Bundle, "");
        let bundles = package.bundle_names();
        let versions = package.bundles.iter();
        let versions =
            versions.filter_map(|it| Some((it.origin.name.as_str(), it.version.as_ref()?)));
        let versions: BTreeMap<_, _> = versions.collect();
        for channel in &package.channels {
            self.entries(channel, &bundles);
            self.chain(channel);
            self.ranges(channel, &versions);
        }
        self.bundles(package);
        self.deprecated(name, package);
    }

    fn heads(&mut self, name: &str, package: &Package) {
        let shown = quote(name);
        let Some((head, default)) = package.heads.first() else {
            let channels = package.channels.iter().map(|channel| &channel.origin);
            let mut first = channels.chain(package.bundles.iter().map(|bundle| &bundle.origin));
            if let Some(first) = first.next().filter(|_| !self.unread) {
                let text = format!("package {shown} has no olm.package blob");
                self.error(first, Rule::Package, "/package", text);
            }
            return;
        };
        for (again, _) in &package.heads[1..] {
            let text = format!(
                "package {shown} has {} olm.package blobs, here and at {}",
                package.heads.len(),
                self.place(head)
            );
            self.error(again, Rule::Package, "/name", text);
        }
        if self.unread {
            return;
        }
        if package.channels.is_empty() {
            self.error(head, Rule::Package, "/name", format!("package {shown} has no channel"));
        }
        if package.bundles.is_empty() {
            self.error(head, Rule::Package, "/name", format!("package {shown} has no bundle"));
        }
        let names = package.channel_names();
        if !default.is_empty() && !names.is_empty() && !names.contains(default.as_str()) {
            let text = format!(
                "default channel {} does not exist; channels are: {}",
                quote(default),
                listed(names)
            );
            self.error(head, Rule::DefaultChannel, "/defaultChannel", text);
        }
    }

    fn defined_twice<'a>(
        &mut self,
        blobs: impl Iterator<Item = &'a Origin>,
        rule: Rule,
        what: &str,
    ) {
        let mut known: BTreeMap<&str, &Origin> = BTreeMap::new();
        for origin in blobs {
            if let Some(first) = known.get(origin.name.as_str()) {
                let text = format!(
                    "{what}{} is defined twice, here and at {}",
                    quote(&origin.name),
                    self.place(first)
                );
                self.error(origin, rule, "/name", text);
            } else {
                known.insert(&origin.name, origin);
            }
        }
    }

    fn entries(&mut self, blob: &ChannelBlob, bundles: &BTreeSet<&str>) {
        let ChannelBlob { origin, channel } = blob;
        if channel.entries.is_empty() {
            let text = format!("channel {} has no entries", quote(&origin.name));
            self.error(origin, Rule::Channel, "/entries", text);
        }
        let names: BTreeSet<_> = channel.entries.iter().map(|it| it.name.as_str()).collect();
        let mut known = BTreeSet::new();
        for (i, entry) in channel.entries.iter().enumerate() {
            if entry.name.is_empty() {
                continue;
            }
            let at = |field: &str| format!("/entries/{i}/{field}");
            let name = || quote(&entry.name);
            if !known.insert(entry.name.as_str()) {
                let text = format!("entry {} is listed twice", name());
                self.error(origin, Rule::Entry, at("name"), text);
            } else if !self.unread && !bundles.contains(entry.name.as_str()) {
                let text = format!("entry {} has no olm.bundle", name());
                self.error(origin, Rule::Entry, at("name"), text);
            }
            let replaced = entry.replaces.as_str();
            let elsewhere = !replaced.is_empty() && !names.contains(replaced);
            if elsewhere && self.looks_for(Severity::Note) {
                let text = format!(
                    "entry {} replaces {}, which is not in the channel (allowed)",
                    name(),
                    quote(replaced)
                );
                self.report(origin, Rule::Entry, Severity::Note, at("replaces"), text);
            }
        }
    }

    /// Looks for ranges that lead down.
    fn ranges(&mut self, blob: &ChannelBlob, versions: &BTreeMap<&str, &VersionRelease>) {
        for (i, entry) in blob.channel.entries.iter().enumerate() {
            let Some(version) = versions.get(entry.name.as_str()) else { continue };
            let Some(SkipRangeText { text, range: Ok(range) }) = &entry.skip_range else {
                continue;
            };
            if range.exceeds(&version.version) {
                let text = format!(
                    "skipRange {} contains versions above {}, that of {}: it is offered as an update \
                     of newer ones",
                    quote(text),
                    version.version,
                    quote(&entry.name)
                );
                let at = format!("/entries/{i}/skipRange");
                self.warning(&blob.origin, Rule::SkipRange, at, text);
            }
        }
    }

    fn chain(&mut self, blob: &ChannelBlob) {
        let ChannelBlob { origin, channel } = blob;
        if channel.entries.is_empty() {
            return;
        }
        let name = quote(&origin.name);
        let heads = channel.heads();
        match heads.len() {
            0 => {
                let text =
                    format!("channel {name} has no head: every entry is replaced or skipped");
                self.error(origin, Rule::ChannelHead, "", text);
            }
            1 => {}
            count => {
                let heads = listed(heads.iter().copied());
                let text = format!("channel {name} has {count} heads: {heads}");
                self.error(origin, Rule::ChannelHead, "", text);
            }
        }
        let chain = heads.iter().copied().next().filter(|_| heads.len() == 1);
        match chain.map_or_else(|| graph::circle(channel), |head| graph::chain(channel, head)) {
            Chain::Whole => {
                let behind = chain.and_then(|head| graph::behind_a_skip(channel, head));
                if let Some((skipped, names)) = behind {
                    let text = format!(
                        "channel {name}: behind {}, which is skipped: {}; opm calls them stranded",
                        quote(skipped),
                        listed(names)
                    );
                    self.warning(origin, Rule::ChannelChain, "/entries", text);
                }
            }
            Chain::Circle(names) => {
                let text =
                    format!("channel {name}: replaces form a circle: {}", names.join(" -> "));
                self.error(origin, Rule::ChannelChain, "/entries", text);
            }
            Chain::Without(names) => {
                let names = listed(names);
                let text =
                    format!("channel {name}: not reached from the head and not skipped: {names}");
                self.error(origin, Rule::ChannelChain, "/entries", text);
            }
        }
        for (i, a, b, c) in graph::double_replacements(channel) {
            let [a, b, c] = [a, b, c].map(quote);
            let text = format!(
                "channel {name}: {a} and {b} both replace {c} and neither skips the other: OLM \
                 Classic takes the nearer to the head, OLM v1 the higher"
            );
            self.warning(origin, Rule::OneReplacement, format!("/entries/{i}/replaces"), text);
        }
    }

    fn bundles(&mut self, package: &Package) {
        let entries = package.channels.iter().flat_map(|it| &it.channel.entries);
        let listed: BTreeSet<_> = entries.map(|entry| entry.name.as_str()).collect();
        let mut versions: BTreeMap<String, &Origin> = BTreeMap::new();
        let described = package.bundles.iter().any(|bundle| bundle.described);
        for BundleBlob { origin, version, described: own } in &package.bundles {
            let name = || quote(&origin.name);
            if described && !own {
                let text = format!("{} has no olm.csv.metadata, as other bundles have", name());
                self.warning(origin, Rule::Bundle, "/properties", text);
            }
            if !self.unread && !listed.contains(origin.name.as_str()) {
                self.error(origin, Rule::Bundle, "/name", format!("{} is in no channel", name()));
            }
            let Some(version) = version.as_ref().map(VersionRelease::recorded) else { continue };
            match versions.get(&version) {
                Some(first) if first.name != origin.name => {
                    let first = quote(&first.name);
                    let text = format!("{version} is the version of {first} and of {}", name());
                    self.error(origin, Rule::Bundle, "", text);
                }
                Some(_) => {}
                None => {
                    versions.insert(version, origin);
                }
            }
        }
        if !self.looks_for(Severity::Note) {
            return;
        }
        let channels: Vec<_> = package.channels.iter().map(|it| &it.channel).collect();
        let bundles = package.bundles.iter();
        let bundles = bundles.filter_map(|it| Some((&it.origin, it.version.as_ref()?)));
        let bundles: Vec<_> = bundles.collect();
        let named = bundles.iter().map(|(origin, version)| (origin.name.as_str(), *version));
        let named: Vec<_> = named.collect();
        for (behind, newest) in graph::behind_their_minor(&channels, &named) {
            let (origin, version) = bundles[behind];
            let newest = bundles[newest].1.recorded();
            if newest == version.recorded() {
                continue;
            }
            let minor = newest.split('.').take(2).join(".");
            let text =
                format!("{} does not reach {newest}, the newest of {minor}", version.recorded());
            self.report(origin, Rule::ZStream, Severity::Note, "", text);
        }
    }

    fn deprecated(&mut self, name: &str, package: &Package) {
        let Some((first, _)) = package.deprecations.first() else { return };
        let is_nothing =
            package.heads.is_empty() && package.channels.is_empty() && package.bundles.is_empty();
        if is_nothing && !self.unread {
            let text = format!("package {} does not exist", quote(name));
            self.error(first, Rule::Deprecations, "/package", text);
        }
        for (again, _) in &package.deprecations[1..] {
            let text =
                format!("package {} has two, here and at {}", quote(name), self.place(first));
            self.error(again, Rule::Deprecations, "/package", text);
        }
        let (channels, bundles) = (package.channel_names(), package.bundle_names());
        for (origin, deprecations) in &package.deprecations {
            let mut known = BTreeSet::new();
            for (i, entry) in deprecations.entries.iter().enumerate() {
                let at = format!("/entries/{i}");
                if entry.message.is_empty() {
                    let text = format!("entry {i}: message is empty");
                    self.error(origin, Rule::Deprecations, format!("{at}/message"), text);
                }
                let about = (entry.schema.as_str(), entry.name.as_str());
                let name = quote(&entry.name);
                let unread = self.unread;
                let exists = |names: &BTreeSet<&str>| unread || names.contains(about.1);
                let fault = match about {
                    (schema::PACKAGE, "") => None,
                    (schema::PACKAGE, _) => {
                        Some("a reference to olm.package has no name".to_owned())
                    }
                    (schema::CHANNEL | schema::BUNDLE, "") => {
                        Some(format!("a reference to {} needs a name", entry.schema))
                    }
                    (schema::CHANNEL, _) if !exists(&channels) => {
                        Some(format!("names channel {name}, which does not exist"))
                    }
                    (schema::BUNDLE, _) if !exists(&bundles) => {
                        Some(format!("names bundle {name}, which does not exist"))
                    }
                    (schema::CHANNEL | schema::BUNDLE, _) => None,
                    (other, _) => Some(format!("reference schema {} is unknown", quote(other))),
                };
                let twice = || format!("{} is given twice", quote(&entry.schema));
                let fault = fault.or_else(|| (!known.insert(about)).then(twice));
                if let Some(text) = fault {
                    let text = format!("entry {i}: {text}");
                    self.error(origin, Rule::Deprecations, format!("{at}/reference"), text);
                }
            }
        }
    }
}
