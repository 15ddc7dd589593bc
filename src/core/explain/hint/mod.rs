//! What a user can do: each hint was tried before it is offered.

use std::fmt;

use olm_api::conditions::Reason as Code;
use olm_api::keys::policy;
use schemars::JsonSchema;
use serde::Serialize;

use super::catalogs::CatalogEvaluation;
use super::what_if::WhatIf;

mod advise;

/// A suggestion, and its text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Hint<'a> {
    /// The suggestion as data.
    #[serde(flatten)]
    pub suggestion: Suggestion<'a>,
    /// The suggestion as a sentence.
    #[schemars(length(min = 1))]
    pub text: String,
}

/// What a user can do, by code.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum Suggestion<'a> {
    /// No consulted catalog has the package; these names are close.
    SimilarPackage {
        /// The similar names.
        packages: Vec<&'a str>,
    },
    /// A catalog that was not consulted offers a bundle.
    LeftOutCatalog {
        /// Name of the catalog.
        catalog: &'a str,
        /// Name of the bundle it offers.
        bundle: &'a str,
        /// Whether it is disabled; otherwise the selector leaves it out.
        disabled: bool,
    },
    /// None of the requested channels exists.
    ExistingChannels {
        /// The channels that exist.
        channels: Vec<&'a str>,
    },
    /// A bundle would match, but is more than one step away.
    NotAdjacent {
        /// Name of the bundle.
        bundle: &'a str,
        /// The versions on the path, both ends included.
        path: Vec<String>,
        /// The versions on the path that the range refuses.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
        /// A range under which updates lead there.
        #[serde(skip_serializing_if = "Option::is_none")]
        suggested_version: Option<String>,
    },
    /// A bundle would match, but no edges lead there.
    NoPath {
        /// Name of the bundle.
        bundle: &'a str,
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// What may follow the installed bundle, ignoring the version range.
    BestSuccessors {
        /// The highest version of the same minor release.
        #[serde(skip_serializing_if = "Option::is_none")]
        same_minor: Option<String>,
        /// The highest version of the same major release.
        #[serde(skip_serializing_if = "Option::is_none")]
        same_major: Option<String>,
        /// The highest version of all.
        overall: String,
    },
    /// What the catalogs offer, ignoring the version range.
    AvailableVersions {
        /// The highest few versions, the highest first.
        versions: Vec<String>,
    },
    /// A better bundle is in other channels only.
    OtherChannel {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// The channels; adding one of them is enough.
        channels: Vec<&'a str>,
    },
    /// A better bundle is excluded only because it is a prerelease.
    ExcludedOnlyByPrerelease {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// A range that admits it.
        suggested_version: String,
    },
    /// The update policy holds a newer bundle back.
    HeldByPolicy {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// The code of the reason.
        #[schemars(with = "String")]
        reason: Code,
        /// A range under which updates lead there.
        #[serde(skip_serializing_if = "Option::is_none")]
        suggested_version: Option<String>,
    },
    /// A newer bundle would be chosen if the cluster had what it needs.
    HeldByConstraints {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// The code of the reason.
        #[schemars(with = "String")]
        reason: Code,
        /// What the cluster lacks.
        missing: String,
    },
    /// A bundle of another version fits the cluster as it is.
    ConstraintFreeVersion {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
    },
    /// A version that only one of several catalogs offers.
    Pin {
        /// The version to pin.
        version: String,
        /// The catalog that offers it.
        catalog: &'a str,
    },
    /// One of several catalogs of the same priority must get a higher one.
    SetPriority {
        /// The catalogs of the same priority.
        catalogs: Vec<&'a str>,
        /// A priority higher than theirs.
        priority: i64,
    },
    /// One of several catalogs must be selected.
    NarrowSelector {
        /// The catalogs to choose from.
        catalogs: Vec<&'a str>,
        /// The label to select by.
        label: &'static str,
    },
    /// Catalogs that cannot be read must be disabled.
    DisableCatalog {
        /// The catalogs that cannot be read.
        catalogs: Vec<&'a str>,
        /// The answer after that, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        then: Option<String>,
    },
}

impl<'a> From<Suggestion<'a>> for Hint<'a> {
    fn from(suggestion: Suggestion<'a>) -> Self {
        let text = suggestion.to_string();
        Self { suggestion, text }
    }
}

