//! Why a signature does not count, and what to do about it.

use crate::digest::Digest;
use crate::shown::shown;

use super::certificate::Refusal;

/// Why a signature does not satisfy a requirement of `policy.json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It lacks an annotation that cosign writes; holds its key.
    #[error("it has no annotation {0}")]
    Missing(&'static str),
    /// A part of it cannot be read; holds which.
    #[error("{0}")]
    Form(&'static str),
    /// Another key made it, or what it signs was changed afterwards.
    #[error("it was made with another key than policy.json names, or was changed afterwards")]
    Key,
    /// It was not entered into a log, and has to be.
    #[error("it has no entry of a Rekor log, which policy.json requires")]
    NoEntry,
    /// The entry of the log does not prove it; holds why.
    #[error("{0}")]
    Entry(&'static str),
    /// The certificate of the signer was not valid when the log took the signature in, or is not now.
    #[error("its certificate was not valid at the time of the signature")]
    Expired,
    /// No CA vouches for the certificate of the signer.
    #[error("its certificate was not issued for signing by a CA that policy.json names")]
    Authority,
    /// The signer logged in elsewhere.
    #[error("its signer logged in at {}, and policy.json requires {}", .found.as_deref().map_or_else(|| "an unknown place".to_owned(), shown), shown(wanted))]
    Issuer {
        /// Identity provider in the certificate.
        found: Option<String>,
        /// Identity provider in `policy.json`.
        wanted: String,
    },
    /// Somebody else signed.
    #[error("its signer is {}, and policy.json requires {}", shown(found), shown(wanted))]
    Email {
        /// Addresses in the certificate.
        found: String,
        /// Address in `policy.json`.
        wanted: String,
    },
    /// The certificate is for another host; holds that of `policy.json`.
    #[error("its certificate is not for host {}, which policy.json requires", shown(.0))]
    Host(String),
    /// It signs another image; holds its digest.
    #[error("it is for another image, {0}")]
    Digest(Digest),
    /// It signs the image under another name.
    #[error("it is for the name {}, and policy.json requires {}", shown(found), shown(wanted))]
    Name {
        /// Name in the signature.
        found: String,
        /// Name that `policy.json` requires.
        wanted: String,
    },
}

impl SignatureError {
    /// Returns what helps.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Name { .. } => {
                "name the image as it was signed, or set signedIdentity (cosign signs for a name \
                 without a tag: matchRepository)"
            }
            Self::NoEntry | Self::Entry(_) => {
                "sign it again with an upload to the log, or correct the Rekor keys of policy.json"
            }
            Self::Expired => "sign it again with a valid certificate",
            Self::Key
            | Self::Authority
            | Self::Issuer { .. }
            | Self::Email { .. }
            | Self::Host(_) => {
                "have it signed by a signer that policy.json names, or add its signer to the rule"
            }
            Self::Missing(_) | Self::Form(_) | Self::Digest(_) => "sign it again with cosign",
        }
    }
}

impl From<Refusal> for SignatureError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Form => Self::Form("its certificate cannot be read"),
            Refusal::Expired => Self::Expired,
            Refusal::Unknown => Self::Authority,
        }
    }
}
