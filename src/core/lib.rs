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
#[cfg(test)]
mod fixture;
pub mod gate;
pub mod go_json;
pub mod guard;
pub mod helm;
pub mod lint;
pub mod manager;
pub mod object;
pub mod operator_condition;
pub mod plan;
pub mod rbac;
pub mod removed_apis;
pub mod render;
pub mod resolve;
pub mod revision;
pub mod rights;
pub mod selector;
pub mod settings;
pub mod similar;
pub mod status;
pub mod strict_json;
pub mod uninstall;
pub mod version;
pub mod x509;
pub mod yaml;
