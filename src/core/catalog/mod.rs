//! File-based catalogs: model, reading, package index, deprecations.

mod canonical;
pub mod ignore;
pub mod read;
