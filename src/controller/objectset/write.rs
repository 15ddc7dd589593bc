//! Writing revisions, for the reconciler of ClusterExtensions.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use olm_api::keys::{label, manager, name};
use olm_api::{API_VERSION, ClusterObjectSet};
use olm_core::error::{Classify, Disposition};
use olm_core::revision::{
    Change, ContentSecret, Desired, RevisionError, build, compare, needs_patch, next_number,
    outdated, pack, rebuild, revision_name,
};
use serde_json::json;

use crate::apply::Answer;

use super::content::{read_secrets, resolve};
use super::own::{delete_revision, own_params};

/// Why a revision could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The content cannot be a revision.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The cluster refused; what was tried.
    #[error("{0}")]
    Kube(&'static str, #[source] Answer),
}

impl Classify for WriteError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Revision(err) => err.disposition(),
            Self::Kube(..) => Disposition::Retry,
        }
    }
}

/// A revision as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What was done: a first revision, another one, or none.
    pub change: Change,
    /// Name of the ClusterObjectSet that now holds the content.
    pub name: String,
    /// Its number.
    pub number: i64,
}

/// Returns the revision that counts as newest: one that is being deleted holds nothing any more.
pub fn newest(revisions: &[ClusterObjectSet]) -> Option<&ClusterObjectSet> {
    let mut newest = revisions.iter().rev();
    newest.find(|set| set.metadata.deletion_timestamp.is_none())
}

/// Says what writing `desired` would do, so that checks can run before anything is written.
///
/// `revisions` comes from [`super::list_revisions`]. Content that is stored but not yet observed is read;
/// if it cannot be, the references are compared instead.
pub async fn plan_revision(
    client: &Client,
    system_namespace: &str,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
) -> Result<Change, WriteError> {
    let Some(newest) = newest(revisions) else {
        return Ok(Change::Install);
    };
    let status = newest.status.as_ref();
    let mut observed = status
        .map(|status| status.observed_phases.clone())
        .unwrap_or_default();
    if observed.is_empty() {
        let secrets = read_secrets(client, client, newest, system_namespace).await;
        match resolve(newest, &secrets, system_namespace) {
            Ok(content) => observed = content.observed,
            Err(_) => return same_references(system_namespace, desired, newest),
        }
    }
    let digests: Vec<(String, String)> = observed
        .into_iter()
        .map(|phase| (phase.name, phase.digest))
        .collect();
    Ok(compare(desired, Some(newest), &digests))
}

