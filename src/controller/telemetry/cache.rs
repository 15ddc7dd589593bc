//! How much of the disk the caches take.

use std::path::PathBuf;
use std::time::Duration;

use olm_image::room::bytes_below;
use prometheus_client::encoding::EncodeLabelSet;

use super::Metrics;

/// How often the folders are gone through.
const EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CacheLabels {
    kind: &'static str,
}

/// Measures folders, each under a kind of its own, as long as it is polled.
pub async fn measure_caches(metrics: Metrics, folders: Vec<(&'static str, PathBuf)>) {
    loop {
        for (kind, folder) in &folders {
            let folder = folder.clone();
            let measured = tokio::task::spawn_blocking(move || bytes_below(&folder)).await;
            // A folder that is being written may change under our eyes; the next look is near.
            if let Ok(Ok(bytes)) = measured {
                metrics
                    .cache
                    .get_or_create(&CacheLabels { kind })
                    .set(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
