//! Reads of a reconcile from the cluster, as the controller.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use olm_core::extension::ValidExtension;
use olm_core::guard::Policy;
use olm_core::revision::{Account, next_number, recorded_account, revision_name};

use super::Context;
use super::error::ExtensionError;
use crate::cluster::{ApiError, RequestError};

/// Reads what has to be there before anything else counts: what is asked for, and as whom.
pub(super) async fn observe<'a>(
    ctx: &Context,
    extension: &'a ClusterExtension,
    revisions: &[ClusterObjectSet],
) -> Result<(ValidExtension<'a>, Account), ExtensionError> {
    let valid = ValidExtension::of(extension).ok_or(ExtensionError::SpecMissing)?;
    // What is installed goes on; a further revision is refused where it is made.
    if revisions.is_empty() {
        let named = next_number(revisions);
        named
            .and_then(|number| revision_name(&extension.name_any(), number))
            .map_err(ExtensionError::Name)?;
    }
    let account = account(ctx, extension, revisions).await?;
    Ok((valid, account))
}

pub(super) async fn catalogs(ctx: &Context) -> Result<Vec<ClusterCatalog>, ExtensionError> {
    if let Some(seen) = ctx.seen.readable_catalogs().await {
        return Ok(seen);
    }
    let list = Api::<DeserializeGuard<ClusterCatalog>>::all(ctx.client.clone())
        .list(&ListParams::default())
        .await
        .map_err(RequestError::doing("error walking catalogs: error listing catalogs"))?;
    // A catalog that does not follow its schema must not stop the others.
    Ok(list.items.into_iter().filter_map(|guarded| guarded.0.ok()).collect())
}

/// Returns the account an extension is installed with: the one it names, unless names are ignored,
/// else the default. It may be acted as, and exists, when this returns.
async fn account(
    ctx: &Context,
    extension: &ClusterExtension,
    revisions: &[ClusterObjectSet],
) -> Result<Account, ExtensionError> {
    let client = &ctx.client;
    let accounts = ctx.settings.accounts();
    let policy = match accounts.named(extension) {
        Some(_) => Policy::Extension,
        None => Policy::DefaultAccount,
    };
    let account = accounts.of_extension(extension).ok_or(ExtensionError::NoAccount)?;
    ctx.guard.permit(&account).await?;
    // What is installed with an account was admitted when it was named.
    let before = revisions.last().and_then(recorded_account);
    ctx.guard.admit(policy, before.as_ref() == Some(&account)).await?;
    if ctx.seen.has_account(&account).await {
        return Ok(account);
    }
    let found = Api::<ServiceAccount>::namespaced(client.clone(), &account.namespace)
        .get_metadata_opt(&account.name)
        .await
        .map_err(|error| ExtensionError::Account(ApiError(error)))?;
    if found.is_some() {
        return Ok(account);
    }
    let namespace = Api::<Namespace>::all(client.clone())
        .get_metadata_opt(&account.namespace)
        .await
        .map_err(|error| ExtensionError::Account(ApiError(error)))?;
    Err(ExtensionError::AccountMissing { namespace_exists: namespace.is_some(), account })
}
