//! Reads our own kinds for a reconcile of a ClusterObjectSet.

use kube::core::DeserializeGuard;
use kube::{Api, Resource as _, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_core::revision::{Account, Kin, is_made_for, is_orphaned, mislabelled, owner_name};
use serde_json::json;

use super::extension_state::ExtensionState;
use super::{Attempt, Context, ObjectSetError};
use crate::cluster::RequestError;
use crate::live::live_metadata;
use crate::revision::{known_siblings, list_siblings};

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
        let Some(name) = name else { return Ok(ExtensionState::None) };
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

    /// Gives a revision back the label that its extension finds it by, if somebody took that off or
    /// changed it: otherwise the extension would make another one, which could take over nothing.
    pub(super) async fn label_again(&self, set: &ClusterObjectSet) -> Result<bool, ObjectSetError> {
        let Some(owner) = mislabelled(set) else { return Ok(false) };
        let (name, uid) = (&owner.name, Some(owner.uid.as_str()));
        let lives = live_metadata::<ClusterExtension>(&self.client, name, uid).await;
        if lives.map_err(RequestError::doing("getting ClusterExtension"))?.is_none() {
            return Ok(false);
        }
        let labels = json!({"labels": {(label::OWNER_NAME): name}});
        let written = self.reconciler.patch_metadata(set, labels).await;
        let written = written.map_err(RequestError::doing("labelling a revision"))?;
        tracing::info!(extension = name, "label of revision restored");
        // A webhook may take it off at once: then no change brings a reconcile.
        Ok(mislabelled(&written).is_none())
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

impl Attempt<'_> {
    /// Returns the account that applies the revision, and may do so.
    pub(super) async fn identity(&self) -> Result<Account, ObjectSetError> {
        let settings = &self.ctx.settings;
        let account = settings.accounts.of_revision(self.set, self.extension.extension())?;
        settings.guard.permit(&account).await?;
        Ok(account)
    }
}
