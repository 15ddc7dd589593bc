//! The OpenShift upgrade gate: what installed bundles allow the cluster to become.
//!
//! A bundle may name the newest OpenShift minor version it supports, in its property
//! `olm.maxOpenShiftVersion`. [`property`] reads it, [`MinorRelease`] compares it, [`verdict`]
//! turns all installed bundles into one condition of the `ClusterOperator`. Texts and reasons are
//! those of OpenShift's own operator. Source: applying.md 9.

mod cluster;
mod property;
mod release;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use olm_api::ClusterExtension;
use olm_api::conditions::{Reason, clusteroperator as operator, status, types};
use olm_api::keys::annotation;

use crate::error::{Chain, quote};
use crate::status::{Statement, truncate};

pub use cluster::current_version;
pub(crate) use property::Recorded;
pub use property::{
    MaxVersion, PropertyError, ValueError, max_declared, max_openshift_text, max_openshift_version,
};
pub use release::{MinorRelease, NotARelease, blocks_update};

#[cfg(test)]
mod tests;

/// One revision that counts: the installed one of an extension, or its newest active one.
///
/// Both are given where they differ, and the stricter decides: while an upgrade rolls out, the
/// installed bundle still runs (applying.md 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundle<'a> {
    pub extension: &'a str,
    pub name: &'a str,
    /// Annotation `olm.properties` of the revision, if it has one.
    pub properties: Option<&'a str>,
    /// Whether it has a revision. Without one its properties are not known.
    pub is_recorded: bool,
}

impl<'a> Bundle<'a> {
    /// Returns the bundle of a revision of an extension.
    pub fn recorded(extension: &'a str, revision: &'a ObjectMeta) -> Self {
        let annotation = |key| {
            let annotations = revision.annotations.as_ref()?;
            annotations.get(key).map(String::as_str)
        };
        Self {
            extension,
            name: annotation(annotation::BUNDLE_NAME).unwrap_or_default(),
            properties: annotation(annotation::PROPERTIES),
            is_recorded: true,
        }
    }

    /// Returns the installed bundle of an extension that has no revision that counts: another installer
    /// installed it, and it is not taken over yet. One that is being deleted does not count.
    pub fn not_taken_over(extension: &'a ClusterExtension) -> Option<Self> {
        let metadata = &extension.metadata;
        let installed = extension.status.as_ref()?.install.as_ref()?;
        metadata.deletion_timestamp.is_none().then(|| Self {
            extension: metadata.name.as_deref().unwrap_or_default(),
            name: &installed.bundle.name,
            properties: None,
            is_recorded: false,
        })
    }

    /// Returns what it says about the OpenShift versions it supports.
    pub fn max(self) -> Result<MaxVersion, PropertyError> {
        if self.is_recorded {
            max_openshift_version(self.properties)
        } else {
            Err(PropertyError::NotTakenOver)
        }
    }
}

/// What is known about the cluster when the gate decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster<'a> {
    /// Not everything has been listed once. Never taken for "nothing is installed".
    NotRead,
    /// The version, as [`current_version`] returns it; `None` if it is not known.
    At(Option<&'a str>),
}

