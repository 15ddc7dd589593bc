//! Which certificates catalog servers may present.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use olm_core::error::quote;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Which certificates catalog servers may present, beside those the system trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// No others.
    System,
    /// Those of CAs in the files of a folder, read again for every download.
    Folder(PathBuf),
    /// Those of CAs that the catalog server publishes, or that our own listeners have.
    Published(Published),
}

/// What a catalog server publishes, as far as it is known; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Published(Arc<Mutex<String>>);

impl Published {
    /// Takes over what is published now, and says whether that is new. What holds no certificate is
    /// passed over: something was trusted for a reason.
    pub fn take(&self, pem: String) -> bool {
        let holds = !parse(pem.as_bytes()).is_empty();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !holds || *known == pem {
            return false;
        }
        *known = pem;
        true
    }

    fn certificates(&self) -> Vec<CertificateDer<'static>> {
        parse(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_bytes())
    }
}

impl Trust {
    /// Returns the certificates of CAs as they are now. Blocks.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TrustError> {
        match self {
            Self::System => Ok(Vec::new()),
            Self::Folder(folder) => certificates(folder),
            Self::Published(published) => Ok(published.certificates()),
        }
    }
}

/// Why the certificates of a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The folder or a file in it cannot be read.
    #[error("error reading certificates in {}", quote(&folder.to_string_lossy()))]
    Read {
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
fn certificates(folder: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let read = |source| TrustError::Read { folder: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.is_file() {
            found.extend(parse(&std::fs::read(&path).map_err(read)?));
        }
    }
    if found.is_empty() {
        return Err(TrustError::None(folder.to_owned()));
    }
    Ok(found)
}

/// Returns the certificates in a text, none if one of them cannot be read.
fn parse(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let all: Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.unwrap_or_default()
}
