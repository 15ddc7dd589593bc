//! Metrics of catalogs: their content, their downloads, and the requests for them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use olm_core::catalog::lint::Tally;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::{Registered, metrics};
use super::{Label, Metrics, whole};

/// Severities of findings about catalogs.
const ERROR: &str = "error";

const WARNING: &str = "warning";

/// Upper bounds of `catalogd_http_request_duration_seconds`.
const REQUEST_BUCKETS: [f64; 19] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 10.0,
];

metrics! {
    Catalogs {
        requests: Family<Label<u16>, Histogram> = "catalogd_http_request_duration_seconds",
            "Duration of catalog requests, until the answer was sent",
            Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS));
        blobs: Family<Label<String>, Gauge> =
            "olm_catalog_blobs", "Blobs of the content being served";
        dropped: Family<Label<String>, Gauge> = "olm_catalog_dropped_blobs",
            "Blobs of the content that have no schema and are not served";
        findings: Family<Label<String, 2>, Gauge> = "olm_catalog_findings",
            "Findings about the content being served, per severity: error, warning";
        stale: Family<Label<String>, Gauge> = "olm_catalog_stale",
            "Whether resolution uses an older copy because the wanted one cannot be fetched";
        fetch_time: Gauge<f64, AtomicU64> = "olm_catalog_last_fetch_duration_seconds",
            "How long the last successful download of a catalog took";
        unusable: Family<Label<String>, Gauge> = "olm_resolution_catalog_unusable",
            "Whether the last resolution lacked the content of a catalog that it should have used";
    }
}

fn finding(catalog: &str, severity: &str) -> Label<String, 2> {
    [("catalog", catalog.to_owned()), ("severity", severity.to_owned())]
}

impl Metrics {
    /// Counts a request to the catalog server that was answered with `code` after `elapsed`.
    pub fn answered(&self, code: u16, elapsed: Duration) {
        self.catalogs.requests.get_or_create(&[("code", code)]).observe(elapsed.as_secs_f64());
    }

    /// Notes what the stored content of a catalog holds.
    pub fn stored_catalog(&self, catalog: &str, blobs: usize, dropped: usize) {
        let labels = [("catalog", catalog.to_owned())];
        self.catalogs.blobs.get_or_create(&labels).set(whole(blobs));
        self.catalogs.dropped.get_or_create(&labels).set(whole(dropped));
    }

    pub fn examined_catalog(&self, catalog: &str, found: &Tally) {
        for (severity, count) in [(ERROR, found.errors), (WARNING, found.warnings)] {
            let labels = finding(catalog, severity);
            self.catalogs.findings.get_or_create(&labels).set(whole(count));
        }
    }

    /// Notes whether resolution uses an older copy of `catalog` than the wanted one.
    pub fn stale_catalog(&self, catalog: &str, stale: bool) {
        self.catalogs.stale.get_or_create(&[("catalog", catalog.to_owned())]).set(stale.into());
    }

    pub fn fetched_catalog(&self, elapsed: Duration) {
        self.catalogs.fetch_time.set(elapsed.as_secs_f64());
    }

    /// Notes whether a resolution had content of a catalog.
    pub fn usable_catalog(&self, catalog: &str, usable: bool) {
        let labels = [("catalog", catalog.to_owned())];
        self.catalogs.unusable.get_or_create(&labels).set((!usable).into());
    }

    pub fn forget_catalog(&self, catalog: &str) {
        let labels = [("catalog", catalog.to_owned())];
        for severity in [ERROR, WARNING] {
            self.catalogs.findings.remove(&finding(catalog, severity));
        }
        self.catalogs.blobs.remove(&labels);
        self.catalogs.dropped.remove(&labels);
        self.catalogs.stale.remove(&labels);
        self.catalogs.unusable.remove(&labels);
    }
}
