//! How the API server is talked to: every request ends, nothing is written by who does not lead,
//! and every watch comes back by itself.
//!
//! In goes a client as kube makes it, out comes one whose requests have a limit and whose writes
//! ask the [`Term`] of this process first; and streams of changes whose failures stay their own.

use std::future::{poll_fn, ready};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode, Uri};
use kube::api::ObjectMeta;
use kube::client::Body;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, Client, Resource};
use olm_cluster::code;
use olm_core::revision::keep_makers;
use serde::de::DeserializeOwned;

use super::error::Sentence;
use crate::backoff::{WatchDelays, jittered};
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

/// A request was not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} seconds", .0.as_secs())]
struct Unanswered(Duration);

/// Longest times of reads and of writes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    read: Duration,
    write: Duration,
}

/// Returns a client whose every request ends and whose writes fail outside of `term`.
///
/// kube's own has no limit on reading, and one answer that never comes would hold a reconcile for
/// ever.
pub fn bounded(client: Client, term: Term) -> Client {
    let limits = Limits { read: REQUEST_LIMIT, write: WRITE_LIMIT };
    limited(client, limits, term)
}

fn limited(client: Client, limits: Limits, term: Term) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, term) = (client.clone(), term.clone());
        async move {
            if is_write(request.method()) {
                return within(limits.write, led(&term, answer(client, request))).await;
            }
            within(limits.read, read(client, request)).await
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

/// Says whether another answer may follow a moment later. A server that asks for a wait gets it: the
/// caller learns of that from the answer.
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
    let body = Body::from(body.collect_bytes().await?);
    Ok(Response::from_parts(head, body))
}

/// Says whether a request is a watch, which stays.
pub(super) fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Watches objects of a kind.
///
/// A failure is logged, and the watch starts anew after a delay of its own; it is not an item of the
/// stream. A kube `Controller` pauses all its streams for every error of any of them, so that after
/// an outage each watch would add its delay to those of the others.
///
/// Who wrote which field is left out: in memory that is more than all the rest.
pub fn changes<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let lean = |metadata: &mut ObjectMeta| metadata.managed_fields = None;
    watched(api, config, lean)
}

/// The same, with who wrote the fields outside of subresources.
pub fn authored<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watched(api, config, |metadata| {
        if let Some(entries) = &mut metadata.managed_fields {
            entries.retain(|entry| entry.subresource.is_none());
        }
    })
}

/// The same, with what tells who made a revision.
pub fn made<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watched(api, config, keep_makers)
}

fn watched<K>(
    api: Api<K>,
    config: watcher::Config,
    lean: fn(&mut ObjectMeta),
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let watching = settled(watcher(api, config), WatchDelays::default());
    watching.map_ok(move |event| event.modify(|object| lean(object.meta_mut())))
}

/// Watches one object by its name, as [`changes`] does: what it is, and `None` while it does not
/// exist.
pub fn named<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let found = settled(watch_object(api, name), WatchDelays::default());
    found.filter_map(|found| ready(found.ok()))
}

/// Returns what has changed once `store`, into which `events` are written before, has it: the
/// objects of a list when the list is whole, and with them those that are missing in it.
///
/// Streams of kube bring the objects of a list one by one, before any of them is in the store; who
/// is woken by that may work on an old copy, and nobody wakes him again.
pub fn stored<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    store: Store<K>,
) -> impl Stream<Item = watcher::Result<K>> + Send
where
    K: Lookup<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let mut before = Vec::new();
    let changed = events.map(move |event| match event {
        Ok(Event::Apply(object) | Event::Delete(object)) => vec![Ok(object)],
        Ok(Event::Init) => {
            before = store.state();
            Vec::new()
        }
        Ok(Event::InitApply(_)) => Vec::new(),
        Ok(Event::InitDone) => {
            let mut changed = std::mem::take(&mut before);
            changed.retain(|object| store.get(&ObjectRef::from_obj(&**object)).is_none());
            changed.extend(store.state());
            changed.iter().map(|object| Ok(K::clone(object))).collect()
        }
        Err(error) => vec![Err(error)],
    });
    changed.flat_map(stream::iter)
}

fn settled<T: Send>(
    watching: impl Stream<Item = watcher::Result<T>> + Send,
    delays: impl Backoff,
) -> impl Stream<Item = watcher::Result<T>> + Send {
    watching.backoff(delays).filter(|event| {
        match event {
            Err(error) if is_forbidden(error) => {
                tracing::warn!(error = %Sentence(error), "watch refused");
            }
            Err(error) => tracing::debug!(error = %Sentence(error), "watch interrupted"),
            Ok(_) => {}
        }
        ready(event.is_ok())
    })
}

