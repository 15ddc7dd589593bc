//! Starting a controller, and waiting for what it does and says.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};

use crate::cluster::{Cluster, ControlPlane, Controller, ControllerOptions, SYSTEM_NAMESPACE};
use crate::wait;

/// Longer than each of them takes.
const WITHIN: Duration = Duration::from_mins(1);

/// Starts a controller of this name with further arguments.
pub async fn start(plane: &'static ControlPlane, name: &str, args: &[&str]) -> Controller {
    let options = ControllerOptions::of(name, args);
    tokio::task::spawn_blocking(move || Controller::start(plane, options))
        .await
        .expect("the controller starts")
}

/// Removes the leases of controllers that an earlier test killed, as they would have to expire
/// first.
pub async fn clear_leases(cluster: &Cluster) -> Api<Lease> {
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let all = (DeleteParams::default(), ListParams::default());
    leases.delete_collection(&all.0, &all.1).await.expect("Leases can be deleted");
    leases
}

impl Controller {
    /// Waits until it says that it is ready.
    pub async fn ready(&self) {
        wait::until("the process is ready", WITHIN, || async {
            match self.health("readyz").await {
                200 => Ok(()),
                other => Err(format!("readyz answers {other}\n{}", self.last_words())),
            }
        })
        .await;
    }

    /// Waits until its log contains `text`.
    pub async fn logs(&self, text: &str) {
        let what = format!("the log contains {text:?}");
        wait::value(&what, WITHIN, || self.log(), |log| log.contains(text)).await;
    }

    /// Waits until its metrics have all of these lines.
    pub async fn measures(&self, lines: &[impl AsRef<str>]) {
        wait::until("the metrics show it", WITHIN, || async {
            let metrics = self.metrics().await;
            let is_there = |line: &str| metrics.lines().any(|found| found == line);
            let missing = lines.iter().map(AsRef::<str>::as_ref).find(|line| !is_there(line));
            missing.map_or(Ok(()), |line| Err(format!("{line} in {metrics}")))
        })
        .await;
    }

    /// Waits until its process has ended, and returns the exit code.
    pub async fn ended(&mut self, within: Duration) -> i32 {
        wait::until("the controller exits", within, || {
            let ended = self.exit_code().ok_or_else(|| self.last_words());
            async move { ended }
        })
        .await
    }
}
