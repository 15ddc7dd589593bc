//! What everything that asks the API server stands on: a bounded client, watches, served kinds, and
//! what its refusals mean.

mod client;
mod connections;
mod counted;
mod error;
mod kinds;
mod restored;
mod shared;
mod stored_objects;
mod wake;
mod watches;

use std::hash::Hash;
use std::time::Duration;

use kube::api::ObjectMeta;
use kube::runtime::reflector::{Lookup, Store};

pub use client::{authored, bounded, changes, made, named, stored};
pub use connections::connect;
pub use counted::counted;
#[cfg(test)]
pub(crate) use error::refusal;
pub use error::{MAX_RIGHTS_DELAY, RequestError, Sentence, is_denied};
pub use kinds::{Kind, Kinds};
pub use olm_cluster::{ApiError, code, join_bounded, message};
pub use restored::noticing;
pub use stored_objects::{MAX_AGE, Resource, stored_objects};
pub use watches::{Seen, Target, Watches};

/// How long the first list of a watch is waited for before somebody asks the API server for himself.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// Says whether a store holds everything that there is. At the start of the process, where every
/// object is reconciled, this waits for that a while: one list serves all of them.
pub async fn is_complete<K>(store: &Store<K>) -> bool
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let ready = tokio::time::timeout(FIRST_LIST, store.wait_until_ready()).await;
    ready.is_ok_and(|ready| ready.is_ok())
}

/// Returns what tells this state of an object from every other one: its resource version and its UID.
/// The version alone may come again when etcd is restored from a backup.
pub fn version(metadata: &ObjectMeta) -> Option<String> {
    let version = metadata.resource_version.as_deref()?;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    Some(format!("{version}/{uid}"))
}
