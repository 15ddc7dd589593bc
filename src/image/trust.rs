//! Which certificates a registry is trusted with, and the HTTP client that uses them.
//!
//! Source: catalogs.md 5.4 (CA certificates), 8.3.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::folder::{self, FileError, present};
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::proxies::{Proxies, ProxyError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDirs {
    /// If set, this directory alone is read, for every registry.
    pub only: Option<PathBuf>,
    /// Otherwise `<directory>/<host[:port]>` of each of these, on top of the system's roots.
    pub by_host: Vec<PathBuf>,
    /// The files and directories that the environment names as those of the system's roots.
    pub system: Vec<PathBuf>,
}

impl Default for CertificateDirs {
    fn default() -> Self {
        Self {
            only: None,
            by_host: vec!["/etc/containers/certs.d".into(), "/etc/docker/certs.d".into()],
            system: named_by(env::var_os),
        }
    }
}

/// Returns what the variables name from which the system's roots are read.
fn named_by(variable: impl Fn(&'static str) -> Option<OsString>) -> Vec<PathBuf> {
    let directories = variable("SSL_CERT_DIR").unwrap_or_default();
    let places = env::split_paths(&directories).chain(variable("SSL_CERT_FILE").map(PathBuf::from));
    places.filter(|place| !place.as_os_str().is_empty()).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Read(#[from] FileError),
    #[error("invalid certificate {}", quote(&path.display().to_string()))]
    Invalid {
        path: PathBuf,
        #[source]
        source: Box<dyn Error + Send + Sync>,
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
    let paths = match folder::paths(directory) {
        // On a workstation it may be for root alone; the system's roots are enough for most registries.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::debug!(?directory, "certificates are not looked for, as it may not be read");
            return Ok(found);
        }
        paths => paths.map_err(failed(directory))?,
    };
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
                // RHEL has links to files of packages that may not be installed.
                let bundle = present(std::fs::read(path)).map_err(failed(path))?;
                let Some(bundle) = bundle else { continue };
                let (roots, unusable) = roots(&bundle).map_err(invalid)?;
                if unusable > 0 {
                    tracing::warn!(?path, unusable, "certificates that are not of CAs are ignored");
                }
                found.roots.extend(roots);
            }
            Some("cert") => {
                let mut pair = contents(&twin("key")?)?;
                pair.push(b'\n');
                pair.extend(contents(path)?);
                let identity = Identity::from_pem(&pair);
                found.identity = Some(identity.map_err(|error| invalid(error.into()))?);
            }
            Some("key") => {
                twin("cert")?;
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads the certificates of a PEM text, and says how many more cannot be those of a CA. As with Go, one
/// of these does not keep the others from being used.
fn roots(bundle: &[u8]) -> Result<(Vec<Certificate>, usize), Box<dyn Error + Send + Sync>> {
    let all = CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>()?;
    let usable = all.iter().filter(|der| webpki::anchor_from_trusted_cert(der).is_ok());
    let usable: Vec<_> = usable.map(|der| Certificate::from_der(der)).collect::<Result<_, _>>()?;
    let unusable = all.len() - usable.len();
    Ok((usable, unusable))
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogs.md O14
    #[test]
    fn the_environment_names_where_the_system_keeps_its_roots() {
        let places = |directories: &str, file: &str| {
            named_by(|name| Some(if name == "SSL_CERT_DIR" { directories } else { file }.into()))
        };
        assert_eq!(named_by(|_| None), Vec::<PathBuf>::new());
        assert_eq!(places("", ""), Vec::<PathBuf>::new());
        assert_eq!(places("/a", "/c.crt"), ["/a", "/c.crt"].map(PathBuf::from));
    }

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

    // catalogs.md O14
    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_no_root() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/nowhere/uep.pem", dir.path().join("redhat-ca.crt")).unwrap();
        assert!(read(dir.path()).unwrap().roots.is_empty());
    }

    // catalogs.md O14
    #[test]
    fn a_certificate_that_cannot_be_of_a_ca_does_not_stop_pulls() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let good = rcgen::generate_simple_self_signed(["h.io".to_owned()]).unwrap().cert.pem();
        let odd = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        std::fs::write(dir.path().join("ca.crt"), format!("{odd}{good}")).unwrap();
        assert_eq!(read(dir.path()).unwrap().roots.len(), 1);
        let only = Some(dir.path().to_owned());
        let dirs = CertificateDirs { only, ..CertificateDirs::default() };
        client(&dirs, "h.io", false, &Proxies::default()).unwrap();
    }
}
