//! Whether a revision that is being deleted may be taken down: not while users' objects would go
//! with its CRDs unasked.
//!
//! Source: applying.md 7.3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use olm_api::ClusterObjectSet;
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::revision::{Outcome, asked_uninstall_policies};
use olm_core::uninstall::{self, Instances, UninstallPolicy, cannot_stay};
use tokio::time::Instant;

use super::extension_state::ExtensionState;
use super::per_revision::Counts;
use super::{Context, ObjectSetError};
use crate::apply::{Crds, Remover};
use crate::cluster::{MAX_AGE, RequestError, Resource, message, stored_objects};
use crate::revision::controlled_crds;

/// How often the objects are counted that an uninstall waits for; nobody may watch them.
const BLOCKED_LOOK: Duration = Duration::from_secs(30);
/// How long it counts that the account itself has counted none.
const REMEMBERED: Duration = Duration::from_mins(1);
/// How often they are counted until the numbers are young enough.
const COUNTED_AGAIN: Duration = Duration::from_secs(10);

/// What is known of the objects of CRDs.
enum Counted {
    /// So many of each.
    Known(BTreeMap<String, Instances>),
    /// There were none a moment ago.
    Remembered,
    /// None, by numbers that may be too old; the text for the status.
    Aging(String),
}

/// Returns the group and the plural of the kind that a CRD defines.
fn resource(crd: &Object) -> Option<Resource> {
    let (plural, group) = crd.name().split_once('.')?;
    Some((group.to_owned(), plural.to_owned()))
}

