//! Roles and bindings that `rbac` and `install` made for an account, found by label and name.

use olm_core::rbac::{Account, MANAGED_BY, rbac_prefix};
use olm_core::revision::AccountRule;

use crate::commands::prelude::*;
use crate::managed;

/// Bindings first: who deletes them in this order leaves none that leads nowhere.
const KINDS: [&str; 4] = ["ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role"];

/// Returns the objects that were created for an account.
pub(crate) async fn made(client: &Client, account: &Account) -> kube::Result<Vec<Managed>> {
    let prefix = rbac_prefix(account);
    let selector = format!("app.kubernetes.io/managed-by={MANAGED_BY}");
    let mut made = Vec::new();
    for kind in KINDS {
        let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let found = managed::all(&api, &selector).await?.into_iter();
        let found = found.filter(|one| one.name_any().starts_with(&prefix));
        made.extend(found.map(|object| Managed { resource: resource.clone(), object }));
    }
    Ok(made)
}

/// Returns an account itself, if it is there.
pub(crate) async fn itself(client: &Client, account: &Account) -> kube::Result<Option<Managed>> {
    let kind = GroupVersionKind::gvk("", "v1", "ServiceAccount");
    let resource = ApiResource::from_gvk(&kind);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &account.namespace, &resource);
    Ok(api.get_metadata_opt(&account.name).await?.map(|object| Managed { resource, object }))
}

/// Returns the created objects that are not among these.
pub(super) async fn besides(
    client: &Client,
    account: &Account,
    objects: &[Object],
) -> kube::Result<Vec<Managed>> {
    let is = |made: &Managed, object: &Object| {
        made.named() == changes::named(object)
            && made.object.namespace().unwrap_or_default() == object.namespace()
    };
    let mut made = made(client, account).await?;
    made.retain(|one| !objects.iter().any(|object| is(one, object)));
    Ok(made)
}

/// Deletes one of them, unless somebody has made it anew.
pub(crate) async fn delete(client: &Client, made: &Managed) -> kube::Result<()> {
    let mut params = DeleteParams::background();
    params.preconditions =
        Some(Preconditions { uid: made.object.metadata.uid.clone(), resource_version: None });
    match made.api(client).delete(&made.object.name_any(), &params).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Returns the account that an extension names.
pub(crate) fn account_of(extension: &ClusterExtension) -> Option<Account> {
    AccountRule::default().named(extension)
}

/// Returns which of `extensions` has this account too, besides the one of this name and those that
/// are deleted before it, in the order in which they go.
pub(crate) fn shared_with(
    extensions: &[ClusterExtension],
    account: &Account,
    name: &str,
    going: &[String],
) -> Option<String> {
    let having = extensions.iter().filter(|one| account_of(one).as_ref() == Some(account));
    let is_gone = |other: &String| going.iter().take_while(|it| *it != name).any(|it| it == other);
    having.map(ClusterExtension::name_any).find(|other| other != name && !is_gone(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_goes_with_the_last_extension_that_has_it() {
        let extension = |name: &str| -> ClusterExtension {
            let spec = json!({"namespace": "n", "serviceAccount": {"name": "a"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": name}}});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let (all, account) = ([extension("e"), extension("f")], "n/a".parse().unwrap());
        let going = ["e", "f"].map(str::to_owned);
        for (name, going, want) in
            [("e", &[][..], Some("f")), ("e", &going[..], Some("f")), ("f", &going[..], None)]
        {
            assert_eq!(shared_with(&all, &account, name, going).as_deref(), want);
        }
    }
}
