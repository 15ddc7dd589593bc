//! What brings a revision back to work when its account got the rights it lacked.
//!
//! Source: api.md D11, applying.md f8.

use futures::stream::{self, Stream, StreamExt as _};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::Api;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use olm_api::ClusterObjectSet;
use olm_api::conditions::{Reason, types};
use olm_core::status::find;

use crate::cluster;

type Guarded = DeserializeGuard<ClusterObjectSet>;

/// Yields the revisions that fail and are tried again, whenever a role or a binding changes.
pub(super) fn granted(
    client: &Client,
    revisions: Store<Guarded>,
) -> impl Stream<Item = ObjectRef<Guarded>> + use<> {
    stream::select_all([
        changes::<Role>(client),
        changes::<RoleBinding>(client),
        changes::<ClusterRole>(client),
        changes::<ClusterRoleBinding>(client),
    ])
    .flat_map(move |()| stream::iter(retrying(&revisions)))
}

fn changes<K>(client: &Client) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    PartialObjectMeta<K>: Send,
{
    let all = Api::<PartialObjectMeta<K>>::all(client.clone());
    cluster::changes(all, watcher::Config::default())
        .touched_objects()
        .filter_map(|change| async { change.ok().map(drop) })
        .boxed()
}

fn retrying(revisions: &Store<Guarded>) -> Vec<ObjectRef<Guarded>> {
    revisions
        .state()
        .iter()
        .filter(|guarded| {
            guarded.0.as_ref().is_ok_and(|revision| {
                revision
                    .status
                    .as_ref()
                    .and_then(|status| find(&status.conditions, types::PROGRESSING))
                    .is_some_and(|progressing| progressing.reason == Reason::Retrying.as_str())
            })
        })
        .map(|guarded| ObjectRef::from_obj(&**guarded))
        .collect()
}
