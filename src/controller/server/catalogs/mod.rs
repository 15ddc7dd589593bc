//! The catalog endpoints: `/catalogs/<name>/api/v1/all` and `/metas`.
//!
//! Status codes, headers and bodies are those of catalogs.md section 3. Answers come from the
//! store alone; an open answer keeps the content it began with.

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HOST, HeaderName, HeaderValue, LAST_MODIFIED, LOCATION, USER_AGENT, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;

use super::body::{self, Parts};
use super::negotiate::{self, Asked, Encoding, Validators};
use super::path::{self, Endpoint, Target};
use crate::catalog::index::BlobRef;
use crate::catalog::store::{Content, Store};
use crate::telemetry::Metrics;

/// Answers shorter than this are not compressed.
const MIN_COMPRESSED_BYTES: u64 = 1024;
const JSON_LINES: &str = "application/jsonl";

#[derive(Debug, Clone)]
pub struct Catalogs {
    pub store: Arc<Store>,
    pub metrics: Metrics,
    /// Whether `/metas` is served.
    pub metas: bool,
}

pub fn routes(catalogs: Catalogs) -> Router {
    Router::new().fallback(answer).with_state(Arc::new(catalogs))
}

async fn answer(State(catalogs): State<Arc<Catalogs>>, request: Request) -> Response {
    let started = Instant::now();
    let response = respond(&catalogs, &request);
    let header = |name: HeaderName| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    tracing::info!(
        host = header(HOST),
        method = %request.method(),
        uri = %request.uri(),
        protocol = ?request.version(),
        user_agent = header(USER_AGENT),
        status = response.status().as_u16(),
        size = response.body().size_hint().exact(),
        "catalog request answered"
    );
    let (metrics, code) = (catalogs.metrics.clone(), response.status().as_u16());
    let answered = Answered { metrics, code, started };
    response.map(|body| {
        Body::new(body.map_err(move |error| {
            let _kept = &answered;
            error
        }))
    })
}

/// Counts a request when the body of its answer, which keeps this, was sent or is given up.
struct Answered {
    metrics: Metrics,
    code: u16,
    started: Instant,
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.metrics.answered(self.code, self.started.elapsed());
    }
}

