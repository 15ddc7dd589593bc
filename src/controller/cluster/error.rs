//! Failed requests, and how they read in a condition.

use std::borrow::Cow;
use std::fmt;
use std::iter;
use std::time::Duration;

use kube::core::response::StatusCause;
use kube::runtime::watcher;
use olm_cluster::{ApiError, message};
use olm_core::error::{Classify, Disposition, MAX_RETRY_AFTER, joined, plain};

/// Longest delay after a refusal for lack of rights, which may be granted at any time (decision 7).
pub const MAX_RIGHTS_DELAY: Duration = Duration::from_mins(2);

/// A failed request of the controller itself, with what it was for.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct RequestError {
    /// What was being done, for example `listing revisions`.
    doing: Cow<'static, str>,
    #[source]
    source: ApiError,
}

impl RequestError {
    /// Returns what makes the error of a request out of its failure.
    pub fn doing(doing: impl Into<Cow<'static, str>>) -> impl Fn(kube::Error) -> Self {
        let doing = doing.into();
        move |error| Self { doing: doing.clone(), source: ApiError(error) }
    }

    pub fn code(&self) -> u16 {
        self.source.code()
    }

    /// Returns whether the namespace of what was to be created is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        is_namespace_terminating(&self.source.0)
    }

    /// Returns how long the API server asks to wait, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.source.0)
    }
}

/// Returns how long the API server asks to wait before a request is sent again (decision 7); after a
/// 429 it is 1 s even if it does not say.
pub fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let waits = status.code == 429 || status.code >= 500 && asked > 0;
    // A webhook may have written it.
    waits.then(|| Duration::from_secs(asked.max(1).into()).min(MAX_RETRY_AFTER))
}

/// Why a request with a time limit of its own failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the API server does not answer")]
    Silence,
    #[error("the API server refuses")]
    Api(#[source] ApiError),
}

/// Ends a request that takes longer.
pub async fn ended_after<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| Failure::Api(error.into())),
        Err(_) => Err(Failure::Silence),
    }
}

impl Classify for RequestError {
    fn disposition(&self) -> Disposition {
        self.retry_after().map_or(Disposition::Retry, Disposition::RetryAfter)
    }

    fn is_conflict(&self) -> bool {
        self.code() == 409
    }
}

/// A failure that is logged once, however often it repeats.
#[derive(Debug, Default)]
pub struct Repeated(String);

impl Repeated {
    /// Logs a failure unless it is the same as the last one.
    pub fn log(&mut self, error: String, message: &'static str) {
        if error != self.0 {
            tracing::warn!(error, "{message}");
            self.0 = error;
        }
    }

    /// Has the next failure logged, whatever it is.
    pub fn over(&mut self) {
        self.0.clear();
    }
}

/// A failure with its causes on one line, as [`olm_core::error::Chain`] prints it, for what holds a failed request or a
/// failed watch as the client has it: what the API server said stands there once, and nothing of the
/// client's own text.
pub struct Sentence<'a>(pub &'a (dyn std::error::Error + 'static));

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut layer = Some(self.0);
        let said = iter::from_fn(|| {
            let error = layer.take()?;
            if let Some(error) = error.downcast_ref::<kube::Error>() {
                return Some(message(error));
            }
            if let Some(error) = error.downcast_ref::<watcher::Error>() {
                return Some(watch_message(error));
            }
            layer = error.source();
            Some(error.to_string())
        });
        f.write_str(&joined(said))
    }
}

/// Returns the request of a watch that failed; nothing where there was none.
pub fn request_of(error: &watcher::Error) -> Option<&kube::Error> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => Some(error),
        _ => None,
    }
}

