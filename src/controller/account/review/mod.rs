//! The rights of an account, according to the API server.
//!
//! The rules of an account come from `SelfSubjectRulesReview`s, asked as the account: one for each
//! namespace, and one for a namespace that cannot exist, in which nothing but cluster-wide rules
//! hold. They are evaluated by the API server from the very rules that its escalation check reads,
//! groups included; no Role and no binding is listed. What seems to be missing is asked for with
//! `SubjectAccessReview`s, so that other authorizers count, too. Where one of them cannot list its
//! rules (`incomplete`), only what a `SubjectAccessReview` denies is missing: nothing is refused that
//! the API server would allow.
//!
//! Listing Roles and bindings instead would read the RBAC of the whole cluster for each install, or
//! keep it in memory, and evaluate it with a copy of the authorizer.
//!
//! Source: applying.md 5.3.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use k8s_openapi::api::rbac::v1::{self as rbac, ClusterRole, Role};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use olm_cluster::{ApiError, message, reviews};
use olm_core::error::Chain;
use olm_core::extension::holds::Judgement;
use olm_core::rbac::{
    Held, Missing, Permission, Permissions, PolicyRule, RoleKey, has_wildcard_name,
};
use olm_core::revision::Account;

use super::impersonating;

/// Questions under way at the same time.
const AT_ONCE: usize = 8;
/// Most rights that one judgement asks for one by one.
const MOST: usize = 200;
/// A namespace that cannot exist.
const NOWHERE: &str = "-";

/// The known rights of an account.
#[derive(Default)]
struct Known {
    rights: Permissions,
    roles: BTreeMap<RoleKey, Option<Vec<PolicyRule>>>,
    errors: BTreeSet<String>,
    /// Whether the list of rights may be incomplete.
    incomplete: bool,
}

impl Known {
    fn held(&self) -> Held<'_> {
        Held { rights: &self.rights, roles: &self.roles }
    }

    fn add(&mut self, namespace: &str, status: SubjectRulesReviewStatus) {
        self.incomplete |= status.incomplete;
        self.errors.extend(status.evaluation_error);
        for rule in status.resource_rules {
            let rule = PolicyRule {
                api_groups: rule.api_groups.unwrap_or_default(),
                resources: rule.resources.unwrap_or_default(),
                resource_names: rule.resource_names.unwrap_or_default(),
                verbs: rule.verbs,
                non_resource_urls: Vec::new(),
            };
            self.rights.insert_rule(namespace, &rule);
        }
        for rule in status.non_resource_rules {
            let rule = PolicyRule {
                verbs: rule.verbs,
                non_resource_urls: rule.non_resource_urls.unwrap_or_default(),
                ..PolicyRule::default()
            };
            self.rights.insert_rule(namespace, &rule);
        }
    }
}

