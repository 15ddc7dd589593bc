//! Logs and metrics of the whole process.
//!
//! Logs go to stderr, as text or JSON. Metrics keep the names upstream's dashboards use
//! (`controller_runtime_*`, `leader_election_master_status`, `catalogd_http_*`, `certwatcher_*`);
//! ours start with `olm_`. Label values come from closed sets.

mod cache;
mod catalogs;
mod extensions;
mod listeners;
mod log;
mod objects;
mod platform;
mod process;
mod pulls;
mod registered;
mod work;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Metric;

use crate::version::BUILD;
use cache::CacheLabels;
use catalogs::Catalogs;
use extensions::Extensions;
use listeners::Listeners;
use objects::Objects;
use platform::Platform;
use pulls::PullLabels;
use registered::Registered;
use work::Work;

pub use cache::measure_caches;
pub use listeners::CertificateKind;
pub use log::{LogFormat, init_logging};
pub use registered::Description;
pub use work::ReconcileResult;

/// Label value of the ClusterExtension reconciler.
pub const CONTROLLER_EXTENSION: &str = "controller-operator-cluster-extension-controller";
/// Label value of the ClusterObjectSet reconciler.
pub const CONTROLLER_OBJECT_SET: &str = "clusterobjectset";
/// Label value of the ClusterCatalog reconciler.
pub const CONTROLLER_CATALOG: &str = "catalogd-clustercatalog-controller";

/// Labels of a family with one series, which is absent until there is a value.
type Unlabelled = [(&'static str, &'static str); 0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    commit: &'static str,
}

/// The metrics of the process. Clones share their values; every method may be called from any
/// thread.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registered>>,
    work: Work,
    catalogs: Catalogs,
    listeners: Listeners,
    extensions: Extensions,
    objects: Objects,
    pulls: Family<PullLabels, Counter>,
    cache: Family<CacheLabels, Gauge>,
    cache_limit: Gauge,
    platform: Platform,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registered = Registered::default();
        process::register(&mut registered);
        let labels = BuildLabels { version: BUILD.version, commit: BUILD.commit() };
        let build = Family::<BuildLabels, Gauge>::default();
        let build = registered.register("olm_build_info", "Which build this is", build);
        build.get_or_create(&labels).set(1);
        Self {
            work: Work::new(&mut registered),
            catalogs: Catalogs::new(&mut registered),
            listeners: Listeners::new(&mut registered),
            extensions: Extensions::new(&mut registered),
            objects: Objects::new(&mut registered),
            pulls: pulls::register(&mut registered),
            cache: cache::register(&mut registered),
            cache_limit: cache::register_limit(&mut registered),
            platform: Platform::new(&mut registered),
            registry: Arc::new(Mutex::new(registered)),
        }
    }
}

impl Metrics {
    /// Adds a metric of another module, and returns it. The encoder appends `_total` to counters.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.registered().register(name, help, metric)
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `refresh` called before each answer, for metrics that show what others hold.
    fn refresh_with(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.registered().refresh_with(refresh);
    }

    /// Returns what is exported, whether it has a value now or not.
    pub fn described(&self) -> Vec<Description> {
        self.registered().described()
    }

    /// Returns all metrics in the text form both Prometheus and `OpenMetrics` parsers read.
    pub fn encode(&self) -> String {
        self.registered().encode()
    }
}

/// Returns a count as gauges take it.
fn whole(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
