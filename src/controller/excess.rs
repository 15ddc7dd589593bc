//! Rights this program must not have, and what an earlier one left behind.
//!
//! Releases of upstream bound the account of the same name to cluster-admin. With that binding the
//! API server would enforce nothing of what the service account of an extension may do, so nothing
//! is done until it is gone. Source: deploying.md 7.2.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use olm_core::rbac::Permission;
use olm_core::rights::UPSTREAMS_DEPRECATION;
use tokio::time::Instant;

use crate::cluster::Sentence;
use crate::rights::may;
use crate::telemetry::Metrics;

/// How often it is asked whether the excess is gone.
const ASK: Duration = Duration::from_secs(5);
/// How often it is said again why nothing is done.
const SAY: Duration = Duration::from_mins(1);
/// The role that upstream bound.
const EVERYTHING: &str = "cluster-admin";
/// Bindings of upstream: v1.11, and v1.6 to v1.10.
const BINDINGS: [&str; 2] = [
    "operator-controller-cluster-admin-rolebinding",
    "operator-controller-manager-admin-rolebinding",
];
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Waits until the API server says that this process may not do everything.
pub async fn gone(client: Client, metrics: Metrics) {
    let mut said: Option<Instant> = None;
    loop {
        match may_everything(&client).await {
            Ok(false) => {
                metrics.excessive_rights(false);
                if said.is_some() {
                    tracing::info!("the rights of this process are limited now");
                }
                return;
            }
            Ok(true) => {
                metrics.excessive_rights(true);
                if said.is_none_or(|at| at.elapsed() >= SAY) {
                    said = Some(Instant::now());
                    let advice = advice(&client).await;
                    tracing::error!(
                        "nothing is done, because this process may do everything on this cluster \
                         and service accounts of extensions would limit nothing: {advice}"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(error = %Sentence(&error), "the rights of this process are not known yet");
            }
        }
        tokio::time::sleep(ASK).await;
    }
}

/// Warns of what upstream left and what would mislead users.
pub async fn warn_of_leftovers(client: Client) {
    let policies = Api::<ValidatingAdmissionPolicy>::all(client);
    match policies.get_metadata_opt(UPSTREAMS_DEPRECATION).await {
        Ok(Some(_)) => tracing::warn!(
            "a policy of upstream tells users that spec.serviceAccount is ignored, which it is \
             not: kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding \
             {UPSTREAMS_DEPRECATION}"
        ),
        Ok(None) => {}
        Err(error) => tracing::debug!(error = %Sentence(&error), "policies were not checked"),
    }
}

async fn may_everything(client: &Client) -> Result<bool, kube::Error> {
    match may(client, "", &Permission::on("*", "*", "*", None)).await {
        Ok(answer) => Ok(answer),
        // Who may do everything may ask as well.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Says how to take the excess away.
async fn advice(client: &Client) -> String {
    let asked = Api::<SelfSubjectReview>::all(client.clone())
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = asked.ok().and_then(|answer| {
        let info = answer.status?.user_info?;
        info.username
    });
    let bindings =
        Api::<ClusterRoleBinding>::all(client.clone()).list(&ListParams::default()).await;
    let bindings = bindings.map(|list| list.items).unwrap_or_default();
    remedy(user.as_deref().unwrap_or_default(), &bindings)
}

/// Returns the command that removes the bindings of `user`, as far as they can be told.
fn remedy(user: &str, bindings: &[ClusterRoleBinding]) -> String {
    if !user.is_empty() && !user.starts_with(ACCOUNT_PREFIX) {
        return format!(
            "it runs as {user:?}; run it as its own service account, or pass \
             --allow-excessive-rights on a cluster that may break"
        );
    }
    let found: Vec<String> = bindings
        .iter()
        .filter(|binding| binding.role_ref.name == EVERYTHING)
        .filter(|binding| binding.subjects.iter().flatten().any(|subject| is_user(subject, user)))
        .map(ResourceExt::name_any)
        .collect();
    let (names, origin) = if found.is_empty() {
        (BINDINGS.join(" "), " (these are the names of upstream)")
    } else {
        (found.join(" "), "")
    };
    format!("kubectl delete clusterrolebinding {names}{origin}")
}

/// Says whether a subject is the user alone. Groups are not looked at: others are in them too.
fn is_user(subject: &Subject, user: &str) -> bool {
    let name = &subject.name;
    match subject.kind.as_str() {
        "User" => name == user,
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().unwrap_or_default();
            user == format!("{ACCOUNT_PREFIX}{namespace}:{name}")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const USER: &str = "system:serviceaccount:system:manager";

    fn binding(name: &str, role: &str, subjects: &Value) -> ClusterRoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        }))
        .unwrap()
    }

    #[test]
    fn the_command_names_the_bindings_of_this_account_to_everything() {
        let account = json!([{"kind": "ServiceAccount", "namespace": "system", "name": "manager"}]);
        let elsewhere =
            json!([{"kind": "ServiceAccount", "namespace": "other", "name": "manager"}]);
        let group = json!([{"kind": "Group", "name": "system:serviceaccounts"}]);
        let bindings = [
            binding("as-account", "cluster-admin", &account),
            binding("as-user", "cluster-admin", &json!([{"kind": "User", "name": USER}])),
            binding("rights", "operator-controller-manager-role", &account),
            binding("elsewhere", "cluster-admin", &elsewhere),
            binding("group", "cluster-admin", &group),
            binding("nobody", "cluster-admin", &Value::Null),
        ];
        assert_eq!(remedy(USER, &bindings), "kubectl delete clusterrolebinding as-account as-user");
    }

    #[test]
    fn without_a_binding_to_name_upstreams_are_named() {
        let text = remedy(USER, &[]);
        assert!(BINDINGS.iter().all(|name| text.contains(name)), "{text}");
        assert_eq!(remedy("", &[]), text);
    }

    #[test]
    fn nobody_is_told_to_unbind_administrators() {
        let admins =
            binding("cluster-admin", "cluster-admin", &json!([{"kind": "User", "name": "root"}]));
        let text = remedy("root", &[admins]);
        assert!(!text.contains("kubectl delete"), "{text}");
        assert!(text.contains("--allow-excessive-rights"), "{text}");
    }
}
