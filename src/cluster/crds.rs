//! CRDs by name, and their objects.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use olm_core::crd_safety::{Definition, Evidence, Resource, evidence};
use olm_core::error::{Chain, plain};
use olm_core::extension::holds::definitions;
use olm_core::object::Object;
use olm_core::revision::Desired;
use olm_core::uninstall::Instances;
use serde_json::Value;

use super::error::ApiError;
use super::request::{get, join_bounded, read};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Most objects in one page of a list.
const PAGE: usize = 500;

/// The name of a CRD that cannot be read, and why.
#[derive(Debug)]
pub struct Unread(pub String, pub kube::Error);

/// Reads CRDs, whole and by name; those that are not there are left out.
pub async fn crds(client: &Client, names: Vec<String>) -> Result<BTreeMap<String, Value>, Unread> {
    let reading = names.into_iter().map(|name| async move {
        let found = read(client, &format!("{CRDS}/{name}")).await;
        (name, found)
    });
    let mut crds = BTreeMap::new();
    for (name, found) in join_bounded(reading.collect()).await {
        match found {
            Ok(found) => crds.extend(found.map(|found| (name, found))),
            Err(cause) => return Err(Unread(name, cause)),
        }
    }
    Ok(crds)
}

/// Returns those CRDs of which only former stored versions prevent an update, and no object exists.
pub async fn empty(
    client: &Client,
    desired: &Desired,
    live: &BTreeMap<String, Value>,
) -> BTreeSet<String> {
    let mut empty = BTreeSet::new();
    for new in definitions(desired) {
        let (name, new) = (new.name(), Definition::of_object(new));
        let awaits = |old: &&Value| Definition::of(old).awaits_migration(&new);
        if let Some(old) = live.get(name).filter(awaits)
            && let Ok((_, 0, _)) = objects_of(client, old, 1).await
        {
            empty.insert(name.to_owned());
        }
    }
    empty
}

/// Counts the objects of CRDs that the next version drops. `client` reads the CRDs, `counting` the
/// objects.
pub async fn leaving(
    client: &Client,
    counting: &Client,
    names: Vec<String>,
) -> Result<BTreeMap<String, Instances>, Unread> {
    let mut leaving = BTreeMap::new();
    for (name, crd) in crds(client, names).await? {
        let counted = match objects_of(counting, &crd, 1).await {
            Ok((_, count, _)) => Instances::Counted(count),
            Err(why) => Instances::Unknown(why),
        };
        leaving.insert(name, counted);
    }
    Ok(leaving)
}

/// Validates the first objects of a CRD against the CRD that will replace it.
pub async fn judged(client: &Client, (old, new): (&Value, &Object), most: usize) -> Evidence {
    match objects_of(client, old, most).await {
        Ok((version, count, objects)) => evidence((old, new), &version, count, &objects),
        Err(why) => Evidence::Unknown(why),
    }
}

/// Returns the version in which objects of a CRD are returned, how many there are, and the first of
/// them.
async fn objects_of(
    client: &Client,
    crd: &Value,
    most: usize,
) -> Result<(String, u64, Vec<Object>), String> {
    let Resource { group, version, plural, .. } = Resource::of(&crd["spec"])?;
    let mut found = Vec::new();
    let mut page = String::new();
    loop {
        let limit = PAGE.min(most - found.len());
        let path = format!("/apis/{group}/{version}/{plural}?limit={limit}{page}");
        let listed = get(client, &path).await;
        let mut list = listed.map_err(|error| plain(&Chain(&ApiError(error)).to_string()))?;
        if let Value::Array(items) = list["items"].take() {
            found.extend(items.into_iter().filter_map(Object::from_value));
        }
        let token = list["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
        match token {
            Some(token) if found.len() < most => page = format!("&continue={token}"),
            _ => {
                let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
                let count = u64::try_from(found.len()).unwrap_or(u64::MAX).saturating_add(more);
                return Ok((version.to_owned(), count, found));
            }
        }
    }
}
