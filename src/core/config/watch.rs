//! The rules of `watchNamespace`.
//!
//! Source: rendering.md 3.1 and 3.2.

use serde_json::Value;

use super::check::{missing, wrong_type};
use super::{Features, WATCH_NAMESPACE};
use crate::bundle::{Csv, is_label, mode};
use crate::error::quote;

/// Longest name of a namespace, in characters.
pub(super) const MAX_NAME_CHARS: usize = 63;

/// The pattern that the name of a namespace must match.
pub(super) const PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Format of a name that must be the install namespace.
const OWN_NAMESPACE: &str = "ownNamespaceInstallMode";

/// Format of a name that must not be the install namespace.
const SINGLE_NAMESPACE: &str = "singleNamespaceInstallMode";

/// Which install modes a bundle offers through the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) all: bool,
    pub(super) own: bool,
    pub(super) single: bool,
}

impl Offer {
    pub(super) fn new(csv: &Csv, features: Features) -> Self {
        let supports = |mode| features.single_own_namespace && csv.supports(mode);
        Self {
            all: csv.supports(mode::ALL_NAMESPACES),
            own: supports(mode::OWN_NAMESPACE),
            single: supports(mode::SINGLE_NAMESPACE),
        }
    }

    pub(super) fn has_watch_namespace(self) -> bool {
        self.own || self.single
    }

    /// Names the format of the name, which only bundles with one of the two modes restrict.
    pub(super) fn format(self) -> Option<&'static str> {
        match (self.own, self.single) {
            (true, false) => Some(OWN_NAMESPACE),
            (false, true) => Some(SINGLE_NAMESPACE),
            _ => None,
        }
    }
}

/// Returns what is wrong with the value of `watchNamespace`, null when it is absent.
pub(super) fn findings(offer: Offer, install_namespace: &str, value: &Value) -> Vec<String> {
    if value.is_null() {
        return if offer.all { Vec::new() } else { vec![missing(WATCH_NAMESPACE)] };
    }
    let mut details = match value {
        Value::String(name) => name_findings(offer, install_namespace, name),
        other => vec![wrong_type(WATCH_NAMESPACE, other, "string")],
    };
    if offer.all && !details.is_empty() {
        // With AllNamespaces the schema has two branches, null and a name, and reports both.
        details.insert(0, format!("invalid value for field \"{WATCH_NAMESPACE}\""));
        details.insert(1, wrong_type(WATCH_NAMESPACE, value, "null"));
    }
    details
}

/// Checks the format, and length and pattern only if the format holds.
fn name_findings(offer: Offer, install_namespace: &str, name: &str) -> Vec<String> {
    if !install_namespace.is_empty()
        && let Some((format, reason)) = format_fault(offer, install_namespace, name)
    {
        return vec![format!(
            "invalid format for field \"{WATCH_NAMESPACE}\": '{name}' is not valid {format}: \
             invalid value {}: {reason}",
            quote(name)
        )];
    }
    let chars = name.chars().count();
    let mut details = Vec::new();
    if chars > MAX_NAME_CHARS {
        details.push(format!(
            "field \"{WATCH_NAMESPACE}\" must have maximum length of {MAX_NAME_CHARS} (len={chars})"
        ));
    }
    if chars == 0 {
        details.push(format!("field \"{WATCH_NAMESPACE}\" must have minimum length of 1 (len=0)"));
    }
    if !is_label(name) {
        details.push(format!("field \"{WATCH_NAMESPACE}\" must match pattern \"{PATTERN}\""));
    }
    details
}

fn format_fault(offer: Offer, namespace: &str, name: &str) -> Option<(&'static str, String)> {
    let (format, own) = (offer.format()?, quote(namespace));
    let reason = match (format, name == namespace) {
        (OWN_NAMESPACE, false) => format!(
            "must be {own} (the namespace where the operator is installed) because this \
             operator only supports OwnNamespace install mode"
        ),
        (SINGLE_NAMESPACE, true) => format!(
            "must be different from {own} (the install namespace) because this operator \
             uses SingleNamespace install mode to watch a different namespace"
        ),
        _ => return None,
    };
    Some((format, reason))
}
