//! `/healthz`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use crate::telemetry::Metrics;

/// A process whose main loop has not ticked for so long is dead.
const MAX_SILENCE: Duration = Duration::from_mins(5);

/// What the health endpoints say. Shared by reference.
#[derive(Debug)]
pub struct Health {
    ready: Mutex<BTreeMap<&'static str, bool>>,
    ticked: Mutex<Instant>,
}

impl Health {
    /// Returns a state that is alive, and ready once each of `checks` is marked.
    pub fn new(checks: &[&'static str]) -> Self {
        Self {
            ready: Mutex::new(checks.iter().map(|check| (*check, false)).collect()),
            ticked: Mutex::new(Instant::now()),
        }
    }

    /// Marks one check as passed or failed.
    pub fn set_ready(&self, check: &'static str, ready: bool) {
        let mut checks = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        checks.insert(check, ready);
    }

    /// Says whether every check has passed.
    pub fn is_ready(&self) -> bool {
        let checks = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        checks.values().all(|ready| *ready)
    }

    /// Notes that the process still works; to be called at least every minute.
    pub fn tick(&self) {
        *self.ticked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_alive(&self) -> bool {
        let ticked = *self.ticked.lock().unwrap_or_else(PoisonError::into_inner);
        ticked.elapsed() < MAX_SILENCE
    }

    fn failed_checks(&self) -> String {
        let checks = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        checks
            .iter()
            .fold(String::new(), |mut text, (check, ready)| {
                let sign = if *ready { "[+]" } else { "[-]" };
                let result = if *ready { "ok" } else { "failed" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{sign}{check} {result}");
                text
            })
    }
}

/// Returns `/healthz` and `/readyz`.
pub fn routes(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health)
}

/// Returns `/metrics`.
pub fn metrics_routes(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics)
}

async fn healthz(State(health): State<Arc<Health>>) -> (StatusCode, &'static str) {
    if health.is_alive() {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the main loop does not tick",
        )
    }
}

async fn readyz(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    if health.is_ready() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, health.failed_checks())
    }
}

// stack.md case 15
async fn scrape(State(metrics): State<Metrics>, headers: HeaderMap) -> impl IntoResponse {
    let open_metrics = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/openmetrics-text"));
    let type_ = if open_metrics {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4"
    };
    ([(CONTENT_TYPE, type_)], metrics.encode())
}
