//! Writing ClusterObjectSets themselves, as the controller: finalizers, status, archiving.

use jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_api::conditions::types;
use olm_api::keys::{finalizer, label, manager};
use olm_core::policy;
use olm_core::revision::{Outcome, statements};
use olm_core::status::{object_set, remove_condition};
use serde_json::json;

use crate::apply::message;

use super::missing::names;
use super::reconcile::Pass;
use super::{Context, ObjectSetError};

/// Retires a revision that a later one has replaced.
pub(super) async fn archive_sibling(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<(), ObjectSetError> {
    let api = Api::<ClusterObjectSet>::all(ctx.client.clone());
    let patch = json!({"spec": {"lifecycleState": "Archived"}});
    let answer = api
        .patch(&set.name_any(), &own_params(), &Patch::Merge(patch))
        .await;
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(err) => Err(ObjectSetError::own("archiving previous revision", err)),
        Ok(_) => {
            tracing::info!(revision = set.name_any(), "previous revision archived");
            Ok(())
        }
    }
}

/// Says whether nothing of a revision is applied until its annotation goes (applying.md 10).
pub(super) fn is_paused(set: &ClusterObjectSet) -> bool {
    policy::is_paused(set.annotations())
}

/// Returns the `owner-name` label of a revision.
pub(super) fn owner_name(set: &ClusterObjectSet) -> Option<&str> {
    let labels = set.metadata.labels.as_ref()?;
    labels.get(label::OWNER_NAME).map(String::as_str)
}

/// Parameters of patches the controller makes to its own objects.
pub(super) fn own_params() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::OPERATOR_CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}

/// Puts our finalizer on, before anything is applied.
pub(super) async fn add_finalizer(ctx: &Context, pass: &mut Pass) -> Result<(), ObjectSetError> {
    if has_finalizer(&pass.set) {
        return Ok(());
    }
    let mut finalizers = pass.set.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer::TEARDOWN.to_owned());
    let status = pass.set.status.take();
    let mut updated = patch_finalizers(ctx, &pass.set, &finalizers).await?;
    updated.status = updated.status.take().or(status);
    pass.set = updated;
    Ok(())
}

/// Takes our finalizer off; absent is success.
pub(super) async fn remove_finalizer(
    ctx: &Context,
    set: &ClusterObjectSet,
) -> Result<(), ObjectSetError> {
    if !has_finalizer(set) {
        return Ok(());
    }
    let mut finalizers = set.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != finalizer::TEARDOWN);
    match patch_finalizers(ctx, set, &finalizers).await {
        Err(ObjectSetError::Own(_, answer)) if answer.code() == 404 => Ok(()),
        answer => answer.map(|_| ()),
    }
}

/// Says whether our finalizer is on the revision.
pub(super) fn has_finalizer(set: &ClusterObjectSet) -> bool {
    let finalizers = set.metadata.finalizers.iter().flatten();
    finalizers
        .into_iter()
        .any(|name| name == finalizer::TEARDOWN)
}

/// Says whether Kubernetes was asked to keep the dependents of an object that is being deleted.
pub(super) fn has_orphan_finalizer(metadata: &ObjectMeta) -> bool {
    let mut finalizers = metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == finalizer::ORPHAN)
}

async fn patch_finalizers(
    ctx: &Context,
    set: &ClusterObjectSet,
    finalizers: &[String],
) -> Result<ClusterObjectSet, ObjectSetError> {
    // Nobody else's finalizer may be lost to a list that is out of date.
    let metadata = json!({"finalizers": finalizers});
    let patched = ctx.own().patch_metadata(set, metadata).await;
    patched.map_err(|err| ObjectSetError::own("updating finalizers", err))
}

/// Writes the status, if it says anything new.
pub(super) async fn report(
    ctx: &Context,
    pass: &mut Pass,
    outcome: &Outcome,
) -> Result<(), ObjectSetError> {
    let now = Timestamp::now();
    let mut status = pass.set.status.clone().unwrap_or_default();
    let generation = pass.set.metadata.generation;
    for statement in statements(&pass.set, outcome, now) {
        statement.put(&mut status.conditions, generation, now);
    }
    match pass.deferred.as_deref() {
        None => {}
        Some([]) => {
            remove_condition(&mut status.conditions, types::DEFERRED);
        }
        Some(left_out) => {
            let deferred = object_set::deferred(&names(left_out));
            deferred.put(&mut status.conditions, generation, now);
        }
    }
    if status.observed_phases.is_empty() {
        status.observed_phases.clone_from(&pass.observed);
    }
    let own = ctx.own();
    let written = own.write_status(&ctx.written, &pass.set, status).await;
    let written = written.map_err(|err| ObjectSetError::own("error updating status", err))?;
    if let Some(written) = written {
        pass.set = written;
    }
    Ok(())
}

/// Deletes a revision if nobody replaced it meanwhile. Absent is success. With `orphans` Kubernetes
/// keeps what the revision owns, whatever becomes of its finalizer.
pub(super) async fn delete_revision(
    client: &Client,
    set: &ClusterObjectSet,
    orphans: bool,
) -> Result<(), kube::Error> {
    let mut params = if orphans {
        DeleteParams::orphan()
    } else {
        DeleteParams::background()
    };
    params.preconditions = Some(kube::api::Preconditions {
        uid: set.uid(),
        resource_version: None,
    });
    let api = Api::<ClusterObjectSet>::all(client.clone());
    match api.delete(&set.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => answer.map(|_| ()),
    }
}

/// Logs a failure that the pass survives.
pub(super) fn note_failure(what: &'static str, err: &kube::Error) {
    tracing::debug!(error = message(err), what, "request failed");
}
