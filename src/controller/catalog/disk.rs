//! The files of a catalog's content, and what can fail with them.

use std::fs::File;
use std::io;
use std::path::Path;

use olm_core::catalog::read::{Meta, ReadError, Reason};
use olm_core::error::without_path;

use super::index::IndexError;

/// Name of the file of JSON lines.
pub(super) const LINES: &str = "catalog.jsonl";

/// Name of the index, which is written last and vouches for the rest.
pub(super) const INDEX: &str = "index.json";

/// What fails when new content cannot be written.
pub(super) const WRITING: &str = "error writing catalog content";

/// Why content could not be stored, restored or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The content itself cannot be read.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// A line of a download is not a blob.
    #[error("line {line} is not a catalog blob")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: Reason,
    },
    /// The index of the content would take too much memory.
    #[error("error reading {place}")]
    Index {
        /// File and line of the blob that is too much, or its number where there are no files.
        place: String,
        /// Which limit it passes.
        #[source]
        source: IndexError,
    },
    /// A disk operation failed.
    #[error("{action}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// Wraps what the system says about `action`.
    pub fn disk(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { action, source: without_path(source) }
    }
}

/// A blob, and where its document begins.
#[derive(Debug)]
pub struct Blob<'a> {
    /// Path of its file, or what stands for it in findings.
    pub file: &'a str,
    /// Line, from 1.
    pub line: usize,
    /// The blob.
    pub meta: Meta,
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
