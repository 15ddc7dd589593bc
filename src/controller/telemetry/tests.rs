use std::time::Duration;

use olm_core::catalog::lint::Tally;
use olm_core::resolve::Ending;

use super::*;

#[test]
fn scrape_after_one_success_names_controller_and_result() {
    let metrics = Metrics::default();
    metrics.active(CONTROLLER_CATALOG, 0);
    metrics.reconciled(CONTROLLER_CATALOG, ReconcileResult::Success, Duration::from_millis(3));
    let controller = "controller=\"catalogd-clustercatalog-controller\"";
    metrics.assert_shows(&[
        &format!("controller_runtime_reconcile_total{{{controller},result=\"success\"}} 1"),
        &format!("controller_runtime_active_workers{{{controller}}} 0"),
    ]);
}

// stack.md case 15
#[test]
fn counters_end_in_total_exactly_once() {
    let metrics = Metrics::default();
    metrics.read_certificate(false);
    metrics.reconciled("c", ReconcileResult::TerminalError, Duration::ZERO);
    metrics.answered(200, Duration::from_millis(150));
    metrics.leads("lease", true);
    let text = metrics.assert_shows(&[
        "certwatcher_read_certificate_errors_total 1",
        "controller_runtime_terminal_reconcile_errors_total{controller=\"c\"} 1",
        "catalogd_http_request_duration_seconds_bucket{code=\"200\",le=\"0.2\"} 1",
        "leader_election_master_status{name=\"lease\"} 1",
    ]);
    assert!(!text.contains("_total_total"));
}

// docs/metrics.md
#[test]
fn resolutions_and_what_they_offer_are_counted() {
    let metrics = Metrics::default();
    metrics.resolved(Ending::Held, Duration::from_millis(2));
    metrics.update_offered("red", Some(true));
    metrics.update_offered("blue", Some(false));
    metrics.support_ends("red", "1970-01-01".parse().ok());
    metrics.assert_shows(&[
        "olm_resolution_total{result=\"Held\"} 1",
        "olm_resolution_duration_seconds_count 1",
        "olm_clusterextension_upgrade_available{name=\"red\"} 1",
        "olm_clusterextension_upgrade_available{name=\"blue\"} 0",
        "olm_clusterextension_support_end_timestamp_seconds{name=\"red\"} 86400",
    ]);
    metrics.support_ends("red", None);
    metrics.update_offered("red", None);
    assert!(!metrics.encode().contains("red"));
}

#[test]
fn a_deleted_catalog_leaves_no_series() {
    let metrics = Metrics::default();
    metrics.usable_catalog("acme", false);
    metrics.stored_catalog("acme", 3, 1);
    metrics.stale_catalog("acme", true);
    metrics.examined_catalog("acme", &Tally::default());
    assert!(metrics.encode().contains("acme"));
    metrics.forget_catalog("acme");
    assert!(!metrics.encode().contains("acme"));
}
