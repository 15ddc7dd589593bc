//! The size of the caches on disk.

use std::path::PathBuf;
use std::time::Duration;

use olm_image::room::bytes_below;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registered::{Registered, metrics};
use super::{Label, Metrics, whole};

/// The interval of measurements of the folders.
const EVERY: Duration = Duration::from_mins(1);

metrics! {
    Caches {
        bytes: Family<Label, Gauge> = "olm_cache_bytes",
            "Bytes on disk, per kind: catalogs (--cache-dir), bundles (--cache-path)";
        limit: Gauge = "olm_cache_limit_bytes",
            "Limit of the total size of the caches (--cache-limit)";
    }
}

/// Measures folders, each under a kind of its own, as long as it is polled; together they may have
/// `limit` bytes.
pub async fn measure_caches(metrics: Metrics, folders: Vec<(&'static str, PathBuf)>, limit: u64) {
    metrics.caches.limit.set(whole(limit));
    loop {
        for (kind, folder) in &folders {
            let folder = folder.clone();
            let measured = tokio::task::spawn_blocking(move || bytes_below(&folder)).await;
            // A folder that is being written may change under our eyes; the next look is near.
            if let Ok(Ok(bytes)) = measured {
                metrics.caches.bytes.get_or_create(&[("kind", *kind)]).set(whole(bytes));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
