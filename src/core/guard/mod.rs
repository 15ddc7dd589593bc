//! Which service accounts may be acted as: those that are never used, whoever names them, and
//! whether the policies are in force that ask the one who names another.
//!
//! Source: deploying.md 6.

mod policy;
mod reserved;
#[cfg(test)]
mod tests;

pub use policy::{AccountPolicy, Policy, in_force, waits};
pub use reserved::{AccountPattern, Reserved, ReservedAccount};
