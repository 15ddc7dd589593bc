//! Why a signature does not count, and what to do about it.

use std::borrow::Cow;

/// Remedies.
const SIGN: &str = "sign it again with cosign";
const LOG: &str =
    "sign it again with an upload to the log, or correct the Rekor keys of policy.json";
const SIGNER: &str =
    "have it signed by a signer that policy.json names, or add its signer to the rule";

/// Why a signature does not satisfy a requirement of `policy.json`.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SignatureError {
    text: Cow<'static, str>,
    pub(crate) remedy: &'static str,
}

impl SignatureError {
    /// A part of it is missing or cannot be read, or it is for another image.
    pub(super) fn form(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), remedy: SIGN }
    }

    pub(super) fn entry(text: &'static str) -> Self {
        Self { text: text.into(), remedy: LOG }
    }

    pub(super) fn signer(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), remedy: SIGNER }
    }

    /// Another key made it, or what it signs was changed afterwards.
    pub(super) fn key() -> Self {
        let text = "cryptographic signature verification failed: invalid signature: it was made with \
                    another key than policy.json names, or was changed afterwards";
        Self::signer(text)
    }

    /// The certificate of the signer was not valid when the log took the signature in, or is not now.
    pub(super) fn expired() -> Self {
        let text = "its certificate was not valid at the time of the signature".into();
        Self { text, remedy: "sign it again with a valid certificate" }
    }

    pub(super) fn name(text: String) -> Self {
        let remedy = "name the image as it was signed, or set signedIdentity (cosign signs for a name \
                      without a tag: matchRepository)";
        Self { text: text.into(), remedy }
    }
}