fn watch_message(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("listing: {}", message(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            format!("watching: {}", message(error))
        }
        watcher::Error::WatchError(status) => format!("watching: {}", plain(&status.message)),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Returns whether a webhook or a policy refused a request, by the message of the API server. They
/// choose the status of a refusal, often the 403 of a missing right.
pub fn is_denied(err: &kube::Error) -> bool {
    let kube::Error::Api(status) = err else { return false };
    let text = &status.message;
    let webhook = text.starts_with("admission webhook \"");
    let refuses = text.contains("\" denied the request");
    webhook && refuses || text.contains(": ValidatingAdmissionPolicy '")
}

/// Returns whether a request was refused because its namespace is being deleted, with the 403 of a missing
/// right.
pub fn is_namespace_terminating(err: &kube::Error) -> bool {
    causes(err).iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Returns the single causes of a refusal, as far as the API server names them.
pub fn causes(err: &kube::Error) -> &[StatusCause] {
    match err {
        kube::Error::Api(status) => status.details.as_ref().map_or(&[], |it| &it.causes),
        _ => &[],
    }
}

/// A refusal, and what is expected of every error that wraps one.
#[cfg(test)]
pub(crate) mod refusal {
    use kube::core::Status;
    use olm_core::error::Chain;

    const TEXT: &str = "pods is forbidden";

    pub(crate) fn refused() -> kube::Error {
        kube::Error::Api(Status::failure(TEXT, "Forbidden").with_code(403).boxed())
    }

    /// Fails unless the error says once what the API server said, and nothing that only programmers
    /// read.
    #[track_caller]
    pub(crate) fn assert_is_said_once(error: &(dyn std::error::Error + 'static)) {
        let text = Chain(error).to_string();
        assert_eq!(text.matches(TEXT).count(), 1, "{text}");
        for pattern in ["Status {", "ApiError", "Some(", "ServiceError"] {
            assert!(!text.contains(pattern), "{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use olm_core::error::Chain;
    use rstest::rstest;

    use super::refusal::{assert_is_said_once, refused};
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("looking")]
    struct Looking(#[source] kube::Error);

    // decision 7
    #[rstest]
    #[case::busy(429, None, Disposition::RetryAfter(Duration::from_secs(1)))]
    #[case::busy_for_no_time(429, Some(0), Disposition::RetryAfter(Duration::from_secs(1)))]
    #[case::busy_for_a_while(429, Some(7), Disposition::RetryAfter(Duration::from_secs(7)))]
    #[case::busy_for_a_year(429, Some(31_536_000), Disposition::RetryAfter(MAX_RETRY_AFTER))]
    #[case::stopping(503, Some(7), Disposition::RetryAfter(Duration::from_secs(7)))]
    #[case::broken(503, Some(0), Disposition::Retry)]
    #[case::refused(403, Some(7), Disposition::Retry)]
    fn retry_after_is_obeyed_within_limits(
        #[case] code: u16,
        #[case] seconds: Option<u32>,
        #[case] want: Disposition,
    ) {
        let details = seconds.map(|seconds| serde_json::json!({"retryAfterSeconds": seconds}));
        let status = Status::failure("later", "").with_code(code);
        let status = Status { details: serde_json::from_value(details.into()).unwrap(), ..status };
        let error = RequestError::doing("listing pods")(kube::Error::Api(status.boxed()));
        assert_eq!(error.disposition(), want);
    }

    // plugin.md 1.3: what the API server said, once
    #[rstest]
    #[case::request(Box::new(refused()), "pods is forbidden")]
    #[case::wrapped(Box::new(Looking(refused())), "looking: pods is forbidden")]
    #[case::ours(Box::new(ApiError(refused())), "pods is forbidden")]
    #[case::list(
        Box::new(watcher::Error::InitialListFailed(refused())),
        "listing: pods is forbidden"
    )]
    #[case::watch(Box::new(watcher::Error::WatchFailed(refused())), "watching: pods is forbidden")]
    #[case::silence(
        Box::new(Looking(kube::Error::Service("no answer".into()))), "looking: no answer"
    )]
    #[case::empty(
        Box::new(kube::Error::Api(Status::failure("", "").with_code(500).boxed())),
        "the API server answered with status code 500"
    )]
    fn a_failure_is_a_sentence(
        #[case] error: Box<dyn std::error::Error + 'static>,
        #[case] want: &str,
    ) {
        assert_eq!(Sentence(&*error).to_string(), want);
    }

    #[test]
    fn a_failed_request_is_a_sentence_in_a_chain() {
        assert_is_said_once(&Failure::Api(refused().into()));
        let silent = ApiError(kube::Error::Service("no answer".into()));
        assert_eq!(Chain(&silent).to_string(), "no answer");
        let failed = RequestError::doing("listing pods")(refused());
        assert_eq!(Chain(&failed).to_string(), "listing pods: pods is forbidden");
    }
}
