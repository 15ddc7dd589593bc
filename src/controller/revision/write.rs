//! Writing revisions, for the reconciler of ClusterExtensions.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource as _, ResourceExt};
use olm_api::keys::{label, manager, name};
use olm_api::{API_VERSION, ClusterObjectSet};
use olm_cluster::{read_secrets, resolve};
use olm_core::revision::{
    Change, ContentSecret, Desired, build, compare, has_finalizer, needs_patch, next_number,
    number_after, outdated, pack, rebuild, referenced_secrets, revision_name,
};
use serde_json::json;

use super::delete::delete_revision;
use super::error::WriteError;
use super::known::KnownRevisions;
use super::list::is_owned;
use crate::cluster::{RequestError, join_bounded};

/// Returns the revision that counts as newest: one that is being deleted holds nothing any more.
pub fn newest(revisions: &[ClusterObjectSet]) -> Option<&ClusterObjectSet> {
    let mut newest = revisions.iter().rev();
    newest.find(|set| set.metadata.deletion_timestamp.is_none())
}

/// Says what writing `desired` would do, so that checks can run before anything is written.
///
/// `revisions` comes from [`super::KnownRevisions`]. Where the content of the newest is stored but not
/// yet observed, the references are compared, and the content is read where these differ.
pub async fn plan_revision(
    known: &KnownRevisions,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
) -> Result<Change, WriteError> {
    let Some(newest) = newest(revisions) else {
        return Ok(Change::Install);
    };
    let status = newest.status.as_ref();
    let mut observed = status.map(|status| status.observed_phases.clone()).unwrap_or_default();
    if observed.is_empty() {
        let (client, system_namespace) = (&known.client, &known.system_namespace);
        // Content is named after what it is.
        if same_references(system_namespace, desired, newest)? {
            return Ok(Change::Unchanged);
        }
        let secrets = read_secrets(client, client, newest, system_namespace).await;
        match resolve(newest, &secrets, system_namespace) {
            Ok(content) => observed = content.observed,
            Err(_) => return Ok(Change::Upgrade),
        }
    }
    let digests: Vec<(String, String)> =
        observed.into_iter().map(|phase| (phase.name, phase.digest)).collect();
    Ok(compare(desired, Some(newest), &digests))
}

fn same_references(
    system_namespace: &str,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<bool, WriteError> {
    let name = newest.name_any();
    let packed = pack(&name, &desired.phases)?;
    let built = build(desired, &name, newest.spec.revision, &packed, system_namespace);
    Ok(built.spec.phases == newest.spec.phases
        && built.spec.lifecycle_state == newest.spec.lifecycle_state
        && built.spec.collision_protection == newest.spec.collision_protection)
}

/// Makes the newest revision of an extension hold what is desired. Returns all its revisions, if that
/// takes another one.
///
/// `change` comes from [`plan_revision`] with the same `revisions`. A new revision is written in an
/// order that survives a crash at any point: content Secrets, ClusterObjectSet, owner references
/// of the Secrets, and the deletion of archived revisions beyond those that are kept. An unchanged
/// one is patched where annotations, probes or deadline differ, and its Secrets are completed.
pub async fn write_revision(
    known: &KnownRevisions,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
    change: Change,
) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
    match (change, newest(revisions)) {
        (Change::Unchanged, Some(newest)) => keep(known, desired, newest).await,
        (Change::Unchanged | Change::Install | Change::Upgrade, _) => {
            create(known, desired, revisions).await
        }
    }
}

