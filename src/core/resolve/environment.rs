//! What a resolution knows about the cluster besides its catalogs: the version it runs, the kinds
//! it serves, and the installed bundles.
//!
//! Every part is optional: what is not given is not judged, and excludes nothing. What could not be
//! read is different: a constraint that depends on it is *unknown*.
//!
//! Source: resolution.md 5.2, decisions 8 and 9.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use olm_api::keys::property;
use serde_json::json;

use super::verdict::Verdict;
use crate::catalog::{
    Bundle, Constraint, Declared, Demand, Facts, GroupVersionKind, Property, Steps, packages,
};
use crate::error::quote;
use crate::version::{SkipRange, Version, VersionRelease};

/// The state of the cluster that constraints are judged against. By default nothing is given.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Name of the ClusterExtension that is resolved; empty where there is none yet.
    pub resolving: String,
    /// The version of Kubernetes; without it `minKubeVersion` is ignored. Suffixes of vendors
    /// (`1.33.1+k3s1`, `1.33.1-eks-1`) do not count.
    pub kube_version: Option<Version>,
    /// The kinds the API server serves, whoever installed them.
    pub served: Knowledge<Arc<ServedKinds>>,
    /// What is installed: every ClusterExtension with an installed revision and without a deletion
    /// timestamp, the one that is resolved included.
    pub providers: Knowledge<Arc<Vec<Provider>>>,
}

/// What is known about a part of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Knowledge<T> {
    /// It was not given: nothing is judged by it.
    #[default]
    NotTold,
    /// It could not be read: constraints that depend on it are unknown.
    Unreadable,
    /// The data that was read.
    Known(T),
}

/// The kinds an API server serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedKinds {
    /// The kinds, in all their versions.
    pub kinds: BTreeSet<GroupVersionKind>,
    /// API groups whose discovery failed: a kind of theirs that is not listed may be served.
    pub unreadable_groups: BTreeSet<String>,
}

/// An installed bundle that may meet constraints, and has some of its own.
///
/// Its data is parsed only once: a list of providers serves many resolutions.
#[derive(Debug, Clone)]
pub struct Provider {
    /// Kind and name of the object that installed it.
    pub origin: ProviderOrigin,
    pub package: String,
    /// Its version as recorded, including the release as build metadata.
    pub version: String,
    parsed: Option<Version>,
    properties: Vec<Property>,
    packages: Vec<(String, Version)>,
    kinds: BTreeSet<GroupVersionKind>,
    apis: BTreeSet<GroupVersionKind>,
    constraints: Vec<Declared>,
    facts: OnceLock<Facts>,
}

/// Kind and name of the object that installed a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderOrigin {
    ClusterExtension(String),
    /// A ClusterServiceVersion of OLM Classic, as `namespace/name`.
    ClusterServiceVersion(String),
}

impl Environment {
    /// Returns whether declared constraints are checked: without an environment they are not even
    /// parsed.
    pub(super) fn judges(&self) -> bool {
        !(self.served.is_untold() && self.providers.is_untold())
    }

    /// Returns which of these groups the cluster does not serve. One of which that is not known does
    /// not count: its objects may well be applied.
    pub fn unserved<'a>(&self, groups: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let Some(served) = self.served.known() else { return Vec::new() };
        let lacks = |group: &&str| {
            !served.unreadable_groups.contains(*group)
                && !served.kinds.iter().any(|kind| kind.group == **group)
        };
        groups.into_iter().filter(lacks).collect()
    }
}

impl<T> Knowledge<T> {
    /// Returns the data, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::NotTold | Self::Unreadable => None,
        }
    }

    /// Returns the verdict on something that was not found.
    pub(super) fn absence(&self) -> Verdict {
        match self {
            Self::NotTold => Verdict::NotJudged,
            Self::Unreadable => Verdict::Unknown,
            Self::Known(_) => Verdict::Unmet,
        }
    }

    /// Returns whether it was not given.
    pub fn is_untold(&self) -> bool {
        matches!(self, Self::NotTold)
    }
}

impl Provider {
    /// Starts a provider without properties, constraints and APIs.
    pub fn new(
        origin: ProviderOrigin,
        package: impl Into<String>,
        version: impl Into<String>,
    ) -> Self {
        let version = version.into();
        Self {
            origin,
            package: package.into(),
            parsed: version.parse().ok(),
            version,
            properties: Vec::new(),
            packages: Vec::new(),
            kinds: BTreeSet::new(),
            apis: BTreeSet::new(),
            constraints: Vec::new(),
            facts: OnceLock::new(),
        }
    }

