//! Why a pass over a ClusterObjectSet ended early.

use olm_api::conditions::reasons;
use olm_core::error::{Classify, Disposition};
use olm_core::revision::IdentityError;

use crate::account::{AccountError, GuardError};
use crate::apply::{Answer, ApplyError};

/// Why content in a Secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    /// It is not there, or is not what a revision stores: asking again changes nothing.
    #[error("{0}")]
    Lost(String),
    /// The Secret could not be read; it may well be there.
    #[error("{0}")]
    Unread(String),
}

/// Why a pass over a ClusterObjectSet ended early.
#[derive(Debug, thiserror::Error)]
pub enum ObjectSetError {
    /// It does not say as whom it is applied.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its account is not acted as.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// Nothing can be done as its account.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Applying or removing its objects failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Content in a referenced Secret cannot be had.
    #[error("resolving ref in phase {phase:?}: {cause}")]
    Ref {
        /// Name of the phase.
        phase: String,
        /// What is wrong.
        cause: RefError,
    },
    /// It is archived, and what it installed is not known: its content is gone, and its account may
    /// not list these kinds.
    #[error(
        "what only this revision installed stays: its content is gone, and its account may not list \
         {}; it goes on when the content is back or the account may list them",
        .0.join(", ")
    )]
    Unlisted(Vec<&'static str>),
    /// Referenced Secrets can be changed, or were.
    #[error("{0}")]
    Blocked(String),
    /// OLM's own objects cannot be read or written; what was tried.
    #[error("{0}")]
    Own(&'static str, #[source] Answer),
}

impl ObjectSetError {
    /// Makes the error of a request for OLM's own objects.
    pub(super) fn own(what: &'static str, err: kube::Error) -> Self {
        Self::Own(what, Answer(err))
    }

    /// Says whether somebody else wrote first, which the next attempt sees.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Own(_, answer) if answer.code() == 409)
    }
}

impl Classify for ObjectSetError {
    fn disposition(&self) -> Disposition {
        match self {
            // An account appears only with a change of the revision, its extension or a flag.
            Self::Identity(_) => Disposition::Terminal(reasons::RETRYING),
            Self::Guard(err) => err.disposition(),
            Self::Account(err) => err.disposition(),
            Self::Apply(err) => err.disposition(),
            Self::Ref { .. } | Self::Unlisted(_) | Self::Own(..) => Disposition::Retry,
            Self::Blocked(_) => Disposition::Terminal(reasons::BLOCKED),
        }
    }
}
