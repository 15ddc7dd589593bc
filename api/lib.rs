//! The wire contract of `olm.operatorframework.io/v1`: kinds, conditions and keys, nothing else.
//!
//! Types serialise as the Go types of upstream v1.11 do: what is empty or zero there is left out
//! here, and an object survives a round trip unchanged. Manifests inside a [`ClusterObjectSet`]
//! stay JSON values, so that no field newer than our structs is lost.

#![expect(
    clippy::doc_markdown,
    reason = "comments become descriptions in the CRDs, where backticks are noise"
)]
#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns of equal types look like one attribute given twice"
)]
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats each struct, `pub` included, inside a function"
)]

mod clustercatalog;
mod clusterextension;
mod clusterobjectset;
pub mod conditions;
pub mod keys;
mod schema;

pub use clustercatalog::*;
pub use clusterextension::*;
pub use clusterobjectset::*;

/// API group of all three kinds.
pub const GROUP: &str = "olm.operatorframework.io";

/// Version of all three kinds, served and stored.
pub const VERSION: &str = "v1";

/// `apiVersion` of all three kinds.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";

#[cfg(test)]
mod tests;
