//! Metrics of the parts of the process: reconciles, requests to the API server, leases.

use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::{Registered, metrics};
use super::{Label, Metrics};

/// Upper bounds of `controller_runtime_reconcile_time_seconds`, as controller-runtime has them.
const RECONCILE_BUCKETS: [f64; 36] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    60.0,
];

/// The result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Done; the next look is the periodic one.
    Success,
    /// Done; another look was scheduled, for example the next poll.
    RequeueAfter,
    /// Failed, tried again later.
    Error,
    /// Failed, and waits for a change.
    TerminalError,
}

metrics! {
    Work {
        reconciles: Family<Label<&'static str, 2>, Counter> =
            "controller_runtime_reconcile", "Reconciles per controller and result";
        reconcile_errors: Family<Label, Counter> =
            "controller_runtime_reconcile_errors", "Failed reconciles per controller";
        terminal_errors: Family<Label, Counter> = "controller_runtime_terminal_reconcile_errors",
            "Reconciles per controller that failed and wait for a change";
        reconcile_time: Family<Label, Histogram> = "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile",
            Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS));
        active: Family<Label, Gauge> =
            "controller_runtime_active_workers", "Reconciles in progress, per controller";
        api_requests: Family<Label<String, 2>, Counter> =
            "rest_client_requests", "Requests to the API server per method and status code";
        leader: Family<Label<String>, Gauge> =
            "leader_election_master_status", "Whether this process holds the lease";
        renewals: Family<Label<String>, Gauge> = "olm_lease_last_renewal_timestamp_seconds",
            "When this process last renewed a lease it holds, in seconds since 1970";
        excess: Gauge = "olm_excessive_rights",
            "Whether this process has all rights on the cluster, and therefore does nothing";
    }
}

impl Metrics {
    /// Notes that so many more reconciles of `controller` are under way; 0 makes its series.
    pub fn active(&self, controller: &'static str, change: i64) {
        self.work.active.get_or_create(&[("controller", controller)]).inc_by(change);
    }

    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, elapsed: Duration) {
        let labels = [("controller", controller)];
        if result == ReconcileResult::TerminalError {
            self.work.terminal_errors.get_or_create(&labels).inc();
        }
        let result = match result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error | ReconcileResult::TerminalError => {
                self.work.reconcile_errors.get_or_create(&labels).inc();
                "error"
            }
        };
        let both = [("controller", controller), ("result", result)];
        self.work.reconciles.get_or_create(&both).inc();
        self.work.reconcile_time.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    /// Counts a request to the API server; without a response the code is that of client-go.
    pub fn requested(&self, method: &Method, status: Option<StatusCode>) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        let labels = [("code", code), ("method", method.as_str().to_owned())];
        self.work.api_requests.get_or_create(&labels).inc();
    }

    pub fn leads(&self, name: &str, holds: bool) {
        self.work.leader.get_or_create(&[("name", name.to_owned())]).set(holds.into());
    }

    /// Notes that this process has just renewed the lease called `name`.
    pub fn renewed(&self, name: &str) {
        let name = name.to_owned();
        self.work.renewals.get_or_create(&[("name", name)]).set(Timestamp::now().as_second());
    }

    /// Notes whether this process may do everything.
    pub fn excessive_rights(&self, excessive: bool) {
        self.work.excess.set(excessive.into());
    }
}
