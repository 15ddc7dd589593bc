//! One request: retried where useful, read within a limit, with its failure as text.

use std::error::Error as _;
use std::time::Duration;

use olm_core::error::{Chain, quote};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::redirect::{self, Redirects, is_same_host};
use crate::auth::SecretString;
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT, MAX_ERROR_BODY_BYTES, MAX_REDIRECTS};
use crate::shown::said;

/// How often a request is sent while the registry answers 429.
const MAX_BUSY_TRIES: u32 = 5;
/// How often a request is sent while the registry fails or the connection breaks.
const MAX_FAILED_TRIES: u32 = 3;
/// Longest wait before a request is sent again.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No response: no connection, no valid certificate, or a connection that broke.
    #[error("{method} {}: {text}", quote(url))]
    Transport {
        /// `Get` or `Post`, the HTTP method.
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

/// Sends a GET request and follows redirects as `allowed`. Credentials are sent to the host of
/// `url` only; the URL of a response shows whether it came from another host.
pub(super) async fn send(
    http: &Client,
    url: &Url,
    headers: &[(HeaderName, String)],
    mut authorization: Option<&SecretString>,
    allowed: Redirects,
) -> Result<Response, RequestError> {
    let mut at = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = persist(http, &at, headers, authorization).await?;
        let next = redirect::target(&at, response.status(), response.headers(), allowed)?;
        let Some(next) = next else {
            return Ok(response);
        };
        if !is_same_host(url, &next) {
            // Not even if the other host redirects back.
            authorization = None;
        }
        at = next;
    }
    Err(RequestError::Redirects)
}

/// Sends a GET request, and retries it where that is useful.
async fn persist(
    http: &Client,
    url: &Url,
    headers: &[(HeaderName, String)],
    authorization: Option<&SecretString>,
) -> Result<Response, RequestError> {
    let mut tries = 0;
    loop {
        let mut request = http.request(Method::GET, url.clone());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(secret) = authorization {
            request = request.header(AUTHORIZATION, secret.expose());
        }
        let result = request.send().await;
        tries += 1;
        let Some(wait) = wait(&result, tries) else {
            return result.map_err(|err| transport("Get", url, &err));
        };
        // Without the query: where blobs are stored it may hold a signature.
        let host = host(url.as_str());
        tracing::debug!(host, tries, ?wait, "registry is busy or failing, asking again");
        tokio::time::sleep(wait).await;
    }
}

/// Returns how long to wait before a retry, `None` if there is none.
fn wait(result: &reqwest::Result<Response>, tries: u32) -> Option<Duration> {
    let (most, first) = match result {
        Ok(response) => match response.status().as_u16() {
            429 => (MAX_BUSY_TRIES, Duration::from_secs(2)),
            502..=504 => (MAX_FAILED_TRIES, Duration::from_secs(1)),
            _ => return None,
        },
        // A connection that cannot be made will not be made by an immediate retry.
        Err(err) if err.is_connect() || err.is_timeout() => return None,
        Err(_) => (MAX_FAILED_TRIES, Duration::from_secs(1)),
    };
    let asked = result.as_ref().ok().and_then(|it| retry_after(it.headers()));
    let wait = asked.unwrap_or(first * 2_u32.pow(tries - 1));
    // A longer wait is left to the caller, which gets it from the error.
    (tries < most && wait <= MAX_WAIT).then_some(wait)
}

/// Reads `Retry-After`, given in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let seconds = date.duration_since(jiff::Timestamp::now()).as_secs();
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

pub(super) async fn body(mut response: Response, limit: u64) -> Result<Vec<u8>, RequestError> {
    let url = response.url().clone();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|err| transport("Get", &url, &err))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > limit {
            return Err(RequestError::TooLarge(limit));
        }
    }
    Ok(bytes)
}

#[derive(serde::Deserialize)]
struct Errors {
    errors: Vec<ErrorEntry>,
}

