//! Removing an extension: its revisions first, then what is kept for it, then its finalizers.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use olm_api::conditions::{Reason, types};
use olm_api::{ClusterExtension, keys};
use olm_core::annotations::{Carrier, removal_hold};
use olm_core::error::{Chain, Classify as _};
use olm_core::extension::Extras;
use olm_core::revision::{Extension, is_marked_orphaned, is_orphaned};
use olm_core::status::{
    find, put_ready, removal_blocked, removal_held, retrying, terminal, uninstalling,
};
use olm_core::uninstall::BLOCKED;

use super::Context;
use super::context::{Attempt, LIMIT};
use super::error::ExtensionError;
use super::observe::observe;
use crate::account::GuardError;
use crate::backoff::resync;
use crate::cluster::RequestError;
use crate::reconcile::{Deadline, within};
use crate::revision::{Teardown, mark_orphaned, remove_unowned_content, teardown_extension};

/// The finalizers that hold an extension until it is removed; the second is upstream's.
const OURS: [&str; 2] =
    [keys::finalizer::CLEANUP_UNPACK_CACHE, keys::finalizer::CLEANUP_CONTENTMANAGER_CACHE];
/// The interval of reconciles during a removal; its revisions wake it as well.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The interval of checks for CRDs that another installer left.
const LEFT_LOOK: Duration = Duration::from_secs(30);

/// The longest time until its Secrets are looked at again.
const SECRETS_LOOK: Duration = Duration::from_mins(1);

/// The removal of an extension that is being deleted.
#[derive(Clone, Copy)]
pub(super) struct Removal<'a> {
    pub(super) ctx: &'a Context,
    pub(super) extension: &'a ClusterExtension,
}

