//! Removing an extension: its revisions first, then what is kept for it, then its finalizers.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::events::EventType;
use olm_api::conditions::{Reason, types};
use olm_api::{ClusterExtension, keys};
use olm_core::annotations::{Carrier, removal_hold};
use olm_core::error::{Chain, Classify as _};
use olm_core::revision::{Extension, is_marked_orphaned, is_orphaned, orphan_mark};
use olm_core::status::{
    find, put_ready, removal_blocked, removal_held, retrying, terminal, uninstalling,
};
use olm_core::uninstall::BLOCKED;
use serde_json::json;

use super::Context;
use super::context::LIMIT;
use super::error::ExtensionError;
use crate::account::GuardError;
use crate::backoff::resync;
use crate::cluster::ApiError;
use crate::reconcile::within;
use crate::revision::{Teardown, remove_unowned_content, teardown_extension};

/// The finalizers that hold an extension until it is removed; the second is upstream's.
const OURS: [&str; 2] =
    [keys::finalizer::CLEANUP_UNPACK_CACHE, keys::finalizer::CLEANUP_CONTENTMANAGER_CACHE];
/// How often to look at a removal; its revisions wake it as well.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How often to look whether CRDs are there that Helm installed.
const HELM_LOOK: Duration = Duration::from_secs(30);