    /// Returns what a bundle would be once it is installed, as far as its catalog tells.
    pub(super) fn of_bundle(
        origin: ProviderOrigin,
        package: &str,
        bundle: &Bundle,
        release_support: bool,
    ) -> Self {
        let version = bundle.version(release_support).ok();
        Self {
            kinds: bundle.kinds.clone(),
            properties: bundle.properties.clone(),
            ..Self::new(origin, package, version.map(VersionRelease::recorded).unwrap_or_default())
        }
    }

    /// Adds its properties, from the annotation `olm.properties` of its revision.
    #[must_use]
    pub fn with_properties(mut self, properties: Vec<Property>) -> Self {
        self.packages = packages(&properties).collect();
        self.kinds = GroupVersionKind::provided(&properties).collect();
        self.properties = properties;
        self
    }

    /// Adds the constraints recorded when it was installed, which updates of others must not break.
    /// One that cannot be parsed cannot be broken.
    #[must_use]
    pub fn with_constraints(mut self, constraints: &[Property]) -> Self {
        self.constraints = Declared::of(constraints);
        self
    }

    /// Adds the kinds its own objects define: the served versions of its CRDs, and its API
    /// services.
    #[must_use]
    pub fn with_apis(mut self, apis: BTreeSet<GroupVersionKind>) -> Self {
        self.apis = apis;
        self
    }

    /// Returns the constraints recorded when it was installed.
    pub(super) fn constraints(&self) -> &[Declared] {
        &self.constraints
    }

    /// Says whether one of its constraints may depend on the kinds that installed bundles define.
    pub fn asks_for_kinds(&self) -> bool {
        self.constraints.iter().any(Declared::asks_for_kinds)
    }

    /// Says whether its own objects define a kind, or its properties name it.
    pub(super) fn provides(&self, kind: &GroupVersionKind) -> bool {
        self.apis.contains(kind) || self.kinds.contains(kind)
    }

    /// Says whether its own objects define a kind.
    pub(super) fn defines(&self, kind: &GroupVersionKind) -> bool {
        self.apis.contains(kind)
    }

    /// Returns its version if it belongs to the package, and has one.
    pub(super) fn version_of(&self, package: &str) -> Option<&str> {
        (self.package == package && !self.version.is_empty()).then_some(&self.version)
    }

    /// Says whether it is, or its properties name, a version of a package within a range.
    pub(super) fn is_package(&self, package: &str, range: &SkipRange) -> bool {
        let itself = self.parsed.iter().map(|version| (&self.package, version));
        let claimed = self.packages.iter().map(|(name, version)| (name, version));
        let mut versions = itself.chain(claimed);
        versions.any(|(name, version)| name == package && range.contains(version))
    }

    /// Says whether it meets a constraint, or a part of one that is not negated; nothing if there are
    /// too few steps left for a rule to tell.
    pub fn meets_part(&self, constraint: &Constraint, steps: &Steps) -> Option<bool> {
        match &constraint.demand {
            Demand::Package { package, range, .. } => Some(self.is_package(package, range)),
            Demand::Kind(kind) => Some(self.provides(kind)),
            Demand::Cel(rule) => rule.matches(self.facts(), steps),
            Demand::All(parts) | Demand::Any(parts) => {
                let parts: Vec<_> = parts.iter().map(|it| self.meets_part(it, steps)).collect();
                let found = [Some(true), None].into_iter().find(|it| parts.contains(it));
                found.unwrap_or(Some(false))
            }
            Demand::Not(_) => Some(false),
        }
    }

    /// Returns what CEL rules may query: its properties, then its package, unless they name it, then
    /// its APIs.
    pub(super) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| {
            let synthesized = |kind: &str, value: serde_json::Value| Property {
                kind: kind.to_owned(),
                value: value.to_string(),
            };
            let is_named = packages(&self.properties).any(|(name, _)| name == self.package);
            let package = (!is_named).then(|| {
                let value = json!({"packageName": self.package, "version": self.version});
                synthesized(property::PACKAGE, value)
            });
            let api = |kind: &GroupVersionKind| {
                let (group, version, kind) = (&kind.group, &kind.version, &kind.kind);
                let value = json!({"group": group, "version": version, "kind": kind});
                synthesized(property::GVK, value)
            };
            let mut properties = self.properties.clone();
            properties.extend(package);
            properties.extend(self.apis.iter().map(api));
            Facts::new(&properties)
        })
    }
}

impl ProviderOrigin {
    /// Returns the name of the object that installed the bundle.
    pub fn name(&self) -> &str {
        match self {
            Self::ClusterExtension(name) | Self::ClusterServiceVersion(name) => name,
        }
    }
}

impl fmt::Display for ProviderOrigin {
    /// Example: `ClusterExtension "blue"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::ClusterExtension(_) => "ClusterExtension",
            Self::ClusterServiceVersion(_) => "ClusterServiceVersion",
        };
        write!(f, "{kind} {}", quote(self.name()))
    }
}
