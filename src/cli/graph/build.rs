//! Builds the nodes and edges of each channel from a package.

use std::collections::{BTreeMap, BTreeSet};

use super::edge::{Entries, kind, named_edges, range_edges, taken};
use super::model::{Edge, Graph, Lane, Mark, Node};
use super::path::{Step, path};
use super::text::{MAX_DETAIL, MAX_LABEL, named, shown};
use super::{Options, fold};
use crate::output::counted;
use anyhow::{Context as _, bail};
use olm_core::catalog::{Bundle, Channel, Entry, PackageIndex, schema};
use olm_core::error::{Chain, plain_lines, quote};
use olm_core::resolve::{
    self, Catalog, ClassicStep, Difference, Environment, Request, Resolution, classic,
};
use olm_core::version::{VersionRelease, natural};

/// The most channels drawn unless all are asked for.
const MAX_CHANNELS: usize = 64;

impl Graph {
    /// Makes the graph of the requested package in one catalog: of the requested channels, or of all.
    pub(crate) fn new(
        request: &Request,
        catalog: &Catalog<'_>,
        environment: &Environment,
        options: Options,
    ) -> anyhow::Result<Self> {
        let package = package(request, catalog)?;
        let mut names = channel_names(package, request)?;
        let left_out = if options.all { 0 } else { names.len().saturating_sub(MAX_CHANNELS) };
        names.truncate(names.len() - left_out);
        let resolve = |request: &Request| {
            resolve::resolve(request, std::slice::from_ref(catalog), environment, &options.resolve)
        };
        let resolution = resolve(request);
        let steps = path(request, &resolution, resolve);
        let classic = if options.classic && !names.is_empty() {
            let mut request = request.clone();
            request.filter.channels.clone_from(&names);
            classic(package, &request, &resolution)
        } else {
            Vec::new()
        };
        let scene = Scene {
            package,
            request,
            options,
            steps: &steps,
            classic: classic.iter().map(|it| (it.channel.as_str(), it)).collect(),
        };
        let mut lanes: Vec<Lane> = names.iter().filter_map(|name| scene.lane(name)).collect();
        lanes.extend(scene.stray());
        if !options.all {
            lanes = lanes.into_iter().map(fold::fold).collect();
        }
        Ok(Self {
            package: shown(&package.name, MAX_LABEL),
            facts: scene.facts(&resolution, left_out),
            channels: lanes,
        })
    }
}

fn package<'a>(request: &Request, catalog: &Catalog<'a>) -> anyhow::Result<&'a PackageIndex> {
    let name = &request.filter.package_name;
    let missing = || format!("package {} is not in catalog {}", quote(name), quote(catalog.name));
    let content = catalog.content.context("the catalog has no content")?;
    let package = content.package(name).with_context(missing)?;
    package.map_err(|cause| anyhow::anyhow!("{cause}"))
}

/// Returns the requested channels that exist, or all of them: the default channel first.
fn channel_names(package: &PackageIndex, request: &Request) -> anyhow::Result<Vec<String>> {
    let requested = &request.filter.channels;
    let wanted = |name: &&String| requested.is_empty() || requested.contains(name);
    let mut names: Vec<_> = package.channels.keys().filter(wanted).cloned().collect();
    names.sort_by_cached_key(|name| (*name != package.default_channel, natural(name)));
    if names.is_empty() && !requested.is_empty() {
        let channels: Vec<_> = package.channels.keys().map(|name| quote(name)).collect();
        let (name, channels) = (quote(&package.name), channels.join(", "));
        bail!("package {name} has no such channel; its channels: {channels}");
    }
    Ok(names)
}

/// The input for nodes and edges.
struct Scene<'a> {
    package: &'a PackageIndex,
    request: &'a Request,
    options: Options,
    /// The installed bundle, if any, and the bundles that automatic updates then go through.
    steps: &'a [Step],
    classic: BTreeMap<&'a str, &'a ClassicStep<'a>>,
}

impl<'a> Scene<'a> {
    fn lane(&self, name: &str) -> Option<Lane> {
        let channel = self.package.channels.get(name)?;
        let mut entries = Entries::new();
        for entry in &channel.entries {
            entries.entry(&entry.name).or_default().push(entry);
        }
        let nodes = self.nodes(name, channel, &entries);
        let edges = self.edges(name, &entries, &nodes);
        let mut lane = Lane {
            name: shown(name, MAX_LABEL),
            is_channel: true,
            facts: self.channel_facts(name),
            nodes,
            edges,
        };
        self.note(name, &entries, &mut lane);
        Some(lane)
    }

    /// Returns a lane for the bundles that are in no channel, if channels make no difference.
    fn stray(&self) -> Option<Lane> {
        let names = self.package.bundles.iter().map(|bundle| bundle.name.as_str());
        let stray = |name: &&str| self.package.entries_of(name).next().is_none();
        let names: BTreeSet<&str> = names.filter(stray).collect();
        if names.is_empty() || !self.request.filter.channels.is_empty() {
            return None;
        }
        Some(Lane {
            name: "in no channel".to_owned(),
            nodes: self.sorted_nodes(names),
            ..Lane::default()
        })
    }

