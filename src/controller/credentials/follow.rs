//! Following a few objects: what is known of all of them, anew after every change.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::backoff::WatchDelays;
use crate::cluster::{Sentence, code, request_of};

/// Returns the selection of the one object with this name. The right to list and watch may then be
/// bound to the name.
pub(super) fn only(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// Watches objects, keeps what `lean` leaves of each, and tells what `read` makes of it, by name. Yields all
/// of them after every change, or the code with which the API server refuses to show them as long as nothing is
/// known, once as long as it is the same: after a restart it refuses everything for a moment.
pub(super) fn follow<K, T>(
    api: Api<K>,
    config: watcher::Config,
    lean: fn(&mut K),
    read: impl Fn(&K) -> T + Send,
) -> impl Stream<Item = Result<BTreeMap<String, T>, u16>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Send,
{
    let (store, writer) = reflector::store();
    let (mut known, mut refused) = (false, None);
    let events = watcher(api, config).backoff(WatchDelays::default()).modify(lean).reflect(writer);
    events.filter_map(move |event| {
        ready(match event {
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {
                known = true;
                let found = store.state();
                Some(Ok(found.iter().map(|object| (object.name_any(), read(object))).collect()))
            }
            Err(error) if !known => {
                let code = request_of(&error).map(code);
                let code = code.filter(|code| *code >= 400 && refused != Some(*code));
                refused = code.or(refused);
                code.map(Err)
            }
            Err(error) => {
                tracing::debug!(error = %Sentence(&error), "watch interrupted");
                None
            }
        })
    })
}
