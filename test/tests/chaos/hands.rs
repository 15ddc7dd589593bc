//! Deletions by hand of what the controller needs or manages.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, ResourceExt as _};
use olm_test::prelude::*;

use crate::cast::Actor;
use crate::life::{Age, Life};
use crate::stage::Stage;

/// An object that is deleted by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// The newest revision.
    Revision,
    /// A Secret with content of the newest revision.
    Content,
    ConfigMap,
    Deployment,
}

impl Hand {
    /// Returns what may be deleted in `stage`: not what only the stage itself may remove, because
    /// the test checks for its loss.
    fn choices(stage: Stage) -> &'static [Self] {
        match stage {
            Stage::Install | Stage::Upgrade | Stage::Rollback | Stage::StepBack => {
                &[Self::Revision, Self::Content, Self::ConfigMap, Self::Deployment]
            }
            // Without the revision, or its content for a moment, nothing has timed out any more.
            Stage::Revert => &[Self::ConfigMap, Self::Deployment],
            Stage::Uninstall => &[Self::Content, Self::ConfigMap],
            Stage::Empty | Stage::Orphan | Stage::Folder => &[],
        }
    }

    pub(crate) fn choose(random: &mut Random, stage: Stage) -> Option<Self> {
        let choices = Self::choices(stage);
        (!choices.is_empty()).then(|| *random.one_of(choices))
    }

    /// Deletes it. Returns whether there was something to delete that comes back as it was: the
    /// status of an extension that is stuck depends on how its Deployment was created.
    pub(crate) async fn delete(
        self,
        client: &Client,
        (actor, stage): (&Actor, Stage),
        life: &Life,
    ) -> bool {
        let deleted = match self {
            Self::Deployment if actor.is_stuck_in(stage) => Ok(false),
            Self::Revision => revision(client, actor).await,
            Self::Content => content(client, actor, life).await,
            Self::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(client.clone(), actor.name());
                delete(&api, &actor.scene.package.config_map()).await
            }
            Self::Deployment => {
                let api = Api::<Deployment>::namespaced(client.clone(), actor.name());
                delete(&api, &actor.scene.package.deployment()).await
            }
        };
        deleted.unwrap_or(false)
    }
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<bool, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the newest revision that is not being deleted.
pub(crate) async fn newest(
    client: &Client,
    actor: &Actor,
) -> Result<Option<ClusterObjectSet>, kube::Error> {
    let owned = format!("{}={}", keys::label::OWNER_NAME, actor.name());
    let all = Api::<ClusterObjectSet>::all(client.clone())
        .list(&ListParams::default().labels(&owned))
        .await?;
    // A tenant's set has the label, and another account.
    let account = annotation::SERVICE_ACCOUNT_NAMESPACE;
    let living = all.items.into_iter().filter(|set| {
        let theirs = set.annotations().get(account).is_some_and(|it| it == actor.name());
        theirs && set.metadata.deletion_timestamp.is_none()
    });
    Ok(living.max_by_key(|set| set.spec.revision))
}

async fn revision(client: &Client, actor: &Actor) -> Result<bool, kube::Error> {
    let Some(newest) = newest(client, actor).await? else { return Ok(false) };
    delete(&Api::<ClusterObjectSet>::all(client.clone()), &newest.name_any()).await
}

async fn content(client: &Client, actor: &Actor, life: &Life) -> Result<bool, kube::Error> {
    let Some(newest) = newest(client, actor).await? else { return Ok(false) };
    let api = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let of_it = format!("{}={}", keys::label::REVISION_NAME, newest.name_any());
    let all = api.list(&ListParams::default().labels(&of_it)).await?;
    let Some(first) = all.items.first() else { return Ok(false) };
    // Without its content, objects are found by their labels, and their order is only kept for
    // kinds that the service account may list.
    if let Some(record) = life.lock().all.get_mut(actor.name()) {
        record.unordered |= record.age == Age::Leaving;
    }
    delete(&api, &first.name_any()).await
}
