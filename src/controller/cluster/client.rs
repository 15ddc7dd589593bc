//! The client for the API server: every request has a time limit, and only the leader writes.
//!
//! [`bounded`] limits the requests of a client as kube makes it; [`within_term`] has the writes of
//! such a client ask the [`Term`] of this process first.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::response::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;

use crate::backoff::jittered;
use crate::telemetry::Metrics;
use crate::term::{NotLeading, Term};

/// Longest a request may take, its whole answer included; the API server itself gives up after the
/// same time. Of a watch only the beginning is limited.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);
/// Longest a write may take: one that begins in the last moment of a term ends before anybody else
/// can take the lease (deploying.md 4.1).
const WRITE_LIMIT: Duration = Duration::from_secs(25);

/// Pauses before a read is sent again.
const READ_AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} seconds", .0.as_secs())]
struct Unanswered(Duration);

/// Longest times of reads and of writes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    read: Duration,
    write: Duration,
}

/// Returns a client whose every request ends, and which sends a read that fails again.
///
/// kube's own has no limit on reading, and one answer that never comes would hold a reconcile for
/// ever.
pub fn bounded(client: Client) -> Client {
    limited(client, Limits { read: REQUEST_LIMIT, write: WRITE_LIMIT })
}

fn limited(client: Client, limits: Limits) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if is_write(request.method()) {
                return within(limits.write, answer(client, request)).await;
            }
            within(limits.read, read(client, request)).await
        }
    });
    Client::new(service, namespace)
}

/// Returns a client that sends by this [`bounded`] one, and whose writes fail outside of `term`.
pub fn within_term(client: Client, term: Term) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, term) = (client.clone(), term.clone());
        async move {
            let writes = is_write(request.method());
            let answer = async { Ok(client.send(request).await?) };
            if writes { led(&term, answer).await } else { answer.await }
        }
    });
    Client::new(service, namespace)
}

/// Returns a client whose every request is counted by its answer, those of accounts too.
pub fn counted(client: Client, metrics: Metrics) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let method = request.method().clone();
            let answer: Result<Response<Body>, kube::Error> = client.send(request).await;
            metrics.requested(&method, answer.as_ref().ok().map(Response::status));
            answer
        }
    });
    Client::new(service, namespace)
}

async fn within(
    limit: Duration,
    request: impl Future<Output = Result<Response<Body>, Failure>>,
) -> Result<Response<Body>, Failure> {
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| Err(Unanswered(limit).into()))
}

/// Sends a write as long as this process leads. It is asked again before each step of the request,
/// because the process may have been stopped in between.
async fn led(
    term: &Term,
    request: impl Future<Output = Result<Response<Body>, Failure>>,
) -> Result<Response<Body>, Failure> {
    let write = term.begin()?;
    let mut request = pin!(request);
    poll_fn(|context| {
        if write.is_allowed() {
            request.as_mut().poll(context)
        } else {
            Poll::Ready(Err(NotLeading.into()))
        }
    })
    .await
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Sends a read, and again after a failure that may pass by itself: one request in a hundred that
/// fails must not undo the work of the ninety-nine before it. A watch comes back by itself.
async fn read(client: Client, request: Request<Body>) -> Result<Response<Body>, Failure> {
    if is_watch(request.uri()) {
        return answer(client, request).await;
    }
    // No read has a body.
    let (head, _) = request.into_parts();
    for pause in READ_AGAIN {
        let request = Request::from_parts(head.clone(), Body::empty());
        match answer(client.clone(), request).await {
            Ok(response) if !is_transient(&response) => return Ok(response),
            Ok(response) => {
                let status = response.status();
                tracing::debug!(uri = %head.uri, %status, "sent again");
            }
            Err(error) => tracing::debug!(uri = %head.uri, error, "sent again"),
        }
        tokio::time::sleep(jittered(pause)).await;
    }
    answer(client, Request::from_parts(head, Body::empty())).await
}

/// Returns whether a retry may succeed a moment later. A request of the server to wait is left to
/// the caller, who reads it from the answer.
fn is_transient(response: &Response<Body>) -> bool {
    let status = response.status();
    let failed = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    failed && !response.headers().contains_key(RETRY_AFTER)
}

async fn answer(client: Client, request: Request<Body>) -> Result<Response<Body>, Failure> {
    let streams = is_watch(request.uri());
    let (head, body) = client.send(request).await?.into_parts();
    if streams {
        return Ok(Response::from_parts(head, body));
    }
    let body = body.collect_bytes().await?;
    let asked = with_retry_after(&head, &body);
    Ok(Response::from_parts(head, asked.map_or_else(|| body.into(), Body::from)))
}

/// Returns the body of a refusal with the wait that only its header asks for: priority and fairness,
/// and an API server that stops, answer in plain text, and kube keeps no headers of an error.
fn with_retry_after(head: &Parts, body: &[u8]) -> Option<Vec<u8>> {
    let seconds = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    if !head.status.is_client_error() && !head.status.is_server_error() {
        return None;
    }
    let mut status = serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "").with_code(head.status.as_u16())
    });
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: seconds,
    });
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = seconds;
    }
    serde_json::to_vec(&status).ok()
}

