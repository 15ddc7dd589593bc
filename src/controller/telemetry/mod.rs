//! Logs and metrics of the whole process.
//!
//! Logs go to stderr, as text or JSON. Metrics keep the names upstream's dashboards use
//! (`controller_runtime_*`, `leader_election_master_status`, `catalogd_http_*`, `certwatcher_*`);
//! ours start with `olm_`. Label values come from closed sets.

mod cache;
mod log;
mod objects;
mod process;
mod pulls;
mod registered;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use olm_api::conditions::status;
use olm_core::catalog::lint::Tally;
use olm_core::gate::MinorRelease;
use olm_core::resolve::Ending;
use olm_core::revision::OPTIONAL_GROUPS;
use olm_core::status::Statement;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Metric;

use crate::version::BUILD;
use cache::CacheLabels;
use objects::Objects;
use pulls::PullLabels;
use registered::Registered;

pub use cache::measure_caches;
pub use log::{LogFormat, init_logging};
pub use registered::Description;

/// Label value of the ClusterExtension reconciler.
pub const CONTROLLER_EXTENSION: &str = "controller-operator-cluster-extension-controller";
/// Label value of the extension half's view of ClusterCatalogs.
pub const CONTROLLER_CATALOG_CLIENT: &str = "controller-operator-clustercatalog-controller";
/// Label value of the ClusterObjectSet reconciler.
pub const CONTROLLER_OBJECT_SET: &str = "clusterobjectset";
/// Label value of the ClusterCatalog reconciler.
pub const CONTROLLER_CATALOG: &str = "catalogd-clustercatalog-controller";

/// Severities of findings about catalogs.
const ERROR: &str = "error";
const WARNING: &str = "warning";

/// Upper bounds of `catalogd_http_request_duration_seconds`.
const REQUEST_BUCKETS: [f64; 19] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 10.0,
];

/// Upper bounds of `controller_runtime_reconcile_time_seconds`, as controller-runtime has them.
const RECONCILE_BUCKETS: [f64; 36] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    60.0,
];

/// Upper bounds of `olm_resolution_duration_seconds`.
const RESOLUTION_BUCKETS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];

/// Upper bounds of `olm_install_duration_seconds`.
const INSTALL_BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Labels of a family with one series, which is absent until there is a value.
type Unlabelled = [(&'static str, &'static str); 0];

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
struct NameLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReleaseLabels {
    current: String,
    next: String,
}

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResolutionLabels {
    result: &'static str,
}

/// A certificate of our listeners, in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateKind {
    /// The CA that signs, where it is ours.
    Ca,
    /// The one that is served.
    Leaf,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpgradeLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    commit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    group: &'static str,
}

/// The metrics of the process. Clones share their values; every method may be called from any
/// thread.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registered>>,
    reconciles: Family<ResultLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    reconcile_time: Family<ControllerLabels, Histogram>,
    leader: Family<NameLabels, Gauge>,
    requests: Family<CodeLabels, Histogram>,
    certificate_reads: Counter,
    certificate_errors: Counter,
    certificate_expiry: Family<KindLabels, Gauge>,
    connections: Family<ListenerLabels, Gauge>,
    refused_connections: Family<ListenerLabels, Counter>,
    catalog_blobs: Family<CatalogLabels, Gauge>,
    catalog_dropped: Family<CatalogLabels, Gauge>,
    catalog_findings: Family<FindingLabels, Gauge>,
    catalog_stale: Family<CatalogLabels, Gauge>,
    catalog_fetch_time: Gauge<f64, AtomicU64>,
    resolutions: Family<ResolutionLabels, Counter>,
    resolution_time: Histogram,
    catalog_unusable: Family<CatalogLabels, Gauge>,
    updates: Family<NameLabels, Gauge>,
    deferred: Family<GroupLabels, Gauge>,
    api_requests: Family<RequestLabels, Counter>,
    renewals: Family<NameLabels, Gauge>,
    excess: Gauge,
    objects: Objects,
    installs: Histogram,
    upgrades: Family<UpgradeLabels, Counter>,
    pulls: Family<PullLabels, Counter>,
    cache: Family<CacheLabels, Gauge>,
    platform: Family<ReasonLabels, Gauge>,
    platform_version: Family<ReleaseLabels, Gauge>,
    platform_extensions: Family<NameLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            terminal_errors: Family::default(),
            reconcile_time: Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            leader: Family::default(),
            requests: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            certificate_reads: Counter::default(),
            certificate_errors: Counter::default(),
            certificate_expiry: Family::default(),
            connections: Family::default(),
            refused_connections: Family::default(),
            catalog_blobs: Family::default(),
            catalog_dropped: Family::default(),
            catalog_findings: Family::default(),
            catalog_stale: Family::default(),
            catalog_fetch_time: Gauge::default(),
            resolutions: Family::default(),
            resolution_time: Histogram::new(RESOLUTION_BUCKETS),
            catalog_unusable: Family::default(),
            updates: Family::default(),
            deferred: Family::default(),
            api_requests: Family::default(),
            renewals: Family::default(),
            excess: Gauge::default(),
            objects: Objects::default(),
            installs: Histogram::new(INSTALL_BUCKETS),
            upgrades: Family::default(),
            pulls: Family::default(),
            cache: Family::default(),
            platform: Family::default(),
            platform_version: Family::default(),
            platform_extensions: Family::default(),
        };
        let mut registry = Registered::default();
        metrics.register_upstream(&mut registry);
        metrics.register_ours(&mut registry);
        metrics.objects.register(&mut registry);
        metrics.register_work(&mut registry);
        pulls::begin(&metrics.pulls);
        process::register(&mut registry);
        metrics.registry = Arc::new(Mutex::new(registry));
        metrics
    }
}

