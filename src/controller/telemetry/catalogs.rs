//! What catalogs hold, how they are fetched, and how requests for them are answered.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use olm_core::catalog::lint::Tally;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registered::Registered;
use super::{Metrics, whole};

/// Severities of findings about catalogs.
const ERROR: &str = "error";

const WARNING: &str = "warning";

/// Upper bounds of `catalogd_http_request_duration_seconds`.
const REQUEST_BUCKETS: [f64; 19] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 10.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CatalogLabels {
    catalog: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    catalog: String,
    severity: &'static str,
}

/// The metrics of catalogs.
#[derive(Debug, Clone)]
pub(super) struct Catalogs {
    requests: Family<CodeLabels, Histogram>,
    blobs: Family<CatalogLabels, Gauge>,
    dropped: Family<CatalogLabels, Gauge>,
    findings: Family<FindingLabels, Gauge>,
    stale: Family<CatalogLabels, Gauge>,
    fetch_time: Gauge<f64, AtomicU64>,
    unusable: Family<CatalogLabels, Gauge>,
}

impl Catalogs {
    pub(super) fn new(registered: &mut Registered) -> Self {
        Self {
            requests: registered.register(
                "catalogd_http_request_duration_seconds",
                "Time until a catalog request was answered",
                Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            ),
            blobs: registered.register(
                "olm_catalog_blobs",
                "Blobs of the content being served",
                Family::default(),
            ),
            dropped: registered.register(
                "olm_catalog_dropped_blobs",
                "Blobs of the content that have no schema and are not served",
                Family::default(),
            ),
            findings: registered.register(
                "olm_catalog_findings",
                "Findings about the content being served, per severity: error, warning",
                Family::default(),
            ),
            stale: registered.register(
                "olm_catalog_stale",
                "Whether resolution uses an older copy because the wanted one cannot be fetched",
                Family::default(),
            ),
            fetch_time: registered.register(
                "olm_catalog_last_fetch_duration_seconds",
                "How long the last successful download of a catalog took",
                Gauge::default(),
            ),
            unusable: registered.register(
                "olm_resolution_catalog_unusable",
                "Whether the last resolution had no content of a catalog it should have asked",
                Family::default(),
            ),
        }
    }
}

impl Metrics {
    /// Counts a request to the catalog server that was answered with `code` after `elapsed`.
    pub fn answered(&self, code: u16, elapsed: Duration) {
        self.catalogs.requests.get_or_create(&CodeLabels { code }).observe(elapsed.as_secs_f64());
    }

    /// Notes what the stored content of a catalog holds.
    pub fn stored_catalog(&self, catalog: &str, blobs: usize, dropped: usize) {
        let labels = CatalogLabels { catalog: catalog.to_owned() };
        self.catalogs.blobs.get_or_create(&labels).set(whole(blobs));
        self.catalogs.dropped.get_or_create(&labels).set(whole(dropped));
    }

    /// Notes what is wrong with the content of a catalog.
    pub fn examined_catalog(&self, catalog: &str, found: &Tally) {
        for (severity, count) in [(ERROR, found.errors), (WARNING, found.warnings)] {
            let catalog = catalog.to_owned();
            let labels = FindingLabels { catalog, severity };
            let gauge = self.catalogs.findings.get_or_create(&labels);
            gauge.set(whole(count));
        }
    }

    /// Notes whether resolution uses an older copy of `catalog` than the wanted one.
    pub fn stale_catalog(&self, catalog: &str, stale: bool) {
        let catalog = catalog.to_owned();
        self.catalogs.stale.get_or_create(&CatalogLabels { catalog }).set(stale.into());
    }

    /// Notes a complete download of a catalog.
    pub fn fetched_catalog(&self, elapsed: Duration) {
        self.catalogs.fetch_time.set(elapsed.as_secs_f64());
    }

    /// Notes whether a resolution had content of a catalog.
    pub fn usable_catalog(&self, catalog: &str, usable: bool) {
        let catalog = catalog.to_owned();
        self.catalogs.unusable.get_or_create(&CatalogLabels { catalog }).set((!usable).into());
    }

    /// Drops the series of a catalog that is gone.
    pub fn forget_catalog(&self, catalog: &str) {
        let labels = CatalogLabels { catalog: catalog.to_owned() };
        for severity in [ERROR, WARNING] {
            let catalog = catalog.to_owned();
            self.catalogs.findings.remove(&FindingLabels { catalog, severity });
        }
        self.catalogs.blobs.remove(&labels);
        self.catalogs.dropped.remove(&labels);
        self.catalogs.stale.remove(&labels);
        self.catalogs.unusable.remove(&labels);
    }
}
