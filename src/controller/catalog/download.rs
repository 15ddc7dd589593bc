//! The download of one catalog from a catalog server.

use std::fs::File;
use std::io::{self, BufRead as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::StreamExt as _;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use olm_core::catalog::read::{MAX_BLOB_BYTES, MAX_CATALOG_BYTES, Meta, Reason};
use olm_core::error::quote;
use olm_image::Proxies;
use reqwest::StatusCode;
use reqwest::header::{ETAG, LAST_MODIFIED};
use rustls::RootCertStore;
use rustls_platform_verifier::Verifier;

use super::store::StoreError;
use super::trust::Trust;
use crate::tls::CurrentProfile;

const CONNECT: Duration = Duration::from_secs(10);
/// A download fails when no byte comes for so long (catalogs.md 4.3),
const IDLE: Duration = Duration::from_mins(1);
/// or when all of it takes so long.
const WHOLE: Duration = Duration::from_mins(15);

/// Why nothing came of a download when the process stops.
pub const INTERRUPTED: &str = "the download was interrupted";
/// Upstream's text.
const CLIENT: &str = "error getting HTTP client";

/// The catalog server, and the CAs that are trusted for it.
#[derive(Debug, Clone)]
pub struct CatalogServer {
    spool: PathBuf,
    trust: Trust,
    profile: CurrentProfile,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The server of another process, upstream's maybe: the system's CAs count as well, and an
    /// answer without an entity tag is believed.
    Other,
    /// A replica of this program: nothing but the CA of our own listeners counts, and the entity
    /// tag is the digest that is wanted (deploying.md 4.3).
    Replica,
}

impl CatalogServer {
    /// Returns the server of another process; downloads go through files without names in `folder`.
    /// Blocks.
    ///
    /// A folder to trust without any certificate is an error.
    pub fn other(folder: &Path, trust: Trust, profile: CurrentProfile) -> anyhow::Result<Self> {
        trust.certificates().context(CLIENT)?;
        Ok(Self { kind: Kind::Other, ..Self::replica(folder, trust, profile)? })
    }

    /// Returns another replica of this program. Blocks.
    pub fn replica(folder: &Path, trust: Trust, profile: CurrentProfile) -> anyhow::Result<Self> {
        let spool = folder.join("downloads");
        std::fs::create_dir_all(&spool)
            .map_err(StoreError::disk("error creating the catalog cache"))
            .context("error preparing the catalog cache")?;
        Ok(Self { spool, trust, profile, kind: Kind::Replica })
    }

    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Downloads the content of `reference` from the server at `base`. The texts of errors are
    /// upstream's where it has them.
    pub async fn get(&self, base: &str, reference: &str) -> anyhow::Result<Lines> {
        let url = format!("{}/api/v1/all", base.trim_end_matches('/'));
        let server = self.clone();
        let client = tokio::task::spawn_blocking(move || server.client()).await;
        let client = client.ok().context(INTERRUPTED)?.context(CLIENT)?;
        let response = client.get(&url).send().await.map_err(|error| {
            anyhow!("error performing request: Get {}: {}", quote(&url), cause(&error))
        })?;
        let status = response.status();
        if status != StatusCode::OK {
            bail!("error: received unexpected response status code {}", status.as_u16());
        }
        let wanted = reference.rsplit_once('@').map_or("", |(_, digest)| digest);
        let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        let same = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"') == wanted);
        if !same.unwrap_or(self.kind == Kind::Other) {
            bail!("error: catalog server does not serve {wanted} yet");
        }
        let modified = response.headers().get(LAST_MODIFIED).and_then(|time| time.to_str().ok());
        let modified = modified.and_then(|time| rfc2822::parse(time).ok());
        let modified = modified.map(|time| time.timestamp());
        let body = self.spool(response).await;
        let body = body.context("error performing request: reading the catalog")?;
        Ok(Lines { body: io::BufReader::new(body), line: 0, modified })
    }

    /// Makes a client that trusts the certificates, and obeys the TLS profile, as they are now.
    /// Blocks.
    fn client(&self) -> anyhow::Result<reqwest::Client> {
        let builder =
            reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(IDLE).timeout(WHOLE);
        let certificates = self.trust.certificates()?;
        let tls = self.profile.get().client();
        let mut tls = match self.kind {
            Kind::Other => {
                let provider = Arc::clone(tls.crypto_provider());
                let verifier = Verifier::new_with_extra_roots(certificates, provider)?;
                tls.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Kind::Replica => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates);
                tls.with_root_certificates(roots)
            }
        }
        .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let builder = builder.tls_backend_preconfigured(tls);
        let builder = match self.kind {
            Kind::Other => Proxies::default().on(builder)?,
            // Another replica is never beyond a proxy.
            Kind::Replica => builder.https_only(true).no_proxy(),
        };
        Ok(builder.build()?)
    }

    /// Writes a body to a file without a name.
    async fn spool(&self, response: reqwest::Response) -> io::Result<File> {
        let mut file = tempfile::tempfile_in(&self.spool)?;
        let mut total = 0;
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| io::Error::other(cause(&error)))?;
            total += chunk.len() as u64;
            if total > MAX_CATALOG_BYTES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            file = tokio::task::spawn_blocking(move || file.write_all(&chunk).map(|()| file))
                .await
                .map_err(io::Error::other)??;
        }
        file.rewind()?;
        Ok(file)
    }
}

/// Returns every layer of a client error. A proxy that refuses is named as Go names it, because
/// people search for that word.
fn cause(error: &reqwest::Error) -> String {
    let mut layers = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    while let Some(layer) = source {
        layers.push(layer.to_string());
        source = layer.source();
    }
    // The outermost layer repeats the address.
    let text = layers.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&layers).join(": ");
    if layers.iter().any(|layer| layer.contains("tunnel")) {
        format!("proxyconnect tcp: {text}")
    } else {
        text
    }
}

/// The blobs of a download, one a line.
#[derive(Debug)]
pub struct Lines {
    body: io::BufReader<File>,
    line: usize,
    modified: Option<Timestamp>,
}

impl Lines {
    /// Returns when the server says that the content was modified.
    pub fn modified(&self) -> Option<Timestamp> {
        self.modified
    }

    fn read(&mut self) -> Result<Option<Meta>, StoreError> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.line += 1;
            // One byte more than is allowed tells a blob of the largest size from a larger one.
            let mut limited = io::Read::take(&mut self.body, MAX_BLOB_BYTES as u64 + 2);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(StoreError::disk("error reading the download"))? == 0 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            // Upstream's server writes `null` for documents that hold comments only.
            if text.is_empty() || text == "null" {
                continue;
            }
            let line = self.line;
            let wrong = |source| StoreError::Line(line, source);
            if bytes.len() > MAX_BLOB_BYTES + 1 {
                return Err(wrong(Reason::BlobTooLarge));
            }
            return Meta::parse(text).map(Some).map_err(wrong);
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Meta, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
