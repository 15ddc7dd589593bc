//! Keeps the CA in its Secret, and publishes it for clients. Done by the leader alone.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use olm_api::keys::name::{self, CA_BUNDLE};
use olm_api::keys::{label, manager};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;

use super::plan::{Change, plan};
use super::{Identity, LONGEST, MAKING, RETRY, pause, tell_replaced, until};
use crate::cluster::{Repeated, RequestError, as_manager, code, named};
use crate::x509::{Authority, Data, Step};

/// Shortest time between two rounds.
const FLOOR: Duration = Duration::from_secs(1);

const TLS_TYPE: &str = "kubernetes.io/tls";
const OPAQUE: &str = "Opaque";

/// Maintains the CA while this process leads.
pub struct Keeper {
    pub(super) identity: Identity,
    /// The Secret as this process last saw it; a deleted one stays until it is made again.
    pub(super) secret: watch::Receiver<Option<Secret>>,
}

impl Keeper {
    /// Follows the CA up, replaces one that cannot be used, and publishes it, until `shutdown`.
    /// `client` writes while this process leads.
    pub async fn run(mut self, client: Client, shutdown: impl Future<Output = ()>) {
        let namespace = &self.identity.namespace;
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
        // What is published is put back when somebody changes it.
        let mut touched = pin!(stream::select(
            named(secrets, name::PUBLISHED_CA_SECRET).map(drop),
            named(maps, name::PUBLISHED_CA).map(drop),
        ));
        let mut shutdown = pin!(shutdown);
        let mut failure = Repeated::default();
        loop {
            let secret = self.secret.borrow_and_update().clone();
            let done = self.keep(&client, secret).await;
            let pause = pause(done, &mut failure, "the serving CA cannot be kept");
            // Two keepers that know different states of the Secret must not chase each other.
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(FLOOR) => {}
            }
            tokio::select! {
                () = &mut shutdown => return,
                changed = self.secret.changed() => if changed.is_err() {
                    // Nobody follows the Secret any more: the process ends.
                    return;
                },
                Some(()) = touched.next() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what there is to do, and returns when to look again.
    async fn keep(&self, client: &Client, secret: Option<Secret>) -> anyhow::Result<Duration> {
        let Some(secret) = secret else { return Ok(LONGEST) };
        let api = Api::namespaced(client.clone(), &self.identity.namespace);
        let now = Timestamp::now();
        let data = secret.data.clone().unwrap_or_default();
        let plan = plan(&data, &self.identity.names, now).context(MAKING)?;
        if let Some(change) = plan.change {
            match write(&api, &secret, &plan.authority).await {
                Ok(written) => match change {
                    Change::Replaced(why) => tell_replaced(client, &written, why).await,
                    Change::Rolled(Step::FollowedUp) => {
                        tracing::info!("a successor of the serving CA was issued");
                    }
                    Change::Rolled(Step::Settled) => {
                        tracing::info!("the old serving CA is no longer published");
                    }
                    Change::Repaired => tracing::info!("the Secret of the serving CA is repaired"),
                },
                // It has changed, or is gone: the watch says what it is now.
                Err(error) if matches!(code(&error), 404 | 409) => return Ok(RETRY),
                Err(error) => {
                    return Err(RequestError::doing("writing the serving CA")(error).into());
                }
            }
        }
        self.publish(client, &plan.authority.bundle()).await?;
        Ok(until(plan.next, now))
    }

    /// Writes the CA where clients find it.
    async fn publish(&self, client: &Client, bundle: &str) -> anyhow::Result<()> {
        let doing = RequestError::doing("publishing the serving CA");
        let namespace = &self.identity.namespace;
        let map = ConfigMap {
            metadata: metadata(name::PUBLISHED_CA),
            data: Some(BTreeMap::from([(CA_BUNDLE.to_owned(), bundle.to_owned())])),
            ..ConfigMap::default()
        };
        let maps = Api::namespaced(client.clone(), namespace);
        put(&maps, &map, |map| map.data.as_ref()).await.map_err(&doing)?;
        let bytes = ByteString(bundle.as_bytes().to_vec());
        let data = BTreeMap::from([(CA_BUNDLE.to_owned(), bytes)]);
        let secret = secret(name::PUBLISHED_CA_SECRET, OPAQUE, data);
        let secrets = Api::namespaced(client.clone(), namespace);
        put(&secrets, &secret, |secret| secret.data.as_ref()).await.map_err(&doing)?;
        Ok(())
    }
}

/// Writes an object, or its data into the one of its name, unless that has the same CAs.
async fn put<K, T>(
    api: &Api<K>,
    fresh: &K,
    data: fn(&K) -> Option<&BTreeMap<String, T>>,
) -> kube::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    T: PartialEq + Serialize,
{
    let name = fresh.name_any();
    let Some(found) = api.get_opt(&name).await? else {
        return api.create(&as_manager(manager::CATALOGD), fresh).await.map(drop);
    };
    let published = data(&found).and_then(|data| data.get(CA_BUNDLE));
    if published == data(fresh).and_then(|data| data.get(CA_BUNDLE)) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({ "data": data(fresh) }));
    api.patch(&name, &PatchParams::apply(manager::CATALOGD), &patch).await.map(drop)
}

/// Makes the Secret of a first CA.
pub(super) async fn create(api: &Api<Secret>, authority: &Authority) -> kube::Result<Secret> {
    let secret = secret(name::SERVING_CA, TLS_TYPE, authority.data());
    api.create(&as_manager(manager::CATALOGD), &secret).await
}

/// Writes the CA in place of `old`, if that is still as it was read.
async fn write(api: &Api<Secret>, old: &Secret, authority: &Authority) -> kube::Result<Secret> {
    if old.immutable == Some(true) {
        let mut params = DeleteParams::background();
        params.preconditions =
            Some(Preconditions { uid: old.uid(), resource_version: old.resource_version() });
        api.delete(name::SERVING_CA, &params).await?;
        return create(api, authority).await;
    }
    let fresh = Secret { data: Some(authority.data()), ..old.clone() };
    api.replace(name::SERVING_CA, &as_manager(manager::CATALOGD), &fresh).await
}

fn secret(name: &str, type_: &str, data: Data) -> Secret {
    Secret {
        metadata: metadata(name),
        type_: Some(type_.to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(label::PART_OF.to_owned(), label::PART_OF_OLM.to_owned())].into()),
        ..ObjectMeta::default()
    }
}
