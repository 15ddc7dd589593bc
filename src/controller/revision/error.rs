//! Why a revision cannot be read or written.

use std::fmt;

use olm_core::error::{Classify, Disposition};
use olm_core::revision::RevisionError;

use crate::cluster::RequestError;

/// Content that stands in a Secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resolving ref in phase {phase:?}: {cause}")]
pub struct RefError {
    /// Name of the phase.
    pub phase: String,
    /// What is wrong.
    pub cause: RefCause,
}

/// Why content in a Secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefCause {
    /// It is not there, or is not what a revision stores: asking again changes nothing.
    Lost(String),
    /// The Secret could not be read; it may well be there.
    Unread(String),
}

impl fmt::Display for RefCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(text) | Self::Unread(text) => f.write_str(text),
        }
    }
}

/// Why a revision could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The content cannot be a revision.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The cluster refused.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Classify for WriteError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Revision(error) => error.disposition(),
            Self::Request(error) => error.disposition(),
        }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Revision(_) => false,
            Self::Request(error) => error.is_conflict(),
        }
    }
}
