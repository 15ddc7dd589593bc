//! Why a revision cannot be written.

use olm_core::error::{Classify, Disposition};
use olm_core::revision::RevisionError;

use crate::cluster::RequestError;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The content cannot be a revision.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The extension does not ask for it any more; its name.
    #[error("ClusterExtension {0} has changed or no longer exists: no revision is made for it")]
    Changed(String),
    /// A revision of the extension was made since its revisions were read; its name.
    #[error("revision {0} has been created since the revisions were read")]
    Behind(String),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Classify for WriteError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Revision(error) => error.disposition(),
            Self::Changed(_) | Self::Behind(_) => Disposition::Retry,
            Self::Request(error) => error.disposition(),
        }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Behind(_) => true,
            Self::Request(error) => error.is_conflict(),
            Self::Revision(_) | Self::Changed(_) => false,
        }
    }
}
