//! The shared state of reconciles of ClusterObjectSets.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::channel::mpsc;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use kube::runtime::reflector::Store;
use kube::{Client, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_api::conditions::Reason;
use olm_api::keys::manager;
use olm_core::revision::{AccountRule, deadline, judged_from};
use olm_core::uninstall::UninstallPolicy;
use olm_image::BundleCache;

use super::extension_state::ExtensionState;
use super::per_revision::PerRevision;
use super::{Guarded, ObjectSetError};
use crate::account::Guard;
use crate::apply::AppliedCache;
use crate::backoff::{FIRST_DELAY_EXTENSION, jittered};
use crate::cluster::{Kinds, StoredObjects, Watches};
use crate::rbac_watch::{Interest, RbacWatch, Waiter};
use crate::reconcile::Reconciler;
use crate::revision::{Feed, KeptContents};
use crate::seen::Seen;
use crate::telemetry::{CONTROLLER_OBJECT_SET, Metrics};

/// What flags decide about ClusterObjectSets.
pub struct Settings {
    pub guard: Arc<Guard>,
    /// Namespace of the controller, where content Secrets are.
    pub system_namespace: String,
    pub accounts: AccountRule,
    /// `--managed-resync-interval`.
    pub managed_resync: Duration,
    /// `--default-uninstall-policy`.
    pub uninstall: UninstallPolicy,
    /// `--uninstall-crd-timeout`.
    pub crd_timeout: Duration,
    /// `--uninstall-fallback=gc`: an uninstall whose account no longer works is left to the
    /// garbage collector; otherwise it waits.
    pub fall_back_to_gc: bool,
    /// `--missing-optional-kinds=defer`.
    pub defer_optional_kinds: bool,
    /// The record of settled revisions on disk.
    pub settled: BundleCache,
    /// `--max-concurrent-reconciles`.
    pub concurrency: u16,
}

/// The shared state of reconciles of ClusterObjectSets.
pub struct Context {
    /// The controller's own client.
    pub client: Client,
    pub(super) seen: Seen,
    pub kinds: Arc<Kinds>,
    pub settings: Settings,
    /// The revisions as the watch brings them.
    pub(super) revisions: Store<Guarded>,
    /// Their contents, as long as they roll out.
    pub(super) contents: KeptContents,
    pub(super) reconciler: Reconciler,
    pub(super) applied: Arc<AppliedCache>,
    pub(super) watches: Watches,
    pub(super) metrics: Metrics,
    pub(super) kept: PerRevision,
    pub(super) stored_objects: StoredObjects,
    /// Wakes revisions that wait for rights.
    pub(super) rbac: Arc<RbacWatch>,
    /// Since when this process acts, and judges rollouts.
    acting_since: OnceLock<Timestamp>,
}

/// One reconcile of a revision.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) ctx: &'a Context,
    pub(super) set: &'a ClusterObjectSet,
    pub(super) extension: &'a ExtensionState,
}

impl Context {
    /// Returns the shared state and the names of revisions that watched objects wake, to be given
    /// to [`super::run`] with the same `feed`.
    ///
    /// `client` must not retry by itself. Must be called within a tokio runtime.
    pub fn new(
        client: Client,
        settings: Settings,
        (feed, seen): (&Feed, Seen),
        rbac: Arc<RbacWatch>,
        metrics: Metrics,
    ) -> (Self, mpsc::Receiver<String>) {
        let (watches, woken) = Watches::new(client.clone());
        let context = Self {
            seen,
            kinds: Arc::new(Kinds::new(client.clone())),
            reconciler: Reconciler::new(
                CONTROLLER_OBJECT_SET,
                manager::OPERATOR_CONTROLLER,
                client.clone(),
                metrics.clone(),
                FIRST_DELAY_EXTENSION,
            ),
            applied: Arc::default(),
            watches,
            metrics,
            kept: PerRevision::default(),
            stored_objects: StoredObjects::default(),
            rbac,
            acting_since: OnceLock::new(),
            client,
            revisions: feed.known.store.clone(),
            contents: KeptContents::new(
                settings.system_namespace.clone(),
                feed.known.contents.clone(),
            ),
            settings,
        };
        (context, woken)
    }

