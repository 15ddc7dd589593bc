//! The controller: everything that acts on a cluster, a disk or a socket.

pub mod account;
pub mod apply;
pub mod backoff;
pub mod catalog;
pub mod objectset;
pub mod telemetry;