impl Context {
    /// Returns what becomes of the CRDs of a revision that is being deleted, and of their objects.
    pub(super) fn uninstall_policy(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> UninstallPolicy {
        let recorded = set.annotations();
        let asked = asked_uninstall_policies(recorded);
        let default = self.settings.uninstall;
        match extension {
            ExtensionState::Gone => UninstallPolicy::without_extension(recorded, &asked, default),
            ExtensionState::None => UninstallPolicy::chosen(recorded, &asked, default),
            ExtensionState::Alive(extension)
            | ExtensionState::Deleting(extension)
            | ExtensionState::Orphaning(extension) => {
                UninstallPolicy::chosen(extension.annotations(), &asked, default)
            }
        }
    }

    /// Returns what keeps everything of the extension of a revision from being removed: this revision
    /// and every other, so that there is no state between. And when to look again.
    pub(super) async fn uninstall_block(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        policy: UninstallPolicy,
    ) -> Result<Option<(Outcome, Duration)>, ObjectSetError> {
        if policy == UninstallPolicy::Delete {
            return Ok(None);
        }
        let (crds, owners) = self.installed_crds(set, extension).await?;
        let blocked = |text| (Outcome::Blocked(text), BLOCKED_LOOK);
        if policy == UninstallPolicy::RetainCrds {
            return Ok(crds.iter().find_map(cannot_stay).map(blocked));
        }
        if crds.is_empty() {
            return Ok(None);
        }
        let counted = self.count_as_account(set, extension, &crds, &owners).await?;
        let uid = set.uid().unwrap_or_default();
        let counted = match self.count_again(&uid, &crds, counted).await {
            Counted::Known(counted) => counted,
            Counted::Remembered => return Ok(None),
            Counted::Aging(text) => {
                return Ok(Some((Outcome::Removing(text), COUNTED_AGAIN)));
            }
        };
        let name = extension.extension().map(kube::ResourceExt::name_any);
        let text = uninstall::blocked(name.as_deref(), &counted);
        if text.is_none() {
            self.kept.counts.put(&uid, Some(Counts::Zero(Instant::now())));
        }
        Ok(text.map(blocked))
    }

    /// Counts the objects of CRDs as the account of a revision, as far as it may.
    async fn count_as_account(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        crds: &[Object],
        owners: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Instances>, ObjectSetError> {
        let counts = match self.as_account(set, extension).await {
            Ok(remover) => {
                let counts = crds.iter().map(|crd| remover.count(crd, owners));
                let counts = futures::future::try_join_all(counts).await;
                counts.map_err(RequestError::doing("counting instances of a CRD"))?
            }
            Err(error) => vec![Instances::Unknown(Chain(&error).to_string()); crds.len()],
        };
        Ok(crds.iter().map(|crd| crd.name().to_owned()).zip(counts).collect())
    }

    /// Counts anew what the account could not: by what it counted a moment ago, else by the API
    /// server's own numbers, which may be a while old. They show no content, and those of the bundle
    /// itself are among them.
    async fn count_again(
        &self,
        uid: &str,
        crds: &[Object],
        mut counted: BTreeMap<String, Instances>,
    ) -> Counted {
        let unknown = |instances: &Instances| matches!(instances, Instances::Unknown(_));
        let Some(Instances::Unknown(why)) = counted.values().find(|it| unknown(it)).cloned() else {
            self.kept.counts.put(uid, None);
            return Counted::Known(counted);
        };
        let now = Instant::now();
        let before = self.kept.counts.get(uid);
        let since = match before {
            Some(Counts::Zero(at)) if now.duration_since(at) < REMEMBERED => {
                return Counted::Remembered;
            }
            Some(Counts::Unknown(since)) => since,
            Some(Counts::Zero(_)) | None => now,
        };
        let resources: Vec<Resource> = crds.iter().filter_map(resource).collect();
        let stored = stored_objects(&self.client, &resources).await.unwrap_or_else(|error| {
            tracing::warn!(error = message(&error), "metrics of the API server not read");
            BTreeMap::new()
        });
        for crd in crds {
            let count = resource(crd).and_then(|resource| stored.get(&resource).copied());
            if let (Some(count), Some(instances)) = (count, counted.get_mut(crd.name()))
                && unknown(instances)
            {
                *instances = Instances::Counted(count);
            }
        }
        let empty = counted.values().all(|it| *it == Instances::Counted(0));
        // An old zero counts when there was nothing else for as long as numbers may be old.
        let since = if empty { since } else { now };
        self.kept.counts.put(uid, Some(Counts::Unknown(since)));
        let left = MAX_AGE.saturating_sub(now.duration_since(since));
        if empty && !left.is_zero() {
            return Counted::Aging(format!(
                "no instances of its CRDs are known, but the account cannot count them ({why}); the \
                 API server's own numbers may be two minutes old and are read again for {} s",
                left.as_secs()
            ));
        }
        Counted::Known(counted)
    }

    /// Says whether the garbage collector would take CRDs that are to stay.
    pub(super) async fn would_lose_crds(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
        policy: UninstallPolicy,
    ) -> Result<bool, ObjectSetError> {
        if policy != UninstallPolicy::RetainCrds {
            return Ok(false);
        }
        Ok(!self.installed_crds(set, extension).await?.0.is_empty())
    }

    async fn as_account(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<Remover, ObjectSetError> {
        let account = self.identity(set, extension).await?;
        self.accounts.require(&account).await?;
        Ok(Remover {
            client: self.accounts.client(&account)?,
            kinds: self.kinds.clone(),
            crds: Crds::Removed,
        })
    }

    /// Returns the CRDs that an extension or its revisions control and that are not being deleted, and
    /// the UIDs of those owners. They are read as the controller: neither a lost account nor
    /// lost content nor a lost label hides one.
    async fn installed_crds(
        &self,
        set: &ClusterObjectSet,
        extension: &ExtensionState,
    ) -> Result<(Vec<Object>, BTreeSet<String>), ObjectSetError> {
        let siblings = self.list_siblings(set).await?;
        let owners: BTreeSet<String> = siblings
            .iter()
            .chain([set])
            .filter_map(kube::ResourceExt::uid)
            .chain(extension.extension().and_then(kube::ResourceExt::uid))
            .collect();
        let crds = self.crds_of(&owners).await?;
        Ok((crds, owners))
    }

    /// Reads the CRDs that one of these owners controls and that are not being deleted.
    pub(super) async fn crds_of(
        &self,
        owners: &BTreeSet<String>,
    ) -> Result<Vec<Object>, ObjectSetError> {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let mut crds = Vec::new();
        for name in controlled_crds(&self.client, owners).await? {
            let read = api.get_opt(&name).await.map_err(RequestError::doing("reading a CRD"))?;
            let read = read.and_then(|crd| serde_json::to_value(crd).ok());
            crds.extend(read.and_then(Object::from_value));
        }
        Ok(crds)
    }
}
