//! Rights this program must not have, and what an earlier one left behind.
//!
//! Releases of upstream bound the account of the same name to cluster-admin. With that binding the
//! API server would enforce nothing of what the service account of an extension may do, so nothing
//! is done until it is gone. Source: deploying.md 7.2.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::Client;
use kube::api::Api;
use olm_core::rbac::Permission;
use olm_core::rights::UPSTREAMS_DEPRECATION;
use tokio::time::Instant;

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
/// What ends it. The bindings are those of upstream: v1.11, and v1.6 to v1.10.
const REMEDY: &str = "kubectl delete clusterrolebinding operator-controller-cluster-admin-rolebinding \
    operator-controller-manager-admin-rolebinding --ignore-not-found removes those of upstream, and kubectl get \
    clusterrolebindings -o wide shows others; on a test cluster, pass --allow-excessive-rights";

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
                    tracing::error!(
                        "nothing is done, because this process may do everything on this cluster \
                         and service accounts of extensions would limit nothing: {REMEDY}"
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use rstest::rstest;
    use serde_json::json;

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
}
