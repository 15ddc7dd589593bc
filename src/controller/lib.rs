//! The parts of the controller that act.

pub mod account;
pub mod apply;
pub mod args;
pub mod backoff;
pub mod catalog;
pub mod certificates;
pub mod cluster;
pub mod credentials;
pub mod excess;
pub mod extension;
pub mod fetch;
pub mod gate;
pub mod lease;
pub mod manager;
pub mod objectset;
pub mod parts;
pub mod reconcile;
pub mod revision;
pub mod rights;
pub mod server;
pub mod serving;
pub mod settings;
pub mod telemetry;
pub mod version;
pub mod watchdog;
pub mod written;
mod x509;