async fn create(
    known: &KnownRevisions,
    desired: &Desired,
    revisions: &[ClusterObjectSet],
) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
    let (client, system_namespace) = (&known.client, &known.system_namespace);
    let (number, name) = free_number(known, &desired.extension.name, revisions).await?;
    let packed = pack(&name, &desired.phases)?;
    let owner = &desired.extension.name;
    let creating = packed.secrets.iter().map(|secret| {
        let metadata = content_metadata(system_namespace, &name, owner);
        create_secret(client, metadata, secret)
    });
    let created = join_bounded(creating.collect()).await;
    created.into_iter().collect::<Result<(), _>>()?;
    let mut set = build(desired, &name, number, &packed, system_namespace);
    // Nothing has this version: what got the name meanwhile is not written over.
    set.metadata.resource_version = Some("1".to_owned());
    let set = apply(client, &set).await?;
    tracing::info!(revision = name, "revision created");
    let owning = packed.secrets.iter();
    let owning = owning.map(|secret| own_secret(client, system_namespace, &secret.name, &set));
    let done = join_bounded(owning.collect()).await;
    done.into_iter().collect::<Result<(), _>>()?;
    // Last: until the new revision is complete, an old one may be all there is of its content.
    let outdated = outdated(revisions, &set);
    for old in &outdated {
        delete_revision(client, old, false)
            .await
            .map_err(RequestError::doing("deleting archived revision"))?;
        tracing::info!(revision = old.name_any(), "archived revision deleted");
    }
    let gone: Vec<_> = outdated.into_iter().map(ResourceExt::uid).collect();
    let left = revisions.iter().filter(|old| !gone.contains(&old.uid()));
    Ok(Some(left.cloned().chain([set]).collect()))
}

/// Returns number and name of the next revision: the first that is free, for a set that is not a
/// revision of the extension may have such a name.
async fn free_number(
    known: &KnownRevisions,
    extension: &str,
    revisions: &[ClusterObjectSet],
) -> Result<(i64, String), WriteError> {
    let mut number = next_number(revisions)?;
    loop {
        let name = revision_name(extension, number)?;
        let taken = known.has(&name).await;
        if !taken.map_err(RequestError::doing("looking for the name of a new revision"))? {
            return Ok((number, name));
        }
        tracing::warn!(set = name, "not a revision of the extension, its number is passed over");
        number = number_after(number)?;
    }
}

async fn keep(
    known: &KnownRevisions,
    desired: &Desired,
    newest: &ClusterObjectSet,
) -> Result<Option<Vec<ClusterObjectSet>>, WriteError> {
    let name = newest.name_any();
    if needs_patch(desired, newest) {
        let mut set = rebuild(desired, newest);
        // One that is gone meanwhile is not made again.
        set.metadata.uid = newest.uid();
        apply(&known.client, &set).await?;
        tracing::info!(revision = name, "revision patched");
    }
    complete_content(known, desired, newest).await?;
    Ok(None)
}

/// Returns the revisions whose content is not complete and that are not done: until they are, only
/// their content says what they installed.
pub async fn without_content<'a>(
    known: &KnownRevisions,
    revisions: &'a [ClusterObjectSet],
) -> Result<Vec<&'a ClusterObjectSet>, WriteError> {
    let mut found = Vec::new();
    for set in revisions {
        if !has_finalizer(set) || known.has_content(set).await {
            continue;
        }
        let (client, system_namespace) = (&known.client, &known.system_namespace);
        let stored = stored_content(client, system_namespace, set).await?;
        let complete = missing_content(system_namespace, set, &stored).is_empty()
            && stored.iter().all(|secret| is_owned(secret, set.meta()));
        if !complete {
            found.push(set);
        }
    }
    Ok(found)
}

/// Gives content Secrets of a revision that a crash left without owner their owner, and makes anew
/// those that are gone, as far as `desired` is what the revision holds.
pub async fn complete_content(
    known: &KnownRevisions,
    desired: &Desired,
    set: &ClusterObjectSet,
) -> Result<(), WriteError> {
    if known.has_content(set).await {
        return Ok(());
    }
    let (client, system_namespace) = (&known.client, &known.system_namespace);
    let stored = stored_content(client, system_namespace, set).await?;
    for secret in stored.iter().filter(|secret| !is_owned(secret, set.meta())) {
        own_secret(client, system_namespace, &secret.name_any(), set).await?;
    }
    let missing = missing_content(system_namespace, set, &stored);
    if missing.is_empty() {
        return Ok(());
    }
    // Compression may differ from that of whoever wrote the revision; then the names differ and
    // the revision keeps reporting what it misses.
    let name = set.name_any();
    let packed = pack(&name, &desired.phases)?;
    let wanted = packed.secrets.iter();
    for secret in wanted.filter(|secret| missing.contains(&secret.name)) {
        let mut metadata = content_metadata(system_namespace, &name, &desired.extension.name);
        metadata.owner_references = Some(vec![owner_of_content(set)]);
        create_secret(client, metadata, secret).await?;
        tracing::info!(revision = name, secret = secret.name, "content made anew");
    }
    Ok(())
}

