//! What passes over ClusterObjectSets share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use kube::core::DeserializeGuard;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::revision::{Account, named_account};
use tokio::time::Instant;

use crate::account::{Accounts, Guard};
use crate::apply::{Kinds, Memo, Mode, Watches};
use crate::backoff::{Backoff, FIRST_DELAY_EXTENSION, MAX_DELAY};
use crate::telemetry::Metrics;

use super::ObjectSetError;
use super::missing::Missing;

/// What flags decide about ClusterObjectSets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Says which accounts may be acted as.
    pub guard: Arc<Guard>,
    /// Namespace of the controller, where content Secrets are.
    pub system_namespace: String,
    /// `--default-service-account`.
    pub default_account: Option<Account>,
    /// `--named-service-account=ignore`.
    pub ignore_named_account: bool,
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
    /// The revision never had one.
    None,
    /// It is there.
    Alive(Box<ClusterExtension>),
    /// It is being deleted.
    Deleting(Box<ClusterExtension>),
    /// It is gone, or another one has its name.
    Gone,
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

    /// Has revisions looked at soon, for example when rights of their account changed.
    pub fn wake(&self, revisions: impl IntoIterator<Item = String>) {
        self.watches.wake(revisions);
    }

    /// Returns how many watches of managed objects are in each mode.
    pub fn watch_modes(&self) -> BTreeMap<Mode, usize> {
        self.watches.modes()
    }

    /// Returns the account an extension asks for.
    pub fn account_of(&self, extension: &ClusterExtension) -> Option<Account> {
        if self.settings.ignore_named_account {
            return None;
        }
        named_account(extension)
    }

    /// Looks up the extension of a revision: by owner reference, else by label.
    pub(super) async fn extension(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<ExtensionState, ObjectSetError> {
        let owner = extension_reference(set);
        let labelled = set.metadata.labels.as_ref();
        let label = labelled.and_then(|labels| labels.get(label::OWNER_NAME));
        let Some(name) = owner.map(|owner| &owner.name).or(label) else {
            return Ok(ExtensionState::None);
        };
        let api = Api::<DeserializeGuard<ClusterExtension>>::all(self.client.clone());
        let found = api
            .get_opt(name)
            .await
            .map_err(|err| ObjectSetError::own("getting ClusterExtension", err))?;
        let Some(DeserializeGuard(read)) = found else {
            return Ok(ExtensionState::Gone);
        };
        // It lives, whatever is wrong with it: to take it for gone would remove what it installed.
        let extension = read.map_err(|err| {
            ObjectSetError::own("reading ClusterExtension", kube::Error::Service(err.into()))
        })?;
        let uid = extension.metadata.uid.as_ref();
        if owner.is_some_and(|owner| Some(&owner.uid) != uid) {
            return Ok(ExtensionState::Gone);
        }
        Ok(match extension.metadata.deletion_timestamp {
            Some(_) => ExtensionState::Deleting(Box::new(extension)),
            None => ExtensionState::Alive(Box::new(extension)),
        })
    }

    /// Records an Event on the extension of a revision, or on the revision itself.
    pub(super) async fn event(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        event: (EventType, &str, String),
    ) {
        let reference = match extension {
            ExtensionState::Alive(extension) | ExtensionState::Deleting(extension) => {
                extension.object_ref(&())
            }
            ExtensionState::None | ExtensionState::Gone => set.object_ref(&()),
        };
        let (type_, reason, note) = event;
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(err) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(error = %err, "event not recorded");
        }
    }
}

/// Returns the owner reference of a revision to its extension.
pub(super) fn extension_reference(
    set: &ClusterObjectSet,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    set.metadata
        .owner_references
        .iter()
        .flatten()
        .find(|reference| reference.kind == label::OWNER_KIND_EXTENSION)
}
