//! Why a pull fails, layer by layer, in upstream's words where it has them.

use std::io;
use std::time::Duration;

use olm_core::error::quote;

use crate::digest::Digest;
use crate::manifest::ManifestError;
use crate::policy::PolicyError;
use crate::reference::ReferenceError;
use crate::registries::RegistriesError;
use crate::registry::RequestError;
use crate::shown::shown;
use crate::trust::TrustError;
use crate::unpack::UnpackError;

/// Longest wait a registry may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(15);

/// Why an image could not be pulled. The texts are those of upstream where it has them.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The reference is unusable.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The registries configuration is unusable.
    #[error(transparent)]
    Registries(#[from] RegistriesError),
    /// A tag could not be resolved.
    #[error("error creating image source")]
    Resolve(#[source] SourceError),
    /// The image could not be fetched.
    #[error("error copying image")]
    Copy(#[source] CopyError),
    /// The image was refused while it was unpacked.
    #[error("error unpacking image")]
    Unpack(#[from] UnpackError),
    /// The files could not be read back or cached.
    #[error("error storing image")]
    Store(#[source] io::Error),
    /// A catalog image without the label that says where its content is.
    #[error("catalog image is missing the required label {}{}", quote(label), if *sqlite { ": it is an SQLite catalog image, convert it with opm migrate" } else { "" })]
    MissingLabel {
        /// The label.
        label: &'static str,
        /// Whether the image was named by a digest, so that no push can mend it.
        by_digest: bool,
        /// Whether it is a catalog of the older kind.
        sqlite: bool,
    },
    /// The label's value is no directory of the image.
    #[error(
        "label {} does not name a directory of the image: {}",
        quote(label),
        shown(value)
    )]
    LabelDirectory {
        /// The label.
        label: &'static str,
        /// Its value.
        value: String,
    },
    /// The whole pull took too long.
    #[error("pulling took longer than {0:?}")]
    Timeout(Duration),
}

/// Why no endpoint delivered a manifest.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The only endpoint failed.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Mirrors and the origin failed.
    #[error("(Mirrors also failed: {mirrors}): {origin}")]
    All {
        /// `[reference: error]` of each mirror, one a line.
        mirrors: String,
        /// The reference at the origin.
        origin: String,
        /// Its error.
        #[source]
        source: EndpointError,
    },
}

/// Why one endpoint did not deliver a manifest.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The registries configuration forbids it.
    #[error("registry {0} is blocked by the registries configuration")]
    Blocked(String),
    /// Its certificates cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Nobody answers there, or no registry.
    #[error("pinging container registry {registry}")]
    Ping {
        /// Host and port.
        registry: String,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The registry answers, but not with the manifest.
    #[error("reading manifest {version} in {name}")]
    Manifest {
        /// Tag or digest.
        version: String,
        /// Registry and repository.
        name: String,
        /// Why.
        #[source]
        source: RequestError,
    },
}

/// Why an image could not be fetched once it was clear which.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No endpoint has the digest.
    #[error("initializing source docker://{image}")]
    Source {
        /// The reference.
        image: String,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// The signature policy forbids it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The manifest, index or configuration is unusable.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The platform's manifest cannot be had.
    #[error("reading manifest {digest}")]
    Instance {
        /// Digest of the manifest in the index.
        digest: Digest,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A blob cannot be had.
    #[error("reading blob {digest}")]
    Blob {
        /// Digest of the blob.
        digest: Digest,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A blob cannot be written to a temporary file.
    #[error("writing a temporary file")]
    Spool(#[source] io::Error),
}

impl PullError {
    /// Says whether only another reference or another configuration can help, so that asking
    /// again is pointless.
    ///
    /// Source: catalogs.md 2.5, 5.5, 5.6, O3 and A11.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Reference(_) | Self::LabelDirectory { .. } => true,
            Self::MissingLabel { by_digest, .. } => *by_digest,
            Self::Copy(CopyError::Policy(policy)) => policy.is_terminal(),
            Self::Copy(CopyError::Manifest(manifest)) => matches!(
                manifest,
                ManifestError::Schema1 | ManifestError::MediaType(_) | ManifestError::NotAnImage(_)
            ),
            Self::Copy(_)
            | Self::Registries(_)
            | Self::Resolve(_)
            | Self::Unpack(_)
            | Self::Store(_)
            | Self::Timeout(_) => false,
        }
    }

    /// Returns how long the registry asked us to stay away, if it did: no longer than a quarter of an
    /// hour, because one answer must not park whoever pulls, and not at all for no time, because the
    /// usual delays grow.
    pub fn retry_after(&self) -> Option<Duration> {
        let asked = self.asked_to_wait().filter(|asked| !asked.is_zero())?;
        Some(asked.min(MAX_RETRY_AFTER))
    }

    fn asked_to_wait(&self) -> Option<Duration> {
        let source = match self {
            Self::Resolve(source) | Self::Copy(CopyError::Source { source, .. }) => source,
            Self::Copy(CopyError::Blob { source, .. } | CopyError::Instance { source, .. }) => {
                return source.retry_after();
            }
            _ => return None,
        };
        let (SourceError::Endpoint(endpoint)
        | SourceError::All {
            source: endpoint, ..
        }) = source;
        match endpoint {
            EndpointError::Ping { source, .. } | EndpointError::Manifest { source, .. } => {
                source.retry_after()
            }
            EndpointError::Blocked(_) | EndpointError::Trust(_) => None,
        }
    }
}
