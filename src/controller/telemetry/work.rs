//! What the parts of the process do: reconciles, requests to the API server, leases.

use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::Registered;
use super::{Metrics, NameLabels};

/// Upper bounds of `controller_runtime_reconcile_time_seconds`, as controller-runtime has them.
const RECONCILE_BUCKETS: [f64; 36] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    60.0,
];

/// How one reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(
    non_camel_case_types,
    reason = "the derived label value is the variant's name, and upstream's are in snake case"
)]
enum ResultLabel {
    success,
    error,
    requeue_after,
}

/// How one reconcile ended, for the metrics.
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: ResultLabel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
}

/// The metrics of work.
#[derive(Debug, Clone)]
pub(super) struct Work {
    reconciles: Family<ResultLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    reconcile_time: Family<ControllerLabels, Histogram>,
    api_requests: Family<RequestLabels, Counter>,
    leader: Family<NameLabels, Gauge>,
    renewals: Family<NameLabels, Gauge>,
    excess: Gauge,
}

impl Work {
    pub(super) fn new(registered: &mut Registered) -> Self {
        Self {
            reconciles: registered.register(
                "controller_runtime_reconcile",
                "Reconciles per controller and result",
                Family::default(),
            ),
            reconcile_errors: registered.register(
                "controller_runtime_reconcile_errors",
                "Failed reconciles per controller",
                Family::default(),
            ),
            terminal_errors: registered.register(
                "controller_runtime_terminal_reconcile_errors",
                "Reconciles per controller that failed and wait for a change",
                Family::default(),
            ),
            reconcile_time: registered.register(
                "controller_runtime_reconcile_time_seconds",
                "Length of a reconcile",
                Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            ),
            api_requests: registered.register(
                "rest_client_requests",
                "Requests to the API server per method and status code",
                Family::default(),
            ),
            leader: registered.register(
                "leader_election_master_status",
                "Whether this process holds the lease",
                Family::default(),
            ),
            renewals: registered.register(
                "olm_lease_last_renewal_timestamp_seconds",
                "When this process last renewed a lease it holds, in seconds since 1970",
                Family::default(),
            ),
            excess: registered.register(
                "olm_excessive_rights",
                "Whether this process may do everything, and therefore does nothing",
                Gauge::default(),
            ),
        }
    }
}

impl Metrics {
    /// Counts a reconcile of `controller` that took `elapsed`.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, elapsed: Duration) {
        let labels = ControllerLabels { controller };
        let label = match result {
            ReconcileResult::Success => ResultLabel::success,
            ReconcileResult::RequeueAfter => ResultLabel::requeue_after,
            ReconcileResult::Error => ResultLabel::error,
            ReconcileResult::TerminalError => {
                self.work.terminal_errors.get_or_create(&labels).inc();
                ResultLabel::error
            }
        };
        if label == ResultLabel::error {
            self.work.reconcile_errors.get_or_create(&labels).inc();
        }
        self.work.reconciles.get_or_create(&ResultLabels { controller, result: label }).inc();
        self.work.reconcile_time.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    /// Counts a request to the API server; without a response the code is that of client-go.
    pub fn requested(&self, method: &Method, status: Option<StatusCode>) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        let method = method.as_str().to_owned();
        self.work.api_requests.get_or_create(&RequestLabels { code, method }).inc();
    }

    /// Notes whether this process holds the lease called `name`.
    pub fn leads(&self, name: &str, holds: bool) {
        let name = name.to_owned();
        self.work.leader.get_or_create(&NameLabels { name }).set(holds.into());
    }

    /// Notes that this process has just renewed the lease called `name`.
    pub fn renewed(&self, name: &str) {
        let name = name.to_owned();
        self.work.renewals.get_or_create(&NameLabels { name }).set(Timestamp::now().as_second());
    }

    /// Notes whether this process may do everything.
    pub fn excessive_rights(&self, excessive: bool) {
        self.work.excess.set(excessive.into());
    }
}