/// Returns condition `Upgradeable` of the `ClusterOperator`.
///
/// Whatever cannot be read also stops the update. What lifts the hold of an extension, where that is
/// known (`ways_out`, by its name), follows upstream's text.
pub fn verdict(
    cluster: Cluster<'_>,
    bundles: &[Bundle<'_>],
    ways_out: &BTreeMap<String, String>,
) -> Statement {
    let Cluster::At(version) = cluster else {
        return Statement::unknown(operator::UPGRADEABLE, Reason::NoData, "");
    };
    let Some(current) = version.and_then(MinorRelease::of_cluster) else {
        let message = version.map_or_else(
            || "the version of the cluster is not known".to_owned(),
            |text| format!("the version of the cluster cannot be read: {}", quote(text)),
        );
        return Statement::unknown(operator::UPGRADEABLE, Reason::ClusterVersionUnknown, message);
    };
    let (mut incompatible, mut lifted) = (BTreeSet::new(), BTreeSet::new());
    let mut errors = BTreeSet::new();
    for bundle in bundles {
        match bundle.max() {
            Ok(MaxVersion::Supports(max)) if blocks_update(current, max) => {
                incompatible.insert(format!(
                    "bundle {} for ClusterExtension {}",
                    quote(bundle.name),
                    quote(bundle.extension)
                ));
                lifted.extend(ways_out.get_key_value(bundle.extension));
            }
            Ok(_) => {}
            Err(error) => {
                errors.insert(error_line(bundle, &error));
            }
        }
    }
    decide(current, (incompatible, lifted), errors)
}

/// Returns condition `Upgradeable` for a `ClusterOperator` that no longer holds the verdict.
pub fn elsewhere() -> Statement {
    let text = "the verdict is that of another ClusterOperator";
    Statement::yes(operator::UPGRADEABLE, Reason::AsExpected, text)
}

fn error_line(bundle: &Bundle<'_>, error: &PropertyError) -> String {
    // Programs that parse these messages know both spellings.
    let subject = match error {
        PropertyError::Annotation(_) | PropertyError::NotTakenOver => "error",
        PropertyError::Repeated | PropertyError::Value { .. } => "error(s)",
    };
    format!(
        "{subject} with cluster extension {}: error in bundle {}: {}",
        bundle.extension,
        bundle.name,
        Chain(error)
    )
}

fn decide(
    current: MinorRelease,
    (incompatible, lifted): (BTreeSet<String>, BTreeSet<(&String, &String)>),
    errors: BTreeSet<String>,
) -> Statement {
    let errors = errors.into_iter().join("\n");
    if incompatible.is_empty() {
        if errors.is_empty() {
            return Statement::yes(operator::UPGRADEABLE, Reason::AsExpected, ALL_IS_WELL);
        }
        return blocked(Reason::FailureGettingExtensionMetadata, &errors);
    }
    let mut message = format!(
        "Found ClusterExtensions that require upgrades prior to upgrading cluster to version {}: \
         {}.",
        current.next(),
        incompatible.into_iter().join(",")
    );
    if !lifted.is_empty() {
        let ways = lifted.into_iter();
        let ways = ways.map(|(extension, way)| format!("{}: {way}", quote(extension))).join("; ");
        message.push_str(" Remedies: ");
        message.push_str(&ways);
    }
    if !errors.is_empty() {
        message.push_str(
            "\n Additionally the following errors were encountered while getting extension \
             metadata: ",
        );
        message.push_str(&errors);
    }
    blocked(Reason::IncompatibleOperatorsInstalled, &message)
}

const ALL_IS_WELL: &str = "All is well";

/// Puts the name of the operator condition before each line, as the `ClusterOperator`'s does.
fn blocked(reason: Reason, message: &str) -> Statement {
    let mut message = message
        .split('\n')
        .map(|line| format!("{}: {line}", operator::INSTALLED_OLM_OPERATORS_UPGRADEABLE))
        .join("\n");
    truncate(&mut message);
    Statement::no(operator::UPGRADEABLE, reason, message)
}

/// Returns the operator condition that the verdict in the `ClusterOperator` is made from: reason and
/// message without what its name adds to them.
pub fn operator_condition(upgradeable: &Condition) -> Condition {
    let name = operator::INSTALLED_OLM_OPERATORS_UPGRADEABLE;
    let (of_reason, of_line) =
        (format!("{}_", name.trim_end_matches(operator::UPGRADEABLE)), format!("{name}: "));
    let without = |text: &str, prefix: &str| text.strip_prefix(prefix).unwrap_or(text).to_owned();
    let lines = upgradeable.message.split('\n');
    Condition {
        type_: name.to_owned(),
        reason: without(&upgradeable.reason, &of_reason),
        message: lines.map(|line| without(line, &of_line)).join("\n"),
        ..upgradeable.clone()
    }
}

/// Returns all four conditions of the `ClusterOperator`, in their usual order.
///
/// `degraded`: what has been wrong for longer than the inertia of two minutes, which the caller
/// measures.
pub fn operator_conditions(verdict: Statement, degraded: Option<(Reason, &str)>) -> [Statement; 4] {
    let not = |type_| Statement::no(type_, Reason::AsExpected, ALL_IS_WELL);
    let degraded = match degraded {
        None => not(operator::DEGRADED),
        Some((reason, message)) => Statement::yes(operator::DEGRADED, reason, message),
    };
    [
        Statement::yes(operator::AVAILABLE, Reason::AsExpected, ALL_IS_WELL),
        not(operator::PROGRESSING),
        degraded,
        verdict,
    ]
}

/// Returns what the bundles of one extension allow, and which of them allows the least; one whose
/// property cannot be read allows nothing.
pub fn strictest<'a>(
    bundles: impl IntoIterator<Item = Bundle<'a>>,
) -> Option<(Bundle<'a>, Result<MaxVersion, PropertyError>)> {
    let bundles = bundles.into_iter();
    let read = bundles.map(|bundle| (bundle, bundle.max()));
    read.min_by_key(|(_, max)| match max {
        Err(_) => (0, None),
        Ok(MaxVersion::Supports(max)) => (1, Some(*max)),
        Ok(MaxVersion::NotDeclared) => (2, None),
    })
}

