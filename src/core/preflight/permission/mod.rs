//! What an account must be allowed to do to install, keep, upgrade among and remove bundles.
//!
//! In come the rendered objects of one or several bundles, the install namespace and the account;
//! out come the exact rights ([`required`]), the manifests that grant them ([`manifests`]), the
//! rights somebody lacks ([`Rights::missing`]) and their report ([`report`]). Nothing here asks a
//! cluster: which rules an account holds, and whether another authorizer would allow what RBAC does
//! not, is the caller's business.
//!
//! Source: applying.md 5.

mod manifest;
mod report;
mod required;
mod resource;
mod right;
mod rule;

#[cfg(test)]
mod fixture;

pub use manifest::{Account, Subject, manifests, rbac_name, use_manifests};
pub use report::{REPORT_HEAD, lines, report};
pub use required::{
    BundleObjects, FinalizersRule, Options, PermissionError, Required, Warning, required,
};
pub use resource::{Resource, Resources, Scope};
pub use right::{Right, Rights};
pub use rule::PolicyRule;
