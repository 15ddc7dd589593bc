//! How the API server is talked to: every request ends, and every watch comes back by itself.
//!
//! In goes a client as kube makes it, out comes one whose requests have a limit; and streams of
//! changes whose failures stay their own.

use std::future::ready;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::{Request, Response, Uri};
use kube::client::Body;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::backoff::WatchDelays;

/// Longest a request may take, its whole answer included; the API server itself gives up after the
/// same time. Of a watch only the beginning is limited.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A request was not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} seconds", .0.as_secs())]
struct Unanswered(Duration);

/// Returns a client whose every request ends: kube's own has no limit on reading, and one answer
/// that never comes would hold a pass for ever.
pub fn bounded(client: Client) -> Client {
    limited(client, REQUEST_LIMIT)
}

fn limited(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move {
            let answer = tokio::time::timeout(limit, answer(client, request)).await;
            answer.unwrap_or_else(|_| Err(Unanswered(limit).into()))
        }
    });
    Client::new(service, namespace)
}

async fn answer(client: Client, request: Request<Body>) -> Result<Response<Body>, Failure> {
    let streams = is_watch(request.uri());
    let (head, body) = client.send(request).await?.into_parts();
    if streams {
        return Ok(Response::from_parts(head, body));
    }
    let body = Body::from(body.collect_bytes().await?);
    Ok(Response::from_parts(head, body))
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Watches objects of a kind.
///
/// A failure is logged, and the watch starts anew after a delay of its own; it is no item of the
/// stream. A kube `Controller` pauses all its streams for every error of any of them, so that after
/// an outage each watch would add its delay to those of the others.
pub fn changes<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    settled(watcher(api, config), WatchDelays::default())
}

fn settled<T: Send>(
    watching: impl Stream<Item = watcher::Result<T>> + Send,
    delays: impl Backoff,
) -> impl Stream<Item = watcher::Result<T>> + Send {
    watching.backoff(delays).filter(|event| {
        if let Err(error) = event {
            tracing::debug!(%error, "watch interrupted");
        }
        ready(event.is_ok())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{ListParams, WatchParams};
    use rstest::rstest;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);
    const SOON: Duration = Duration::from_secs(10);

    fn silent() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Failure>>()
        });
        limited(Client::new(service, "default"), LIMIT)
    }

    /// Answers with a head at once, and with a body that never comes.
    fn stalling() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            let body = axum::body::Body::from_stream(stream::pending::<Result<Vec<u8>, Failure>>());
            ready(Ok::<_, Failure>(Response::new(body)))
        });
        limited(Client::new(service, "default"), LIMIT)
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

    struct At(Duration);

    impl Iterator for At {
        type Item = Duration;

        fn next(&mut self) -> Option<Duration> {
            Some(self.0)
        }
    }

    impl Backoff for At {
        fn reset(&mut self) {}
    }

    // What delayed a whole controller for more than a minute after an outage of the API server.
    #[tokio::test]
    async fn a_failing_watch_delays_no_other() {
        let failing = stream::repeat_with(|| Err::<u8, _>(watcher::Error::NoResourceVersion));
        let failing = settled(failing, At(Duration::from_hours(1))).boxed();
        let working = settled(stream::iter([Ok(1), Ok(2)]), At(Duration::ZERO)).boxed();
        let started = Instant::now();
        // This is how a kube Controller treats its streams.
        let merged = stream::select_all([failing, working]).backoff(At(Duration::from_hours(1)));
        let seen: Vec<_> = merged.take(2).collect().await;
        assert!(matches!(seen[..], [Ok(1), Ok(2)]), "{seen:?}");
        assert!(started.elapsed() < SOON);
    }
}
