//! Why a request to a registry fails.

use std::time::Duration;

use olm_core::error::{Chain, quote};
use reqwest::Url;

use crate::limits::MAX_REDIRECTS;
use crate::shown::said;

/// Why a request failed.
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
    },
    /// The registry responded with an error.
    #[error("{}", answered(*status, from, text))]
    Answer {
        /// HTTP status code.
        status: u16,
        /// Host and port of who responded.
        from: String,
        /// The registry's code and message, or the status.
        text: String,
        /// Delay that the registry asks for before a retry.
        retry_after: Option<Duration>,
    },
    /// The token service refused the request or failed.
    #[error("unable to retrieve auth token")]
    Token(#[source] Box<Self>),
    /// The response of the token service holds no token.
    #[error("the token service's answer holds no token")]
    NoToken,
    /// Credentials would be sent over plain HTTP.
    #[error("token realm {} is not https", quote(.0))]
    Realm(String),
    /// A registry elsewhere names a token service on this machine or its link.
    #[error(
        "token realm {} is on this machine or its link, and the registry is not",
        quote(.0)
    )]
    LocalRealm(String),
    /// A redirect to a target that is not allowed for this request.
    #[error("redirect from {} to {} refused: {why}", quote(from), quote(to))]
    Redirect {
        /// Scheme, host and port of the request.
        from: String,
        /// Scheme, host and port of the redirect.
        to: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// More redirects than allowed.
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    Redirects,
    /// A response larger than its limit.
    #[error("answer is larger than {0} bytes")]
    TooLarge(u64),
    /// A blob whose size differs from the one in the manifest.
    #[error("content has {got} bytes, expected {want}")]
    Size {
        /// Bytes received, at least.
        got: u64,
        /// Bytes according to the manifest.
        want: u64,
    },
    /// Content whose digest differs from the requested one.
    #[error("content has digest {got}, expected {want}")]
    Digest {
        /// Digest of the received content.
        got: String,
        /// The requested digest.
        want: String,
    },
    /// The response to a range request is not the requested range.
    #[error("registry did not continue the download where it broke")]
    Range,
    /// The response to the begin of an upload names no place for it.
    #[error("registry did not name a URL for the upload")]
    NoUpload,
    /// The receiver of a download is gone; its own error says why.
    #[error("download was stopped")]
    Stopped,
    /// An error, and what a person needs to do something about it.
    #[error("{} ({note})", Chain(cause.as_ref()))]
    Explained {
        /// The error.
        cause: Box<Self>,
        /// What is to be known besides.
        note: String,
    },
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
        Self::Redirect { from: host(from), to: host(to), why }
    }

    /// Says whether the server answered that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::Answer { status, .. } => *status == 404,
            Self::Explained { cause, .. } => cause.is_not_found(),
            _ => false,
        }
    }

    /// Returns how long the registry asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            Self::Token(cause) | Self::Explained { cause, .. } => cause.retry_after(),
            _ => None,
        }
    }
}

/// Who refuses, and how, stands before what a refusal says: the way out differs.
fn answered(status: u16, from: &str, text: &str) -> String {
    match status {
        401 | 403 | 429 => format!("{status} from {from}: {text}"),
        _ => text.to_owned(),
    }
}
