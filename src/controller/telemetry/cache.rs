//! How much of the disk the caches take.

use std::path::PathBuf;
use std::time::Duration;

use olm_image::room::bytes_below;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::Registered;
use super::{Metrics, whole};

/// How often the folders are gone through.
const EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CacheLabels {
    kind: &'static str,
}

pub(super) fn register(registered: &mut Registered) -> Family<CacheLabels, Gauge> {
    registered.register(
        "olm_cache_bytes",
        "Bytes on disk, per kind: catalogs (--cache-dir), bundles (--cache-path)",
        Family::default(),
    )
}

pub(super) fn register_limit(registered: &mut Registered) -> Gauge {
    registered.register(
        "olm_cache_limit_bytes",
        "Most bytes that the caches may take together (--cache-limit)",
        Gauge::default(),
    )
}

/// Measures folders, each under a kind of its own, as long as it is polled; together they may have
/// `limit` bytes.
pub async fn measure_caches(metrics: Metrics, folders: Vec<(&'static str, PathBuf)>, limit: u64) {
    metrics.cache_limit.set(whole(limit));
    loop {
        for (kind, folder) in &folders {
            let folder = folder.clone();
            let measured = tokio::task::spawn_blocking(move || bytes_below(&folder)).await;
            // A folder that is being written may change under our eyes; the next look is near.
            if let Ok(Ok(bytes)) = measured {
                metrics.cache.get_or_create(&CacheLabels { kind }).set(whole(bytes));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
