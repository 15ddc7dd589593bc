//! Watches that are restarted: streams of changes whose failures stay their own.

use std::future::ready;

use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use kube::api::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::{Api, Resource};
use olm_cluster::code;
use serde::de::DeserializeOwned;

use super::error::{Repeated, Sentence, request_of};
use crate::backoff::WatchDelays;

/// Objects of tenants in one page of a list: each may have 256 KiB of annotations, and as much again
/// about who wrote them.
const PAGE: u32 = 50;

/// Configures the watch of a kind that tenants write.
pub fn of_tenants() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
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
    watched(api, config, |metadata| metadata.managed_fields = None)
}

/// The same, with what `lean` leaves of the metadata.
pub fn watched<K>(
    api: Api<K>,
    config: watcher::Config,
    lean: fn(&mut ObjectMeta),
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    // `Init` comes before each list, also before one that fails.
    let is_read = |event: &Event<K>| !matches!(event, Event::Init);
    let watching = settled(watcher(api, config), WatchDelays::default(), is_read);
    watching.map_ok(move |event| event.modify(|object| lean(object.meta_mut())))
}

/// Watches one object by its name, as [`changes`] does: what it is, and `None` while it does not
/// exist.
pub fn named<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let found = settled(watch_object(api, name), WatchDelays::default(), |_| true);
    found.filter_map(|found| ready(found.ok()))
}

/// Returns changed objects once `store`, into which `events` are written before, contains them: the
/// objects of a list when it is complete, including those that it no longer contains.
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
    is_read: impl Fn(&T) -> bool + Send,
) -> impl Stream<Item = watcher::Result<T>> + Send {
    let mut failure = Repeated::default();
    watching.backoff(delays).filter(move |event| {
        match event {
            Err(error) => match request_of(error) {
                Some(request) if code(request) == 403 => {
                    failure.log(Sentence(error).to_string(), "watch refused");
                }
                // What one of its objects holds.
                Some(kube::Error::SerdeError(_)) => {
                    failure.log(Sentence(error).to_string(), "watch cannot be read");
                }
                _ => tracing::debug!(error = %Sentence(error), "watch interrupted"),
            },
            Ok(event) if is_read(event) => failure.over(),
            Ok(_) => {}
        }
        ready(event.is_ok())
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::core::Status;
    use kube::runtime::reflector;

    use super::*;
    use crate::telemetry::Log;

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

    // deploying.md 2.8
    #[tokio::test]
    async fn a_missing_right_gives_one_warning() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let _logged = tracing::subscriber::set_default(subscriber);
        let refused = || {
            let status = Status::failure("pods is forbidden", "Forbidden").with_code(403);
            let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
            [Ok(Event::<u8>::Init), Err(error)]
        };
        let events = [refused(), refused(), [Ok(Event::Init), Ok(Event::InitDone)], refused()];
        let events = stream::iter(events.into_iter().flatten());
        let is_read = |event: &Event<u8>| !matches!(event, Event::Init);
        settled(events, At(Duration::ZERO), is_read).collect::<Vec<_>>().await;
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("pods is forbidden").count(), 2, "{text}");
    }

    // What delayed a whole controller for more than a minute after an outage of the API server.
    #[tokio::test]
    async fn a_failing_watch_delays_no_other() {
        let failing = stream::repeat_with(|| Err::<u8, _>(watcher::Error::NoResourceVersion));
        let failing = settled(failing, At(Duration::from_hours(1)), |_| true).boxed();
        let working = stream::iter([Ok(1), Ok(2)]);
        let working = settled(working, At(Duration::ZERO), |_| true).boxed();
        let started = Instant::now();
        // This is how a kube Controller treats its streams.
        let merged = stream::select_all([failing, working]).backoff(At(Duration::from_hours(1)));
        let seen: Vec<_> = merged.take(2).collect().await;
        assert!(matches!(seen[..], [Ok(1), Ok(2)]), "{seen:?}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