    fn nodes(&self, name: &str, channel: &'a Channel, entries: &Entries<'a>) -> Vec<Node> {
        let replaced = channel.entries.iter().map(|entry| entry.replaces.as_str());
        let mut names: BTreeSet<&str> = entries.keys().copied().collect();
        names.extend(replaced.filter(|name| !name.is_empty()));
        names.extend(self.sources(name, entries));
        let (heads, skipped) = (channel.heads(), channel.skipped());
        let mut nodes = self.sorted_nodes(names);
        for node in &mut nodes {
            let name = node.name.as_str();
            if !entries.contains_key(name) {
                node.marks.insert(Mark::Outside);
            } else if heads.contains(name) {
                node.marks.insert(Mark::Head);
            }
            if skipped.contains(name) {
                node.marks.insert(Mark::Skipped);
            }
        }
        nodes
    }

    /// Returns the bundles on the update path, ours or OLM Classic's, that an edge of this channel
    /// starts at.
    fn sources(&self, channel: &str, entries: &Entries<'a>) -> Vec<&'a str> {
        let ours = self.steps.windows(2).filter_map(|step| {
            let [from, to] = step else { return None };
            Some((from, to.name.as_str()))
        });
        let classic = self.installed().zip(self.classic_next(channel));
        let leads = |(from, to): (&'a Step, &str)| {
            kind(entries.get(to)?, from)?;
            Some(from.name.as_str())
        };
        ours.chain(classic).filter_map(leads).collect()
    }

    /// Returns the bundle OLM Classic would take in a channel.
    fn classic_next(&self, channel: &str) -> Option<&'a str> {
        self.classic.get(channel)?.next
    }