/// Goes on with the removal of an extension that is being deleted; a failure stands in `Ready`.
pub(super) async fn remove(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<Option<Duration>, ExtensionError> {
    let ended = within(LIMIT, tear_down(extension, ctx)).await;
    if let Err(error) = &ended
        && !error.is_conflict()
    {
        let text = Chain(error).to_string();
        if let Err(error) = within(LIMIT, report(extension, ctx, &text)).await {
            tracing::warn!(error = %Chain(&error), "failure of a removal not reported");
        }
    }
    ended
}

async fn tear_down(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<Option<Duration>, ExtensionError> {
    if !extension.finalizers().iter().any(|found| OURS.contains(&found.as_str())) {
        // What is left is somebody else's.
        return Ok(None);
    }
    if ctx.kept.is_orphaning(&extension.metadata) && !is_marked_orphaned(&extension.metadata) {
        mark_orphaned(extension, ctx).await?;
        // The change of the object brings the next reconcile.
        return Ok(None);
    }
    let (name, annotations) = (extension.name_any(), extension.annotations());
    if let Some(what) = removal_hold(Carrier::Extension, &name, annotations) {
        hold(extension, ctx, what).await?;
        return Ok(Some(resync()));
    }
    if let Some(what) = ctx.left_to_helm(extension).await? {
        block(extension, ctx, what).await?;
        return Ok(Some(HELM_LOOK));
    }
    let failed = |cause| ExtensionError::finalizer(ApiError(cause));
    match teardown_extension(&ctx.client, extension).await {
        Ok(Teardown::Waiting(what)) => {
            report(extension, ctx, &what).await?;
            Ok(Some(LOOK_AGAIN))
        }
        Ok(Teardown::Blocked(what)) => {
            block(extension, ctx, what).await?;
            // Its revision looks at what blocks it, and wakes it.
            Ok(Some(resync()))
        }
        Ok(Teardown::Done) => {
            remove_certificates(extension, ctx).await?;
            let (name, namespace) = (extension.name_any(), &ctx.settings.system_namespace);
            remove_unowned_content(&ctx.client, namespace, (keys::label::OWNER_NAME, &name))
                .await
                .map_err(failed)?;
            forget_bundles(extension, ctx);
            let released = ctx.reconciler.remove_finalizers(extension, &OURS);
            released.await.map_err(failed)?;
            ctx.forget(extension);
            tracing::info!("extension removed");
            Ok(None)
        }
        Err(cause) => Err(failed(cause)),
    }
}

/// Writes down that what an extension installed is to stay: whatever changed on it since it was
/// read, because that may be the finalizer.
async fn mark_orphaned(extension: &ClusterExtension, ctx: &Context) -> Result<(), ExtensionError> {
    let mark = json!({"metadata": {
        "uid": extension.metadata.uid,
        "annotations": {keys::annotation::ORPHANED: orphan_mark(&extension.metadata)},
    }});
    let params = PatchParams {
        field_manager: Some(keys::manager::OPERATOR_CONTROLLER.to_owned()),
        ..PatchParams::default()
    };
    let api = Api::<ClusterExtension>::all(ctx.client.clone());
    match api.patch(&extension.name_any(), &params, &Patch::Merge(mark)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(ExtensionError::Orphaned(ApiError(error))),
    }
}

/// Says in `Ready` what is waited for; upstream's conditions keep what they said.
async fn report(
    extension: &ClusterExtension,
    ctx: &Context,
    what: &str,
) -> Result<(), ExtensionError> {
    let mut status = extension.status.clone().unwrap_or_default();
    let first = find(&status.conditions, types::READY)
        .is_none_or(|ready| ready.reason != Reason::Uninstalling.as_str());
    if first {
        // Whether anything may be removed is decided by its revisions.
        let note = "the extension is being deleted".to_owned();
        ctx.publish(extension, EventType::Normal, Reason::Uninstalling, note).await;
        // What is being removed offers nothing to others any more.
        ctx.discovery.changed();
    }
    let (generation, now) = (extension.metadata.generation, Timestamp::now());
    let progressing = find(&status.conditions, types::PROGRESSING);
    if progressing.is_some_and(|progressing| progressing.message.starts_with(BLOCKED)) {
        retrying(what).put(&mut status.conditions, generation, now);
    }
    put_ready(&mut status.conditions, uninstalling(what), None, generation, now);
    ctx.write_status(extension, status).await
}

/// Says in `Progressing`, `Ready` and an Event that users' objects hold the removal.
async fn block(
    extension: &ClusterExtension,
    ctx: &Context,
    what: String,
) -> Result<(), ExtensionError> {
    let mut status = extension.status.clone().unwrap_or_default();
    let (generation, now) = (extension.metadata.generation, Timestamp::now());
    terminal(Reason::Blocked, &*what).put(&mut status.conditions, generation, now);
    let ready = removal_blocked(&*what);
    if put_ready(&mut status.conditions, ready, None, generation, now) {
        let (type_, reason) = (EventType::Warning, Reason::RemovalHeld);
        ctx.publish(extension, type_, reason, what).await;
    }
    ctx.write_status(extension, status).await
}

/// Says in `Ready` and an Event why nothing is removed.
async fn hold(
    extension: &ClusterExtension,
    ctx: &Context,
    what: String,
) -> Result<(), ExtensionError> {
    let mut status = extension.status.clone().unwrap_or_default();
    let generation = extension.metadata.generation;
    let ready = removal_held(&what);
    if put_ready(&mut status.conditions, ready, None, generation, Timestamp::now()) {
        ctx.publish(extension, EventType::Warning, Reason::RemovalHeld, what).await;
    }
    ctx.write_status(extension, status).await
}

/// Removes the certificates of the extension's webhooks, unless what it installed is to be kept;
/// then only the CA goes, which is the controller's own.
async fn remove_certificates(
    extension: &ClusterExtension,
    ctx: &Context,
) -> Result<(), ExtensionError> {
    let orphans = is_orphaned(&extension.metadata);
    let account = ctx.settings.accounts.of_extension(extension);
    let account = match account.filter(|_| !orphans) {
        Some(account) => match ctx.guard.permit(&account).await {
            Ok(()) => Some(account),
            // It never was acted as, or is not any more.
            Err(GuardError::Reserved(_)) => None,
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let account = account.as_ref();
    let removed = ctx.issuer.remove(&Extension::of(extension), account).await;
    removed.map_err(|error| ExtensionError::Certificates(Box::new(error)))
}

/// Removes the unpacked bundles of an extension; that it fails costs some disk, nothing else.
fn forget_bundles(extension: &ClusterExtension, ctx: &Context) {
    if let Err(error) = ctx.bundles.remove_owner(&extension.name_any()) {
        tracing::warn!(error = %Chain(&error), "unpacked bundles not removed");
    }
}

/// Removes the unpacked bundles of extensions that went while another process led, or none ran.
pub(super) async fn forget_gone_bundles(ctx: &Context) {
    let extensions = &ctx.seen.extensions;
    if extensions.wait_until_ready().await.is_err() {
        return;
    }
    let names = extensions.state().iter().map(|one| one.name_any()).collect();
    if let Err(error) = ctx.bundles.retain_owners(&names) {
        tracing::warn!(error = %Chain(&error), "unpacked bundles of removed extensions stay on disk");
    }
}
