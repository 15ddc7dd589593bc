//! Failed requests, and how they read in a condition.

use std::fmt;
use std::time::Duration;

use olm_core::error::{Classify, Disposition};

/// Longest delay after a refusal for lack of rights, which may be granted at any time (decision 7).
pub const MAX_RIGHTS_DELAY: Duration = Duration::from_mins(2);

/// A failed request that prints what the API server said and nothing else: the client's own text
/// repeats it several times.
#[derive(Debug)]
pub struct ApiError(pub kube::Error);

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&message(&self.0))
    }
}

impl std::error::Error for ApiError {
    /// Returns what kept a request from being answered; an answer of the API server says it all.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            kube::Error::Api(_) => None,
            other => other.source(),
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        Self(error)
    }
}

impl ApiError {
    /// Returns the HTTP status, 0 when there was no answer.
    pub fn code(&self) -> u16 {
        code(&self.0)
    }
}

/// A failed request of the controller itself, with what it was for.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct RequestError {
    /// What was being done, for example `listing revisions`.
    doing: &'static str,
    #[source]
    source: ApiError,
}

impl RequestError {
    /// Returns what makes the error of a request out of its failure.
    pub fn doing(doing: &'static str) -> impl Fn(kube::Error) -> Self {
        move |error| Self { doing, source: ApiError(error) }
    }

    /// Returns the HTTP status, 0 when there was no answer.
    pub fn code(&self) -> u16 {
        self.source.code()
    }
}

impl Classify for RequestError {
    fn disposition(&self) -> Disposition {
        Disposition::Retry
    }

    fn is_conflict(&self) -> bool {
        self.code() == 409
    }
}

/// Returns what the API server said, or the client's own words when it said nothing.
pub fn message(err: &kube::Error) -> String {
    match err {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Says whether admission refused a request: a webhook or a policy, in the words of the API server.
/// Their refusals have the status that they choose, often the 403 of a missing right.
pub fn is_denied(err: &kube::Error) -> bool {
    let kube::Error::Api(status) = err else {
        return false;
    };
    let text = &status.message;
    let webhook = text.starts_with("admission webhook \"");
    let refuses = text.contains("\" denied the request");
    webhook && refuses || text.contains(": ValidatingAdmissionPolicy '")
}

/// Returns the HTTP status of an answer, 0 when there was none.
pub fn code(err: &kube::Error) -> u16 {
    match err {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}
