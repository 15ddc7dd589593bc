//! The CRDs on the cluster that a revision would replace.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Client, ResourceExt};
use olm_api::keys::manager;
use olm_core::crd_safety::{Definition, Evidence, Resource, evidence};
use olm_core::error::Chain;
use olm_core::extension::holds::{Hold, definitions, is_enforced};
use olm_core::object::Object;
use olm_core::revision::{Change, Desired};
use olm_core::uninstall::Instances;
use serde_json::{Value, json};

use super::Attempt;
use super::error::ContentError;
use crate::account::impersonating;
use crate::cluster::{ApiError, join_bounded};
use crate::revision::controlled_crds;

/// Most CRDs whose objects are looked at for one refusal, and most objects of each.
const JUDGED_CRDS: usize = 10;
const JUDGED_OBJECTS: usize = 50;
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

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
        let mut live = BTreeMap::new();
        let reading = definitions(desired).map(|crd| async move {
            let name = crd.name();
            (name, self.live_crd(name).await)
        });
        for (name, found) in join_bounded(reading.collect()).await {
            let found = found.map_err(|cause| ContentError::LiveCrd {
                name: name.to_owned(),
                cause: ApiError(cause),
            })?;
            live.extend(found.map(|found| (name.to_owned(), found)));
        }
        Ok(Some(live))
    }

    /// Returns those CRDs of which only former stored versions stand in the way, and no object exists.
    pub(super) async fn empty_crds(
        &self,
        desired: &Desired,
        live: Option<&BTreeMap<String, Value>>,
    ) -> BTreeSet<String> {
        let mut empty = BTreeSet::new();
        for new in definitions(desired) {
            let old = live.and_then(|live| live.get(new.name()));
            let awaits =
                |old: &&Value| Definition::of(old).awaits_migration(&Definition::of_object(new));
            let Some(old) = old.filter(awaits) else {
                continue;
            };
            if let Ok((_, 0, _)) = self.objects_of(old).await {
                empty.insert(new.name().to_owned());
            }
        }
        empty
    }

    /// Trims the stored versions of CRDs without objects, as the account. Returns whether all are
    /// trimmed now.
    pub(super) async fn trim(
        &self,
        empty: &BTreeSet<String>,
        live: Option<&BTreeMap<String, Value>>,
    ) -> bool {
        for (name, crd) in live.into_iter().flatten().filter(|(name, _)| empty.contains(*name)) {
            if let Err(cause) = self.trim_one(name, crd).await {
                tracing::warn!(crd = name, cause, "status.storedVersions is not trimmed");
                return false;
            }
        }
        true
    }

    async fn trim_one(&self, name: &str, crd: &Value) -> Result<(), String> {
        let trimmed = json!({
            "metadata": {"resourceVersion": crd["metadata"]["resourceVersion"]},
            "status": {"storedVersions": [Definition::of(crd).storage()]},
        });
        let path = format!("{CRDS}/{name}/status?fieldManager={}", manager::OBJECTS);
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(trimmed.to_string().into_bytes());
        self.as_account(request).await.map(|_| ())
    }

    /// Sends a request as the account.
    async fn as_account(
        &self,
        request: Result<http::Request<Vec<u8>>, http::Error>,
    ) -> Result<Value, String> {
        let request = request.map_err(|error| error.to_string())?;
        let client = impersonating(&self.ctx.client, self.account);
        let client = client.map_err(|error| Chain(&error).to_string())?;
        client.request(request).await.map_err(|error| Chain(&ApiError(error)).to_string())
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
        let mut leaving = BTreeMap::new();
        for name in controlled {
            if stay.contains(name.as_str()) {
                continue;
            }
            let live = self.live_crd(&name).await;
            let live = live.map_err(|cause| ContentError::LiveCrd {
                name: name.clone(),
                cause: ApiError(cause),
            })?;
            let Some(live) = live else {
                continue;
            };
            let counted = match self.objects_of(&live).await {
                Ok((_, count, _)) => Instances::Counted(count),
                Err(why) => Instances::Unknown(why),
            };
            leaving.insert(name, counted);
        }
        Ok(leaving)
    }

    /// Adds to a hold what the objects of its CRDs say about it. They are read as the account; what it
    /// may not read is said.
    pub(super) async fn add_evidence(
        &self,
        hold: &mut Hold,
        (desired, live): (&Desired, &BTreeMap<String, Value>),
    ) {
        let mut found = BTreeMap::new();
        for name in hold.crds.iter().take(JUDGED_CRDS) {
            let new = definitions(desired).find(|crd| crd.name() == name);
            let (Some(new), Some(old)) = (new, live.get(name)) else {
                continue;
            };
            let looked = self.objects_of(old).await;
            let judged = match looked {
                Ok((version, count, objects)) => evidence((old, new), &version, count, &objects),
                Err(why) => Evidence::Unknown(why),
            };
            found.insert(name.clone(), judged);
        }
        if !found.is_empty() {
            hold.add_evidence(&found);
        }
    }

    /// Returns the version in which the first objects of a CRD are returned, how many there are, and
    /// these.
    async fn objects_of(&self, crd: &Value) -> Result<(String, u64, Vec<Object>), String> {
        let Resource { group, version, plural, .. } = Resource::of(crd)?;
        let page = format!("/apis/{group}/{version}/{plural}?limit={JUDGED_OBJECTS}");
        let list = self.as_account(http::Request::get(page).body(Vec::new())).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let objects: Vec<_> = items.into_iter().filter_map(Object::from_value).collect();
        let more = list["metadata"]["remainingItemCount"].as_u64();
        let count = u64::try_from(objects.len()).unwrap_or(u64::MAX);
        let count = count.saturating_add(more.unwrap_or_default());
        Ok((version.to_owned(), count, objects))
    }

    async fn live_crd(&self, name: &str) -> Result<Option<Value>, kube::Error> {
        read(&self.ctx.client, &format!("{CRDS}/{name}")).await
    }
}

/// Reads the object at a path, if it is there.
pub(super) async fn read(client: &Client, path: &str) -> Result<Option<Value>, kube::Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
