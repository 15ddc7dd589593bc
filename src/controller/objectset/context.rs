//! What passes over ClusterObjectSets share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use kube::core::DeserializeGuard;
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use olm_api::keys::manager;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::policy;
use olm_core::revision::{AccountRule, extension_reference};
use tokio::time::Instant;

use crate::account::{Accounts, Guard};
use crate::apply::{Kinds, Memo, Mode, Watches};
use crate::backoff::{Backoff, FIRST_DELAY_EXTENSION, MAX_DELAY};
use crate::reconcile::{self, Own};
use crate::telemetry::Metrics;
use crate::written::Written;

use super::ObjectSetError;
use super::missing::Missing;
use super::own::{has_orphan_finalizer, owner_name};

/// What flags decide about ClusterObjectSets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Says which accounts may be acted as.
    pub guard: Arc<Guard>,
    /// Namespace of the controller, where content Secrets are.
    pub system_namespace: String,
    /// Which account counts.
    pub accounts: AccountRule,
    /// `--managed-resync-interval`.
    pub managed_resync: Duration,
    /// `--uninstall-crd-timeout`.
    pub crd_timeout: Duration,
    /// `--uninstall-fallback=gc`: an uninstall whose account no longer works is left to the
    /// garbage collector; otherwise it waits.
    pub fall_back_to_gc: bool,
    /// `--missing-optional-kinds=defer`.
    pub defer_optional_kinds: bool,
    /// `--max-concurrent-reconciles`.
    pub concurrency: u16,
}

/// What passes over ClusterObjectSets share.
pub struct Context {
    /// The controller's own client.
    pub client: Client,
    /// Clients of accounts.
    pub accounts: Accounts,
    /// Kinds the cluster serves.
    pub kinds: Arc<Kinds>,
    /// Flags.
    pub settings: Settings,
    pub(super) memo: Arc<Memo>,
    pub(super) written: Written,
    pub(super) watches: Watches,
    pub(super) backoff: Backoff<String>,
    pub(super) metrics: Arc<Metrics>,
    /// Uninstalls whose account fails, by UID: attempts and the first one's time. Entries go with
    /// their revision.
    pub(super) failing: Mutex<HashMap<String, (u32, Instant)>>,
    /// Kinds that revisions wait for.
    pub(super) missing: Missing,
    recorder: Recorder,
}

/// The ClusterExtension a revision belongs to, as it is now.
#[derive(Debug, Clone)]
pub enum ExtensionState {
    /// The revision belongs to none.
    None,
    /// It is there.
    Alive(Box<ClusterExtension>),
    /// It is being deleted.
    Deleting(Box<ClusterExtension>),
    /// It is being deleted, and what it installed is to stay.
    Orphaning(Box<ClusterExtension>),
    /// It is gone, or another one has its name.
    Gone,
}

impl ExtensionState {
    /// Returns the extension, if there is one.
    pub(super) fn extension(&self) -> Option<&ClusterExtension> {
        match self {
            Self::Alive(extension) | Self::Deleting(extension) | Self::Orphaning(extension) => {
                Some(extension)
            }
            Self::None | Self::Gone => None,
        }
    }

    /// Says whether what the extension installed is to stay.
    pub(super) fn is_orphaning(&self) -> bool {
        matches!(self, Self::Orphaning(_))
    }

    /// Returns what this means for a revision that was read after the extension: the garbage
    /// collector takes the reference off a revision before it takes its finalizer off the
    /// extension, so a reference that is missing now tells of that finalizer.
    pub(super) fn seen_from(self, set: &ClusterObjectSet) -> Self {
        match self {
            Self::Deleting(extension) if extension_reference(&set.metadata).is_none() => {
                Self::Orphaning(extension)
            }
            same => same,
        }
    }

    /// Returns why nothing of the extension is removed, if its annotations ask for what cannot be
    /// done.
    pub(super) fn removal_hold(&self) -> Option<String> {
        match self {
            Self::Deleting(extension) | Self::Orphaning(extension) => {
                policy::removal_hold(&extension.name_any(), extension.annotations())
            }
            Self::None | Self::Alive(_) | Self::Gone => None,
        }
    }

