//! What a user can do: each hint was tried before it is offered.

use olm_api::conditions::Reason as Code;
use olm_api::keys::policy;
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{steps, way};

mod advise;

pub(super) use advise::hints;

const FORCE: &str = "upgradeConstraintPolicy SelfCertified";
/// How a catalog of a cluster is left out, and how one that a command line names.
const DISABLED: &str = "availabilityMode Unavailable, or a selector that excludes it";
const NOT_NAMED: &str = "leave out --from for it";

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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum Suggestion<'a> {
    /// No consulted catalog has the package; these names are close.
    #[error("packages of similar name: {}", packages.join(", "))]
    SimilarPackage {
        /// The similar names.
        packages: Vec<&'a str>,
    },
    /// A catalog that was not consulted offers a bundle.
    #[error("catalog {catalog} offers {bundle}, but {}", if *disabled {
        "is disabled; set its availabilityMode to Available" } else { "the selector excludes it" })]
    LeftOutCatalog {
        /// Name of the catalog.
        catalog: &'a str,
        /// Name of the bundle it offers.
        bundle: &'a str,
        /// Whether it is disabled; otherwise the selector leaves it out.
        disabled: bool,
    },
    /// None of the requested channels exists.
    #[error("{}", match channels.as_slice() {
        [] => "the package has no channels; leave channels out".to_owned(),
        channels => format!("its channels: {}", channels.join(", ")) })]
    ExistingChannels {
        /// The channels that exist.
        channels: Vec<&'a str>,
    },
    /// A bundle would match, but is more than one step away.
    #[error("{}", steps_along(path, suggested_version.as_deref()))]
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
    #[error("there is no upgrade path from {from} to {to}; {FORCE} forces it")]
    NoPath {
        /// Name of the bundle.
        bundle: &'a str,
        /// The installed version.
        from: String,
        /// The version of the bundle.
        to: String,
    },
    /// What may follow the installed bundle, ignoring the version range.
    #[error("reachable now: {overall}")]
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
    #[error("available: {}", versions.join(", "))]
    AvailableVersions {
        /// The highest few versions, the highest first.
        versions: Vec<String>,
    },
    /// A better bundle is in other channels only.
    #[error("{version} is in channel{} {}; to get it add {} to channels",
        if channels.len() == 1 { "" } else { "s" }, channels.join(", "),
        if channels.len() == 1 { "it" } else { "one of them" })]
    OtherChannel {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// The channels; adding one of them is enough.
        channels: Vec<&'a str>,
    },
    /// A better bundle is excluded only because it is a prerelease.
    #[error(
        "{version} is a prerelease, which the range excludes; version \
        \"{suggested_version}\" includes it"
    )]
    ExcludedOnlyByPrerelease {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// A range that admits it.
        suggested_version: String,
    },
    /// The update policy holds a newer bundle back.
    #[error("to install {version}: {}", policy_change(version, *reason, suggested_version.as_deref()))]
    HeldByPolicy {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
        /// The code of the reason.
        #[schemars(with = "String")]
        reason: Code,
        /// The reason in words that follow `held`.
        #[serde(skip)]
        why: String,
        /// A range under which updates lead there.
        #[serde(skip_serializing_if = "Option::is_none")]
        suggested_version: Option<String>,
    },
    /// A newer bundle would be chosen if the cluster had what it needs.
    #[error("{version} waits for the cluster: {missing}")]
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
    #[error("{version} has no unmet dependency; version \"{version}\" installs it")]
    ConstraintFreeVersion {
        /// Name of the bundle.
        bundle: &'a str,
        /// The version of the bundle.
        version: String,
    },
    /// A version that only one of several catalogs offers.
    #[error("only catalog {catalog} offers {version}; select it with version \"{version}\"")]
    Pin {
        /// The version to pin.
        version: String,
        /// The catalog that offers it.
        catalog: &'a str,
    },
    /// One of several catalogs of the same priority must get a higher one.
    #[error("give one of the catalogs {} the higher spec.priority {priority}", catalogs.join(", "))]
    SetPriority {
        /// The catalogs of the same priority.
        catalogs: Vec<&'a str>,
        /// A priority higher than theirs.
        priority: i64,
    },
    /// One of several catalogs must be selected.
    #[error("select one of the catalogs {} by its label {label}", catalogs.join(", "))]
    NarrowSelector {
        /// The catalogs to choose from.
        catalogs: Vec<&'a str>,
        /// The label to select by.
        label: &'static str,
    },
    /// Catalogs that cannot be read must be disabled.
    #[error("{}", without(catalogs, DISABLED, then.as_deref()))]
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

impl Hint<'_> {
    /// Words it for catalogs that a command line names.
    pub(super) fn of_command_line(&mut self) {
        if let Suggestion::DisableCatalog { catalogs, then } = &self.suggestion {
            self.text = without(catalogs, NOT_NAMED, then.as_deref());
        }
    }
}

fn without(catalogs: &[&str], how: &str, then: Option<&str>) -> String {
    let then = then.map(|then| format!("; the answer is then {then}")).unwrap_or_default();
    format!("to continue without {}: {how}{then}", catalogs.join(", "))
}

fn steps_along(path: &[String], range: Option<&str>) -> String {
    let to = path.last().map(String::as_str).unwrap_or_default();
    let how = range.map_or_else(
        || "one version after the other".to_owned(),
        |range| format!("version \"{range}\""),
    );
    let (steps, way) = (steps(path), way(path, [" (", ")"]));
    format!("to get {to} in {steps}{way}: {how}; to force it: {FORCE}")
}

fn policy_change(version: &str, reason: Code, range: Option<&str>) -> String {
    if reason == Code::OtherCatalogHeld {
        let (approve, held) = (policy::APPROVE, policy::CATALOG_MOVE);
        return format!("annotation {approve}: {version}, or {held}: Allow");
    }
    if reason == Code::OutsideWindow {
        return format!("wait, or annotation {}: {version}", policy::APPROVE);
    }
    let range = range.map(|range| format!("version \"{range}\", or ")).unwrap_or_default();
    format!("{range}annotation {}: Any, or {FORCE}", policy::UPGRADE)
}