/// Returns whether a request is a watch, which stays.
pub(super) fn is_watch(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use futures::stream::{self, StreamExt as _};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
    use olm_cluster::message;
    use rstest::rstest;

    use super::super::retry_after;
    use super::*;
    use crate::term::stopped_clock;

    const LIMIT: Duration = Duration::from_millis(50);
    const LIMITS: Limits = Limits { read: LIMIT, write: LIMIT };
    const SOON: Duration = Duration::from_secs(10);

    const FOUND: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;

    /// Answers each request, of which the number is given; and how many were sent.
    fn answering<A>(
        limits: Limits,
        answer: impl Fn(usize) -> A + Send + 'static,
    ) -> (Client, Arc<AtomicUsize>)
    where
        A: Future<Output = Result<Response<axum::body::Body>, Failure>> + Send + 'static,
    {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let service =
            tower::service_fn(move |_: Request<Body>| answer(count.fetch_add(1, Ordering::SeqCst)));
        (limited(Client::new(service, "default"), limits), sent)
    }

    fn silent() -> Client {
        answering(LIMITS, |_| std::future::pending()).0
    }

    /// Answers with a head at once, and with a body that never comes.
    fn stalling() -> Client {
        let stalled = |_| {
            let body = axum::body::Body::from_stream(stream::pending::<Result<Vec<u8>, Failure>>());
            ready(Ok(Response::new(body)))
        };
        answering(LIMITS, stalled).0
    }

    #[rstest]
    #[case::no_answer(silent)]
    #[case::half_an_answer(stalling)]
    #[tokio::test]
    async fn a_request_without_an_answer_ends(#[case] client: fn() -> Client) {
        let api = Api::<ConfigMap>::all(client());
        let listed = api.list(&ListParams::default()).await;
        let text = listed.expect_err("nothing answers").to_string();
        assert!(text.contains("no answer from the API server"), "{text}");
    }

    /// Counts requests and fails the first `failures` of them, with this status or by breaking off.
    fn failing(failures: usize, status: Option<u16>) -> (Client, Arc<AtomicUsize>) {
        let limits = Limits { read: SOON, write: SOON };
        answering(limits, move |number| {
            let mut response = Response::new(FOUND.into());
            ready(match (number < failures, status) {
                (true, None) => Err(Failure::from("cut")),
                (true, Some(code)) => {
                    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
                    Ok(response)
                }
                (false, _) => Ok(response),
            })
        })
    }

    #[rstest]
    #[case::none(0, Some(500), 1, true)]
    #[case::one(1, Some(500), 2, true)]
    #[case::cut(2, None, 3, true)]
    #[case::busy(2, Some(429), 3, true)]
    #[case::for_longer(3, Some(503), 3, false)]
    #[case::not_there(1, Some(404), 1, false)]
    #[case::denied(1, Some(403), 1, false)]
    #[tokio::test]
    async fn a_read_that_fails_is_sent_again(
        #[case] failures: usize,
        #[case] status: Option<u16>,
        #[case] requests: usize,
        #[case] succeeds: bool,
    ) {
        let (client, sent) = failing(failures, status);
        let client = within_term(client, Term::unlimited());
        let read = Api::<ConfigMap>::default_namespaced(client).get("x").await;
        assert_eq!(read.is_ok(), succeeds, "{read:?}");
        assert_eq!(sent.load(Ordering::SeqCst), requests);
    }

    // decision 7: priority and fairness answers in plain text
    #[rstest]
    #[case::text("Too many requests, please try again later.\n", 7)]
    #[case::status(r#"{"message":"Too many requests, please try again later.","code":429}"#, 7)]
    #[case::details(
        r#"{"message":"Too many requests, please try again later.","code":429,
            "details":{"retryAfterSeconds":9}}"#,
        9
    )]
    #[tokio::test]
    async fn a_server_that_asks_for_a_wait_gets_it(
        #[case] body: &'static str,
        #[case] seconds: u64,
    ) {
        let (client, sent) = answering(LIMITS, move |_| {
            let busy = Response::builder().status(StatusCode::TOO_MANY_REQUESTS);
            ready(busy.header(RETRY_AFTER, "7").body(body.into()).map_err(Failure::from))
        });
        let read = Api::<ConfigMap>::default_namespaced(client).get("x").await;
        let error = read.expect_err("it is busy");
        assert_eq!(retry_after(&error), Some(Duration::from_secs(seconds)));
        assert_eq!(message(&error), "Too many requests, please try again later.");
        assert_eq!(sent.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_write_that_fails_is_sent_once() {
        let (client, sent) = failing(1, Some(500));
        let api = Api::<ConfigMap>::default_namespaced(client);
        let write = api.delete("x", &DeleteParams::default()).await;
        assert!(write.is_err());
        assert_eq!(sent.load(Ordering::SeqCst), 1);
    }

    // deploying.md 4.1: a write without an answer ends before another process can lead.
    #[tokio::test]
    async fn a_write_has_a_limit_of_its_own() {
        let limits = Limits { read: Duration::from_hours(1), write: LIMIT };
        let (client, _) = answering(limits, |_| std::future::pending());
        let api = Api::<ConfigMap>::default_namespaced(client);
        let started = Instant::now();
        assert!(api.delete("x", &DeleteParams::default()).await.is_err());
        assert!(started.elapsed() < SOON);
        let asked = tokio::time::timeout(LIMIT * 4, api.get("x")).await;
        assert!(asked.is_err(), "{asked:?}");
    }

    // deploying.md 4.1 and P29
    #[tokio::test]
    async fn nothing_is_written_outside_of_a_term() {
        let (clock, shown) = stopped_clock();
        let term = Term::with_clock(shown);
        let found = |_| ready(Ok(Response::new(FOUND.into())));
        let (client, sent) = answering(LIMITS, found);
        let api = Api::<ConfigMap>::default_namespaced(within_term(client, term.clone()));
        let write = || async {
            let (params, object) = (PostParams::default(), ConfigMap::default());
            api.create(&params, &object).await.map(drop).map_err(|error| error.to_string())
        };
        let refused = write().await.expect_err("it does not lead yet");
        assert!(refused.contains("does not lead"), "{refused}");
        assert!(api.get("x").await.is_ok());
        term.extend(Duration::from_secs(1107));
        write().await.expect("it leads");
        clock.store(1107, Ordering::SeqCst);
        write().await.expect_err("its term is over");
        assert_eq!(sent.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_watch_lasts_longer_than_a_request_may() {
        let api = Api::<ConfigMap>::all(stalling());
        let watching = api.watch(&WatchParams::default(), "0").await;
        let mut events = std::pin::pin!(watching.expect("its beginning comes in time"));
        let event = tokio::time::timeout(LIMIT * 4, events.next()).await;
        assert!(event.is_err(), "{event:?}");
    }

    #[rstest]
    #[case::watch("/api/v1/pods?watch=true&resourceVersion=1", true)]
    #[case::last("/api/v1/pods?labelSelector=a%3Db&watch=1", true)]
    #[case::list("/api/v1/pods?limit=500", false)]
    #[case::no_query("/api/v1/pods", false)]
    #[case::in_a_value("/api/v1/pods?labelSelector=watch=true", false)]
    fn a_watch_is_known_by_its_query(#[case] uri: &str, #[case] watches: bool) {
        assert_eq!(is_watch(&uri.parse().expect("a URI")), watches);
    }
}
