//! Failed requests in the words of the API server.

use std::fmt;

use olm_core::error::Chain;

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
    /// Returns why a request got no response, if [`message`] does not contain it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            kube::Error::Api(_) | kube::Error::Service(_) | kube::Error::HyperError(_) => None,
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
    pub fn code(&self) -> u16 {
        code(&self.0)
    }
}

/// Returns the message of the API server, or why there is none.
pub fn message(err: &kube::Error) -> String {
    match err {
        kube::Error::Api(status) if status.message.is_empty() => {
            format!("the API server answered with status code {}", status.code)
        }
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(cause) => Chain(&**cause).to_string(),
        kube::Error::HyperError(cause) => Chain(cause).to_string(),
        other => other.to_string(),
    }
}

/// Returns the HTTP status of an answer, 0 when there was none.
pub fn code(err: &kube::Error) -> u16 {
    match err {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}
