//! The reconciler of ClusterObjectSets: observe, apply phase by phase, probe, archive, tear down;
//! and what the reconciler of ClusterExtensions needs to write a revision and to take one down.
//!
//! OLM's own kinds, their status and the content Secrets are written with the controller's client;
//! every object of a bundle is written by `apply`, as the account that the revision records.

mod content;
mod context;
mod error;
mod list;
mod missing;
mod own;
mod reconcile;
mod rights;
mod secrets;
mod teardown;
mod write;

pub use content::defined_kinds;
pub use context::{Context, ExtensionState, Settings};
pub use error::{ObjectSetError, RefError};
pub use list::list_revisions;
pub use reconcile::{error_policy, reconcile, run};
pub use secrets::{collect_orphaned_secrets, remove_orphaned_content};
pub use teardown::{Teardown, teardown_extension};
pub use write::{
    WriteError, Written, complete_content, newest, plan_revision, without_content, write_revision,
};
