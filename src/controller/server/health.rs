//! `/healthz`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use super::auth::{self, Reviewer};
use crate::telemetry::Metrics;
use crate::watchdog::Watchdog;

/// The state of the health endpoints. Shared by reference.
pub struct Health {
    ready: Mutex<BTreeMap<&'static str, bool>>,
    watchdog: Watchdog,
}

impl Health {
    /// Returns a state that is alive while nothing that `watchdog` watches stands still, and ready
    /// once each of `checks` is marked.
    pub fn new(checks: &[&'static str], watchdog: Watchdog) -> Self {
        Self { ready: Mutex::new(checks.iter().map(|check| (*check, false)).collect()), watchdog }
    }

    pub fn set_ready(&self, check: &'static str, ready: bool) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(check, ready);
    }

    fn ready_checks(&self) -> Vec<(String, bool)> {
        let checks = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        checks.iter().map(|(check, ready)| ((*check).to_owned(), *ready)).collect()
    }
}

pub fn routes(health: Arc<Health>) -> Router {
    let answered = |checks: fn(&Health) -> Vec<(String, bool)>| {
        get(move |State(health): State<Arc<Health>>, RawQuery(query): RawQuery| async move {
            answer(&checks(&health), query.as_deref())
        })
    };
    Router::new()
        .route("/healthz", answered(|health| health.watchdog.checks()))
        .route("/readyz", answered(Health::ready_checks))
        .with_state(health)
}

/// Returns `/metrics`, for those who may read it.
pub fn metrics_routes(metrics: Metrics, reviewer: Reviewer) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics)
        .layer(from_fn_with_state(Arc::new(reviewer), auth::guard))
}

/// Returns whether all checks pass, and lists them if one does not or `?verbose` asks for it.
fn answer(checks: &[(String, bool)], query: Option<&str>) -> (StatusCode, String) {
    let passed = checks.iter().all(|(_, passed)| *passed);
    let verbose = query.is_some_and(|query| {
        query.split('&').map(|pair| pair.split('=').next()).any(|key| key == Some("verbose"))
    });
    let status = if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if passed && !verbose {
        return (status, "ok".to_owned());
    }
    let lines = checks.iter().map(|(check, passed)| {
        let (sign, result) = if *passed { ('+', "ok") } else { ('-', "failed") };
        format!("[{sign}]{check} {result}\n")
    });
    (status, lines.collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md 5.2
    #[test]
    fn checks_are_listed_when_one_fails_or_they_are_asked_for() {
        let check = |name: &str, passed| (name.to_owned(), passed);
        let good = [check("a", true)];
        assert_eq!(answer(&good, None), (StatusCode::OK, "ok".to_owned()));
        let listed = (StatusCode::OK, "[+]a ok\n".to_owned());
        assert_eq!(answer(&good, Some("verbose")), listed);
        assert_eq!(answer(&good, Some("x=1&verbose=true")), listed);
        let bad = [check("a", true), check("b", false)];
        let text = "[+]a ok\n[-]b failed\n".to_owned();
        assert_eq!(answer(&bad, None), (StatusCode::INTERNAL_SERVER_ERROR, text));
    }
}
