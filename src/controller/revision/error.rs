//! Why a revision cannot be written.

use olm_core::error::{Classify, Disposition};
use olm_core::revision::RevisionError;

use crate::cluster::RequestError;

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