/// Returns everything that can be done, the most useful first.
pub(super) fn hints<'a>(
    what_if: &WhatIf<'a, '_>,
    all: &[CatalogEvaluation<'a, '_>],
) -> Vec<Hint<'a>> {
    advise::suggestions(what_if, all).into_iter().map(Hint::from).collect()
}

impl fmt::Display for Suggestion<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each code")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let force = "upgradeConstraintPolicy SelfCertified";
        match self {
            Self::SimilarPackage { packages } => {
                write!(f, "packages of similar name: {}", packages.join(", "))
            }
            Self::LeftOutCatalog { catalog, bundle, disabled: true } => write!(
                f,
                "catalog {catalog} offers {bundle}, but is disabled; set its availabilityMode to Available"
            ),
            Self::LeftOutCatalog { catalog, bundle, disabled: false } => {
                write!(f, "catalog {catalog} offers {bundle}, but the selector leaves it out")
            }
            Self::ExistingChannels { channels } if channels.is_empty() => {
                write!(f, "the package has no channels; leave channels out")
            }
            Self::ExistingChannels { channels } => {
                write!(f, "its channels: {}", channels.join(", "))
            }
            Self::NotAdjacent { path, suggested_version, .. } => {
                let to = path.last().map(String::as_str).unwrap_or_default();
                let steps = path.len().saturating_sub(1);
                let plural = if steps == 1 { "" } else { "s" };
                write!(f, "{to} is reachable in {steps} step{plural}: {}", path.join(" -> "))?;
                match suggested_version {
                    Some(range) => write!(
                        f,
                        "; set version to a range that contains the steps, for example \"{range}\""
                    ),
                    None => write!(f, "; set version to one after the other"),
                }
            }
            Self::NoPath { from, to, .. } => {
                write!(f, "there is no upgrade path from {from} to {to}; {force} forces it")
            }
            Self::BestSuccessors { overall, .. } => write!(f, "reachable now: {overall}"),
            Self::AvailableVersions { versions } => {
                write!(f, "available: {}", versions.join(", "))
            }
            Self::OtherChannel { version, channels, .. } => {
                let which = if channels.len() == 1 { "it" } else { "one of them" };
                let plural = if channels.len() == 1 { "" } else { "s" };
                let channels = channels.join(", ");
                write!(
                    f,
                    "{version} is in channel{plural} {channels}; to get it add {which} to channels"
                )
            }
            Self::ExcludedOnlyByPrerelease { version, suggested_version, .. } => write!(
                f,
                "{version} is a prerelease, which the range does not ask for; version \"{suggested_version}\" admits it"
            ),
            Self::HeldByPolicy { version, reason: Code::OtherCatalogHeld, .. } => {
                let (approve, held) = (policy::APPROVE, policy::CATALOG_MOVE);
                write!(f, "to take {version}: annotation {approve}: {version}, or {held}: Allow")
            }
            Self::HeldByPolicy { bundle: _, version, reason: _, suggested_version } => {
                write!(f, "to take {version}: ")?;
                if let Some(range) = suggested_version {
                    write!(f, "version \"{range}\", or ")?;
                }
                let annotation = policy::UPGRADE;
                write!(f, "annotation {annotation}: Any, or {force}")
            }
            Self::HeldByConstraints { version, missing, .. } => {
                write!(f, "{version} waits for the cluster: {missing}")
            }
            Self::ConstraintFreeVersion { version, .. } => {
                write!(f, "{version} needs nothing that is missing; version \"{version}\" takes it")
            }
            Self::Pin { version, catalog } => {
                write!(
                    f,
                    "only catalog {catalog} offers {version}; pin it with version \"{version}\""
                )
            }
            Self::SetPriority { catalogs, priority } => write!(
                f,
                "give one of the catalogs {} the higher spec.priority {priority}",
                catalogs.join(", ")
            ),
            Self::NarrowSelector { catalogs, label } => {
                write!(f, "select one of the catalogs {} by its label {label}", catalogs.join(", "))
            }
            Self::DisableCatalog { catalogs, then } => {
                let names = catalogs.join(", ");
                let then = then.as_deref();
                write!(
                    f,
                    "to continue without {names}: availabilityMode Unavailable, or a selector that leaves it out"
                )?;
                then.map_or(Ok(()), |then| write!(f, "; the answer is then {then}"))
            }
        }
    }
}
