//! What a resolution knows of the cluster besides its catalogs: the version it runs, the kinds it
//! serves, and what is installed.
//!
//! Everything may be left untold: then nothing is judged by it, and nothing is excluded for it.
//! What could not be read is another matter: a constraint that depends on it is *unknown*.
//!
//! Source: resolution.md 5.2, README decisions 8 and 9.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::catalog::Property;
use crate::error::quote;
use crate::version::Version;

/// The cluster as constraints see it. The default tells nothing.
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

/// What is known of a part of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Knowledge<T> {
    /// Nobody looked: nothing is judged by it.
    #[default]
    NotTold,
    /// It could not be read: what depends on it is unknown.
    Unreadable,
    /// This is how it is.
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

/// A kind in one version; compared exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, for example `v1`.
    pub version: String,
    /// Kind, for example `ConfigMap`.
    pub kind: String,
}

/// Something installed that may meet constraints, and has some of its own.
///
/// What it says is parsed once, when it is made: a list of providers serves many resolutions.
#[derive(Debug, Clone)]
pub struct Provider {
    /// What it is.
    pub origin: Origin,
    /// Name of its package.
    pub package: String,
    /// Its version as recorded, release as build metadata included.
    pub version: String,
    /// Its properties, without the synthesized ones.
    pub properties: Vec<Property>,
    /// The constraints recorded when it was installed.
    pub constraints: Vec<Property>,
    /// The kinds its own objects define: the served versions of its CRDs, and its API services.
    pub apis: BTreeSet<GroupVersionKind>,
}

/// What kind of thing is installed, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A ClusterExtension.
    ClusterExtension(String),
    /// A ClusterServiceVersion of OLM Classic, as `namespace/name`.
    ClusterServiceVersion(String),
}

impl<T> Knowledge<T> {
    /// Returns what is known, if it is.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::NotTold | Self::Unreadable => None,
        }
    }

    /// Says whether nobody looked.
    pub fn is_untold(&self) -> bool {
        matches!(self, Self::NotTold)
    }
}

impl Provider {
    /// Starts a provider without properties, constraints and APIs.
    pub fn new(origin: Origin, package: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            origin,
            package: package.into(),
            version: version.into(),
            properties: Vec::new(),
            constraints: Vec::new(),
            apis: BTreeSet::new(),
        }
    }

    /// Adds its properties: what the annotation `olm.properties` of its revision holds.
    #[must_use]
    pub fn with_properties(mut self, properties: Vec<Property>) -> Self {
        self.properties = properties;
        self
    }

    /// Adds the constraints recorded when it was installed; others must not break them.
    #[must_use]
    pub fn with_constraints(mut self, constraints: Vec<Property>) -> Self {
        self.constraints = constraints;
        self
    }

    /// Adds the kinds its own objects define.
    #[must_use]
    pub fn with_apis(mut self, apis: BTreeSet<GroupVersionKind>) -> Self {
        self.apis = apis;
        self
    }
}

impl Origin {
    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::ClusterExtension(name) | Self::ClusterServiceVersion(name) => name,
        }
    }
}

impl fmt::Display for Origin {
    /// Example: `ClusterExtension "blue"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::ClusterExtension(_) => "ClusterExtension",
            Self::ClusterServiceVersion(_) => "ClusterServiceVersion",
        };
        write!(f, "{kind} {}", quote(self.name()))
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
