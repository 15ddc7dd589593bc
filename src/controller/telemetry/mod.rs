//! Logs and metrics of the whole process.
//!
//! Logs go to stderr, as text or JSON. Metrics keep the names upstream's dashboards use
//! (`controller_runtime_*`, `leader_election_master_status`, `catalogd_http_*`, `certwatcher_*`);
//! ours start with `olm_`. Label values come from closed sets.

mod access;
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

use access::Access;
use cache::Caches;
use catalogs::Catalogs;
use extensions::Extensions;
use listeners::Listeners;
use objects::Objects;
use platform::Platform;
use pulls::Pulls;
use registered::Registered;
use work::Work;

pub use cache::measure_caches;
pub use listeners::CertificateKind;
#[cfg(test)]
pub(crate) use log::Log;
pub use log::init_logging;
pub use registered::Description;
pub use work::ReconcileResult;

/// Label value of the ClusterExtension reconciler.
pub const CONTROLLER_EXTENSION: &str = "controller-operator-cluster-extension-controller";
/// Label value of the ClusterObjectSet reconciler.
pub const CONTROLLER_OBJECT_SET: &str = "clusterobjectset";
/// Label value of the ClusterCatalog reconciler.
pub const CONTROLLER_CATALOG: &str = "catalogd-clustercatalog-controller";

/// A label by its name, and its value, or `N` of them. A family without labels has one series,
/// which is absent until there is a value.
type Label<V = &'static str, const N: usize = 1> = [(&'static str, V); N];

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
    pulls: Pulls,
    caches: Caches,
    platform: Platform,
    access: Access,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registered = Registered::default();
        process::register(&mut registered);
        Self {
            work: Work::new(&mut registered),
            catalogs: Catalogs::new(&mut registered),
            listeners: Listeners::new(&mut registered),
            extensions: Extensions::new(&mut registered),
            objects: Objects::new(&mut registered),
            pulls: Pulls::new(&mut registered),
            caches: Caches::new(&mut registered),
            platform: Platform::new(&mut registered),
            access: Access::new(&mut registered),
            registry: Arc::new(Mutex::new(registered)),
        }
    }
}

impl Metrics {
    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `refresh` called before each answer, for metrics that show what others hold.
    fn refresh_with(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.registered().refresh_with(refresh);
    }

    /// Returns the exported metrics, whether they have a value now or not.
    pub fn described(&self) -> Vec<Description> {
        self.registered().described()
    }

    /// Returns all metrics in the text form both Prometheus and `OpenMetrics` parsers read.
    pub fn encode(&self) -> String {
        self.registered().encode()
    }
}

#[cfg(test)]
impl Metrics {
    /// Fails unless each of these lines is in the answer, which is returned.
    #[track_caller]
    pub(crate) fn assert_shows(&self, lines: &[&str]) -> String {
        let text = self.encode();
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} in {text}");
        }
        text
    }
}

/// Returns a count as gauges take it.
fn whole(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
