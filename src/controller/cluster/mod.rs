//! The base for requests to the API server: a client with time limits, watches, served kinds, and
//! the meaning of errors.

#[cfg(test)]
pub(crate) mod answering;
mod changes;
mod client;
mod connections;
mod error;
mod kinds;
mod restored;
mod stored_objects;
mod wake;
mod watches;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::runtime::reflector::{Lookup, Store};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

pub use changes::{changes, named, of_tenants, stored, watched};
pub use client::{bounded, counted, within_term};
pub use connections::connect;
#[cfg(test)]
pub(crate) use error::refusal;
pub use error::{
    Failure, MAX_RIGHTS_DELAY, Repeated, RequestError, Sentence, causes, ended_after, is_denied,
    is_namespace_terminating, request_of, retry_after,
};
pub use kinds::{Kind, Kinds};
pub use olm_cluster::{ApiError, code, join_bounded, message};
pub use restored::noticing;
pub use stored_objects::{MAX_AGE, StoredObjects};
pub use wake::Task;
pub use watches::{Seen, Target, Watches};

/// The longest wait for the first list of a watch before the API server is queried directly.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// Returns whether a store is complete. At the start of the process, when every object is
/// reconciled, this waits a while, so that one list serves all of them.
pub async fn is_complete<K>(store: &Store<K>) -> bool
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let ready = tokio::time::timeout(FIRST_LIST, store.wait_until_ready()).await;
    ready.is_ok_and(|ready| ready.is_ok())
}

pub fn told(told: &Arc<Notify>) -> impl Stream<Item = ()> + Send + use<> {
    stream::unfold(Arc::clone(told), |told| async {
        told.notified().await;
        Some(((), told))
    })
}

/// Returns what an object is created or replaced with by a field manager.
pub fn as_manager(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

/// Deletes an object if it is the one that was read, and returns whether it was; with `unchanged`
/// nobody may have written it since.
pub async fn delete_as_read<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    read: &impl ResourceExt,
    mut params: DeleteParams,
    unchanged: bool,
) -> Result<bool, kube::Error> {
    let resource_version = read.resource_version().filter(|_| unchanged);
    params.preconditions = Some(Preconditions { uid: read.uid(), resource_version });
    match api.delete(&read.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Returns a value that identifies this state of an object: its resource version and its UID. The
/// version alone may be reused when etcd is restored from a backup.
pub fn version(metadata: &ObjectMeta) -> Option<String> {
    let version = metadata.resource_version.as_deref()?;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    Some(format!("{version}/{uid}"))
}
