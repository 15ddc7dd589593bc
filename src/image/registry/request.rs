//! One request: retried where useful, read within a limit, with its failure as text.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::error::RequestError;
use super::redirect::{self, Redirects, is_same_host};
use crate::auth::SecretString;
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT, MAX_ERROR_BODY_BYTES, MAX_REDIRECTS};
use crate::shown::said;

/// The most attempts of a request while the registry answers 429.
const MAX_BUSY_TRIES: u32 = 5;
/// The most attempts of a request while the registry fails or the connection breaks.
const MAX_FAILED_TRIES: u32 = 3;
/// Longest wait before a request is sent again.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Sends a request without a body and follows redirects as `allowed`. Credentials are sent to the host
/// of `url` only; the URL of a response shows whether it came from another host.
pub(super) async fn ask(
    http: &Client,
    method: &Method,
    url: &Url,
    headers: &[(HeaderName, String)],
    mut authorization: Option<&SecretString>,
    allowed: Redirects,
) -> Result<Response, RequestError> {
    let mut at = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = persist(http, method, &at, headers, authorization).await?;
        let next = redirect::target(&at, response.status(), response.headers(), allowed)?;
        let Some(next) = next else { return Ok(response) };
        if !is_same_host(url, &next) {
            // Not even if the other host redirects back.
            authorization = None;
        }
        at = next;
    }
    Err(RequestError::Refused(format!("stopped after {MAX_REDIRECTS} redirects")))
}

/// Sends a request, and retries it where that is useful.
async fn persist(
    http: &Client,
    method: &Method,
    url: &Url,
    headers: &[(HeaderName, String)],
    authorization: Option<&SecretString>,
) -> Result<Response, RequestError> {
    let mut tries = 0;
    loop {
        let mut request = http.request(method.clone(), url.clone());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(secret) = authorization {
            request = request.header(AUTHORIZATION, secret.expose());
        }
        let result = request.send().await;
        tries += 1;
        let Some(wait) = wait(&result, tries) else {
            let name = if *method == Method::HEAD { "Head" } else { "Get" };
            return result.map_err(|err| transport(name, url, &err));
        };
        // Without the query: where blobs are stored it may hold a signature.
        let host = host(url.as_str());
        tracing::debug!(host, tries, ?wait, "registry is busy or failing, retrying");
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
    // The clocks differ where it is past.
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

pub(super) async fn body(mut response: Response, limit: u64) -> Result<Vec<u8>, RequestError> {
    let url = response.url().clone();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|err| transport("Get", &url, &err))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > limit {
            return Err(RequestError::too_large(limit));
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
    if secrets.iter().filter(|secret| !secret.is_empty()).any(|secret| text.contains(secret)) {
        return "its text is hidden, because it contains the credential".to_owned();
    }
    said(&text)
}

pub(super) fn url(text: &str) -> Result<Url, RequestError> {
    Url::parse(text).map_err(|err| RequestError::Transport {
        method: "Get",
        url: said(text),
        text: err.to_string(),
        timed_out: false,
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
    let (url, timed_out) = (said(shown.as_str()), err.is_timeout());
    RequestError::Transport { method, url, text: said(&text), timed_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    // deploying.md 9.1
    #[tokio::test]
    async fn a_registry_that_does_not_answer_has_timed_out() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = url(&format!("http://{}/v2/", listener.local_addr().unwrap())).unwrap();
        let http = Client::builder().no_proxy().read_timeout(Duration::from_millis(50));
        let http = http.build().unwrap();
        let error =
            ask(&http, &Method::GET, &url, &[], None, Redirects::SameHost).await.unwrap_err();
        assert!(matches!(error, RequestError::Transport { timed_out: true, .. }), "{error:?}");
        drop(listener);
        let error =
            ask(&http, &Method::GET, &url, &[], None, Redirects::SameHost).await.unwrap_err();
        assert!(matches!(error, RequestError::Transport { timed_out: false, .. }), "{error:?}");
    }

    #[test]
    fn registries_are_quoted() {
        for (body, want) in cases::<(String, String)>("registries_are_quoted") {
            let text = error_text(StatusCode::NOT_FOUND, body.as_bytes(), &["", "hunter2"]);
            assert_eq!(text, want, "{body}");
        }
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
        assert_eq!(retry_after(&headers("Wed, 21 Oct 2015 07:28:00 GMT")), None);
        assert_eq!(retry_after(&headers("soon")), None);
    }
}
