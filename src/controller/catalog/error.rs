//! What can go wrong with a ClusterCatalog, and what then.

use olm_api::conditions::Reason;
use olm_api::keys;
use olm_core::error::{Classify, Disposition, quote};
use olm_image::{PullError, ReferenceError};

use super::store::StoreError;
use crate::cluster::code;

/// Why a ClusterCatalog is not as its spec wants it. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The source names no image, which the schema prevents.
    #[error("error parsing ClusterCatalog {}, image source is nil", quote(.0))]
    NoImage(String),
    /// The reference is unusable.
    #[error("source catalog content")]
    Reference(#[source] ReferenceError),
    /// The image cannot be had.
    #[error("source catalog content")]
    Pull(#[source] Box<PullError>),
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
    Status(#[source] kube::Error),
    /// Label or finalizers cannot be written.
    #[error("error updating metadata")]
    Metadata(#[source] kube::Error),
}

impl Classify for CatalogError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::NoImage(_) | Self::Reference(_) => Disposition::Terminal(Reason::Blocked),
            Self::Pull(error) if error.is_terminal() => Disposition::Terminal(Reason::Blocked),
            Self::Pull(error) => error
                .retry_after()
                .map_or(Disposition::Retry, Disposition::Wait),
            Self::Store(_)
            | Self::Remove(_)
            | Self::Finalizer(_)
            | Self::Interrupted(_)
            | Self::Status(_)
            | Self::Metadata(_) => Disposition::Retry,
        }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Status(error) | Self::Metadata(error) => code(error) == 409,
            _ => false,
        }
    }
}
