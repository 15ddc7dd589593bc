//! Which certificates catalog servers may present.

use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;
use reqwest::Certificate;

/// Why the certificates of a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The folder or a file in it cannot be read.
    #[error("error reading certificates in {}", quote(&folder.to_string_lossy()))]
    Read {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No file holds a certificate.
    #[error("no certificates found in {}", quote(&.0.to_string_lossy()))]
    None(PathBuf),
}

/// Reads every certificate of every file in a folder; subfolders are passed over, links followed,
/// and files that hold something else are not an error. Blocks.
pub(super) fn certificates(folder: &Path) -> Result<Vec<Certificate>, TrustError> {
    let read = |source| TrustError::Read {
        folder: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.is_file() {
            let pem = std::fs::read(&path).map_err(read)?;
            found.extend(Certificate::from_pem_bundle(&pem).unwrap_or_default());
        }
    }
    if found.is_empty() {
        return Err(TrustError::None(folder.to_owned()));
    }
    Ok(found)
}
