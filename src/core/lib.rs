//! Everything that decides: pure functions over plain values, no I/O, no clock.

pub mod version;
pub mod catalog;
pub mod resolve;
pub mod bundle;
pub mod config;
pub mod render;
pub mod preflight;
pub mod revision;
pub mod status;
pub mod gate;
pub mod object;
pub mod yaml;
pub mod error;