/// Lists the content Secrets of a revision.
async fn stored_content(
    client: &Client,
    system_namespace: &str,
    set: &ClusterObjectSet,
) -> Result<Vec<PartialObjectMeta<Secret>>, WriteError> {
    let api = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let labels = format!("{}={}", label::REVISION_NAME, set.name_any());
    let list = api
        .list_metadata(&ListParams::default().labels(&labels))
        .await
        .map_err(RequestError::doing("listing content Secrets"))?;
    Ok(list.items)
}

/// Returns the names of the content Secrets of ours that a revision refers to and that are not
/// there.
fn missing_content(
    system_namespace: &str,
    set: &ClusterObjectSet,
    stored: &[PartialObjectMeta<Secret>],
) -> Vec<String> {
    let there: Vec<String> = stored.iter().map(ResourceExt::name_any).collect();
    referenced_secrets(&set.spec, system_namespace)
        .into_iter()
        .filter(|(namespace, name)| namespace == system_namespace && !there.contains(name))
        .map(|(_, name)| name)
        .collect()
}

async fn apply(client: &Client, set: &ClusterObjectSet) -> Result<ClusterObjectSet, WriteError> {
    let api = Api::<ClusterObjectSet>::all(client.clone());
    let params = PatchParams::apply(manager::EXTENSION).force();
    let applied = api.patch(&set.name_any(), &params, &Patch::Apply(set)).await;
    Ok(applied.map_err(RequestError::doing("creating new Revision"))?)
}

fn content_metadata(system_namespace: &str, revision: &str, extension: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(system_namespace.to_owned()),
        labels: Some(BTreeMap::from([
            (label::REVISION_NAME.to_owned(), revision.to_owned()),
            (label::OWNER_NAME.to_owned(), extension.to_owned()),
        ])),
        ..ObjectMeta::default()
    }
}

fn owner_of_content(set: &ClusterObjectSet) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterObjectSet".to_owned(),
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        controller: Some(true),
        // A foreground deletion would take the content away before it is worked off.
        block_owner_deletion: Some(false),
    }
}

/// Creates a content Secret with the labels and owners of `metadata`.
async fn create_secret(
    client: &Client,
    metadata: ObjectMeta,
    content: &ContentSecret,
) -> Result<(), WriteError> {
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let data = content.data.iter();
    let secret = Secret {
        metadata: ObjectMeta { name: Some(content.name.clone()), ..metadata },
        type_: Some(name::OBJECT_DATA_SECRET_TYPE.to_owned()),
        immutable: Some(true),
        data: Some(data.map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect()),
        ..Secret::default()
    };
    let api = Api::<Secret>::namespaced(client.clone(), &namespace);
    let params = PostParams {
        field_manager: Some(manager::OPERATOR_CONTROLLER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &secret).await {
        Ok(_) => Ok(()),
        // Its name is a hash of its content, so what is there is what we want.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(err) => Err(RequestError::doing("creating content Secret")(err).into()),
    }
}

async fn own_secret(
    client: &Client,
    system_namespace: &str,
    secret: &str,
    set: &ClusterObjectSet,
) -> Result<(), WriteError> {
    let api = Api::<Secret>::namespaced(client.clone(), system_namespace);
    let patch = json!({"metadata": {"ownerReferences": [owner_of_content(set)]}});
    api.patch(secret, &own_params(), &Patch::Merge(patch))
        .await
        .map_err(RequestError::doing("setting owner of content Secret"))?;
    Ok(())
}

/// Parameters of patches the controller makes to its own objects.
pub fn own_params() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::OPERATOR_CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}
