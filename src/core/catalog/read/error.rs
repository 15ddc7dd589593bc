//! Why a catalog cannot be read, in texts that hold nothing of it beyond names.

use super::super::canonical;
use super::super::ignore::IGNORE_FILE;
use super::size::PackageTooLarge;
use super::{MAX_BLOB_BYTES, MAX_FILE_BYTES};
use crate::error::quote;

/// Longest text taken from a catalog into a message, in characters (catalogs.md 8.2).
const MAX_QUOTED_CHARS: usize = 256;

/// A catalog that cannot be read, and where.
///
/// Holds no content of the catalog beyond names, so that it can be shown to all users.
#[derive(Debug, thiserror::Error)]
#[error("error reading {path}{position}", path = quote(&clip(path)))]
pub struct ReadError {
    /// Path of the file within the catalog.
    pub path: String,
    /// Where in the file.
    pub position: Position,
    /// What is wrong there.
    #[source]
    pub reason: Reason,
}

/// Place of a document in its file; both numbers begin at 1, and 0 means that it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Number of the document.
    pub document: usize,
    /// Line of the fault, or of the beginning of the document when the fault's is not known.
    pub line: usize,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, ", document {}, line {}", self.document, self.line)?;
        }
        Ok(())
    }
}

/// What is wrong with a catalog.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The file cannot be read where it is kept.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A file is larger than [`MAX_FILE_BYTES`].
    #[error("file is larger than {MAX_FILE_BYTES} bytes")]
    FileTooLarge,
    /// A blob is larger than [`MAX_BLOB_BYTES`].
    #[error("blob is larger than {MAX_BLOB_BYTES} bytes")]
    BlobTooLarge,
    /// A text is too large to be parsed; holds the limit.
    #[error("text of the document is larger than {0} bytes")]
    TextTooLarge(usize),
    /// A document is nested too deeply.
    #[error("document is nested more than {depth} levels deep", depth = canonical::MAX_DEPTH)]
    TooDeep,
    /// With this document its package is too large.
    #[error(transparent)]
    PackageTooLarge(#[from] PackageTooLarge),
    /// All ignore files together are too large; holds the limit.
    #[error(
        "the {IGNORE_FILE} files have more than {0} bytes together: a catalog with so many paths may have no more"
    )]
    IgnoreFiles(usize),
    /// A line begins with `---` and goes on with something else than a comment.
    #[error("invalid Yaml document separator")]
    Separator,
    /// The text is not JSON; holds the parser's message, without the text itself.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// The text is not YAML; holds the parser's message.
    #[error("invalid YAML: {0}")]
    Yaml(String),
    /// A document is a list or a scalar.
    #[error("document is not an object")]
    NotAnObject,
    /// Two top-level keys differ only in case.
    /// `key` is in lower case, `first` and `second` are as written.
    #[error("duplicate keys for key {key}: [{first} {second}]",
        key = quote(&clip(key)), first = clip(first), second = clip(second))]
    DuplicateKeys { key: String, first: String, second: String },
    /// `schema`, `package` or `name` is present but not a string.
    /// `scalar`: it is a number or a boolean, which quotes would make a string.
    #[error("expected value for key {} to be a string", quote(.field))]
    NotAString { field: &'static str, scalar: bool },
}

impl Reason {
    /// Says whether what follows in the same file can be read all the same.
    pub(super) fn is_of_one_document(&self) -> bool {
        match self {
            Self::BlobTooLarge
            | Self::TooDeep
            | Self::PackageTooLarge(_)
            | Self::Yaml(_)
            | Self::NotAnObject
            | Self::DuplicateKeys { .. }
            | Self::NotAString { .. } => true,
            Self::Io(_)
            | Self::FileTooLarge
            | Self::TextTooLarge(_)
            | Self::IgnoreFiles(_)
            | Self::Separator
            | Self::Json(_) => false,
        }
    }
}

/// Makes text from a catalog fit for a message: cuts it and replaces control characters.
pub(super) fn clip(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .take(MAX_QUOTED_CHARS)
        .collect()
}