/// Says whether a watch failed for want of a right.
fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            code(error) == 403
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::time::Instant;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
    use kube::runtime::reflector;
    use rstest::rstest;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);
    const LIMITS: Limits = Limits { read: LIMIT, write: LIMIT };
    const SOON: Duration = Duration::from_secs(10);

    fn silent() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Failure>>()
        });
        limited(Client::new(service, "default"), LIMITS, Term::unlimited())
    }

    /// Answers with a head at once, and with a body that never comes.
    fn stalling() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            let body = axum::body::Body::from_stream(stream::pending::<Result<Vec<u8>, Failure>>());
            ready(Ok::<_, Failure>(Response::new(body)))
        });
        limited(Client::new(service, "default"), LIMITS, Term::unlimited())
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
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            let fails = count.fetch_add(1, Ordering::SeqCst) < failures;
            let found = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
            let mut response = Response::new(Body::from(found.as_bytes().to_vec()));
            let answer = match (fails, status) {
                (true, None) => Err(Failure::from("cut")),
                (true, Some(code)) => {
                    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
                    Ok(response)
                }
                (false, _) => Ok(response),
            };
            ready(answer)
        });
        let limits = Limits { read: SOON, write: SOON };
        let client = limited(Client::new(service, "default"), limits, Term::unlimited());
        (client, sent)
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
        let read = Api::<ConfigMap>::default_namespaced(client).get("x").await;
        assert_eq!(read.is_ok(), succeeds, "{read:?}");
        assert_eq!(sent.load(Ordering::SeqCst), requests);
    }

    #[tokio::test]
    async fn a_server_that_asks_for_a_wait_gets_it() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let busy = Response::builder().status(StatusCode::TOO_MANY_REQUESTS);
            let answer = busy.header(RETRY_AFTER, "7").body(Body::empty());
            ready(answer.map_err(Failure::from))
        });
        let client = limited(Client::new(service, "default"), LIMITS, Term::unlimited());
        let read = Api::<ConfigMap>::default_namespaced(client).get("x").await;
        assert!(read.is_err());
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
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Failure>>()
        });
        let limits = Limits { read: Duration::from_hours(1), write: LIMIT };
        let client = limited(Client::new(service, "default"), limits, Term::unlimited());
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
        let sent = Arc::new(AtomicUsize::new(0));
        let clock = Arc::new(AtomicU64::new(10));
        let term = Term::with_clock({
            let clock = Arc::clone(&clock);
            move || Duration::from_secs(clock.load(Ordering::SeqCst))
        });
        let service = tower::service_fn({
            let sent = Arc::clone(&sent);
            move |_: Request<Body>| {
                sent.fetch_add(1, Ordering::SeqCst);
                let found = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
                let body = Body::from(found.as_bytes().to_vec());
                ready(Ok::<_, Failure>(Response::new(body)))
            }
        });
        let client = limited(Client::new(service, "default"), LIMITS, term.clone());
        let api = Api::<ConfigMap>::default_namespaced(client);
        let write = || async {
            let (params, object) = (PostParams::default(), ConfigMap::default());
            api.create(&params, &object).await.map(drop).map_err(|error| error.to_string())
        };
        let refused = write().await.expect_err("it does not lead yet");
        assert!(refused.contains("does not lead"), "{refused}");
        assert!(api.get("x").await.is_ok());
        term.extend(Duration::from_secs(117));
        write().await.expect("it leads");
        clock.store(117, Ordering::SeqCst);
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

    // Nobody may be woken by what he does not see yet, and nobody forgotten whom a list misses.
    #[tokio::test]
    async fn what_a_list_brings_is_told_when_the_list_is_whole() {
        let object = |name: &str, value: &str| {
            let mut object = ConfigMap::default();
            object.metadata.name = Some(name.to_owned());
            object.data = Some([("key".to_owned(), value.to_owned())].into());
            object
        };
        let (store, writer) = reflector::store();
        let events = [
            Event::Init,
            Event::InitApply(object("a", "1")),
            Event::InitApply(object("b", "1")),
            Event::InitDone,
            Event::Apply(object("b", "2")),
            Event::Init,
            Event::InitApply(object("b", "3")),
            Event::InitDone,
            Event::Delete(object("b", "3")),
        ];
        let events = stream::iter(events.map(Ok)).reflect(writer);
        let told = stored(events, store.clone()).map(|told| {
            let told = told.expect("no error");
            let seen = store.get(&ObjectRef::from_obj(&told));
            let value =
                |object: &ConfigMap| object.data.iter().flatten().map(|it| it.1.clone()).collect();
            let seen: Option<String> = seen.map(|seen| value(&seen));
            (told.name_any(), value(&told), seen)
        });
        let told: Vec<(String, String, Option<String>)> = told.collect().await;
        let want = [
            ("a", "1", Some("1")),
            ("b", "1", Some("1")),
            ("b", "2", Some("2")),
            ("a", "1", None),
            ("b", "3", Some("3")),
            ("b", "3", None),
        ];
        let want = want
            .map(|(name, told, seen)| (name.to_owned(), told.to_owned(), seen.map(str::to_owned)));
        let mut told = told;
        // The order within a store is nobody's.
        told[..2].sort();
        assert_eq!(told, want);
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
