//! What a service account must be allowed to do to install, keep, upgrade among and remove bundles.
//!
//! In: the rendered objects of one or several bundles, the install namespace and the service
//! account. Out: the exact rights ([`required`]), the manifests that grant them ([`manifests`]),
//! the rights that are missing ([`Permissions::missing`]) and their report ([`report`]). Nothing here
//! asks a cluster: the caller finds out which rules a service account has, and whether another
//! authorizer would allow what RBAC does not.
//!
//! Source: applying.md 5.

mod manifest;
mod permission;
mod report;
mod required;
mod resource;
mod rule;

#[cfg(test)]
mod fixture;

pub use crate::revision::Account;
pub use manifest::{Subject, impersonate_manifests, manifests, rbac_name, use_manifests};
pub use permission::{IMPERSONATE, Permission, Permissions};
pub use report::{REPORT_HEAD, lines, report};
pub use required::{
    BundleObjects, FinalizersRule, Options, PermissionError, Required, Warning, required,
};
pub use resource::{Resource, Resources, Scope, known_resources};
pub use rule::PolicyRule;
