//! The certificate of listeners: from files, reloaded when they change, or given by who issues it;
//! offered as the TLS profile says.
//!
//! Both files are read every ten seconds and compared; a mounted Secret changes by renaming a
//! symlink, which file notifications miss. A pair that does not parse or match is not taken.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum_server::tls_rustls::RustlsConfig;
use olm_core::error::Chain;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCert, ResolvesServerCertUsingSni};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::telemetry::{CertificateKind, Metrics};
use crate::tls::CurrentProfile;
use crate::x509::{Validity, certificate, validity};

/// The interval of reads of the files.
pub const POLL: Duration = Duration::from_secs(10);

/// What listeners present; clones share it.
#[derive(Debug, Clone)]
pub struct Certificates {
    served: RustlsConfig,
    presented: Arc<Mutex<Option<Arc<CertifiedKey>>>>,
    profile: CurrentProfile,
}

/// A certificate and its key, as files and as they are served.
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    served: Pair,
    certificates: Certificates,
}

#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// Returns listeners' configuration without a certificate: every handshake fails until there is
    /// one.
    pub fn pending(profile: CurrentProfile) -> Self {
        Self {
            served: RustlsConfig::from_config(config(None, &profile)),
            presented: Arc::default(),
            profile,
        }
    }

    /// Returns the configuration of servers, which follows every change.
    pub fn config(&self) -> RustlsConfig {
        self.served.clone()
    }

    /// Presents another certificate: new connections see it, old ones go on.
    pub fn present(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> anyhow::Result<()> {
        // They have to go together, and be of a kind that is supported.
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .context("certificate and key cannot be used")?;
        self.serve(|presented| *presented = Some(Arc::new(pair)));
        Ok(())
    }

    /// Offers what the TLS profile says now to new connections; old ones go on.
    pub fn renew(&self) {
        self.serve(|_| {});
    }

    /// Under one lock, so that whoever comes last sees what the others changed.
    fn serve(&self, change: impl FnOnce(&mut Option<Arc<CertifiedKey>>)) {
        let mut presented = self.presented.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut presented);
        let config = config(presented.clone(), &self.profile);
        self.served.reload_from_config(config);
    }
}

impl CertificateFiles {
    /// Reads both files. Blocks for a moment.
    pub fn load(certificate: &Path, key: &Path, profile: CurrentProfile) -> anyhow::Result<Self> {
        let served = Pair::read(certificate, key)?;
        let certificates = Certificates::pending(profile);
        served.present(&certificates, certificate, key)?;
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), served, certificates })
    }

    /// Returns the certificate of listeners, from the present files.
    pub fn certificates(&self) -> Certificates {
        self.certificates.clone()
    }

    /// Reads the files again and again and takes every good pair. Never returns.
    pub async fn keep_current(mut self, metrics: Metrics) {
        loop {
            if let Some(validity) = self.validity() {
                metrics.serving_certificate_expires(CertificateKind::Leaf, validity.not_after);
            }
            tokio::time::sleep(POLL).await;
            match self.reload() {
                Ok(true) => {
                    metrics.read_certificate(true);
                    tracing::info!(path = %self.certificate.display(), "serving certificate reloaded");
                }
                Ok(false) => metrics.read_certificate(true),
                Err(err) => {
                    metrics.read_certificate(false);
                    tracing::warn!(error = %Chain(&*err), "serving certificate not reloaded");
                }
            }
        }
    }

    /// Reads the files once and says whether something new was taken.
    pub fn reload(&mut self) -> anyhow::Result<bool> {
        let read = Pair::read(&self.certificate, &self.key)?;
        if read == self.served {
            return Ok(false);
        }
        read.present(&self.certificates, &self.certificate, &self.key)?;
        self.served = read;
        Ok(true)
    }

    fn validity(&self) -> Option<Validity> {
        validity(&certificate(&self.served.certificate)?)
    }
}

impl Pair {
    fn read(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("error reading {}", path.display()))
        };
        Ok(Self { certificate: read(certificate)?, key: read(key)? })
    }

    fn present(&self, to: &Certificates, certificate: &Path, key: &Path) -> anyhow::Result<()> {
        let parsing = |path: &Path| format!("error parsing {}", path.display());
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| parsing(certificate))?;
        let private = PrivateKeyDer::from_pem_slice(&self.key).with_context(|| parsing(key))?;
        to.present(chain, private)
    }
}

fn config(pair: Option<Arc<CertifiedKey>>, profile: &CurrentProfile) -> Arc<ServerConfig> {
    let certificate: Arc<dyn ResolvesServerCert> = match pair {
        Some(pair) => Arc::new(SingleCertAndKey::from(pair)),
        None => Arc::new(ResolvesServerCertUsingSni::new()),
    };
    let mut config = profile.get().server().with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
