//! The controller: everything that acts on a cluster, a disk or a socket.

pub mod backoff;
pub mod catalog;
pub mod telemetry;
