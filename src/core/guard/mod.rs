//! Which service accounts may be impersonated: the reserved ones that nobody may name, and the
//! admission policies that check who may name the others.
//!
//! Source: deploying.md 6.

mod policy;
mod reserved;
#[cfg(test)]
mod tests;

pub use policy::{AccountPolicy, Policy, in_force, waits};
pub use reserved::{AccountPattern, Reserved, ReservedAccount};
