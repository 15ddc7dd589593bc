//! File-based catalogs: model, reading, package index, deprecations.

mod canonical;
mod changed;
mod constraint;
pub mod diff;
mod edge;
mod fields;
mod graph;
pub mod hold;
pub mod ignore;
mod index;
mod lifecycle;
pub mod lint;
mod model;
mod named;
mod of_bundle;
pub mod opm;
mod property;
pub mod read;
mod summary;
pub mod template;

#[cfg(test)]
mod tests;

pub(crate) use constraint::packages;
pub use constraint::{
    Constraint, ConstraintError, Declared, Demand, Facts, GroupVersionKind, Rule, Steps,
};
pub use edge::{Edge, EdgeKind, edges};
pub(crate) use graph::replacement_chain;
pub use index::{Content, PackageIndex, Parts};
pub use lifecycle::{Lifecycle, Phase, Platform};

pub use model::{
    Bundle, BundleVersionError, Channel, Deprecation, Deprecations, Entry, SkipRangeText, schema,
};
pub use of_bundle::{CatalogBundle, graph as graph_of_bundles};
pub use property::Property;
pub(crate) use summary::need;
pub use summary::{BundleSummary, ChannelSummary, KindSummary, Link, SUGGESTED_NAMESPACE, Summary};
