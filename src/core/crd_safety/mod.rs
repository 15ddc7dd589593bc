//! Whether a new version of a custom resource definition keeps the objects that are stored.
//!
//! Data flow: [`Definition`] reads a CRD, `schema` normalises the schema of each version, `check`
//! compares two schemas of one path keyword by keyword, `compare` runs that over versions and served
//! pairs, `loosening` leaves out what keeps every stored object valid, readable and writable, `access`
//! adds what takes objects from those who use them, [`Finding`] is a line of the verdict, [`Waivers`]
//! are what an administrator accepts, and [`evidence()`] says what the objects that exist tell of it.
//!
//! Texts are those of upstream's crdify. Source: applying.md 6.

mod access;
mod check;
mod compare;
mod definition;
mod evidence;
mod finding;
mod go_text;
mod loosening;
mod schema;
mod waiver;

#[cfg(test)]
mod tests;

pub use check::Check;
pub use compare::{Rules, compare};
pub use definition::Definition;
pub use evidence::{Evidence, Resource, evidence, evidence_text};
pub use finding::{Finding, MAX_LINES, SchemaPlace, error_text, first, list};
pub use waiver::{Waiver, Waivers};
