//! Tables of other projects: each row is answered as its source answers it, or named here with the
//! reason.
//!
//! One module a table of `vectors/foreign`; [`table`] reads and judges them.

mod admission;
mod bundles;
mod configuration;
mod crd_pairs;
mod gate;
mod phases;
mod probes;
mod serving;
mod table;