fn same_references(
    system_namespace: &str,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<Change, WriteError> {
    let name = newest.name_any();
    let packed = pack(&name, &desired.phases)?;
    let built = build(
        desired,
        &name,
        newest.spec.revision,
        &packed,
        system_namespace,
    );
    let same = built.spec.phases == newest.spec.phases
        && built.spec.lifecycle_state == newest.spec.lifecycle_state
        && built.spec.collision_protection == newest.spec.collision_protection;
    Ok(if same {
        Change::Unchanged
    } else {
        Change::Upgrade
    })
}

/// Makes the newest revision of an extension hold what is desired.
///
/// `change` comes from [`plan_revision`] with the same `revisions`. A new revision is written in an
/// order that survives a crash at any point: content Secrets, ClusterObjectSet, owner references
/// of the Secrets. An unchanged one is patched where annotations, probes or deadline differ, and
/// its Secrets are completed.
pub async fn write_revision(
    client: &Client,
    system_namespace: &str,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
    change: Change,
) -> Result<Written, WriteError> {
    match (change, newest(revisions)) {
        (Change::Unchanged, Some(newest)) => keep(client, system_namespace, desired, newest).await,
        (Change::Unchanged | Change::Install | Change::Upgrade, _) => {
            create(client, system_namespace, desired, revisions, change).await
        }
    }
}

async fn create(
    client: &Client,
    system_namespace: &str,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
    change: Change,
) -> Result<Written, WriteError> {
    let number = next_number(revisions);
    let name = revision_name(&desired.extension.name, number)?;
    let packed = pack(&name, &desired.phases)?;
    for old in outdated(revisions) {
        delete_revision(client, old, false)
            .await
            .map_err(|err| WriteError::Kube("deleting archived revision", Answer(err)))?;
        tracing::info!(revision = old.name_any(), "archived revision deleted");
    }
    let owner = &desired.extension.name;
    for secret in &packed.secrets {
        create_secret(client, system_namespace, &name, owner, secret).await?;
    }
    let set = build(desired, &name, number, &packed, system_namespace);
    let set = apply(client, &set).await?;
    tracing::info!(revision = name, "revision created");
    for secret in &packed.secrets {
        own_secret(client, system_namespace, &secret.name, &set).await?;
    }
    Ok(Written {
        change,
        name,
        number,
    })
}

async fn keep(
    client: &Client,
    system_namespace: &str,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<Written, WriteError> {
    let name = newest.name_any();
    if needs_patch(desired, newest) {
        apply(client, &rebuild(desired, newest)).await?;
        tracing::info!(revision = name, "revision patched");
    }
    complete_secrets(client, system_namespace, desired, newest).await?;
    Ok(Written {
        change: Change::Unchanged,
        number: newest.spec.revision,
        name,
    })
}

/// Gives Secrets that a crash left without owner their owner, and makes anew those that are gone.
async fn complete_secrets(
    client: &Client,
    system_namespace: &str,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<(), WriteError> {
    let name = newest.name_any();
    let api = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let labels = ListParams::default().labels(&format!("{}={name}", label::REVISION_NAME));
    let list = api
        .list_metadata(&labels)
        .await
        .map_err(|err| WriteError::Kube("listing content Secrets", Answer(err)))?;
    let mut there = Vec::new();
    for secret in list.items {
        let owned = secret.metadata.owner_references.iter().flatten();
        if !owned
            .into_iter()
            .any(|owner| Some(&owner.uid) == newest.metadata.uid.as_ref())
        {
            own_secret(client, system_namespace, &secret.name_any(), newest).await?;
        }
        there.push(secret.name_any());
    }
    let referenced = olm_core::revision::referenced_secrets(&newest.spec, system_namespace);
    let missing: Vec<&String> = referenced
        .iter()
        .filter(|(namespace, secret)| namespace == system_namespace && !there.contains(secret))
        .map(|(_, secret)| secret)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    // Compression may differ from that of whoever wrote the revision; then the names differ and
    // the revision keeps reporting what it misses.
    let packed = pack(&name, &desired.phases)?;
    for secret in packed
        .secrets
        .iter()
        .filter(|secret| missing.contains(&&secret.name))
    {
        let owner = &desired.extension.name;
        create_secret(client, system_namespace, &name, owner, secret).await?;
        own_secret(client, system_namespace, &secret.name, newest).await?;
    }
    Ok(())
}

async fn apply(client: &Client, set: &ClusterObjectSet) -> Result<ClusterObjectSet, WriteError> {
    let api = Api::<ClusterObjectSet>::all(client.clone());
    let params = PatchParams::apply(manager::EXTENSION).force();
    api.patch(&set.name_any(), &params, &Patch::Apply(set))
        .await
        .map_err(|err| WriteError::Kube("creating new Revision", Answer(err)))
}

async fn create_secret(
    client: &Client,
    system_namespace: &str,
    revision: &str,
    extension: &str,
    content: &ContentSecret,
) -> Result<(), WriteError> {
    let data = content.data.iter();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(content.name.clone()),
            namespace: Some(system_namespace.to_owned()),
            labels: Some(BTreeMap::from([
                (label::REVISION_NAME.to_owned(), revision.to_owned()),
                (label::OWNER_NAME.to_owned(), extension.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        type_: Some(name::OBJECT_DATA_SECRET_TYPE.to_owned()),
        immutable: Some(true),
        data: Some(
            data.map(|(key, value)| (key.clone(), ByteString(value.clone())))
                .collect(),
        ),
        ..Secret::default()
    };
    let api = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let params = PostParams {
        field_manager: Some(manager::OPERATOR_CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &secret).await {
        Ok(_) => Ok(()),
        // Its name is a hash of its content, so what is there is what we want.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(err) => Err(WriteError::Kube("creating content Secret", Answer(err))),
    }
}

async fn own_secret(
    client: &Client,
    system_namespace: &str,
    secret: &str,
    set: &ClusterObjectSet,
) -> Result<(), WriteError> {
    let api = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let patch = json!({"metadata": {"ownerReferences": [{
        "apiVersion": API_VERSION,
        "kind": "ClusterObjectSet",
        "name": set.name_any(),
        "uid": set.metadata.uid,
        "controller": true,
        // A foreground deletion would take the content away before it is worked off.
        "blockOwnerDeletion": false,
    }]}});
    api.patch(secret, &own_params(), &Patch::Merge(patch))
        .await
        .map(|_| ())
        .map_err(|err| WriteError::Kube("setting owner of content Secret", Answer(err)))
}