#[derive(serde::Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Turns an error response into an error with the registry's message, unless that repeats one of
/// the secrets that were sent.
pub(super) async fn answer(response: Response, secrets: &[&str]) -> RequestError {
    let status = response.status();
    let from = host(response.url().as_str());
    let retry_after = retry_after(response.headers());
    let bytes = body(response, MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
    RequestError::Answer {
        status: status.as_u16(),
        from,
        text: error_text(status, &bytes, secrets),
        retry_after,
    }
}

/// Returns host and port of a URL.
pub(super) fn host(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    said(&rest[..end])
}

/// Who refuses, and how, stands before what a refusal says: the way out differs.
fn answered(status: u16, from: &str, text: &str) -> String {
    match status {
        401 | 403 | 429 => format!("{status} from {from}: {text}"),
        _ => text.to_owned(),
    }
}

/// `MANIFEST_UNKNOWN: manifest unknown` becomes `manifest unknown`, other messages follow their
/// code: `unauthorized: authentication required`.
fn error_text(status: StatusCode, body: &[u8], secrets: &[&str]) -> String {
    let known: Option<Errors> = serde_json::from_slice(body).ok();
    let mut texts = Vec::new();
    for entry in known.into_iter().flat_map(|it| it.errors) {
        let code = entry.code.to_lowercase().replace('_', " ");
        texts.push(match (code.as_str(), entry.message.as_str()) {
            ("", message) => message.to_owned(),
            (code, message) if message.is_empty() || message == code => code.to_owned(),
            (code, message) => format!("{code}: {message}"),
        });
    }
    if texts.is_empty() {
        return match (status.as_u16(), status.canonical_reason()) {
            (401 | 403 | 429, Some(reason)) => reason.to_lowercase(),
            _ => format!("registry answered {status}"),
        };
    }
    let text = texts.join(", ");
    let mut secrets = secrets.iter().filter(|secret| !secret.is_empty());
    if secrets.any(|secret| text.contains(secret)) {
        return "its text is not shown, as it repeats the credential".to_owned();
    }
    said(&text)
}

pub(super) fn url(text: &str) -> Result<Url, RequestError> {
    Url::parse(text).map_err(|err| RequestError::Transport {
        method: "Get",
        url: said(text),
        text: err.to_string(),
    })
}

/// Keeps only the innermost cause, because nothing else is the same on every attempt.
pub(super) fn transport(method: &'static str, url: &Url, err: &reqwest::Error) -> RequestError {
    let mut text = err.to_string();
    let mut cause = err.source();
    if err.is_timeout() {
        cause = None;
        text = if err.is_connect() {
            format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())
        } else {
            format!("nothing was received for {} s", IDLE_TIMEOUT.as_secs())
        };
    }
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    if text.contains("InvalidContentType") {
        text = "http: server gave HTTP response to HTTPS client".into();
    }
    // The number of the system error repeats its text.
    if let Some(at) = text.find(" (os error ") {
        text.truncate(at);
    }
    let mut shown = url.clone();
    shown.set_query(None);
    RequestError::Transport { method, url: said(shown.as_str()), text: said(&text) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // catalogs.md 5.3 Errors
    #[rstest]
    #[case(
        r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{}}]}"#,
        "manifest unknown"
    )]
    #[case(
        r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#,
        "unauthorized: authentication required"
    )]
    #[case(r#"{"errors":[{"code":"DENIED"},{"message":"no\nway"}]}"#, "denied, no\u{fffd}way")]
    #[case("<html>", "registry answered 404 Not Found")]
    #[case(r#"{"errors":[]}"#, "registry answered 404 Not Found")]
    // deploying.md P22
    #[case(
        r#"{"errors":[{"message":"you sent Basic hunter2"}]}"#,
        "its text is not shown, as it repeats the credential"
    )]
    fn registries_are_quoted(#[case] body: &str, #[case] want: &str) {
        let secrets = ["", "hunter2"];
        let text = error_text(StatusCode::NOT_FOUND, body.as_bytes(), &secrets);
        assert_eq!(text, want);
    }

    #[test]
    fn long_messages_are_cut() {
        let body = format!(r#"{{"errors":[{{"code":"X","message":"{}"}}]}}"#, "é".repeat(1000));
        assert!(error_text(StatusCode::NOT_FOUND, body.as_bytes(), &[]).len() <= 512);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let headers = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            headers
        };
        assert_eq!(retry_after(&headers("3")), Some(Duration::from_secs(3)));
        let past = retry_after(&headers("Wed, 21 Oct 2015 07:28:00 GMT"));
        assert_eq!(past, Some(Duration::ZERO));
        assert_eq!(retry_after(&headers("soon")), None);
    }
}