/// Returns condition `PlatformUpgradeable` of a `ClusterExtension` with these bundles
/// (applying.md 9.7).
pub fn platform_upgradeable<'a>(
    current: MinorRelease,
    bundles: impl IntoIterator<Item = Bundle<'a>>,
) -> Option<Statement> {
    let (bundle, max) = strictest(bundles)?;
    Some(judged(current, bundle.name, max))
}

fn judged(current: MinorRelease, name: &str, max: Result<MaxVersion, PropertyError>) -> Statement {
    let type_ = types::PLATFORM_UPGRADEABLE;
    match max {
        Ok(MaxVersion::NotDeclared) => Statement::yes(type_, Reason::NotDeclared, ""),
        Ok(MaxVersion::Supports(max)) if blocks_update(current, max) => Statement::no(
            type_,
            Reason::IncompatibleWithNextVersion,
            format!(
                "bundle {} supports OpenShift up to {max}; cluster is {current}, next is {}",
                quote(name),
                current.next()
            ),
        ),
        Ok(MaxVersion::Supports(_)) => Statement::yes(type_, Reason::Compatible, ""),
        Err(error) => Statement::unknown(type_, Reason::InvalidProperty, Chain(&error).to_string()),
    }
}

/// Returns the warning that a bundle will hold the next update of the platform, if it will.
pub fn closing(
    current: MinorRelease,
    name: &str,
    max: Result<MaxVersion, PropertyError>,
) -> Option<String> {
    let held = judged(current, name, max);
    (held.status != status::TRUE).then(|| {
        format!(
            "once it is installed, the cluster cannot be updated to {}: {}",
            current.next(),
            held.message
        )
    })
}

/// Adds what lifts the hold of an extension to its condition.
pub fn with_way_out(mut statement: Statement, way: &str) -> Statement {
    statement.message.push_str(WAY_OUT);
    statement.message.push_str(way);
    statement
}

/// Returns what lifts the hold of an extension: what its condition says after the verdict.
pub fn way_out<'a>(statement: &Statement, condition: &'a str) -> Option<&'a str> {
    condition.strip_prefix(statement.message.as_str())?.strip_prefix(WAY_OUT)
}

/// Separator between the verdict about an extension and what lifts it.
const WAY_OUT: &str = "; ";
