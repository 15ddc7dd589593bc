//! The cluster as constraints see it: what the API server serves, and what is installed.
//!
//! Source: resolution.md 5.2.

use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt as _};
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::resolve::{Provider, ServedKinds};
use olm_core::revision::{CSVS_PATH, csv_provider, installed_by_owner};

use super::request::read;

/// Reads the kinds that are the same as long as the API server is.
pub async fn built_in_kinds(client: &Client) -> Result<ServedKinds, kube::Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let mut kinds = ServedKinds::default();
    kinds.add_discovery(&serde_json::to_value(core).map_err(kube::Error::SerdeError)?);
    Ok(kinds)
}

/// Reads every kind that is served, given those that are built in.
pub async fn kinds(client: &Client, built_in: ServedKinds) -> Result<ServedKinds, kube::Error> {
    let others = client.list_api_groups_aggregated().await?;
    let mut kinds = built_in;
    kinds.add_discovery(&serde_json::to_value(others).map_err(kube::Error::SerdeError)?);
    Ok(kinds)
}

/// Reads what is installed: the names of the extensions that are not being removed and have a
/// revision that was rolled out, each with that revision. A revision that cannot be read is none.
pub async fn installed(
    client: &Client,
    params: &ListParams,
) -> Result<Vec<(String, ClusterObjectSet)>, kube::Error> {
    let extensions = Api::<ClusterExtension>::all(client.clone()).list_metadata(params).await?;
    let revisions =
        Api::<DeserializeGuard<ClusterObjectSet>>::all(client.clone()).list(params).await?;
    let readable = revisions.items.into_iter().filter_map(|guard| guard.0.ok());
    let mut by_owner = installed_by_owner(readable);
    let stays = extensions.items.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    Ok(stays.filter_map(|it| Some((it.name_any(), by_owner.remove(&it.uid()?)?))).collect())
}

/// Reads what OLM Classic has installed; nothing where it is not.
pub async fn classic_providers(client: &Client) -> Result<Vec<Provider>, kube::Error> {
    let listed = read(client, CSVS_PATH).await?.unwrap_or_default();
    let items = listed["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(csv_provider).collect())
}