impl Removal<'_> {
    /// Continues it; a failure stands in `Ready`.
    pub(super) async fn run(&self) -> Result<Option<Duration>, ExtensionError> {
        let ended = within(LIMIT, self.tear_down()).await;
        if let Err(error) = &ended
            && !error.is_conflict()
        {
            let text = Chain(error).to_string();
            if let Err(error) = within(LIMIT, self.report(&text)).await {
                tracing::warn!(error = %Chain(&error), "failure of a removal not reported");
            }
        }
        match ended {
            // It is done, or its finalizers are.
            Ok(None) => Ok(None),
            Ok(Some(next)) => {
                let due = self.keep_up().await;
                Ok(Some(due.map_or(next, |due| next.min(due))))
            }
            Err(error) => {
                self.keep_up().await;
                Err(error)
            }
        }
    }

    /// Keeps what a removal needs that can be held for long: its account on the revisions, and, for as long
    /// as the operator may run, the certificates of webhooks and the copies of pull secrets, which the
    /// garbage collector takes at once in a foreground deletion. Returns when to look again.
    async fn keep_up(&self) -> Option<Duration> {
        let Self { ctx, extension } = *self;
        if is_orphaned(&extension.metadata) || ctx.kept.is_orphaning(&extension.metadata) {
            // The garbage collector only takes their owner reference off.
            return None;
        }
        let mut revisions = ctx.revisions.of(extension).await.ok().filter(|all| !all.is_empty())?;
        let (valid, account) = match observe(ctx, extension, &revisions).await {
            Ok(observed) => observed,
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "account and Secrets not kept during a removal");
                return None;
            }
        };
        // Whoever has given it another account since wants that one to remove it.
        if let Err(error) = ctx.revisions.record_account(&account, &mut revisions).await {
            tracing::debug!(error = %Chain(&error), "account not recorded during a removal");
        }
        let attempt = Attempt {
            ctx,
            extension: valid,
            account: &account,
            revisions: &revisions,
            extras: &Extras::default(),
            deadline: Deadline::after(LIMIT),
        };
        attempt.restore_authority().await;
        let due = [attempt.keep_certificates().await, attempt.keep_pull_secrets().await];
        // The garbage collector may delete them after this.
        due.into_iter().flatten().min().map(|due| due.min(SECRETS_LOOK))
    }

    async fn tear_down(&self) -> Result<Option<Duration>, ExtensionError> {
        let Self { ctx, extension } = *self;
        if !extension.finalizers().iter().any(|found| OURS.contains(&found.as_str())) {
            // What is left is somebody else's.
            ctx.issuer.forget(&Extension::of(extension));
            return Ok(None);
        }
        if ctx.kept.is_orphaning(&extension.metadata) && !is_marked_orphaned(&extension.metadata) {
            return self.mark().await;
        }
        let (name, annotations) = (extension.name_any(), extension.annotations());
        if let Some(what) = removal_hold(Carrier::Extension, &name, annotations) {
            self.hold(what, false).await?;
            return Ok(Some(resync()));
        }
        match teardown_extension(&ctx.client, extension).await {
            Ok(Teardown::Orphaned) => self.mark().await,
            Ok(Teardown::Waiting(what)) => {
                self.report(&what).await?;
                Ok(Some(LOOK_AGAIN))
            }
            Ok(Teardown::Blocked(what)) => {
                self.hold(what, true).await?;
                // Its revision looks at what blocks it, and wakes it.
                Ok(Some(resync()))
            }
            Ok(Teardown::Done) => {
                if let Some(what) = ctx.left_behind(extension).await? {
                    self.hold(what, true).await?;
                    return Ok(Some(LEFT_LOOK));
                }
                self.remove_certificates().await?;
                let owned = (keys::label::OWNER_NAME, name.as_str());
                remove_unowned_content(&ctx.client, &ctx.system_namespace, owned)
                    .await
                    .map_err(ExtensionError::finalizer)?;
                // That it fails costs some disk, nothing else.
                let (bundles, extension_name) = (ctx.bundles.clone(), name.clone());
                let gone =
                    tokio::task::spawn_blocking(move || bundles.remove_owner(&extension_name));
                if let Ok(Err(error)) = gone.await {
                    tracing::warn!(error = %Chain(&error), "unpacked bundles not removed");
                }
                let removed = ctx.reconciler.remove_finalizers(extension, &OURS).await;
                removed.map_err(ExtensionError::finalizer)?;
                ctx.forget(extension);
                tracing::info!("extension removed");
                Ok(None)
            }
            Err(cause) => Err(ExtensionError::finalizer(cause)),
        }
    }

    /// Records that what is installed stays, which also decides about its certificates.
    async fn mark(&self) -> Result<Option<Duration>, ExtensionError> {
        let doing = RequestError::doing("recording that installed objects are kept");
        mark_orphaned(&self.ctx.client, self.extension).await.map_err(doing)?;
        // The change of the object brings the next reconcile.
        Ok(None)
    }

    /// Says in `Ready` what is waited for; upstream's conditions keep what they said.
    async fn report(&self, what: &str) -> Result<(), ExtensionError> {
        let Self { ctx, extension } = *self;
        let mut status = extension.status.clone().unwrap_or_default();
        let first = find(&status.conditions, types::READY)
            .is_none_or(|ready| ready.reason != Reason::Uninstalling.as_str());
        if first {
            // Whether anything may be removed is decided by its revisions.
            let note = "the extension is being deleted".to_owned();
            let (type_, reason) = (EventType::Normal, Reason::Uninstalling);
            ctx.reconciler.publish(extension, type_, reason, note).await;
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

    /// Says in `Ready` and an Event why nothing is removed; in `Progressing` as well, where it is for
    /// users' objects.
    async fn hold(&self, what: String, for_objects: bool) -> Result<(), ExtensionError> {
        let Self { ctx, extension } = *self;
        let mut status = extension.status.clone().unwrap_or_default();
        let (generation, now) = (extension.metadata.generation, Timestamp::now());
        let ready = if for_objects {
            terminal(Reason::Blocked, &*what).put(&mut status.conditions, generation, now);
            removal_blocked(&*what)
        } else {
            removal_held(&*what)
        };
        if put_ready(&mut status.conditions, ready, None, generation, now) {
            let (type_, reason) = (EventType::Warning, Reason::RemovalHeld);
            ctx.reconciler.publish(extension, type_, reason, what).await;
        }
        ctx.write_status(extension, status).await
    }

    /// Removes the certificates of the extension's webhooks, unless what it installed is to be kept;
    /// then only the CA goes, which is the controller's own.
    async fn remove_certificates(&self) -> Result<(), ExtensionError> {
        let Self { ctx, extension } = *self;
        let orphans = is_orphaned(&extension.metadata);
        let account = ctx.settings.accounts().of_extension(extension);
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
}

/// Removes the unpacked bundles of extensions that went while another process led, or none ran.
pub(super) async fn forget_gone_bundles(ctx: &Context) {
    let extensions = &ctx.seen.extensions;
    if extensions.wait_until_ready().await.is_err() {
        return;
    }
    let names = extensions.state().iter().map(|one| one.name_any()).collect();
    let bundles = ctx.bundles.clone();
    let removed = tokio::task::spawn_blocking(move || bundles.retain_owners(&names));
    if let Ok(Err(error)) = removed.await {
        tracing::warn!(error = %Chain(&error), "unpacked bundles of removed extensions remain on disk");
    }
}
