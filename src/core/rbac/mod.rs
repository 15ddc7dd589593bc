//! What a service account must be allowed to do to install, keep, upgrade among and remove bundles.
//!
//! In: the rendered objects of one or several bundles, the install namespace and the service
//! account. Out: the exact rights ([`required`]), the manifests that grant them ([`manifests`]),
//! the rights that an account lacks ([`missing`](missing())) and their report ([`report`]). Nothing
//! here asks a cluster: the caller finds out which rules a service account has ([`RbacObjects`]
//! evaluates roles and bindings), and whether another authorizer would allow what RBAC does not.
//!
//! Source: applying.md 5.

mod manifest;
mod missing;
mod objects;
mod permission;
mod powers;
mod report;
mod required;
mod resource;
mod rule;

#[cfg(test)]
mod fixture;

pub use crate::revision::Account;
pub use manifest::{
    MANAGED_BY, Subject, gives_stable_rights, impersonate_manifests, manifests, missing_manifests,
    rbac_name, rbac_prefix, use_manifests,
};
pub use missing::{Held, Missing, RoleKey, has_wildcard_name};
pub use objects::{Grant, RbacObjects, concerns};
pub use permission::{IMPERSONATE, Permission, Permissions};
pub use powers::Powers;
pub use report::{REPORT_HEAD, lines, readable, report};
pub use required::{
    BundleObjects, Options, PermissionError, Required, Warning, missing, outline, required,
    trimming,
};
pub use resource::{Resource, Resources, Scope, known_resources};
pub use rule::PolicyRule;
pub(crate) use rule::role_kind;
