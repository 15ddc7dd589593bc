//! The only place that writes objects of a bundle, always with a client of an account.
//!
//! In goes one phase of a revision, out comes whether all of it is applied and ready. Which object
//! may be touched is decided by `olm_core::revision`; this module reads, asks, and writes.

use futures::stream::{self, StreamExt as _};

mod endpoint;
mod error;
mod kinds;
mod memo;
mod object;
mod phase;
mod remove;
mod watch;

pub(crate) use error::code;
pub use error::{Answer, ApplyError, MAX_RIGHTS_DELAY, message};
pub use kinds::{Kind, Kinds};
pub use memo::Memo;
pub(crate) use phase::check_content;
pub use phase::{Applier, PhaseReport, ResolvedObject, ResolvedPhase, Revision};
pub use remove::{Crds, Removed, Remover};
pub use watch::{Mode, Target, Watches};

/// Objects of one phase that are read or written at the same time, so that one extension cannot
/// take all of the API server's attention.
const PARALLEL: usize = 8;

/// Runs futures a few at a time and returns their outputs in order.
///
/// They come as a list, not as an iterator: a closure that makes them would be held across the
/// await, and the compiler cannot show then that the whole may move between threads.
pub(crate) async fn at_once<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    stream::iter(futures).buffered(PARALLEL).collect().await
}
