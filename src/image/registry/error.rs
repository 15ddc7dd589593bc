//! Why a request to a registry fails.

use std::fmt::Display;
use std::time::Duration;

use olm_core::error::{Chain, quote};
use reqwest::Url;

use crate::digest::Digest;
use crate::shown::said;

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No response: no connection, no valid certificate, or a connection that broke.
    #[error("{method} {}: {text}", quote(url))]
    Transport {
        /// The HTTP method, for example `Get`.
        method: &'static str,
        /// The requested URL, without query.
        url: String,
        /// Text of the innermost cause.
        text: String,
        timed_out: bool,
    },
    #[error("{}", answered(*status, from, text))]
    Answer {
        status: u16,
        /// Host and port of who responded.
        from: String,
        /// The registry's code and message, or the status.
        text: String,
        /// Delay that the registry asks for before a retry.
        retry_after: Option<Duration>,
    },
    #[error("unable to retrieve auth token")]
    Token(#[source] Box<Self>),
    #[error("the token service's answer holds no token")]
    NoToken,
    /// A token service, a redirect or an answer is not one that is accepted.
    #[error("{0}")]
    Refused(String),
    #[error("content has {0}")]
    Content(String),
    /// The receiver of a download is gone; its own error says why.
    #[error("download was stopped")]
    Stopped,
    /// An error, and what a person needs to do something about it.
    #[error("{} ({note})", Chain(cause.as_ref()))]
    Explained { cause: Box<Self>, note: String },
}

impl RequestError {
    pub(super) fn redirect(from: &Url, to: &Url, why: &'static str) -> Self {
        let host = |url: &Url| {
            let mut url = url.clone();
            url.set_path("");
            url.set_query(None);
            url.set_fragment(None);
            said(url.as_str().trim_end_matches('/'))
        };
        let (from, to) = (quote(&host(from)), quote(&host(to)));
        Self::Refused(format!("redirect from {from} to {to} refused: {why}"))
    }

    pub(super) fn too_large(limit: u64) -> Self {
        Self::Refused(format!("answer is larger than {limit} bytes"))
    }

    /// A blob has another size than the manifest says: so many bytes, at least.
    pub(super) fn size(got: u64, want: u64) -> Self {
        Self::Content(format!("{got} bytes, expected {want}"))
    }

    pub(super) fn digest(got: &Digest, want: &dyn Display) -> Self {
        Self::Content(format!("digest {got}, expected {want}"))
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Answer { status, .. } => Some(*status),
            Self::Explained { cause, .. } => cause.status(),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            Self::Token(cause) | Self::Explained { cause, .. } => cause.retry_after(),
            _ => None,
        }
    }
}

/// Returns the refusing server and the status before the message of a refusal, because solutions
/// differ.
fn answered(status: u16, from: &str, text: &str) -> String {
    match status {
        401 | 403 | 429 => format!("{status} from {from}: {text}"),
        _ => text.to_owned(),
    }
}
