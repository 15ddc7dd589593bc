//! Rights this program must not have, and what an earlier one left behind.
//!
//! Releases of upstream bound the account of the same name to cluster-admin. With that binding the
//! API server would enforce nothing of what the service account of an extension may do, so nothing
//! is done until it is gone. Source: deploying.md 7.2.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use olm_core::rbac::Permission;
use olm_core::rights::UPSTREAMS_DEPRECATION;
use tokio::time::Instant;

use crate::account;
use crate::cluster::{Sentence, code};
use crate::rights::may;
use crate::telemetry::Metrics;

/// The interval of checks whether the excess is gone.
const ASK: Duration = Duration::from_secs(5);
/// The number of refusals of the question itself that count for nothing. An API server that starts
/// refuses everything until it has read its roles, to whoever may do everything, too.
const REFUSALS: u32 = 3;
/// The interval of repeated messages about the excess.
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
    let (mut said, mut refused) = (None::<Instant>, 0);
    loop {
        match may_everything(&client, &mut refused).await {
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

/// Asks whether this process may do everything; `refused` counts how often it may not even ask.
async fn may_everything(client: &Client, refused: &mut u32) -> Result<bool, kube::Error> {
    let answer = may(client, "", &Permission::on("*", "*", "*", None)).await;
    if answer.as_ref().is_err_and(|error| code(error) == 403) {
        *refused += 1;
        if *refused > REFUSALS {
            return Ok(false);
        }
    }
    answer
}

/// Returns the advice for removing the excess.
async fn advice(client: &Client) -> String {
    let user = account::user(client).await.unwrap_or_default();
    let bindings =
        Api::<ClusterRoleBinding>::all(client.clone()).list(&ListParams::default()).await;
    let bindings = bindings.map(|list| list.items).unwrap_or_default();
    remedy(&user, &bindings)
}

/// Returns the command that removes the bindings of `user`, as far as they can be told.
fn remedy(user: &str, bindings: &[ClusterRoleBinding]) -> String {
    if !user.is_empty() && !user.starts_with(ACCOUNT_PREFIX) {
        return format!(
            "it runs as {user:?}; run it as its own service account, or pass \
             --allow-excessive-rights on a test cluster"
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

/// Returns whether a subject is the user alone. Groups are not looked at: others are in them too.
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
    use std::sync::atomic::{AtomicU32, Ordering};

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    // ours: an API server that has just started knows no roles
    #[rstest]
    #[case::until_its_roles_are_read(REFUSALS, Some(true))]
    #[case::for_good(u32::MAX, Some(false))]
    #[tokio::test]
    async fn a_refused_question_counts_once_it_is_refused_again_and_again(
        #[case] refusals: u32,
        #[case] want: Option<bool>,
    ) {
        let asked = AtomicU32::new(0);
        let client = answering(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            refused if refused < refusals => refusal(403),
            _ => (201, json!({"spec": {}, "status": {"allowed": true}})),
        });
        let mut refused = 0;
        for _ in 0..REFUSALS {
            assert!(may_everything(&client, &mut refused).await.is_err(), "it is not known yet");
        }
        assert_eq!(may_everything(&client, &mut refused).await.ok(), want);
    }

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
