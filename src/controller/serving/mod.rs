//! The certificate of our own listeners, issued by the program itself.
//!
//! In: a Secret with a CA in the system namespace, made by whichever replica comes first. Out: a
//! certificate of a week with a key of its own in each process, which is never written anywhere, and
//! the CA for clients, in a Secret and a ConfigMap without the key. What follows a first CA is
//! written by the leader alone (`keep`), and every process follows the Secret (`present`). Nothing
//! restarts: new handshakes see the new certificate. The CA vouches for the names of our Services
//! only.
//!
//! Source: deploying.md 2.4.

mod keep;
mod names;
mod plan;
mod present;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use olm_api::conditions::Reason;
use olm_core::error::Chain;
use tokio::sync::watch;

use crate::catalog::Published;
use crate::cluster::{Repeated, Sentence};
use crate::reconcile::event;
use crate::server::health::Health;
use crate::server::tls::Certificates;
use crate::telemetry::Metrics;

pub use keep::Keeper;
pub use present::Presenter;

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Longest pause: timers stand still while a machine sleeps, and a watch may be dead.
const LONGEST: Duration = Duration::from_hours(1);
/// The check that fails until there is a certificate.
const CHECK: &str = "serving certificate";

/// What failed when it is the library of certificates.
const MAKING: &str = "making a certificate";

/// Who this process is, and whom it serves.
#[derive(Debug, Clone)]
pub struct Identity {
    namespace: String,
    names: Vec<String>,
}

impl Identity {
    /// Returns that of a process in a namespace, and at an address outside of the cluster if it has one.
    pub fn new(namespace: String, external: Option<&str>) -> Self {
        Self { names: names::names(&namespace, external), namespace }
    }
}

/// Returns the presenter, which sets `certificates` of listeners and lets `trusted` follow the CA,
/// and the keeper of the CA for the leader. Blocks for a moment.
pub fn serving(
    client: &Client,
    identity: Identity,
    certificates: Certificates,
    trusted: Published,
    metrics: Metrics,
    health: Arc<Health>,
) -> (Presenter, Keeper) {
    health.set_ready(CHECK, false);
    let (seen, secret) = watch::channel(None);
    let presenter = Presenter {
        client: client.clone(),
        identity: identity.clone(),
        certificates,
        metrics,
        health,
        seen,
        leaf: None,
        trusted,
    };
    (presenter, Keeper { identity, secret })
}

/// Says that a CA took the place of one that was lost or could not be used.
async fn tell_replaced(client: &Client, secret: &Secret, why: &str) {
    tracing::warn!(why, "the serving CA is replaced");
    let note = format!("the serving CA is replaced by a new one: {why}");
    let event = event(EventType::Warning, Reason::ServingAuthorityReplaced, note);
    let recorder = Recorder::new(client.clone(), Reporter::from("olm-controller"));
    if let Err(error) = recorder.publish(&event, &secret.object_ref(&())).await {
        tracing::debug!(error = %Sentence(&error), "event not written");
    }
}

/// Returns the pause after a round, whose failure is logged once.
fn pause(
    done: anyhow::Result<Duration>,
    failure: &mut Repeated,
    message: &'static str,
) -> Duration {
    match done {
        Ok(pause) => {
            failure.over();
            pause
        }
        Err(error) => {
            failure.log(Chain(&*error).to_string(), message);
            RETRY
        }
    }
}

/// Returns how long to wait for a moment; not at all if it is over.
fn until(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or_default().min(LONGEST)
}
