//! The state of the cluster that constraints are checked against: served APIs and installed bundles.
//!
//! Source: resolution.md 5.2.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt as _};
use olm_api::keys::label;
use olm_api::{ClusterExtension, ClusterObjectSet};
use olm_core::extension;
use olm_core::resolve::{Provider, ServedKinds};
use olm_core::revision::{self, CSVS_PATH, Extension, csv_provider};
use olm_core::version::Version;

use super::request::read;

/// Reads the built-in kinds, which do not change while the API server runs.
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

/// Reads the installed bundles: the names of the extensions that are not being removed and have a
/// revision that was rolled out, each with that revision. A revision that cannot be read is
/// ignored.
pub async fn installed(
    client: &Client,
    params: &ListParams,
) -> Result<Vec<(String, ClusterObjectSet)>, kube::Error> {
    let extensions = Api::<ClusterExtension>::all(client.clone()).list_metadata(params).await?;
    let revisions =
        Api::<DeserializeGuard<ClusterObjectSet>>::all(client.clone()).list(params).await?;
    let readable: Vec<_> = revisions.items.into_iter().filter_map(|guard| guard.0.ok()).collect();
    let installed = revision::installed(&readable);
    let stays = extensions.items.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    let extensions =
        stays.map(|it| Extension { name: it.name_any(), uid: it.uid().unwrap_or_default() });
    let found = extensions.filter_map(|it| Some(((*installed.get(&it)?).clone(), it.name)));
    Ok(found.map(|(set, name)| (name, set)).collect())
}

/// Reads which version of a package an extension had before everything lost its owner. A revision
/// that cannot be read is ignored.
pub async fn left_version(
    client: &Client,
    extension: &str,
    package: &str,
) -> Result<Option<Version>, kube::Error> {
    let labelled = ListParams::default().labels(&format!("{}={extension}", label::OWNER_NAME));
    let sets = Api::<DeserializeGuard<ClusterObjectSet>>::all(client.clone());
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let (sets, crds) = futures::try_join!(sets.list(&labelled), crds.list_metadata(&labelled))?;
    let sets: Vec<_> = sets.items.into_iter().filter_map(|guard| guard.0.ok()).collect();
    let crds = crds.items.iter().map(|crd| &crd.metadata);
    Ok(extension::left_version((extension, package), &sets, crds))
}

/// Reads the ClusterServiceVersions of OLM Classic; none if it is not installed.
pub async fn classic_providers(client: &Client) -> Result<Vec<Provider>, kube::Error> {
    // There is a copy of each in every namespace.
    let path = format!("{CSVS_PATH}&labelSelector=%21{}", label::COPIED_FROM);
    let listed = read(client, &path).await?.unwrap_or_default();
    let items = listed["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(csv_provider).collect())
}
