//! The rights of an account on a cluster, compared with the required ones.
//!
//! Read as the caller: Roles and bindings, which tell by which binding there is too much. What
//! seems to be missing is asked for again, so that other authorizers count.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Resource, ResourceExt};
use olm_cluster::reviews;
use olm_core::extension::holds::Judgement;
use olm_core::rbac::{
    Account, Grant, Held, Missing, Permission, Permissions, RbacObjects, has_wildcard_name,
};

use crate::commands::prelude::*;

/// Most rights that are asked for one by one.
const MOST: usize = 200;
/// The label of what the API server itself gives every account.
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";

/// The missing and the excessive rights of an account.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) judgement: Judgement,
    /// By binding.
    pub(crate) excess: Vec<(Grant, Permissions)>,
}

/// Compares what an account holds with what generated roles grant for bundles; `missing` computes from
/// what it holds what it lacks.
pub(crate) async fn compare(
    client: &Client,
    account: &Account,
    granted: &Permissions,
    missing: impl Fn(&Held<'_>) -> Missing,
) -> anyhow::Result<Findings> {
    let (cluster, defaults) = read(client).await?;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &account.namespace);
    let found = accounts.get_opt(&account.name).await.context("reading the service account")?;
    let grants = cluster.grants(account);
    let held = held(&grants);
    let mut findings = Findings::default();
    let judgement = &mut findings.judgement;
    judgement.absent = found.is_none();
    let lacking = lacking(missing, &cluster, &held, &mut judgement.errors);
    judgement.wildcard_name = has_wildcard_name(&held, &lacking);
    judgement.missing = confirmed(client, account, &lacking).await;
    for grant in grants {
        let is_default = grant.namespace.is_empty() && defaults.contains(&grant.name);
        let Some(rights) = grant.rights.as_ref().filter(|_| !is_default) else { continue };
        let excess = rights.missing(granted);
        if !excess.is_empty() {
            findings.excess.push((grant, excess));
        }
    }
    Ok(findings)
}

/// Returns the most powerful rights that an account holds, in words.
pub(crate) async fn strong(
    client: &Client,
    account: &Account,
) -> anyhow::Result<Vec<&'static str>> {
    let (cluster, _) = read(client).await?;
    Ok(held(&cluster.grants(account)).strong().into_iter().collect())
}

/// Reads roles and bindings; also returns the names of the bindings that every cluster has.
async fn read(client: &Client) -> anyhow::Result<(RbacObjects, BTreeSet<String>)> {
    let mut cluster = RbacObjects::default();
    for role in list::<Role>(client).await? {
        cluster.add_role(role.metadata, role.rules);
    }
    for role in list::<ClusterRole>(client).await? {
        cluster.add_role(role.metadata, role.rules);
    }
    for binding in list::<RoleBinding>(client).await? {
        cluster.add_binding(binding.metadata, &binding.role_ref, binding.subjects);
    }
    let bindings = list::<ClusterRoleBinding>(client).await?;
    let given = |binding: &&ClusterRoleBinding| binding.labels().contains_key(BOOTSTRAPPING);
    let defaults = bindings.iter().filter(given).map(ResourceExt::name_any).collect();
    for binding in bindings {
        cluster.add_binding(binding.metadata, &binding.role_ref, binding.subjects);
    }
    Ok((cluster, defaults))
}

/// Returns everything that bindings give.
fn held(grants: &[Grant]) -> Permissions {
    let mut held = Permissions::default();
    for rights in grants.iter().filter_map(|grant| grant.rights.as_ref()) {
        held.extend(rights);
    }
    held
}

async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let listed = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    let listed = listed.with_context(|| format!("listing {}", K::plural(&())))?;
    Ok(listed.items)
}

/// Returns the rights that the account lacks according to RBAC.
fn lacking(
    missing: impl Fn(&Held<'_>) -> Missing,
    cluster: &RbacObjects,
    held: &Permissions,
    errors: &mut BTreeSet<String>,
) -> Permissions {
    let judge = |roles: &BTreeMap<_, _>| missing(&Held { rights: held, roles });
    let read = judge(&BTreeMap::new()).unread_roles.into_iter().map(|role| {
        let rules = cluster.rules(&role).map(<[_]>::to_vec);
        (role, rules)
    });
    let mut found = judge(&read.collect());
    errors.append(&mut found.errors);
    found.rights.reduced()
}

/// Returns the rights that no authorizer grants to the account, as far as the caller may check
/// this.
async fn confirmed(client: &Client, account: &Account, lacking: &Permissions) -> Permissions {
    let all: Vec<(&str, &Permission)> = lacking.iter().collect();
    let answers = reviews(client, account, &all[..all.len().min(MOST)]).await;
    if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
        notice(&format!(
            "note: only RBAC is checked, other authorizers cannot be asked: {}",
            Chain(error)
        ));
    }
    let mut answers = answers.into_iter();
    let mut missing = Permissions::default();
    for (namespace, right) in all {
        if !matches!(answers.next(), Some(Ok(true))) {
            missing.insert(namespace, right.clone());
        }
    }
    missing
}
