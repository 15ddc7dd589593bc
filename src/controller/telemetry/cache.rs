//! How much of the disk the caches take.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Returns the size of all files below a folder. Links are not followed.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => sum += found.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_in_folders_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), [0; 10]).unwrap();
        fs::write(folder.path().join("c"), [0; 5]).unwrap();
        assert_eq!(bytes_below(folder.path()).unwrap(), 15);
        assert_eq!(bytes_below(&folder.path().join("none")).unwrap(), 0);
    }
}
