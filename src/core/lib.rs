//! All decisions, as pure functions over plain values: no I/O, no clock.

pub mod about;
pub mod annotations;
pub mod bundle;
pub mod catalog;
pub mod classic;
pub mod config;
pub mod crd_safety;
pub mod error;
pub mod explain;
pub mod extension;
pub mod gate;
pub mod go_json;
pub mod guard;
pub mod helm;
pub mod object;
pub mod preflight;
pub mod rbac;
pub mod render;
pub mod resolve;
pub mod revision;
pub mod rights;
pub mod settings;
pub mod status;
pub mod uninstall;
pub mod version;
pub mod yaml;
