//! What can go wrong with a ClusterCatalog, and what then.

use olm_api::conditions::Reason;
use olm_api::keys;
use olm_core::catalog::hold::CatalogPolicyError;
use olm_core::catalog::template::TemplateError;
use olm_core::error::{Classify, Disposition, quote};
use olm_image::{PullError, ReferenceError};

use super::download::FetchError;
use super::store::StoreError;
use crate::cluster::{ApiError, MAX_RIGHTS_DELAY};
use crate::credentials::PullSecretError;

/// Why a ClusterCatalog is not as its spec wants it. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The source names no image, which the schema prevents.
    #[error("error parsing ClusterCatalog {}, image source is nil", quote(.0))]
    NoImage(String),
    /// The reference is unusable.
    #[error("source catalog content")]
    Reference(#[source] ReferenceError),
    /// An annotation cannot be followed.
    #[error(transparent)]
    Policy(#[from] CatalogPolicyError),
    /// The template of the image cannot be filled in.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What the template gives is unusable.
    #[error(
        "annotation {} gives no image, correct or remove it",
        keys::annotation::CATALOG_IMAGE_TEMPLATE
    )]
    Filled(#[source] ReferenceError),
    /// The version that is filled in cannot be read.
    #[error("error reading the version of the API server")]
    Version(#[source] ApiError),
    /// The image cannot be had.
    #[error("source catalog content")]
    Pull(#[source] Box<PullError>),
    /// What is served is neither stored nor in the registry any more, and newer content is held.
    #[error("what was served is gone, and newer content {newer} is held: to take it, {way_out}")]
    Lost {
        /// Digest of the newer content.
        newer: String,
        /// What has to be done for it to be taken.
        way_out: String,
        /// Why it cannot be had.
        #[source]
        source: Box<PullError>,
    },
    /// What is served is not stored any more, and another repository is wanted, whose content is held.
    #[error(
        "what was served is gone and was of another repository than {}, whose content is held: to \
         take it, {way_out}",
        quote(wanted)
    )]
    Elsewhere {
        /// The reference that is wanted.
        wanted: String,
        /// What has to be done for its content to be taken.
        way_out: String,
    },
    /// Content that newer content is to be compared with was removed by somebody else.
    #[error("what is served was removed while newer content was compared with it")]
    Removed,
    /// The Secret with the credentials for it may not be used.
    #[error("source catalog content")]
    PullSecret(#[source] PullSecretError),
    /// No other replica has it either.
    #[error("error copying from another replica")]
    Replica(#[source] FetchError),
    /// The content cannot be read or stored.
    #[error("error storing fbc")]
    Store(#[source] StoreError),
    /// The content of a catalog that is switched off cannot be removed.
    #[error("error deleting catalog content")]
    Remove(#[source] StoreError),
    /// The content of a catalog that is being deleted cannot be removed.
    #[error("finalizer {} failed", quote(keys::finalizer::DELETE_SERVER_CACHE))]
    Finalizer(#[source] StoreError),
    /// Work on a thread of its own was cut short, as happens when the process stops.
    #[error("catalog work was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The status cannot be written.
    #[error("error updating status")]
    Status(#[source] ApiError),
    /// Label or finalizers cannot be written.
    #[error("error updating metadata")]
    Metadata(#[source] ApiError),
}

impl CatalogError {
    /// Says whether other credentials or files may help.
    pub(super) fn is_of_pull(&self) -> bool {
        matches!(self, Self::Pull(_) | Self::PullSecret(_) | Self::Lost { .. })
    }
}

impl Classify for CatalogError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::NoImage(_)
            | Self::Reference(_)
            | Self::Policy(_)
            | Self::Template(_)
            | Self::Filled(_) => Disposition::Terminal(Reason::Blocked),
            Self::Pull(error) if error.is_terminal() => Disposition::Terminal(Reason::Blocked),
            Self::Pull(error) => error.retry_after().map_or(Disposition::Retry, Disposition::Wait),
            // The Secret may be labelled at any time.
            Self::PullSecret(_) => Disposition::RetryWithin(MAX_RIGHTS_DELAY),
            Self::Replica(_)
            | Self::Lost { .. }
            | Self::Elsewhere { .. }
            | Self::Removed
            | Self::Version(_)
            | Self::Store(_)
            | Self::Remove(_)
            | Self::Finalizer(_)
            | Self::Interrupted(_)
            | Self::Status(_)
            | Self::Metadata(_) => Disposition::Retry,
        }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Status(error) | Self::Metadata(error) => error.code() == 409,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::refusal::{assert_is_said_once, refused};

    #[test]
    fn a_refusal_is_said_once() {
        let errors: [fn(ApiError) -> CatalogError; 3] =
            [CatalogError::Version, CatalogError::Status, CatalogError::Metadata];
        for error in errors {
            assert_is_said_once(&error(refused().into()));
        }
    }
}
