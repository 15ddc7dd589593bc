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
    /// The extension does not ask for it any more; its name.
    #[error("ClusterExtension {0} has changed or no longer exists: no revision is made for it")]
    Changed(String),
    /// The cluster refused.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Classify for WriteError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Revision(error) => error.disposition(),
            Self::Changed(_) => Disposition::Retry,
            Self::Request(error) => error.disposition(),
        }
    }

    fn is_conflict(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_conflict())
    }
}
