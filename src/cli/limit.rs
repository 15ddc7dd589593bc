//! Time limits of answers: until they begin, and between their parts. A watch may be silent. A read
//! that the server rejects with 429 and `Retry-After` is repeated within the same time.
//!
//! Source: plugin.md 1.3.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body as Answer;
use futures::stream::{self, Stream, StreamExt as _};
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The interval of retries while waiting.
const AGAIN: Duration = Duration::from_millis(500);

/// Seconds; 0 means no limit.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Nothing came in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from {server} within {seconds} s")]
pub(crate) struct Unanswered {
    /// The server that did not answer.
    pub(crate) server: String,
    /// The time that was waited.
    pub(crate) seconds: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("no connection to {server}: {cause}")]
struct Unreachable {
    server: String,
    /// The last of the causes: the client's own only say that it could not connect.
    cause: String,
}

impl Unreachable {
    fn of(error: kube::Error, server: String) -> Failure {
        let kube::Error::Service(failure) = error else { return error.into() };
        let mut cause: &dyn std::error::Error = &*failure;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Self { server, cause: cause.to_string() }.into()
    }
}

/// Limits every later request to so many seconds; 0 means no limit.
pub(crate) fn set(seconds: u64) {
    LIMIT.store(seconds, Ordering::Relaxed);
}

/// Returns the time limit of answers, if there is one.
pub(crate) fn limit() -> Option<Duration> {
    let seconds = LIMIT.load(Ordering::Relaxed);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Returns a client whose requests end when no answer comes in time.
pub(crate) fn limited(client: Client, api_server: &Uri) -> Client {
    let Some(limit) = limit() else { return client };
    let api_server = format!("the API server {}", api_server.to_string().trim_end_matches('/'));
    within(client, limit, move |uri| proxied(uri).unwrap_or_else(|| api_server.clone()))
}

/// Returns a client with this limit; `server` names who is asked.
fn within<F>(client: Client, limit: Duration, server: F) -> Client
where
    F: Fn(&Uri) -> String + Clone + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server(request.uri());
        send(client.clone(), request, server, limit)
    });
    Client::new(service, namespace)
}

async fn send(
    client: Client,
    request: Request<Body>,
    server: String,
    limit: Duration,
) -> Result<Response<Answer>, Failure> {
    let late = Unanswered { server: server.clone(), seconds: limit.as_secs() };
    let stays = is_watch(request.uri());
    let answer = timeout(limit, repeated(client, request, limit)).await;
    let answer = answer.map_err(|_| Failure::from(late))?;
    let answer = answer.map_err(|error| Unreachable::of(error, server.clone()))?;
    let (head, body) = answer.into_parts();
    let body = Answer::new(body);
    if stays {
        return Ok(Response::from_parts(head, body));
    }
    let parts = unbroken(body.into_data_stream(), server, limit);
    Ok(Response::from_parts(head, Answer::from_stream(parts)))
}

/// Sends a request, and a read again when the server asks for that within the time that is left.
async fn repeated(
    client: Client,
    request: Request<Body>,
    limit: Duration,
) -> kube::Result<Response<Body>> {
    let begun = Instant::now();
    let (head, body) = request.into_parts();
    let again = (head.method == Method::GET).then(|| head.clone());
    let mut answer = client.send(Request::from_parts(head, body)).await?;
    while let (Some(head), Some(pause)) = (&again, asked_pause(&answer)) {
        if pause >= limit.saturating_sub(begun.elapsed()) {
            break;
        }
        sleep(pause).await;
        answer = client.send(Request::from_parts(head.clone(), Body::empty())).await?;
    }
    Ok(answer)
}

