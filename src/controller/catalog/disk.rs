//! The files of a catalog's content, and what can fail with them.

use std::io;

use olm_core::catalog::read::{Meta, ReadError, Reason};
use olm_core::error::without_path;

use super::index::IndexError;

/// Name of the file of JSON lines.
pub(super) const LINES: &str = "catalog.jsonl";

/// Name of the index, which is written last and vouches for the rest.
pub(super) const INDEX: &str = "index.json";

/// The prefix of errors of writing new content.
pub(super) const WRITING: &str = "error writing catalog content";

/// Why content could not be stored, restored or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The content itself cannot be read.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// This line of a download, counted from 1, is not a blob.
    #[error("line {0} is not a catalog blob")]
    Line(usize, #[source] Reason),
    /// The index of the content, or a package of it, would take too much memory; holds file and line of
    /// the blob that is too much, or its number where there are no files.
    #[error("error reading {0}")]
    Index(String, #[source] IndexError),
    #[error("{0}")]
    Disk(&'static str, #[source] io::Error),
}

impl StoreError {
    pub fn disk(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk(action, without_path(source))
    }
}

/// A blob, and where its document begins.
#[derive(Debug)]
pub struct Blob<'a> {
    /// Path of its file, or what stands for it in findings.
    pub file: &'a str,
    /// Line, from 1.
    pub line: usize,
    pub meta: Meta,
}
