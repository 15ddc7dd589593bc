//! Which certificates a registry is trusted with, and the HTTP client that uses them.
//!
//! Source: catalogs.md 5.4 (CA certificates), 8.3.

use std::path::{Path, PathBuf};

use olm_core::error::quote;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity};

use crate::folder::{self, FileError};
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::proxies::{Proxies, ProxyError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDirs {
    /// If set, this directory alone is read, for every registry.
    pub only: Option<PathBuf>,
    /// Otherwise `<directory>/<host[:port]>` of each of these, on top of the system's roots.
    pub by_host: Vec<PathBuf>,
}

impl Default for CertificateDirs {
    fn default() -> Self {
        Self {
            only: None,
            by_host: vec!["/etc/containers/certs.d".into(), "/etc/docker/certs.d".into()],
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Read(#[from] FileError),
    #[error("invalid certificate {}", quote(&path.display().to_string()))]
    Invalid {
        path: PathBuf,
        #[source]
        source: reqwest::Error,
    },
    /// A client certificate without its key, or a key without its certificate; holds which.
    #[error("missing {0}")]
    Pair(String),
    /// A variable of the environment does not name a proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("creating the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Makes a client for `host`. It follows no redirects: which ones may be followed depends on the
/// request. Bodies are not decompressed, so that their digests are those of the registry.
pub(crate) fn client(
    dirs: &CertificateDirs,
    host: &str,
    insecure: bool,
    proxies: &Proxies,
) -> Result<Client, TrustError> {
    let mut builder = Client::builder()
        .user_agent(concat!("olm-controller/", env!("CARGO_PKG_VERSION")))
        .no_gzip()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(IDLE_TIMEOUT)
        .redirect(Policy::none())
        .danger_accept_invalid_certs(insecure);
    for place in places(dirs, host) {
        let found = read(&place)?;
        builder = builder.tls_certs_merge(found.roots);
        if let Some(identity) = found.identity {
            builder = builder.identity(identity);
        }
    }
    proxies.on(builder)?.build().map_err(TrustError::Client)
}

pub(crate) fn places(dirs: &CertificateDirs, host: &str) -> Vec<PathBuf> {
    match &dirs.only {
        Some(only) => vec![only.clone()],
        None => dirs.by_host.iter().map(|dir| dir.join(host)).collect(),
    }
}

#[derive(Default)]
struct Found {
    roots: Vec<Certificate>,
    identity: Option<Identity>,
}

/// Reads `*.crt` and `*.pem` as roots, and one pair of `*.cert` and `*.key` as our own.
fn read(directory: &Path) -> Result<Found, TrustError> {
    let failed = |path: &Path| FileError::doing("reading certificates in", path);
    let mut found = Found::default();
    let paths = folder::paths(directory).map_err(failed(directory))?;
    for path in &paths {
        let invalid = |source| TrustError::Invalid { path: path.clone(), source };
        let contents = |path: &Path| std::fs::read(path).map_err(failed(path));
        let twin = |extension| {
            let other = path.with_extension(extension);
            if paths.contains(&other) {
                return Ok(other);
            }
            let [missing, present] = [&other, path].map(|it| quote(&it.display().to_string()));
            Err(TrustError::Pair(format!("{missing} for {present}")))
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt" | "pem") => {
                let bundle = contents(path)?;
                found.roots.extend(Certificate::from_pem_bundle(&bundle).map_err(invalid)?);
            }
            Some("cert") => {
                let mut pair = contents(&twin("key")?)?;
                pair.push(b'\n');
                pair.extend(contents(path)?);
                found.identity = Some(Identity::from_pem(&pair).map_err(invalid)?);
            }
            Some("key") => {
                twin("cert")?;
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogs.md O14
    #[test]
    fn half_a_client_certificate_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.cert"), "").unwrap();
        let err = read(dir.path()).err().unwrap().to_string();
        assert!(err.starts_with("missing") && err.contains("x.key"), "{err}");
    }

    #[test]
    fn absent_directory_adds_nothing_and_bad_roots_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&dir.path().join("none")).unwrap().roots.is_empty());
        let bad = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        std::fs::write(dir.path().join("bad.crt"), bad).unwrap();
        assert!(read(dir.path()).err().unwrap().to_string().contains("bad.crt"));
    }
}