/// Returns after which time the server asks for the request again.
fn asked_pause<T>(answer: &Response<T>) -> Option<Duration> {
    if answer.status() != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Ends a stream with a failure when nothing comes for too long.
fn unbroken<T, E: Into<Failure>>(
    parts: impl Stream<Item = Result<T, E>> + Unpin,
    server: String,
    limit: Duration,
) -> impl Stream<Item = Result<T, Failure>> {
    stream::unfold(Some(parts), move |parts| {
        let late = Unanswered { server: server.clone(), seconds: limit.as_secs() };
        async move {
            let mut parts = parts?;
            match timeout(limit, parts.next()).await {
                Ok(part) => Some((part?.map_err(Into::into), Some(parts))),
                Err(_) => Some((Err(late.into()), None)),
            }
        }
    })
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"))
}

/// Returns the Service that the API server only passes a request on to.
fn proxied(uri: &Uri) -> Option<String> {
    let mut words = uri.path().split('/').skip_while(|word| *word != "namespaces");
    let (_, namespace, kind) = (words.next()?, words.next()?, words.next()?);
    let (service, proxy) = (words.next()?, words.next()?);
    let name = service.split(':').nth(1).unwrap_or(service);
    (kind == "services" && proxy == "proxy").then(|| format!("Service {namespace}/{name}"))
}

/// Asks until there is an answer, or until the time of a wait is over: what fails for a moment does
/// not end a wait.
pub(crate) async fn patiently<T>(
    begun: Instant,
    seconds: u64,
    ask: impl AsyncFn() -> kube::Result<T>,
) -> kube::Result<T> {
    loop {
        match ask().await {
            Err(error) if may_pass(&error) && begun.elapsed() < Duration::from_secs(seconds) => {
                sleep(AGAIN).await;
            }
            answer => return answer,
        }
    }
}

/// Returns whether a request may succeed a moment later.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};
    use kube::core::Status;
    use rstest::rstest;

    use super::*;
    use crate::fixture::cases;

    const SOON: Duration = Duration::from_millis(50);

    fn impatient(client: Client) -> Client {
        within(client, SOON, |_| "S".to_owned())
    }

    /// Answers with a head at once, and with a body that never comes.
    fn stalling() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            let body = Answer::from_stream(stream::pending::<Result<Vec<u8>, Failure>>());
            std::future::ready(Ok::<_, Failure>(Response::new(body)))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn half_an_answer_ends_and_names_the_server() {
        let api = Api::<ConfigMap>::all(impatient(stalling()));
        let error = api.list(&ListParams::default()).await.expect_err("nothing answers");
        let text = crate::managed::failure(&error);
        assert!(text.contains("no answer from S within 0 s"), "{text}");
    }

    #[tokio::test]
    async fn a_failed_connection_names_the_server_and_the_cause_once() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
            Err::<Response<Body>, Failure>(std::io::Error::other(refused).into())
        });
        let api = Api::<ConfigMap>::all(impatient(Client::new(service, "default")));
        let error = api.list(&ListParams::default()).await.expect_err("there is no connection");
        assert_eq!(crate::managed::failure(&error), "no connection to S: refused");
    }

    #[rstest]
    #[case::soon("0", 2)]
    #[case::too_late("1", 1)]
    #[tokio::test]
    async fn a_read_is_repeated_when_the_server_asks_for_it(
        #[case] pause: &'static str,
        #[case] asked: usize,
    ) {
        let count = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&count);
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = match counted.fetch_add(1, Ordering::Relaxed) {
                0 => Response::builder().status(429).header(RETRY_AFTER, pause),
                _ => Response::builder(),
            };
            std::future::ready(answer.body(Body::empty()))
        });
        let api = Api::<ConfigMap>::all(impatient(Client::new(service, "default")));
        // There is no list in either answer.
        api.list(&ListParams::default()).await.expect_err("an empty answer");
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }

    #[tokio::test]
    async fn a_watch_may_be_silent() {
        let api = Api::<ConfigMap>::all(impatient(stalling()));
        let watching = api.watch(&WatchParams::default(), "0").await;
        let mut events = Box::pin(watching.expect("its beginning comes in time"));
        let event = timeout(SOON * 4, events.next()).await;
        assert!(event.is_err(), "{event:?}");
    }

    #[tokio::test]
    async fn a_long_answer_is_not_cut() {
        let parts = stream::unfold(0, |at| async move {
            sleep(SOON / 5).await;
            (at < 15).then_some((Ok::<_, Failure>(at), at + 1))
        });
        let parts: Vec<_> = unbroken(Box::pin(parts), "S".to_owned(), SOON).collect().await;
        assert!(parts.len() == 15 && parts.iter().all(Result::is_ok), "{parts:?}");
    }

    #[rstest]
    #[case::busy(429, 2)]
    #[case::away(503, 2)]
    #[case::refused(403, 1)]
    #[tokio::test]
    async fn a_wait_outlasts_what_passes(#[case] code: u16, #[case] asked: usize) {
        let count = AtomicUsize::new(0);
        let answer =
            patiently(Instant::now(), 60, async || match count.fetch_add(1, Ordering::Relaxed) {
                0 => Err(kube::Error::Api(Status::failure("", "").with_code(code).boxed())),
                _ => Ok(()),
            });
        assert_eq!(answer.await.is_ok(), asked == 2);
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }

    #[test]
    fn who_does_not_answer_is_known_by_the_path() {
        type Case = (String, Option<String>);
        for (name, (path, want)) in cases::<Case>("who_does_not_answer_is_known_by_the_path") {
            assert_eq!(proxied(&path.parse().unwrap()), want, "{name}");
        }
    }
}
