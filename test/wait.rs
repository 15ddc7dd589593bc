//! Waiting for a condition, with a deadline.

use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// How long most of what a test waits for may take.
pub const SOON: Duration = Duration::from_mins(1);

/// The shortest and the longest time between two looks; between them, a part of what has passed, so
/// that what is measured with it is right to a tenth. A look that takes long is repeated after as
/// long again: a process a look would take a whole processor.
const POLL: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(400)];
const PART: u32 = 10;
/// An object is read again when its watch has been silent for so long, or has ended.
const SILENCE: Duration = Duration::from_secs(3);
/// Others hear of a change a moment later, like the store of a controller that its metrics show.
const OTHERS: Duration = Duration::from_millis(30);
/// Deadlines are those of an idle machine; beside other tests and builds everything takes longer.
const SLACK: u32 = 2;

/// Polls `look` until it returns `Ok`, and returns that; panics with the last `Err` after `within`.
pub async fn until<T, E, F, Fut>(what: &str, within: Duration, mut look: F) -> T
where
    E: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let begun = Instant::now();
    let within = within * SLACK;
    let deadline = begun + within;
    loop {
        let looked = Instant::now();
        let answer = look().await;
        let took = looked.elapsed();
        match answer {
            Ok(found) => return found,
            Err(last) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {last:#?}")
            }
            Err(_) => {
                let [shortest, longest] = POLL;
                let pause = (begun.elapsed() / PART).clamp(shortest, longest).max(took);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Polls what `read` returns until it is as `wanted`, and returns it; panics with the last after
/// `within`.
pub async fn value<T: Debug>(
    what: &str,
    within: Duration,
    read: impl Fn() -> T,
    wanted: impl Fn(&T) -> bool,
) -> T {
    until(what, within, || {
        let found = read();
        let done = wanted(&found);
        async move { if done { Ok(found) } else { Err(found) } }
    })
    .await
}

/// The same for what is read from elsewhere.
pub async fn read<T: Debug, Fut: Future<Output = T>>(
    what: &str,
    within: Duration,
    read: impl Fn() -> Fut,
    wanted: impl Fn(&T) -> bool,
) -> T {
    until(what, within, || async {
        let found = read().await;
        if wanted(&found) { Ok(found) } else { Err(found) }
    })
    .await
}

/// Repeats `act` until it succeeds, and returns what it returns then; panics with the last `Err` after
/// `within`.
pub async fn done<T, E: Debug>(what: &str, within: Duration, act: impl Fn() -> Result<T, E>) -> T {
    until(what, within, || std::future::ready(act())).await
}

/// Repeats `act` until it is refused with `text` in the words, and returns them.
pub async fn refused<T: Debug>(
    what: &str,
    within: Duration,
    act: impl Fn() -> Result<T, String>,
    text: &str,
) -> String {
    done(what, within, || match act() {
        Err(refusal) if refusal.contains(text) => Ok(refusal),
        other => Err(other),
    })
    .await
}

/// Has `look` look at an object, and at each of its changes, until it returns `Ok`, and returns that;
/// panics with the last `Err` after `within`. A request a change is less than one a moment.
pub async fn object<K, T>(
    api: &Api<K>,
    name: &str,
    what: &str,
    within: Duration,
    look: impl Fn(Option<&K>) -> Result<T, String>,
) -> T
where
    K: Clone + Debug + DeserializeOwned,
{
    let within = within * SLACK;
    let deadline = Instant::now() + within;
    let only = format!("metadata.name={name}");
    loop {
        let begun = Instant::now();
        // A list, whose version is that of now: the object's own may be too old for a watch.
        let (read, version) = match api.list(&ListParams::default().fields(&only)).await {
            Ok(list) => (look(list.items.first()), list.metadata.resource_version),
            Err(error) => (Err(error.to_string()), None),
        };
        let seen = match (read, version) {
            (Err(last), Some(version)) => {
                changes(api, &only, &version, deadline, &look, last).await
            }
            (read, _) => read,
        };
        match seen {
            Ok(seen) => return seen,
            Err(last) if Instant::now() >= deadline => {
                panic!("{what}: not within {within:?}; last seen: {last}")
            }
            // Its watch has ended, or it cannot be read. After a silence nothing must be missed.
            Err(_) => tokio::time::sleep(POLL[1].saturating_sub(begun.elapsed())).await,
        }
    }
}

/// The same from a version on, until the watch ends or is silent.
async fn changes<K, T>(
    api: &Api<K>,
    only: &str,
    version: &str,
    deadline: Instant,
    look: &impl Fn(Option<&K>) -> Result<T, String>,
    mut last: String,
) -> Result<T, String>
where
    K: Clone + Debug + DeserializeOwned,
{
    let only = WatchParams::default().fields(only);
    let Ok(events) = api.watch(&only, version).await else { return Err(last) };
    let mut events = pin!(events);
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).min(SILENCE);
        let Ok(Some(Ok(event))) = timeout(left, events.next()).await else { return Err(last) };
        let seen = match &event {
            WatchEvent::Added(found) | WatchEvent::Modified(found) => look(Some(found)),
            WatchEvent::Deleted(_) => look(None),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => return Err(last),
        };
        match seen {
            Ok(seen) => {
                tokio::time::sleep(OTHERS).await;
                return Ok(seen);
            }
            Err(text) => last = text,
        }
    }
}
