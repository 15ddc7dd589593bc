//! Checks of rendered objects, before anything is written.

pub mod permission;