impl Metrics {
    /// Registers the metrics whose names are upstream's.
    fn register_upstream(&self, registry: &mut Registered) {
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles per controller and result",
            self.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Failed reconciles per controller",
            self.reconcile_errors.clone(),
        );
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles per controller that failed and wait for a change",
            self.terminal_errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of a reconcile",
            self.reconcile_time.clone(),
        );
        registry.register(
            "rest_client_requests",
            "Requests to the API server per method and status code",
            self.api_requests.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "Whether this process holds the lease",
            self.leader.clone(),
        );
        registry.register(
            "catalogd_http_request_duration_seconds",
            "Time until a catalog request was answered",
            self.requests.clone(),
        );
        registry.register(
            "certwatcher_read_certificate",
            "Reads of the serving certificate",
            self.certificate_reads.clone(),
        );
        registry.register(
            "certwatcher_read_certificate_errors",
            "Reads of the serving certificate that gave no usable pair",
            self.certificate_errors.clone(),
        );
    }

    /// Registers the metrics that upstream does not have.
    fn register_ours(&self, registry: &mut Registered) {
        registry.register(
            "olm_catalog_blobs",
            "Blobs of the content being served",
            self.catalog_blobs.clone(),
        );
        registry.register(
            "olm_catalog_dropped_blobs",
            "Blobs of the content that have no schema and are not served",
            self.catalog_dropped.clone(),
        );
        registry.register(
            "olm_catalog_findings",
            "Findings about the content being served, per severity: error, warning",
            self.catalog_findings.clone(),
        );
        registry.register(
            "olm_catalog_stale",
            "Whether resolution uses an older copy because the wanted one cannot be fetched",
            self.catalog_stale.clone(),
        );
        self.register_resolution(registry);
        registry.register(
            "olm_catalog_last_fetch_duration_seconds",
            "How long the last successful download of a catalog took",
            self.catalog_fetch_time.clone(),
        );
        registry.register(
            "olm_serving_certificate_expiry_timestamp_seconds",
            "When the serving certificate, and the CA that signed it, expire",
            self.certificate_expiry.clone(),
        );
        registry.register(
            "olm_http_connections",
            "Connections of a listener",
            self.connections.clone(),
        );
        registry.register(
            "olm_http_connections_refused",
            "Connections that were closed at once because there were too many",
            self.refused_connections.clone(),
        );
        registry.register(
            "olm_deferred_objects",
            "Objects of optional kinds that are left out because the cluster does not serve them",
            self.deferred.clone(),
        );
    }

    /// Registers the metrics of what is done, and of who may do it.
    fn register_work(&self, registry: &mut Registered) {
        registry.register(
            "olm_install_duration_seconds",
            "Time from the creation of a ClusterExtension until something was installed",
            self.installs.clone(),
        );
        registry.register(
            "olm_upgrades",
            "Moves of a ClusterExtension from one installed bundle to another, per result: succeeded, failed",
            self.upgrades.clone(),
        );
        registry.register(
            "olm_pull",
            "Requests to registries, for the digest of a tag or for an image, per result",
            self.pulls.clone(),
        );
        registry.register(
            "olm_cache_bytes",
            "Bytes on disk, per kind: catalogs (--cache-dir), bundles (--cache-path)",
            self.cache.clone(),
        );
        registry.register(
            "olm_lease_last_renewal_timestamp_seconds",
            "When this process last renewed a lease it holds, in seconds since 1970",
            self.renewals.clone(),
        );
        registry.register(
            "olm_excessive_rights",
            "Whether this process may do everything, and therefore does nothing",
            self.excess.clone(),
        );
        registry.register(
            "olm_platform_upgradeable",
            "Whether the installed bundles allow the next OpenShift update",
            self.platform.clone(),
        );
        registry.register(
            "olm_platform_version_info",
            "Which OpenShift release the gate judges by, and which is next",
            self.platform_version.clone(),
        );
        registry.register(
            "olm_clusterextension_platform_upgradeable",
            "Whether the bundles of a ClusterExtension allow the next OpenShift update",
            self.platform_extensions.clone(),
        );
        let build: Family<BuildLabels, Gauge> = Family::default();
        let labels = BuildLabels {
            version: BUILD.version,
            commit: BUILD.commit(),
        };
        build.get_or_create(&labels).set(1);
        registry.register("olm_build_info", "Which build this is", build);
    }

    /// Registers the metrics of resolutions and of what they found.
    fn register_resolution(&self, registry: &mut Registered) {
        registry.register(
            "olm_resolution",
            "Resolutions per result",
            self.resolutions.clone(),
        );
        registry.register(
            "olm_resolution_duration_seconds",
            "Time a resolution took, without the download of catalogs",
            self.resolution_time.clone(),
        );
        registry.register(
            "olm_resolution_catalog_unusable",
            "Whether the last resolution had no content of a catalog it should have asked",
            self.catalog_unusable.clone(),
        );
        registry.register(
            "olm_clusterextension_upgrade_available",
            "Whether a newer version could follow the installed one and is not taken",
            self.updates.clone(),
        );
    }

    /// Adds a metric of another module. The encoder appends `_total` to counters.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .register(name, help, metric);
    }

    /// Has `refresh` called before each answer, for metrics that show what others hold.
    fn refresh_with(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .refresh_with(refresh);
    }

    /// Returns what is exported, whether it has a value now or not.
    pub fn described(&self) -> Vec<Description> {
        let registry = self.registry.lock();
        registry.unwrap_or_else(PoisonError::into_inner).described()
    }

    /// Counts a reconcile of `controller` that took `elapsed`.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, elapsed: Duration) {
        let labels = ControllerLabels { controller };
        let label = match result {
            ReconcileResult::Success => ResultLabel::success,
            ReconcileResult::RequeueAfter => ResultLabel::requeue_after,
            ReconcileResult::Error => ResultLabel::error,
            ReconcileResult::TerminalError => {
                self.terminal_errors.get_or_create(&labels).inc();
                ResultLabel::error
            }
        };
        if label == ResultLabel::error {
            self.reconcile_errors.get_or_create(&labels).inc();
        }
        self.reconciles
            .get_or_create(&ResultLabels {
                controller,
                result: label,
            })
            .inc();
        self.reconcile_time
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// Notes whether this process holds the lease called `name`.
    pub fn leads(&self, name: &str, holds: bool) {
        let name = name.to_owned();
        self.leader
            .get_or_create(&NameLabels { name })
            .set(holds.into());
    }

    /// Counts a request to the API server; without a response the code is that of client-go.
    pub fn requested(&self, method: &Method, status: Option<StatusCode>) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        let method = method.as_str().to_owned();
        self.api_requests
            .get_or_create(&RequestLabels { code, method })
            .inc();
    }

    /// Notes that this process has just renewed the lease called `name`.
    pub fn renewed(&self, name: &str) {
        let name = name.to_owned();
        self.renewals
            .get_or_create(&NameLabels { name })
            .set(Timestamp::now().as_second());
    }

    /// Notes whether this process may do everything.
    pub fn excessive_rights(&self, excessive: bool) {
        self.excess.set(excessive.into());
    }

    /// Notes that something was installed, so long after it was asked for.
    pub fn installed(&self, after: Duration) {
        self.installs.observe(after.as_secs_f64());
    }

    /// Counts a move from one installed bundle to another.
    pub fn upgraded(&self, succeeded: bool) {
        let result = if succeeded { "succeeded" } else { "failed" };
        self.upgrades.get_or_create(&UpgradeLabels { result }).inc();
    }

    /// Notes whether the installed bundles allow the next platform update: all of them, and those
    /// of each extension.
    pub fn platform_upgradeable(&self, all: &Statement, extensions: &BTreeMap<&str, bool>) {
        self.platform.clear();
        let reason = all.reason.as_str();
        let upgradeable = all.status == status::TRUE;
        self.platform
            .get_or_create(&ReasonLabels { reason })
            .set(upgradeable.into());
        self.platform_extensions.clear();
        for (name, upgradeable) in extensions {
            let name = (*name).to_owned();
            self.platform_extensions
                .get_or_create(&NameLabels { name })
                .set((*upgradeable).into());
        }
    }

    /// Notes which release of the platform the gate judges by, if one is known.
    pub fn platform_release(&self, current: Option<MinorRelease>) {
        self.platform_version.clear();
        if let Some(current) = current {
            let labels = ReleaseLabels {
                current: current.to_string(),
                next: current.next().to_string(),
            };
            self.platform_version.get_or_create(&labels).set(1);
        }
    }

    /// Counts a request to the catalog server that was answered with `code` after `elapsed`.
    pub fn answered(&self, code: u16, elapsed: Duration) {
        self.requests
            .get_or_create(&CodeLabels { code })
            .observe(elapsed.as_secs_f64());
    }

    /// Counts a read of the serving certificate and whether it gave a usable pair.
    pub fn read_certificate(&self, usable: bool) {
        self.certificate_reads.inc();
        if !usable {
            self.certificate_errors.inc();
        }
    }

    /// Notes how many connections a listener has, and whether another one was refused.
    pub fn connected(&self, listener: &'static str, connections: usize, refused: bool) {
        let labels = ListenerLabels { listener };
        if refused {
            self.refused_connections.get_or_create(&labels).inc();
        }
        self.connections
            .get_or_create(&labels)
            .set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    /// Notes when a certificate of our listeners expires.
    pub fn serving_certificate_expires(&self, kind: CertificateKind, at: Timestamp) {
        let kind = match kind {
            CertificateKind::Ca => "ca",
            CertificateKind::Leaf => "leaf",
        };
        self.certificate_expiry
            .get_or_create(&KindLabels { kind })
            .set(at.as_second());
    }

    /// Notes what the stored content of a catalog holds.
    pub fn stored_catalog(&self, catalog: &str, blobs: usize, dropped: usize) {
        let labels = CatalogLabels {
            catalog: catalog.to_owned(),
        };
        self.catalog_blobs
            .get_or_create(&labels)
            .set(i64::try_from(blobs).unwrap_or(i64::MAX));
        self.catalog_dropped
            .get_or_create(&labels)
            .set(i64::try_from(dropped).unwrap_or(i64::MAX));
    }

    /// Notes what is wrong with the content of a catalog.
    pub fn examined_catalog(&self, catalog: &str, found: &Tally) {
        for (severity, count) in [(ERROR, found.errors), (WARNING, found.warnings)] {
            let catalog = catalog.to_owned();
            let labels = FindingLabels { catalog, severity };
            let gauge = self.catalog_findings.get_or_create(&labels);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Notes whether resolution uses an older copy of `catalog` than the wanted one.
    pub fn stale_catalog(&self, catalog: &str, stale: bool) {
        let catalog = catalog.to_owned();
        self.catalog_stale
            .get_or_create(&CatalogLabels { catalog })
            .set(stale.into());
    }

    /// Notes a complete download of a catalog.
    pub fn fetched_catalog(&self, elapsed: Duration) {
        self.catalog_fetch_time.set(elapsed.as_secs_f64());
    }

    /// Counts a resolution and how it ended, after `elapsed`.
    pub fn resolved(&self, ending: Ending, elapsed: Duration) {
        let labels = ResolutionLabels {
            result: ending.into(),
        };
        self.resolutions.get_or_create(&labels).inc();
        self.resolution_time.observe(elapsed.as_secs_f64());
    }

    /// Notes whether a resolution had content of a catalog.
    pub fn usable_catalog(&self, catalog: &str, usable: bool) {
        let catalog = catalog.to_owned();
        self.catalog_unusable
            .get_or_create(&CatalogLabels { catalog })
            .set((!usable).into());
    }

    /// Notes whether a newer version could follow the installed one; absent drops the series.
    pub fn update_offered(&self, extension: &str, offered: Option<bool>) {
        let name = extension.to_owned();
        let labels = NameLabels { name };
        match offered {
            Some(offered) => {
                self.updates.get_or_create(&labels).set(offered.into());
            }
            None => {
                self.updates.remove(&labels);
            }
        }
    }

    /// Notes how many objects of each group are left out because their kind is not served; groups
    /// that may not be left out do not count.
    pub fn deferred(&self, totals: &BTreeMap<String, usize>) {
        for group in OPTIONAL_GROUPS {
            let count = totals.get(group).copied().unwrap_or_default();
            self.deferred
                .get_or_create(&GroupLabels { group })
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Drops the series of a catalog that is gone.
    pub fn forget_catalog(&self, catalog: &str) {
        let labels = CatalogLabels {
            catalog: catalog.to_owned(),
        };
        for severity in [ERROR, WARNING] {
            let catalog = catalog.to_owned();
            self.catalog_findings
                .remove(&FindingLabels { catalog, severity });
        }
        self.catalog_blobs.remove(&labels);
        self.catalog_dropped.remove(&labels);
        self.catalog_stale.remove(&labels);
        self.catalog_unusable.remove(&labels);
    }

    /// Returns all metrics in the text form both Prometheus and `OpenMetrics` parsers read.
    pub fn encode(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.encode()
    }
}
