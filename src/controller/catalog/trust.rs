//! Which certificates catalog servers may present.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use olm_core::error::quote;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Which certificates catalog servers may present, beside those the system trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those of CAs in the files of a folder, read again for every download.
    Folder(PathBuf),
    /// Those of CAs that the catalog server publishes, or that our own listeners have.
    Published(Published),
}

/// The CA that a catalog server publishes, if known; clones share it.
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
    pub(super) fn certificates(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        match self {
            Self::Folder(folder) => certificates(folder),
            Self::Published(published) => Ok(published.certificates()),
        }
    }
}

/// Reads every certificate of every file in a folder; subfolders are passed over, links followed,
/// and files that hold something else are not an error. Blocks.
fn certificates(folder: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let name = quote(&folder.to_string_lossy());
    let found = read(folder).with_context(|| format!("error reading certificates in {name}"))?;
    if found.is_empty() {
        bail!("no certificates found in {name}");
    }
    Ok(found)
}

fn read(folder: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            found.extend(parse(&std::fs::read(&path)?));
        }
    }
    Ok(found)
}

/// Returns the CA certificates in a PEM text. Others are skipped, as in Go: with one of them the HTTP
/// client would refuse all.
fn parse(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let is_usable = |der: &CertificateDer<'static>| RootCertStore::empty().add(der.clone()).is_ok();
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).filter(is_usable).collect()
}
