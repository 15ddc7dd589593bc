//! The only place that writes objects of a bundle, always with a client of an account.
//!
//! In goes one phase of a revision, out comes whether all of it is applied and ready. Which object
//! may be touched is decided by `olm_core::revision`; this module reads, asks, and writes.

mod applied_cache;
mod endpoint;
mod error;
mod existence;
mod object;
mod phase;
mod remove;

pub use applied_cache::{AppliedCache, Record, Unready};
pub use error::ApplyError;
pub use existence::Existence;
pub(crate) use phase::check_content;
pub use phase::{Applier, PhaseReport};
pub use remove::{Crds, Kept, Removed, Remover, finalizers};
