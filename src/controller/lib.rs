//! The parts of the controller that act.

pub mod args;
pub mod backoff;
pub mod gate;
pub mod telemetry;
