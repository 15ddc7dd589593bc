//! Constraints as bundles declare them: `olm.package.required`, `olm.gvk.required` and
//! `olm.constraint`.
//!
//! Source: resolution.md 5.1.

mod check;
mod cost;
mod expression;
mod parse;
mod rule;

#[cfg(test)]
mod tests;

use std::fmt;

use olm_api::keys::property;
use schemars::JsonSchema;
use serde::Serialize;

use super::property::Property;
use crate::version::{SkipRange, Version};
pub(super) use parse::property as parsed;
pub use rule::{Facts, Rule, Steps};

/// A property that declares a constraint, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Position among the properties of the bundle, from 0.
    pub index: usize,
    /// Type of the property.
    pub property: String,
    /// What the bundle requires, or why the property cannot be parsed.
    pub constraint: Result<Constraint, ConstraintError>,
}

/// A constraint, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// The author's text for when it is not met: on one line, at most 512 characters.
    pub message: Option<String>,
    /// What the bundle requires.
    pub demand: Demand,
}

/// What a constraint requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// A package in some version.
    /// `text` is the range as written.
    Package { package: String, text: String, range: SkipRange },
    /// A kind that is served.
    Kind(GroupVersionKind),
    /// A CEL rule about the properties of something installed.
    Cel(Rule),
    /// All of these constraints.
    All(Vec<Constraint>),
    /// At least one of these constraints.
    Any(Vec<Constraint>),
    /// None of these constraints.
    Not(Vec<Constraint>),
}

/// A kind in one version; compared exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct GroupVersionKind {
    /// API group, empty for the core group.
    pub group: String,
    /// API version, for example `v1`.
    pub version: String,
    /// Kind, for example `ConfigMap`.
    pub kind: String,
}

/// Why a property is not a constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(pub String);

impl Declared {
    /// Parses the properties of a list that declare a constraint.
    pub fn of(properties: &[Property]) -> Vec<Self> {
        let declared = |(index, property): (usize, &Property)| {
            let constraint = parsed(&property.kind, &property.value)?;
            Some(Self { index, property: property.kind.clone(), constraint })
        };
        properties.iter().enumerate().filter_map(declared).collect()
    }

    /// Says whether its verdict may depend on the kinds that installed bundles define.
    pub(crate) fn asks_for_kinds(&self) -> bool {
        self.constraint.as_ref().is_ok_and(Constraint::asks_for_kinds)
    }
}

impl Constraint {
    fn asks_for_kinds(&self) -> bool {
        match &self.demand {
            Demand::Package { .. } => false,
            // The kinds of a bundle are among what rules query.
            Demand::Kind(_) | Demand::Cel(_) => true,
            Demand::All(parts) | Demand::Any(parts) | Demand::Not(parts) => {
                parts.iter().any(Self::asks_for_kinds)
            }
        }
    }
}

impl GroupVersionKind {
    /// Returns the kinds named by the `olm.gvk` properties of a list; unreadable ones are skipped.
    pub fn provided(properties: &[Property]) -> impl Iterator<Item = Self> {
        let kinds = properties.iter().filter(|it| it.kind == property::GVK);
        kinds.filter_map(|property| parse::kind(&property.value).ok())
    }
}

impl fmt::Display for GroupVersionKind {
    /// Example: `greens.example.com/v1, Kind=Green`; the core group is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}, Kind={}", self.version, self.kind)
    }
}

/// Returns the packages and versions named by the `olm.package` properties of a list.
pub(crate) fn packages(properties: &[Property]) -> impl Iterator<Item = (String, Version)> {
    let packages = properties.iter().filter(|it| it.kind == property::PACKAGE);
    packages.filter_map(|property| parse::package_version(&property.value))
}
