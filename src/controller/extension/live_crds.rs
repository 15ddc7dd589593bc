//! The CRDs on the cluster that a revision would replace.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use olm_api::keys::manager;
use olm_cluster::{ApiError, Unread, crds, empty, judged, leaving};
use olm_core::crd_safety::{Definition, Evidence};
use olm_core::error::{Chain, quote};
use olm_core::extension::holds::{Hold, definitions, is_enforced};
use olm_core::object::Object;
use olm_core::revision::{Change, Desired};
use olm_core::uninstall::Instances;
use serde_json::{Value, json};

use super::Attempt;
use super::error::ContentError;
use crate::account::{AccountError, impersonating};
use crate::cluster::RequestError;
use crate::revision::controlled_crds;

/// Most CRDs whose objects are looked at for one refusal, and most objects of each.
const JUDGED_CRDS: usize = 10;
const JUDGED_OBJECTS: usize = 50;

impl Attempt<'_> {
    /// Reads them, whole and by name; `None` where nothing changes.
    pub(super) async fn live_crds(
        &self,
        desired: &Desired,
        change: Change,
    ) -> Result<Option<BTreeMap<String, Value>>, ContentError> {
        if change == Change::Unchanged {
            return Ok(None);
        }
        let names = definitions(desired).map(|crd| crd.name().to_owned()).collect();
        Ok(Some(crds(&self.ctx.client, names).await.map_err(unread)?))
    }

    /// Returns those CRDs of which only former stored versions stand in the way, and no object exists.
    pub(super) async fn empty_crds(
        &self,
        desired: &Desired,
        live: Option<&BTreeMap<String, Value>>,
    ) -> BTreeSet<String> {
        match (self.as_account(), live) {
            (Ok(client), Some(live)) => empty(&client, desired, live).await,
            _ => BTreeSet::new(),
        }
    }

    /// Trims the stored versions of CRDs without objects, as the account. Returns whether all are
    /// trimmed now.
    pub(super) async fn trim(
        &self,
        empty: &BTreeSet<String>,
        live: Option<&BTreeMap<String, Value>>,
    ) -> bool {
        let Ok(client) = self.as_account() else { return empty.is_empty() };
        let crds = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client);
        for (name, crd) in live.into_iter().flatten().filter(|(name, _)| empty.contains(*name)) {
            let trimmed = json!({
                "metadata": {"resourceVersion": crd["metadata"]["resourceVersion"]},
                "status": {"storedVersions": [Definition::of(crd).storage()]},
            });
            let params = PatchParams::apply(manager::OBJECTS);
            if let Err(error) = crds.patch_status(name, &params, &Patch::Merge(trimmed)).await {
                let error = ApiError(error).to_string();
                tracing::warn!(crd = name, error, "status.storedVersions is not trimmed");
                return false;
            }
        }
        true
    }

    /// Returns the client of the account.
    pub(super) fn as_account(&self) -> Result<Client, AccountError> {
        impersonating(&self.ctx.client, self.account)
    }

    /// Returns the CRDs that the revisions of the extension control and that `desired` has not, with
    /// how many objects there are of each, counted as the account.
    pub(super) async fn leaving_crds(
        &self,
        desired: &Desired,
        change: Change,
    ) -> Result<BTreeMap<String, Instances>, ContentError> {
        if change != Change::Upgrade || !is_enforced(self.extension) {
            return Ok(BTreeMap::new());
        }
        let owners = self.revisions.iter().filter_map(ResourceExt::uid).collect();
        let controlled = controlled_crds(&self.ctx.client, &owners).await?;
        let stay: BTreeSet<&str> = definitions(desired).map(Object::name).collect();
        let names = controlled.into_iter().filter(|name| !stay.contains(name.as_str()));
        match self.as_account() {
            Ok(counting) => {
                leaving(&self.ctx.client, &counting, names.collect()).await.map_err(unread)
            }
            Err(error) => {
                let unknown = |name| (name, Instances::Unknown(Chain(&error).to_string()));
                Ok(names.map(unknown).collect())
            }
        }
    }

    /// Adds to a hold what the objects of its CRDs say about it. They are read as the account; what it
    /// may not read is said. While the verdict stays the same, so does the text.
    pub(super) async fn add_evidence(
        &self,
        hold: &mut Hold,
        (desired, live): (&Desired, &BTreeMap<String, Value>),
    ) {
        let Ok(client) = self.as_account() else { return };
        let mut found = BTreeMap::new();
        for name in hold.crds.iter().take(JUDGED_CRDS) {
            let new = definitions(desired).find(|crd| crd.name() == name);
            let (Some(new), Some(old)) = (new, live.get(name)) else { continue };
            let judged = judged(&client, (old, new), JUDGED_OBJECTS).await;
            found.insert(name.clone(), judged);
        }
        let (name, kept) = (self.extension.object.name_any(), &self.ctx.kept.evidence);
        let is_like = |before: &BTreeMap<String, Evidence>| {
            let mut pairs = before.iter().zip(&found);
            before.len() == found.len()
                && pairs.all(|(one, now)| one.0 == now.0 && one.1.is_like(now.1))
        };
        if let Some(before) = kept.get(&name).filter(is_like) {
            found = before;
        }
        if !found.is_empty() {
            hold.add_evidence(&found);
        }
        kept.put(&name, Some(found));
    }
}

fn unread(Unread(name, cause): Unread) -> ContentError {
    let doing = format!("getting existing resource for CRD {}", quote(&name));
    RequestError::doing(doing)(cause).into()
}
