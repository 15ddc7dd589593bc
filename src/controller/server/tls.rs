//! The serving certificate, reloaded when its files change.
//!
//! Both files are read every ten seconds and compared; a mounted Secret changes by renaming a
//! symlink, which file notifications miss. A pair that does not parse or match is not taken.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use olm_core::error::Chain;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::telemetry::Metrics;

/// How often the files are read.
pub const POLL: Duration = Duration::from_secs(10);

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("error reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds no PEM of the expected kind.
    #[error("error parsing {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not go together, or are of a kind that is not supported.
    #[error("certificate and key cannot be used")]
    Pair(#[source] rustls::Error),
}

/// A certificate and its key, as files and as they are served.
#[derive(Debug, Clone)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    served: Pair,
    config: RustlsConfig,
}

/// What the two files held.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair(..)")
    }
}

impl Certificates {
    /// Reads both files. Blocks for a moment.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let served = Pair::read(certificate, key)?;
        let config = served.config(certificate, key)?;
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            served,
            config: RustlsConfig::from_config(config),
        })
    }

    /// Returns what servers take; it follows every reload.
    pub fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Reads the files again and again and takes every good pair. Never returns.
    ///
    /// New connections see the new certificate; old ones go on.
    pub async fn keep_current(mut self, metrics: Metrics) {
        loop {
            tokio::time::sleep(POLL).await;
            match self.reload() {
                Ok(true) => {
                    metrics.read_certificate(true);
                    tracing::info!(path = %self.certificate.display(), "serving certificate reloaded");
                }
                Ok(false) => metrics.read_certificate(true),
                Err(err) => {
                    metrics.read_certificate(false);
                    tracing::warn!(error = %Chain(&err), "serving certificate not reloaded");
                }
            }
        }
    }

    /// Reads the files once and says whether something new was taken.
    pub fn reload(&mut self) -> Result<bool, TlsError> {
        let read = Pair::read(&self.certificate, &self.key)?;
        if read == self.served {
            return Ok(false);
        }
        let config = read.config(&self.certificate, &self.key)?;
        self.config.reload_from_config(config);
        self.served = read;
        Ok(true)
    }
}

impl Pair {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    fn config(&self, certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
        let parse = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Parse { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(parse(certificate))?;
        let private = PrivateKeyDer::from_pem_slice(&self.key).map_err(parse(key))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(TlsError::Pair)?
                .with_no_client_auth()
                .with_single_cert(chain, private)
                .map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