/// Judges an account: `missing` says what it lacks, given what it holds.
///
/// What cannot be found out counts as held: the API server decides then.
pub async fn judge(
    client: &Client,
    account: &Account,
    missing: impl Fn(&Held<'_>) -> Missing,
) -> Judgement {
    let (judgement, changed) = judge_once(client, account, &missing).await;
    if !changed {
        return judgement;
    }
    judge_once(client, account, &missing).await.0
}

/// Judges an account once, and returns whether its rights may have changed meanwhile: the API
/// server lists all of them, unless its answer is incomplete, and has allowed one that it has not
/// listed.
async fn judge_once(
    client: &Client,
    account: &Account,
    missing: &impl Fn(&Held<'_>) -> Missing,
) -> (Judgement, bool) {
    let nothing = missing(&Known::default().held());
    let places = nothing.rights.namespaces();
    let mut known = rules(client, account, places).await;
    let mut found = missing(&known.held());
    if !found.unread_roles.is_empty() {
        for role in &found.unread_roles {
            match rules_of(client, role).await {
                Ok(rules) => drop(known.roles.insert(role.clone(), rules)),
                Err(error) => drop(known.errors.insert(format!("{role}: {}", ApiError(error)))),
            }
        }
        found = missing(&known.held());
    }
    let mut judgement = Judgement {
        wildcard_name: has_wildcard_name(&known.rights, &found.rights),
        roles: known.roles.keys().cloned().collect(),
        ..Judgement::default()
    };
    if found.rights.is_empty() {
        return (judgement, false);
    }
    let asked = found.alternatives.iter().chain(found.rights.iter());
    let asked: Vec<_> = asked.take(MOST).collect();
    let answers = ask(client, account, &asked).await;
    let changed = !known.incomplete && answers.contains(&Some(true));
    let mut denied = Permissions::default();
    for ((namespace, right), answer) in asked.into_iter().zip(answers) {
        match answer {
            Some(true) => known.rights.insert(namespace, right.clone()),
            Some(false) => denied.insert(namespace, right.clone()),
            None => {}
        }
    }
    let mut found = missing(&known.held());
    judgement.errors.append(&mut known.errors);
    judgement.errors.append(&mut found.errors);
    for (namespace, right) in found.rights.iter() {
        if !known.incomplete || denied.covers(namespace, right) {
            judgement.missing.insert(namespace, right.clone());
        }
    }
    (judgement, changed)
}

/// Returns the rights of the account in these namespaces (empty: cluster-wide).
async fn rules(
    client: &Client,
    account: &Account,
    namespaces: impl Iterator<Item = &str>,
) -> Known {
    match impersonating(client, account) {
        Ok(client) => told(&client, namespaces).await,
        Err(error) => {
            let errors = [Chain(&error).to_string()].into();
            Known { incomplete: true, errors, ..Known::default() }
        }
    }
}

/// Returns for each right whether the account has it; `None` if that is unknown.
async fn ask(
    client: &Client,
    account: &Account,
    rights: &[(&str, &Permission)],
) -> Vec<Option<bool>> {
    let known = reviews(client, account, rights).await.into_iter().map(|answer| {
        answer.inspect_err(|error| {
            let error = message(error);
            tracing::warn!(error, "whether an account has a right is not known");
        })
    });
    known.map(Result::ok).collect()
}

/// Returns the rules of a role, if it exists. Read with the right to list roles, which watching
/// them takes anyway.
async fn rules_of(client: &Client, role: &RoleKey) -> Result<Option<Vec<PolicyRule>>, kube::Error> {
    let one = ListParams::default().fields(&format!("metadata.name={}", role.name));
    let rules: Option<Option<Vec<rbac::PolicyRule>>> = if role.namespace.is_empty() {
        let all = Api::<ClusterRole>::all(client.clone());
        all.list(&one).await?.items.pop().map(|role| role.rules)
    } else {
        let all = Api::<Role>::namespaced(client.clone(), &role.namespace);
        all.list(&one).await?.items.pop().map(|role| role.rules)
    };
    let own = |rules: Option<Vec<_>>| rules.unwrap_or_default().into_iter().map(PolicyRule::from);
    Ok(rules.map(|rules| own(rules).collect()))
}

/// Returns the rights of a client's user in these namespaces, as far as the API server lists them.
pub async fn held(client: &Client, namespaces: impl Iterator<Item = &str>) -> Permissions {
    told(client, namespaces).await.rights
}

async fn told(client: &Client, namespaces: impl Iterator<Item = &str>) -> Known {
    let places: BTreeSet<&str> = namespaces.chain([""]).collect();
    let asked: Vec<_> = places
        .into_iter()
        .map(|namespace| {
            let place = if namespace.is_empty() { NOWHERE } else { namespace };
            let review = SelfSubjectRulesReview {
                spec: SelfSubjectRulesReviewSpec { namespace: Some(place.to_owned()) },
                ..SelfSubjectRulesReview::default()
            };
            let api = Api::<SelfSubjectRulesReview>::all(client.clone());
            async move { (namespace, api.create(&PostParams::default(), &review).await) }
        })
        .collect();
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut known = Known::default();
    while let Some((namespace, answer)) = answers.next().await {
        match answer.map(|review| review.status) {
            Ok(Some(status)) => known.add(namespace, status),
            Ok(None) => known.incomplete = true,
            Err(error) => {
                known.incomplete = true;
                known.errors.insert(ApiError(error).to_string());
            }
        }
    }
    known
}

#[cfg(test)]
mod tests;
