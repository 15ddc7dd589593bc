//! What a reconcile of a ClusterObjectSet reads of our own kinds.

use kube::core::DeserializeGuard;
use kube::{Api, Resource as _, ResourceExt as _};
use olm_api::{ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_core::annotations::{self, Carrier};
use olm_core::revision::{Account, Kin, extension_reference, is_made_for, is_orphaned, owner_name};

use super::{Context, ObjectSetError};
use crate::cluster::RequestError;
use crate::revision::{known_siblings, list_siblings};

/// The ClusterExtension a revision belongs to, as it is now.
#[derive(Debug, Clone)]
pub(super) enum ExtensionState {
    /// The set is not a revision of one.
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

    /// Returns why nothing that a revision installed is removed, if the annotations that decide about
    /// it ask for what cannot be done: those of its extension, else its own.
    pub(super) fn removal_hold(&self, set: &ClusterObjectSet) -> Option<String> {
        let (carrier, metadata) = match self {
            Self::Deleting(extension) | Self::Orphaning(extension) => {
                (Carrier::Extension, &extension.metadata)
            }
            Self::None | Self::Gone => (Carrier::ObjectSet, &set.metadata),
            Self::Alive(_) => return None,
        };
        let name = metadata.name.as_deref().unwrap_or_default();
        annotations::removal_hold(carrier, name, metadata.annotations.as_ref()?)
    }

    /// Says whether its annotations ask that nothing is applied.
    pub(super) fn is_paused(&self) -> bool {
        let extension = self.extension();
        extension.is_some_and(|extension| annotations::is_paused(extension.annotations()))
    }
}

impl Context {
    /// Looks up the extension of a revision: by owner reference; by label only to find out that
    /// the reference was taken off. A set that is not a revision of the extension it names belongs to
    /// none. For a revision that is rolled out, an extension that the watch knows to live is taken as
    /// it was seen.
    pub(super) async fn extension(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<ExtensionState, ObjectSetError> {
        let number = Some(set.spec.revision);
        let kin = Kin::of(set.meta(), number);
        let owner = kin.extension();
        let lost = || owner_name(set).filter(|name| is_made_for(set.meta(), name, number));
        let name = match kin {
            Kin::Revision(owner) => Some(owner.name.as_str()),
            Kin::Unowned => lost(),
            Kin::Alone => None,
        };
        let Some(name) = name else {
            return Ok(ExtensionState::None);
        };
        let removes = set.metadata.deletion_timestamp.is_some()
            || set.spec.lifecycle_state == LifecycleState::Archived;
        // Nothing is removed by a copy that may be old.
        if let (Some(owner), false) = (owner, removes)
            && let Some(seen) = self.seen.living(name).await
            && seen.metadata.uid.as_ref() == Some(&owner.uid)
        {
            return Ok(ExtensionState::Alive(Box::new(seen)));
        }
        let unowned = owner.is_none();
        let api = Api::<DeserializeGuard<ClusterExtension>>::all(self.client.clone());
        let found =
            api.get_opt(name).await.map_err(RequestError::doing("getting ClusterExtension"))?;
        let Some(DeserializeGuard(read)) = found else {
            return Ok(if unowned { ExtensionState::None } else { ExtensionState::Gone });
        };
        // It lives, whatever is wrong with it: to take it for gone would remove what it installed.
        let extension = read.map_err(|err| {
            RequestError::doing("reading ClusterExtension")(kube::Error::Service(err.into()))
        })?;
        if owner.is_some_and(|owner| Some(&owner.uid) != extension.metadata.uid.as_ref()) {
            return Ok(ExtensionState::Gone);
        }
        let deleting = extension.metadata.deletion_timestamp.is_some();
        let orphaning = unowned || is_orphaned(&extension.metadata);
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
            .map_err(RequestError::doing("getting ClusterObjectSet"))?;
        Ok(found.filter(|found| found.metadata.uid == set.metadata.uid))
    }

    /// Returns the account that applies a revision, and may do so.
    pub(super) async fn identity(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<Account, ObjectSetError> {
        let accounts = &self.settings.accounts;
        let account = accounts.of_revision(set, extension.extension())?;
        self.settings.guard.permit(&account).await?;
        Ok(account)
    }

    /// Returns the other revisions of the same extension, as the watch brings them: those in use, and
    /// those that are archived. One that is being deleted is among them: what it controls is there to
    /// be taken over. None acts before the watch has brought it here.
    pub(super) async fn siblings(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<(Vec<ClusterObjectSet>, Vec<ClusterObjectSet>), ObjectSetError> {
        let mut others = match known_siblings(&self.revisions, set) {
            Some(known) => known,
            None => self.list_siblings(set).await?,
        };
        others.retain(|other| other.metadata.uid != set.metadata.uid);
        let in_use =
            |other: &ClusterObjectSet| other.spec.lifecycle_state == LifecycleState::Active;
        Ok(others.into_iter().partition(in_use))
    }

    /// Lists the revisions of the same extension, this one included, straight from the API server:
    /// for whoever is about to remove something.
    pub(super) async fn list_siblings(
        &self,
        set: &ClusterObjectSet,
    ) -> Result<Vec<ClusterObjectSet>, ObjectSetError> {
        let listed = list_siblings(&self.client, set).await;
        Ok(listed.map_err(RequestError::doing("listing revisions"))?)
    }
}
