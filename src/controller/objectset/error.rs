//! Why a reconcile of a ClusterObjectSet ended early.

use olm_api::conditions::Reason;
use olm_cluster::{RefCause, RefError};
use olm_core::error::{Classify, Disposition};
use olm_core::revision::{IdentityError, RevisionError};

use crate::account::{AccountError, GuardError};
use crate::apply::ApplyError;
use crate::cluster::RequestError;
use crate::reconcile::TooLong;

/// Why a reconcile of a ClusterObjectSet ended early.
#[derive(Debug, thiserror::Error)]
pub enum ObjectSetError {
    /// It does not say as whom it is applied.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Its probes cannot be evaluated.
    #[error(transparent)]
    Probe(RevisionError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Content in a referenced Secret cannot be had.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// It is archived, and what it installed is not known: its content is gone, and its account may
    /// not list these kinds.
    #[error(
        "objects of this revision cannot be removed: its content is lost and its account may not list \
         {}; restore the content or grant list",
        .0.join(", ")
    )]
    Unlisted(Vec<&'static str>),
    /// Referenced Secrets can be changed, or were.
    #[error("{0}")]
    Blocked(String),
    /// OLM's own objects cannot be read or written.
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl ObjectSetError {
    /// Returns whether objects of others are in the way.
    pub(super) fn is_of_collisions(&self) -> bool {
        matches!(self, Self::Apply(ApplyError::Collisions { .. }))
    }

    /// Returns whether a change of rights may help.
    pub(super) fn is_of_rights(&self) -> bool {
        match self {
            Self::Apply(error) => error.is_forbidden(),
            Self::Account(_) | Self::Unlisted(_) => true,
            Self::Request(error) => error.code() == 403,
            Self::Ref(error) => matches!(error.cause, RefCause::Unread(_)),
            Self::Identity(_)
            | Self::Guard(_)
            | Self::Probe(_)
            | Self::Blocked(_)
            | Self::TooLong(_) => false,
        }
    }
}

impl Classify for ObjectSetError {
    fn disposition(&self) -> Disposition {
        match self {
            // An account appears only with a change of the revision, its extension or a flag.
            Self::Identity(_) => Disposition::Terminal(Reason::Retrying),
            Self::Guard(err) => err.disposition(),
            Self::Account(err) => err.disposition(),
            Self::Probe(err) => err.disposition(),
            Self::Apply(err) => err.disposition(),
            Self::Request(err) => err.disposition(),
            Self::Ref(_) | Self::Unlisted(_) | Self::TooLong(_) => Disposition::Retry,
            Self::Blocked(_) => Disposition::Terminal(Reason::Blocked),
        }
    }

    fn is_conflict(&self) -> bool {
        matches!(self, Self::Request(err) if err.is_conflict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::refusal::{assert_is_said_once, refused};

    #[test]
    fn a_refusal_is_said_once() {
        let errors: [ObjectSetError; 4] = [
            GuardError::Own(refused().into()).into(),
            AccountError::Lookup(refused().into()).into(),
            ApplyError::from(refused()).into(),
            RequestError::doing("updating finalizers")(refused()).into(),
        ];
        for error in &errors {
            assert_is_said_once(error);
        }
    }
}
