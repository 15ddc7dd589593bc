//! CRDs by who controls them.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::cluster::RequestError;

/// Returns the names of the CRDs that are of these owners, by UID, without those that are being deleted:
/// one of them is its controller, or is its owner while nobody is its controller.
pub async fn controlled_crds(
    client: &Client,
    owners: &BTreeSet<String>,
) -> Result<Vec<String>, RequestError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(RequestError::doing("listing CRDs"))?;
    let lives = listed.items.into_iter().filter(|crd| crd.metadata.deletion_timestamp.is_none());
    let theirs = lives.filter(|crd| {
        let references = crd.metadata.owner_references.as_deref().unwrap_or_default();
        match references.iter().find(|it| it.controller == Some(true)) {
            Some(controller) => owners.contains(&controller.uid),
            None => references.iter().any(|it| owners.contains(&it.uid)),
        }
    });
    Ok(theirs.map(|crd| crd.name_any()).collect())
}
