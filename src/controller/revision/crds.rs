//! CRDs by who controls them.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use olm_core::object::Object;
use olm_core::revision::belongs_to;

use crate::cluster::RequestError;

/// Returns the names of the CRDs that belong to these owners, by UID, without those that are being deleted.
pub async fn controlled_crds(
    client: &Client,
    owners: &BTreeSet<String>,
) -> Result<Vec<String>, RequestError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(RequestError::doing("listing CRDs"))?;
    let theirs = listed.items.into_iter().filter(|crd| {
        let crd = serde_json::to_value(crd).ok().and_then(Object::from_value);
        crd.is_some_and(|crd| belongs_to(&crd, owners))
    });
    Ok(theirs.map(|crd| crd.name_any()).collect())
}
