//! Results of requests for images, as a few labels for graphs.

use olm_image::PullError;
use olm_image::pull::{CopyError, EndpointError};
use olm_image::registry::RequestError;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::registered::{Registered, metrics};
use super::{Label, Metrics};

/// All label values.
const RESULTS: [&str; 9] = [
    "ok",
    "unauthorized",
    "not_found",
    "rate_limited",
    "timeout",
    "tls",
    "digest",
    "policy",
    "other",
];

metrics! {
    Pulls {
        results: Family<Label, Counter> = "olm_pull",
            "Requests to registries, for the digest of a tag or for an image, per result",
            begun();
    }
}

/// Begins every series at nothing: a rise from nothing is seen, the first value of a series is not.
fn begun() -> Family<Label, Counter> {
    let pulls = Family::<Label, Counter>::default();
    for result in RESULTS {
        drop(pulls.get_or_create(&[("result", result)]));
    }
    pulls
}

impl Metrics {
    /// Counts how a registry answered that was asked for an image, or for the digest of a tag.
    pub fn pulled<T>(&self, answer: &Result<T, PullError>) {
        let result = answer.as_ref().err().map_or("ok", word);
        self.pulls.results.get_or_create(&[("result", result)]).inc();
    }
}

/// Sums up why a pull failed.
fn word(error: &PullError) -> &'static str {
    if let Some(request) = error.request() {
        return of_request(request);
    }
    match (error.endpoint(), error) {
        (Some(EndpointError::Trust(_)), _) => "tls",
        (Some(EndpointError::Blocked(_)), _) | (_, PullError::Copy(CopyError::Policy(_))) => {
            "policy"
        }
        (_, PullError::Timeout(_)) => "timeout",
        _ => "other",
    }
}

fn of_request(error: &RequestError) -> &'static str {
    match error {
        RequestError::Answer { status, .. } => match status {
            401 | 403 => "unauthorized",
            404 => "not_found",
            429 => "rate_limited",
            408 | 504 => "timeout",
            _ => "other",
        },
        RequestError::Token(cause) | RequestError::Explained { cause, .. } => of_request(cause),
        RequestError::NoToken => "unauthorized",
        RequestError::Content(_) => "digest",
        RequestError::Transport { timed_out: true, .. } => "timeout",
        RequestError::Transport { text, .. } => of_transport(text),
        _ => "other",
    }
}

/// The innermost cause is all that is left of a request without a response.
fn of_transport(text: &str) -> &'static str {
    let text = text.to_lowercase();
    let words = ["certificate", "https client", "handshake", "tls", "alert"];
    if words.iter().any(|word| text.contains(word)) { "tls" } else { "other" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use olm_image::pull::SourceError;
    use rstest::rstest;

    use super::*;

    fn answer(status: u16) -> RequestError {
        RequestError::Answer {
            status,
            from: "r.test".to_owned(),
            text: "no".to_owned(),
            retry_after: None,
        }
    }

    fn transport(text: &str, timed_out: bool) -> RequestError {
        RequestError::Transport {
            method: "Get",
            url: "https://r.test/v2/".to_owned(),
            text: text.to_owned(),
            timed_out,
        }
    }

    // deploying.md 9.1
    #[rstest]
    #[case::no_right(answer(403), "unauthorized")]
    #[case::no_token(RequestError::Token(Box::new(answer(401))), "unauthorized")]
    #[case::absent(answer(404), "not_found")]
    #[case::busy(answer(429), "rate_limited")]
    #[case::broken(answer(500), "other")]
    #[case::issuer(transport("invalid peer certificate: UnknownIssuer", false), "tls")]
    #[case::silent(transport("nothing was received for 60 s", true), "timeout")]
    #[case::refused(transport("Connection refused", false), "other")]
    #[case::content(RequestError::Content("30 bytes".to_owned()), "digest")]
    fn a_failed_pull_is_counted_by_why(#[case] source: RequestError, #[case] result: &str) {
        let metrics = Metrics::default();
        let origin = EndpointError::Ping("r.test".to_owned(), source);
        let source = SourceError { mirrors: Vec::new(), at: String::new(), origin };
        let error = PullError::Resolve(source);
        metrics.pulled::<()>(&Err(error));
        assert!(RESULTS.contains(&result));
        metrics.assert_shows(&[&format!("olm_pull_total{{result=\"{result}\"}} 1")]);
    }

    // deploying.md 9.1
    #[test]
    fn a_pull_that_succeeds_counts_too() {
        let metrics = Metrics::default();
        metrics.pulled(&Ok(()));
        let late = PullError::Timeout(Duration::from_secs(1));
        metrics.pulled::<()>(&Err(late));
        let lines = ["olm_pull_total{result=\"ok\"} 1", "olm_pull_total{result=\"timeout\"} 1"];
        metrics.assert_shows(&lines);
    }
}