    /// Says whether its annotations ask that nothing is applied.
    pub(super) fn is_paused(&self) -> bool {
        let extension = self.extension();
        extension.is_some_and(|extension| policy::is_paused(extension.annotations()))
    }
}

impl Context {
    /// Returns the shared state and the names of revisions that watched objects wake, to be given
    /// to [`super::run`].
    ///
    /// `client` must not retry by itself. Must be called within a tokio runtime.
    pub fn new(
        client: Client,
        settings: Settings,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Receiver<String>) {
        let (watches, woken) = Watches::new();
        let reporter = Reporter::from("olm-controller");
        let context = Self {
            accounts: Accounts::new(client.clone()),
            kinds: Arc::new(Kinds::new(client.clone())),
            memo: Arc::default(),
            written: Written::default(),
            watches,
            backoff: Backoff::new(FIRST_DELAY_EXTENSION, MAX_DELAY),
            metrics,
            failing: Mutex::default(),
            missing: Missing::default(),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            settings,
        };
        (context, woken)
    }

    pub(super) fn own(&self) -> Own<'_> {
        Own {
            client: &self.client,
            manager: manager::OPERATOR_CONTROLLER,
        }
    }

    /// Has revisions looked at soon, for example when rights of their account changed.
    pub fn wake(&self, revisions: impl IntoIterator<Item = String>) {
        self.watches.wake(revisions);
    }

    /// Returns how many watches of managed objects are in each mode.
    pub fn watch_modes(&self) -> BTreeMap<Mode, usize> {
        self.watches.modes()
    }

    /// Looks up the extension of a revision: by owner reference; by label only to find out that
    /// the reference was taken off, because everybody can write a label.
    pub(super) async fn extension(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<ExtensionState, ObjectSetError> {
        let owner = extension_reference(&set.metadata);
        let Some(name) = owner.map(|owner| owner.name.as_str()).or(owner_name(set)) else {
            return Ok(ExtensionState::None);
        };
        let unowned = owner.is_none();
        let api = Api::<DeserializeGuard<ClusterExtension>>::all(self.client.clone());
        let found = api
            .get_opt(name)
            .await
            .map_err(|err| ObjectSetError::own("getting ClusterExtension", err))?;
        let Some(DeserializeGuard(read)) = found else {
            return Ok(if unowned {
                ExtensionState::None
            } else {
                ExtensionState::Gone
            });
        };
        // It lives, whatever is wrong with it: to take it for gone would remove what it installed.
        let extension = read.map_err(|err| {
            ObjectSetError::own("reading ClusterExtension", kube::Error::Service(err.into()))
        })?;
        if owner.is_some_and(|owner| Some(&owner.uid) != extension.metadata.uid.as_ref()) {
            return Ok(ExtensionState::Gone);
        }
        let deleting = extension.metadata.deletion_timestamp.is_some();
        let orphaning = unowned || has_orphan_finalizer(&extension.metadata);
        Ok(match (deleting, orphaning) {
            (true, true) => ExtensionState::Orphaning(Box::new(extension)),
            (true, false) => ExtensionState::Deleting(Box::new(extension)),
            (false, _) if unowned => ExtensionState::None,
            (false, _) => ExtensionState::Alive(Box::new(extension)),
        })
    }

    /// Reads a revision anew; `None` when it is gone.
    pub(super) async fn read_again(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<Option<ClusterObjectSet>, ObjectSetError> {
        let found = Api::<ClusterObjectSet>::all(self.client.clone())
            .get_opt(&set.name_any())
            .await
            .map_err(|err| ObjectSetError::own("getting ClusterObjectSet", err))?;
        Ok(found.filter(|found| found.metadata.uid == set.metadata.uid))
    }

    /// Records an Event on the extension of a revision, or on the revision itself.
    pub(super) async fn event(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        event: (EventType, &str, String),
    ) {
        let reference = match extension.extension() {
            Some(extension) => extension.object_ref(&()),
            None => set.object_ref(&()),
        };
        let (type_, reason, note) = event;
        reconcile::tell(&self.recorder, &reference, type_, reason, note).await;
    }
}
