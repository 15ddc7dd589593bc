//! The rights of the controller's own account, from the API server, compared with the table of
//! required rights.
//!
//! Source: deploying.md 2.8.

use std::io;
use std::time::Duration;

use clap::Args;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use olm_api::keys::name::SYSTEM_NAMESPACE;
use olm_core::rbac::{Permission, Permissions, lines};
use olm_core::rights::{Half, Reach, Right, attributes};
use olm_core::settings::REINSTALL;
use serde_json::json;

use crate::account::held;
use crate::cluster::Sentence;
use crate::telemetry::Metrics;
use crate::version::{OutputFormat, say};

/// The interval of checks.
const INTERVAL: Duration = Duration::from_hours(1);
/// The same while something is missing or not known.
const RETRY: Duration = Duration::from_secs(30);
/// Questions under way at the same time.
const AT_ONCE: usize = 4;

/// Asks for each of the `needed` rights, again and again, and says what is missing.
pub async fn watch(client: Client, needed: Permissions, metrics: Metrics) {
    let mut known = Permissions::default();
    loop {
        let pause = match missing(&client, &needed).await {
            Ok(missing) => {
                note(&metrics, &known, &missing);
                known = missing;
                if known.is_empty() { INTERVAL } else { RETRY }
            }
            Err(error) => {
                tracing::warn!(error = %Sentence(&error), "the rights of this process are not known");
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

fn note(metrics: &Metrics, before: &Permissions, missing: &Permissions) {
    if missing == before {
        return;
    }
    metrics.missing_rights(missing.iter().map(|(_, right)| match right {
        Permission::Resource { group, resource, verb, .. } => {
            let parts = [resource.as_str(), group.as_str()];
            (parts.join(".").trim_end_matches('.').to_owned(), verb.clone())
        }
        Permission::Url { path, verb } => (path.clone(), verb.clone()),
    }));
    if missing.is_empty() {
        tracing::info!("this process has every right it needs");
    } else {
        let missing = lines(missing).join("; ");
        tracing::warn!(
            missing,
            "the account of this process lacks rights, and what needs them fails: apply the \
             manifests of this version again, {REINSTALL}"
        );
    }
}

/// Returns the missing rights: those that the API server neither lists nor allows in a review.
/// Authorizers other than RBAC need not list the rights that they grant.
async fn missing(client: &Client, needed: &Permissions) -> Result<Permissions, kube::Error> {
    let held = held(client, needed.namespaces()).await;
    let questions: Vec<_> = needed
        .iter()
        .filter(|(namespace, right)| !held.covers(namespace, right))
        .map(|(namespace, right)| async move {
            let allowed = may(client, namespace, right).await?;
            Ok::<_, kube::Error>((!allowed).then_some((namespace, right)))
        })
        .collect();
    let mut answers = stream::iter(questions).buffer_unordered(AT_ONCE);
    let mut missing = Permissions::default();
    while let Some(answer) = answers.next().await {
        if let Some((namespace, right)) = answer? {
            missing.insert(namespace, right.clone());
        }
    }
    Ok(missing)
}

/// Returns whether this process has a right, cluster-wide where `namespace` is empty.
pub(crate) async fn may(
    client: &Client,
    namespace: &str,
    right: &Permission,
) -> Result<bool, kube::Error> {
    let (resource_attributes, non_resource_attributes) = attributes(namespace, right);
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec { resource_attributes, non_resource_attributes },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &question).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Flags of `rights`.
#[derive(Debug, Clone, Args)]
pub struct RightsArgs {
    /// How they are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub output: OutputFormat,
}

/// Prints every right that the controller's own account needs, with its reason.
pub fn print(args: &RightsArgs) -> io::Result<()> {
    let rights =
        Half::ALL.into_iter().flat_map(|half| half.rights().map(move |right| (half, right)));
    match args.output {
        OutputFormat::Text => {
            let text = rights.map(|(half, right)| {
                let mut granted = Permissions::default();
                granted.insert_rule(namespace_of(right), &right.rule);
                let lines = lines(&granted).join("\n");
                format!("{}: {}\n{lines}", half.role(right.reach), right.reason)
            });
            say(&text.collect::<Vec<_>>().join("\n\n"))
        }
        OutputFormat::Json => {
            let rows = rights.map(|(half, right)| {
                json!({"role": half.role(right.reach), "namespace": namespace_of(right),
                    "rule": right.rule.to_value(), "reason": right.reason})
            });
            say(&format!("{:#}", json!({"rights": rows.collect::<Vec<_>>()})))
        }
    }
}

/// Returns the namespace of a right in the manifests, empty for the whole cluster.
fn namespace_of(right: &Right) -> &'static str {
    match right.reach {
        Reach::Cluster | Reach::Watches => "",
        Reach::Namespace => SYSTEM_NAMESPACE,
    }
}