    fn sorted_nodes(&self, names: BTreeSet<&str>) -> Vec<Node> {
        let mut nodes: Vec<Node> = names.into_iter().map(|name| self.node(name)).collect();
        nodes.sort_by_cached_key(|node| natural(&node.name));
        nodes.sort_by(|a, b| match (&a.version, &b.version) {
            (Some(a), Some(b)) => a.precedence(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        // Two bundles with the same version are distinguished by their names.
        let mut labels = BTreeMap::<String, usize>::new();
        for node in &nodes {
            *labels.entry(node.label.clone()).or_default() += 1;
        }
        for node in &mut nodes {
            if labels.get(&node.label).is_some_and(|count| *count > 1) {
                node.label = shown(&node.name, MAX_LABEL);
            }
        }
        nodes
    }

    fn node(&self, name: &str) -> Node {
        let bundle = self.package.bundle(name);
        let step = self.steps.iter().find(|step| step.name == name);
        let version = bundle.and_then(|bundle| self.version(bundle));
        let version = version.or_else(|| step.and_then(|step| step.version.clone()));
        let mut marks = BTreeSet::new();
        if self.installed().is_some_and(|step| step.name == name) {
            marks.insert(Mark::Installed);
        }
        if self.next().is_some_and(|step| step.name == name) {
            marks.insert(Mark::Next);
        }
        if step.is_some() {
            marks.insert(Mark::Path);
        }
        if self.package.is_deprecated(name) {
            marks.insert(Mark::Deprecated);
        }
        if bundle.is_none() {
            marks.insert(Mark::Virtual);
        }
        let label = version.as_ref().map(VersionRelease::recorded);
        Node {
            label: shown(label.as_deref().unwrap_or(name), MAX_LABEL),
            details: self.details(name, version.as_ref()),
            name: name.to_owned(),
            version,
            marks,
            notes: Vec::new(),
            count: 1,
        }
    }

    fn version(&self, bundle: &Bundle) -> Option<VersionRelease> {
        bundle.version(self.options.resolve.release_support).ok().cloned()
    }

    fn details(&self, name: &str, version: Option<&VersionRelease>) -> Vec<String> {
        let mut details = vec![name.to_owned()];
        details.extend(version.map(|version| format!("version {}", version.recorded())));
        let bundle = self.package.bundle(name);
        details.extend(bundle.map(|bundle| format!("image {}", bundle.image)));
        let channels: Vec<_> = self.package.entries_of(name).map(|(it, _)| it).collect();
        if !channels.is_empty() {
            details.push(format!("channels {}", channels.join(", ")));
        }
        details.extend(self.deprecated(schema::BUNDLE, name));
        details.iter().map(|line| shown(line, MAX_DETAIL)).collect()
    }

    /// Returns the messages that deprecate something.
    fn deprecated(&self, schema: &str, name: &str) -> Vec<String> {
        let messages = self.package.deprecations.iter().flat_map(|it| it.messages(schema, name));
        let told = messages.map(|message| format!("deprecated: {}", plain_lines(message)));
        told.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    fn installed(&self) -> Option<&'a Step> {
        self.request.installed.as_ref()?;
        self.steps.first()
    }

    fn next(&self) -> Option<&'a Step> {
        self.steps.get(usize::from(self.request.installed.is_some()))
    }
}

/// The edges of a channel.
impl<'a> Scene<'a> {
    fn edges(&self, channel: &str, entries: &Entries<'a>, nodes: &[Node]) -> Vec<Edge> {
        let index: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let mut edges = named_edges(entries, &index);
        for edge in range_edges(entries, nodes, &edges) {
            edges.insert((edge.from, edge.to), edge);
        }
        for step in self.steps.windows(2) {
            if let [from, to] = step
                && let Some(edge) = taken(&mut edges, entries, &index, from, &to.name)
            {
                edge.path = true;
            }
        }
        let classic = self.classic_next(channel);
        if let (Some(installed), Some(next)) = (self.installed(), classic)
            && let Some(edge) = taken(&mut edges, entries, &index, installed, next)
        {
            edge.classic = true;
        }
        let mut edges: Vec<Edge> = edges.into_values().collect();
        for edge in &mut edges {
            edge.superseded = self.options.classic && nodes[edge.to].has(Mark::Skipped);
        }
        edges
    }

    /// Adds notes on edges that are not drawn to each entry, and what it may follow to its details.
    fn note(&self, channel: &str, entries: &Entries<'a>, lane: &mut Lane) {
        let names: BTreeSet<String> = lane.nodes.iter().map(|node| node.name.clone()).collect();
        let next = self.classic_next(channel);
        for node in &mut lane.nodes {
            if next == Some(node.name.as_str()) {
                node.marks.insert(Mark::Classic);
            }
            for entry in entries.get(node.name.as_str()).into_iter().flatten() {
                let skips = entry.skips.iter().filter(|name| !names.contains(*name));
                let skips: Vec<&str> = skips.map(String::as_str).collect();
                node.notes.extend(named("skips", &skips));
                node.notes.extend(range_note(entry));
                node.details.extend(follows(entry));
            }
        }
    }

    fn channel_facts(&self, name: &str) -> Vec<String> {
        let mut facts = Vec::new();
        if name == self.package.default_channel {
            facts.push("default channel".to_owned());
        }
        facts.extend(self.deprecated(schema::CHANNEL, name));
        if let Some(step) = self.classic.get(name) {
            let differs = match step.difference {
                Difference::ClassicError | Difference::SameTarget => String::new(),
                other => format!(" ({})", other.code()),
            };
            facts.push(format!("OLM Classic: {}{differs}", self.shown_answer(step)));
        }
        facts.iter().map(|fact| shown(fact, MAX_DETAIL)).collect()
    }

    fn shown_answer(&self, step: &ClassicStep<'_>) -> String {
        if step.next.is_some() || step.error.is_some() {
            return step.answer();
        }
        let stays = if self.installed().is_some() { "stays" } else { "installs nothing" };
        stays.to_owned()
    }

    /// Returns the facts about the package as a whole.
    fn facts(&self, resolution: &Resolution<'_>, left_out: usize) -> Vec<String> {
        let mut facts = self.deprecated(schema::PACKAGE, "");
        let installed = self.installed().map_or("nothing", |step| &step.name);
        facts.push(format!("installed: {installed}"));
        facts.push(self.outlook(resolution));
        if left_out > 0 {
            facts.push(format!("not drawn: {}", counted(left_out, "other channel")));
        }
        facts.iter().map(|fact| shown(fact, MAX_DETAIL)).collect()
    }

    fn outlook(&self, resolution: &Resolution<'_>) -> String {
        let skip = usize::from(self.request.installed.is_some());
        let names: Vec<&str> = self.steps.iter().skip(skip).map(|it| it.name.as_str()).collect();
        match (&resolution.result, names.as_slice()) {
            (Err(error), _) => format!("next: none; {}", Chain(error)),
            (Ok(_), []) => "next: none".to_owned(),
            (Ok(_), [first]) => format!("next: {first}"),
            (Ok(_), [first, later @ ..]) => {
                let then = named("then", later).unwrap_or_default();
                format!("next: {first}, {then}")
            }
        }
    }
}

fn range_note(entry: &Entry) -> Option<String> {
    let range = entry.skip_range.as_ref()?;
    let invalid = if range.range.is_err() { " (invalid)" } else { "" };
    let text = shown(&range.text, MAX_LABEL);
    Some(format!("skipRange {text}{invalid}"))
}

/// Returns the bundles that an entry may follow, one per line.
fn follows(entry: &Entry) -> Vec<String> {
    let mut lines = Vec::new();
    if !entry.replaces.is_empty() {
        lines.push(format!("replaces {}", entry.replaces));
    }
    if !entry.skips.is_empty() {
        lines.push(format!("skips {}", entry.skips.join(", ")));
    }
    if let Some(range) = &entry.skip_range {
        let error = range.range.as_ref().err();
        let error = error.map(|error| format!(": invalid: {}", Chain(error)));
        lines.push(format!("skipRange {}{}", range.text, error.unwrap_or_default()));
    }
    lines.iter().map(|line| shown(line, MAX_DETAIL)).collect()
}
