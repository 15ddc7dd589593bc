//! Errors of ClusterCatalogs, and how they are handled.

use olm_api::conditions::Reason;
use olm_api::keys;
use olm_core::annotations::PolicyError;
use olm_core::catalog::template::TemplateError;
use olm_core::error::{Classify, Disposition, quote};
use olm_image::{PullError, ReferenceError};

use super::store::StoreError;
use crate::cluster::RequestError;
use crate::credentials::PullSecretError;

/// Why a ClusterCatalog is not as its spec wants it. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The source names no image, which the schema prevents.
    #[error("error parsing ClusterCatalog {}, image source is nil", quote(.0))]
    NoImage(String),
    #[error("source catalog content")]
    Reference(#[source] ReferenceError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(
        "annotation {} gives no image, correct or remove it",
        keys::annotation::CATALOG_IMAGE_TEMPLATE
    )]
    Filled(#[source] ReferenceError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("source catalog content")]
    Pull(#[source] Box<PullError>),
    /// It is being pulled for the first time.
    #[error("source catalog content: still pulling image {}", quote(.0))]
    Pulling(String),
    /// The served content is missing in the store and in the registry, and newer content is held.
    /// Holds the digest of the newer content, and the action that serves it.
    #[error("the served content is missing, and newer content {0} is held: to serve it, {1}")]
    Lost(String, String, #[source] Box<PullError>),
    /// The served content is missing in the store, and the content of the new repository is held. Holds
    /// the reference that is wanted, quoted, and the action that serves its content.
    #[error(
        "the served content is missing and was of another repository than {0}, whose content is held: \
         to serve it, {1}"
    )]
    Elsewhere(String, String),
    /// Content that newer content is to be compared with was removed by somebody else.
    #[error("the served content was removed while newer content was compared with it")]
    Removed,
    /// The object was changed or deleted meanwhile.
    #[error("the ClusterCatalog has changed while its image was pulled")]
    Changed,
    /// The Secret with the credentials for it may not be used.
    #[error("source catalog content")]
    PullSecret(#[source] PullSecretError),
    #[error("error copying from another replica")]
    Replica(#[source] anyhow::Error),
    #[error("error storing fbc")]
    Store(#[source] StoreError),
    /// The content of a catalog that is switched off cannot be removed.
    #[error("error deleting catalog content")]
    Remove(#[source] StoreError),
    /// The content of a catalog that is being deleted cannot be removed.
    #[error("finalizer {} failed", quote(keys::finalizer::DELETE_SERVER_CACHE))]
    Finalizer(#[source] StoreError),
    /// The process stops; nothing is reported, the next one begins anew.
    #[error("the controller is stopping")]
    Stopping,
    /// Work on a thread of its own was cut short, as happens when the process stops.
    #[error("catalog work was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl CatalogError {
    /// Returns whether other credentials or files may help.
    pub(super) fn is_of_pull(&self) -> bool {
        matches!(self, Self::Pull(_) | Self::PullSecret(_) | Self::Lost(..))
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
            Self::Pull(error) => {
                error.retry_after().map_or(Disposition::Retry, Disposition::RetryAfter)
            }
            Self::PullSecret(error) => error.disposition(),
            Self::Request(error) => error.disposition(),
            Self::Pulling(_)
            | Self::Replica(_)
            | Self::Lost(..)
            | Self::Elsewhere(..)
            | Self::Removed
            | Self::Changed
            | Self::Store(_)
            | Self::Remove(_)
            | Self::Finalizer(_)
            | Self::Stopping
            | Self::Interrupted(_) => Disposition::Retry,
        }
    }

    fn awaits_person(&self) -> bool {
        matches!(self, Self::PullSecret(PullSecretError::NotOffered(_)))
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Request(error) => error.is_conflict(),
            _ => false,
        }
    }
}