fn respond(catalogs: &Catalogs, request: &Request) -> Response {
    let target = match path::parse(request.uri().path()) {
        Ok(target) => target,
        Err(path::Refusal::NotFound) => return page_not_found(),
        Err(path::Refusal::Unclean(clean)) => return moved(&clean, request.uri().query()),
    };
    if target.endpoint == Endpoint::Metas && !catalogs.metas {
        return page_not_found();
    }
    let head = request.method() == Method::HEAD;
    if !head && request.method() != Method::GET {
        let refused = failure(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
        return ([(ALLOW, "GET, HEAD")], refused).into_response();
    }
    let answer = match found(catalogs, &target, request) {
        Ok(answer) => answer,
        Err(response) => return *response,
    };
    answer.respond(request.headers(), head)
}

/// Looks up what is asked for, or says why there is nothing.
fn found(catalogs: &Catalogs, target: &Target, request: &Request) -> Result<Answer, Box<Response>> {
    let catalog = path::catalog_name(&target.catalog).map_err(|reason| {
        let text = format!("invalid catalog name: {reason}\n");
        Box::new(failure(StatusCode::BAD_REQUEST, text))
    })?;
    let query = match target.endpoint {
        Endpoint::All => None,
        Endpoint::Metas => {
            let query = path::query(request.uri().query().unwrap_or_default());
            let bad = || Box::new(failure(StatusCode::BAD_REQUEST, "400 Bad Request\n"));
            Some(query.ok_or_else(bad)?)
        }
    };
    let content = catalogs
        .store
        .content(&catalog)
        .ok_or_else(|| Box::new(failure(StatusCode::NOT_FOUND, "404 Not Found\n")))?;
    Ok(match query {
        None => Answer::All(content),
        Some(query) if query.is_empty() => Answer::Unfiltered(content),
        Some(query) => Answer::Filtered(content.index().matching(&query), content),
    })
}

enum Answer {
    /// `/all`: like a static file.
    All(Arc<Content>),
    /// `/metas` without a filter: everything, but neither ranges nor a length.
    Unfiltered(Arc<Content>),
    /// `/metas` with a filter.
    Filtered(Vec<BlobRef>, Arc<Content>),
}

impl Answer {
    fn content(&self) -> &Arc<Content> {
        match self {
            Self::All(content) | Self::Unfiltered(content) | Self::Filtered(_, content) => content,
        }
    }

    fn respond(self, request: &HeaderMap, head: bool) -> Response {
        let validators = Validators {
            etag: format!("W/\"{}\"", self.content().digest()),
            modified: self.content().origin().unpacked,
        };
        let mut response = match negotiate::check(request, &validators) {
            Some(status) => status.into_response(),
            None => self.body(request, &validators, head),
        };
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        set(headers, ETAG, &validators.etag);
        set(headers, LAST_MODIFIED, &negotiate::http_date(validators.modified));
        response
    }

    fn body(self, request: &HeaderMap, validators: &Validators, head: bool) -> Response {
        match self {
            Self::All(content) => all(&content, request, validators, head),
            Self::Unfiltered(content) => lines(&content, whole(&content), request, head),
            Self::Filtered(blobs, content) => lines(&content, spans(&blobs), request, head),
        }
    }
}

/// Answers `/all`, with a range and lengths.
fn all(
    content: &Arc<Content>,
    request: &HeaderMap,
    validators: &Validators,
    head: bool,
) -> Response {
    let len = content.index().bytes();
    match negotiate::asked(request, validators, len) {
        Asked::Unsatisfiable => {
            let text = "416 Range Not Satisfiable\n";
            let refused = failure(StatusCode::RANGE_NOT_SATISFIABLE, text);
            ([(CONTENT_RANGE, format!("bytes */{len}"))], refused).into_response()
        }
        Asked::Part(range) => partial(content, range, len, head),
        Asked::Whole => {
            let mut response = lines(content, whole(content), request, head);
            let headers = response.headers_mut();
            if !headers.contains_key(CONTENT_ENCODING) {
                headers.insert(CONTENT_LENGTH, len.into());
                headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            }
            response
        }
    }
}

/// Answers with one range, as it is.
fn partial(content: &Arc<Content>, range: Range<u64>, len: u64, head: bool) -> Response {
    let headers = [
        (CONTENT_TYPE, JSON_LINES.to_owned()),
        (CONTENT_LENGTH, (range.end - range.start).to_string()),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CONTENT_RANGE, format!("bytes {}-{}/{len}", range.start, range.end - 1)),
    ];
    let part = iter::once(range).collect();
    let body = if head { Body::empty() } else { body::stream(Arc::clone(content), part) };
    (StatusCode::PARTIAL_CONTENT, headers, body).into_response()
}

/// Returns all of a content as one piece.
fn whole(content: &Content) -> Parts {
    iter::once(0..content.index().bytes()).collect()
}

/// Returns where blobs are, neighbours together.
fn spans(blobs: &[BlobRef]) -> Parts {
    let mut spans = Parts::new();
    for blob in blobs {
        let end = blob.offset + u64::from(blob.len) + 1;
        match spans.back_mut() {
            Some(last) if last.end == blob.offset => last.end = end,
            _ => spans.push_back(blob.offset..end),
        }
    }
    spans
}

/// Answers with pieces of a content, compressed on the way for who takes that, unless they are short.
fn lines(content: &Arc<Content>, parts: Parts, request: &HeaderMap, head: bool) -> Response {
    let len: u64 = parts.iter().map(|part| part.end - part.start).sum();
    let encoding = match len {
        MIN_COMPRESSED_BYTES.. if !head => negotiate::encoding(request),
        _ => Encoding::Identity,
    };
    let content = Arc::clone(content);
    let body = match encoding {
        _ if head || len == 0 => Body::empty(),
        Encoding::Identity => body::stream(content, parts),
        Encoding::Gzip | Encoding::Zstd => body::compressed(content, parts, encoding),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    let name = match encoding {
        Encoding::Identity => return response,
        Encoding::Gzip => "gzip",
        Encoding::Zstd => "zstd",
    };
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    response
}

fn page_not_found() -> Response {
    failure(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn moved(clean: &str, query: Option<&str>) -> Response {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = StatusCode::MOVED_PERMANENTLY.into_response();
    set(response.headers_mut(), LOCATION, &format!("{clean}{query}"));
    response
}

fn failure(status: StatusCode, text: impl Into<Body>) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    let body: Body = text.into();
    (status, headers, body).into_response()
}

/// Sets a header whose value was built here; one that HTTP cannot carry is left out.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
