//! Following a few objects: what is known of all of them, anew after every change.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::backoff::WatchDelays;
use crate::cluster::{Sentence, code};

/// Returns the selection of the one object with this name. The right to list and watch may then be
/// bound to the name.
pub(super) fn only(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// Watches objects and keeps of each what `read` makes of it, by name. Yields all of them after
/// every change, or the code with which the API server refuses to show them as long as nothing is
/// known, once as long as it is the same: after a restart it refuses everything for a moment.
pub(super) fn follow<K, T>(
    api: Api<K>,
    config: watcher::Config,
    read: impl Fn(&K) -> T + Send,
) -> impl Stream<Item = Result<BTreeMap<String, T>, u16>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Clone + Send,
{
    let mut known: Option<BTreeMap<String, T>> = None;
    let mut listed = BTreeMap::new();
    let mut refused = None;
    watcher(api, config).backoff(WatchDelays::default()).filter_map(move |event| {
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                listed.insert(object.name_any(), read(&object));
                None
            }
            Ok(Event::InitDone) => {
                known = Some(std::mem::take(&mut listed));
                known.clone().map(Ok)
            }
            Ok(Event::Apply(object)) => {
                let known = known.get_or_insert_default();
                known.insert(object.name_any(), read(&object));
                Some(Ok(known.clone()))
            }
            Ok(Event::Delete(object)) => {
                let known = known.get_or_insert_default();
                known.remove(&object.name_any());
                Some(Ok(known.clone()))
            }
            Err(error) if known.is_none() => {
                let code = refusal(&error).filter(|code| refused != Some(*code));
                refused = code.or(refused);
                code.map(Err)
            }
            Err(error) => {
                tracing::debug!(error = %Sentence(&error), "watch interrupted");
                None
            }
        };
        ready(change)
    })
}

/// Returns the code of a refusal; nothing when there was no answer.
fn refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(code(error)).filter(|code| *code >= 400),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}
