//! The only place that writes objects of a bundle, always with a client of an account.
//!
//! In goes one phase of a revision, out comes whether all of it is applied and ready. Which object
//! may be touched is decided by `olm_core::revision`; this module reads, asks, and writes.

mod endpoint;
mod error;
mod kinds;
mod memo;
mod object;
mod phase;
mod remove;
mod watch;

pub use error::{ApplyError, MAX_RIGHTS_DELAY, message};
pub use kinds::{Kind, Kinds};
pub use memo::Memo;
pub use phase::{Applier, PhaseReport, ResolvedObject, ResolvedPhase, Revision};
pub use remove::{Removed, Remover};
pub use watch::{Mode, Target, Watches};

/// Objects of one phase that are read or written at the same time, so that one extension cannot
/// take all of the API server's attention.
const PARALLEL: usize = 8;
