//! What a pass reads from the cluster, as the controller.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams};
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use olm_core::revision::{self, Account};

use super::error::ExtensionError;

/// Returns the revisions of an extension, sorted by number.
pub async fn revisions(client: &Client, name: &str) -> Result<Vec<ClusterObjectSet>, kube::Error> {
    let owned = ListParams::default().labels(&format!("{}={name}", keys::label::OWNER_NAME));
    let mut revisions = Api::all(client.clone()).list(&owned).await?.items;
    revision::sort(&mut revisions);
    Ok(revisions)
}

/// Returns all catalogs.
pub async fn catalogs(client: &Client) -> Result<Vec<ClusterCatalog>, ExtensionError> {
    Api::all(client.clone())
        .list(&ListParams::default())
        .await
        .map(|list| list.items)
        .map_err(ExtensionError::Catalogs)
}

/// Returns the account an extension is installed with: the one it names, unless names are ignored,
/// else the default. It exists when this returns.
pub async fn account(
    client: &Client,
    extension: &ClusterExtension,
    names_count: bool,
    default: Option<&Account>,
) -> Result<Account, ExtensionError> {
    let account = named(extension)
        .filter(|_| names_count)
        .or_else(|| default.cloned())
        .ok_or(ExtensionError::NoAccount)?;
    let found = Api::<ServiceAccount>::namespaced(client.clone(), &account.namespace)
        .get_metadata_opt(&account.name)
        .await
        .map_err(ExtensionError::Account)?;
    if found.is_some() {
        return Ok(account);
    }
    let namespace = Api::<Namespace>::all(client.clone())
        .get_metadata_opt(&account.namespace)
        .await
        .map_err(ExtensionError::Account)?;
    Err(ExtensionError::AccountMissing {
        namespace_exists: namespace.is_some(),
        account,
    })
}

/// Returns the account the spec names.
pub fn named(extension: &ClusterExtension) -> Option<Account> {
    let spec = extension.spec.as_ref()?;
    let name = spec.service_account.as_ref()?.name.clone()?;
    Some(Account {
        namespace: spec.namespace.clone(),
        name,
    })
}