    /// Notes that this process acts from now on.
    pub(super) fn begin(&self) {
        self.acting_since.get_or_init(Timestamp::now);
    }

    pub(super) fn acting_since(&self) -> Timestamp {
        self.acting_since.get().copied().unwrap_or(Timestamp::MIN)
    }

    /// Returns the time left until the rollout of a revision is late.
    pub(super) fn until_deadline(&self, set: &ClusterObjectSet) -> Option<Duration> {
        let at = deadline(set)?.at.max(judged_from(set, self.acting_since()));
        // A second more, so that the deadline has passed for certain when we look.
        let left = Duration::try_from(at.duration_since(Timestamp::now())).ok()?;
        Some(left + Duration::from_secs(1))
    }

    /// Returns when to look again: after `polled` where some objects cannot be watched, else after
    /// `watched`; at the deadline, if that comes first.
    pub(super) fn next_look(
        &self,
        set: &ClusterObjectSet,
        polled: Duration,
        watched: Duration,
    ) -> Duration {
        let polls = self.watches.polls(&set.name_any());
        let next = jittered(if polls { polled } else { watched });
        self.until_deadline(set).map_or(next, |left| next.min(left))
    }

    pub(super) fn forget(&self, set: &ClusterObjectSet) {
        self.watches.release(&set.name_any());
        self.rbac.forget(&Waiter::Revision(set.name_any()));
        self.kept.forget(set);
        self.metrics.deferred(&self.kept.unserved.totals());
        let uid = set.uid().unwrap_or_default();
        self.applied.forget(&uid);
        // What stays counts for nobody.
        let (cache, owner) = (self.settings.settled.clone(), uid);
        drop(tokio::task::spawn_blocking(move || cache.remove_owner(&owner)));
        self.contents.forget(set);
        self.reconciler.forget(set);
    }
}

impl Attempt<'_> {
    /// Records an Event on the extension of the revision, or on the revision itself.
    pub(super) async fn event(&self, type_: EventType, reason: Reason, note: String) {
        let reconciler = &self.ctx.reconciler;
        match self.extension.extension() {
            Some(extension) => reconciler.publish(extension, type_, reason, note).await,
            None => reconciler.publish(self.set, type_, reason, note).await,
        }
    }

    /// Publishes that objects of others are in the way, when that begins and when others are.
    pub(super) async fn tell_of_collisions(&self, error: Option<&ObjectSetError>) {
        let text = error.filter(|error| error.is_of_collisions()).map(ToString::to_string);
        let uid = self.set.uid().unwrap_or_default();
        let told = self.ctx.kept.collisions.put(&uid, text.clone());
        if let Some(text) = text.filter(|text| told.as_ref() != Some(text)) {
            self.event(EventType::Warning, Reason::Retrying, text).await;
        }
    }

    /// Has the revision woken when its account gets rights, or the controller that to act as it, as
    /// long as it fails for want of one.
    pub(super) async fn wait_for_rights(&self, error: Option<&ObjectSetError>) {
        let Self { ctx, set, extension } = *self;
        let waiter = Waiter::Revision(set.name_any());
        if !error.is_some_and(ObjectSetError::is_of_rights) {
            ctx.rbac.forget(&waiter);
            return;
        }
        let account = ctx.settings.accounts.of_revision(set, extension.extension());
        let own = ctx.settings.guard.own().await.ok().flatten().cloned();
        let interest = Interest {
            accounts: account.ok().into_iter().chain(own).collect(),
            ..Interest::default()
        };
        ctx.rbac.wait(waiter, interest);
    }
}
