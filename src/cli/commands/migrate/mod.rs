//! Moving what OLM Classic runs to extensions while it runs, and giving it back.
//!
//! `olm_core::classic::takeover` decides; here the cluster is read and written.
//!
//! Source: plugin.md 3.

mod backup;
mod candidate;
mod moving;
mod objects;
mod rollback;

pub(crate) use rollback::{RollbackArgs, run as rollback};
