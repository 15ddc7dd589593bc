//! What OLM Classic would do with the same channels.
//!
//! In: a package, a request and its resolution. Out: for each requested channel the step Classic
//! would take, and how it differs from the resolved step. Version ranges, priorities, deprecations
//! and releases do not exist in Classic; its dependency resolution is not modeled.
//!
//! Source: resolution.md 6.3; sortChannel and getSubscriptionInstallables of
//! operator-lifecycle-manager.

use std::collections::BTreeMap;

use olm_api::keys::property;

use super::{Installed, Request, Resolution};
use crate::catalog::{Channel, Entry, PackageIndex};

/// What OLM Classic would do in one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicStep<'a> {
    /// Name of the channel in the catalog.
    pub channel: String,
    /// Name of the bundle it would install or update to; `None` if it would do nothing.
    pub next: Result<Option<&'a str>, ClassicError>,
    /// How the step differs from the resolved one.
    pub difference: Difference,
}

/// Why OLM Classic cannot use a channel at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClassicError {
    /// The package has no such channel.
    #[error("unknown channel")]
    UnknownChannel,
    /// Every entry is replaced or skipped by some entry.
    #[error("no channel heads")]
    NoHead,
    /// Following `replaces` from a head meets an entry twice.
    #[error("cycle")]
    Cycle,
    /// Several entries are neither replaced nor skipped, so that they have no order; their number.
    #[error("{0} chains")]
    Chains(usize),
}

/// How the step of OLM Classic differs from the resolved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Difference {
    /// Both choose the same bundle, or both choose none.
    SameTarget,
    /// Only Classic chooses none.
    ClassicStays,
    /// Both choose a bundle, but not the same.
    DifferentTarget,
    /// Classic cannot use the channel.
    ClassicError,
    /// Only Classic chooses a bundle.
    V1Stays,
}

impl ClassicStep<'_> {
    /// Returns the step in a word: the name of a bundle, `stay`, or `error: ` with the cause.
    pub fn answer(&self) -> String {
        match &self.next {
            Ok(Some(bundle)) => (*bundle).to_owned(),
            Ok(None) => "stay".to_owned(),
            Err(error) => format!("error: {error}"),
        }
    }
}

impl Difference {
    /// Returns the stable code (resolution.md 6.3).
    pub fn code(self) -> &'static str {
        self.into()
    }

    fn between(classic: &Result<Option<&str>, ClassicError>, resolved: Option<&str>) -> Self {
        match (classic, resolved) {
            (Err(_), _) => Self::ClassicError,
            (Ok(None), None) => Self::SameTarget,
            (Ok(None), Some(_)) => Self::ClassicStays,
            (Ok(Some(_)), None) => Self::V1Stays,
            (Ok(Some(classic)), Some(resolved)) if *classic == resolved => Self::SameTarget,
            (Ok(Some(_)), Some(_)) => Self::DifferentTarget,
        }
    }
}

/// Says what OLM Classic would do in each requested channel, or in the default channel if none is
/// requested; without a default channel the result is empty.
///
/// `package` is the package of the one catalog a subscription would name.
pub fn classic<'a>(
    package: &'a PackageIndex,
    request: &Request,
    resolution: &Resolution<'_>,
) -> Vec<ClassicStep<'a>> {
    let default = Some(&package.default_channel).filter(|name| !name.is_empty());
    let channels = &request.filter.channels;
    let channels: Vec<_> =
        if channels.is_empty() { default.into_iter().collect() } else { channels.iter().collect() };
    let resolved = resolved_step(request, resolution);
    let step = |name: &String| {
        let next = next_in(package, name, request.installed.as_ref());
        ClassicStep {
            channel: name.clone(),
            difference: Difference::between(&next, resolved),
            next,
        }
    };
    channels.into_iter().map(step).collect()
}

/// Returns the entries of a channel in the order of OLM Classic, from the head along `replaces`;
/// those that some entry skips are left out.
///
/// Of entries with the same name the last one counts.
pub fn replacement_chain(channel: &Channel) -> Result<Vec<&Entry>, ClassicError> {
    let entries: BTreeMap<&str, &Entry> =
        channel.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let skipped = channel.skipped();
    let heads = channel.heads();
    let heads = heads.iter().filter_map(|name| entries.get(name));
    let mut seen = BTreeMap::new();
    let chains = heads.map(|head| follow(head, &entries, &mut seen));
    let chains: Vec<_> = chains.collect::<Result<_, _>>()?;
    match <[_; 1]>::try_from(chains) {
        Ok([mut chain]) => {
            chain.retain(|entry| !skipped.contains(entry.name.as_str()));
            Ok(chain)
        }
        Err(chains) if chains.is_empty() => Err(ClassicError::NoHead),
        Err(chains) => Err(ClassicError::Chains(chains.len())),
    }
}

/// Follows `replaces` from a head as long as it names an entry of the channel, up to an entry that
/// was seen from another head: what is behind that has no cycle. `seen` has the head by entry.
fn follow<'a>(
    head: &'a Entry,
    entries: &BTreeMap<&str, &'a Entry>,
    seen: &mut BTreeMap<&'a str, &'a str>,
) -> Result<Vec<&'a Entry>, ClassicError> {
    let mut chain = Vec::new();
    let mut current = Some(head);
    while let Some(entry) = current {
        match seen.insert(&entry.name, &head.name) {
            Some(other) if other == head.name => return Err(ClassicError::Cycle),
            Some(_) => break,
            None => {}
        }
        chain.push(entry);
        let replaces = Some(entry.replaces.as_str()).filter(|name| !name.is_empty());
        current = replaces.and_then(|name| entries.get(name).copied());
    }
    Ok(chain)
}

/// Returns the bundle Classic would choose in a channel; nothing if the installed version does not
/// parse.
fn next_in<'a>(
    package: &'a PackageIndex,
    channel: &str,
    installed: Option<&Installed>,
) -> Result<Option<&'a str>, ClassicError> {
    let channel = package.channels.get(channel);
    let chain = replacement_chain(channel.ok_or(ClassicError::UnknownChannel)?)?;
    let follows = |entry: &Entry| {
        installed.is_none_or(|installed| {
            let version = installed.parse();
            version.is_ok_and(|version| entry.leads_from(&installed.name, &version.version))
        })
    };
    let mut candidates = chain.into_iter().filter(|entry| follows(entry));
    let next = candidates.find(|entry| !refused(package, &entry.name));
    let next = next.map(|entry| entry.name.as_str());
    // A range may contain the version of its own entry.
    Ok(next.filter(|next| installed.is_none_or(|installed| installed.name != *next)))
}

/// Says whether Classic never installs a bundle, because of its own property, whatever the
/// package's deprecations say.
fn refused(package: &PackageIndex, bundle: &str) -> bool {
    let mut properties = package.bundle(bundle).into_iter().flat_map(|bundle| &bundle.properties);
    properties.any(|it| it.kind == property::DEPRECATED)
}

/// Returns the bundle that was resolved, unless it is the installed one.
///
/// As in resolution, a bundle of the installed version is the installed one whatever its name.
fn resolved_step<'r>(request: &Request, resolution: &'r Resolution<'_>) -> Option<&'r str> {
    let selected = resolution.result.as_ref().ok()?;
    let stays = request.installed.as_ref().is_some_and(|installed| {
        let version = installed.parse();
        installed.name == selected.bundle.name
            || version.is_ok_and(|version| version.precedence(&selected.version).is_eq())
    });
    (!stays).then_some(selected.bundle.name.as_str())
}
