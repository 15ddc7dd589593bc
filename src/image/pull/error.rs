//! Why a pull fails, layer by layer, with upstream's texts where it has them.

use std::io;
use std::time::Duration;

use olm_core::error::quote;

use crate::attachments::AttachmentsError;
use crate::digest::Digest;
use crate::manifest::ManifestError;
use crate::policy::PolicyError;
use crate::reference::ReferenceError;
use crate::registries::RegistriesError;
use crate::registry::RequestError;
use crate::shown::shown;
use crate::trust::TrustError;
use crate::unpack::UnpackError;

/// Longest time to wait that is accepted from a registry.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(15);

/// Why an image could not be pulled. The texts are those of upstream where it has them.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The reference is invalid.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The registries configuration is invalid.
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
    /// A catalog image does not have the label that says where its content is.
    #[error("catalog image is missing the required label {}{}", quote(label), if *sqlite { ": it is an SQLite catalog image, convert it with opm migrate" } else { "" })]
    MissingLabel {
        /// Name of the label.
        label: &'static str,
        /// Whether the image was named by a digest, so that no push can fix it.
        by_digest: bool,
        /// Whether it is an older catalog with an `SQLite` database.
        sqlite: bool,
    },
    /// The label's value is not a directory of the image.
    #[error("label {} does not name a directory of the image: {}", quote(label), shown(value))]
    LabelDirectory {
        /// Name of the label.
        label: &'static str,
        /// Value of the label.
        value: String,
    },
    /// The whole pull took too long.
    #[error("pulling took longer than {0:?}")]
    Timeout(Duration),
}

/// Why no endpoint served a manifest.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The only endpoint failed.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// All mirrors and the origin failed.
    #[error("(Mirrors also failed: {mirrors}): {origin}")]
    All {
        /// `[reference: error]` of each mirror, one per line.
        mirrors: String,
        /// The reference at the origin.
        origin: String,
        /// The error of the origin.
        #[source]
        source: EndpointError,
    },
}

/// Why an endpoint did not serve a manifest.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The registries configuration forbids it.
    #[error("registry {0} is blocked by the registries configuration")]
    Blocked(String),
    /// Its certificates cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The registry cannot be reached, or does not respond as a registry.
    #[error("pinging container registry {registry}")]
    Ping {
        /// Host and port of the registry.
        registry: String,
        /// Why the request failed.
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
        /// Why the request failed.
        #[source]
        source: RequestError,
    },
}

/// Why an image could not be fetched, other than that its tag could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No endpoint serves the digest.
    #[error("initializing source docker://{image}")]
    Source {
        /// The reference by digest.
        image: String,
        /// Why no endpoint served it.
        #[source]
        source: SourceError,
    },
    /// The signature policy forbids it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The manifest, index or configuration cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest for the platform cannot be fetched.
    #[error("reading manifest {digest}")]
    Instance {
        /// Digest of the manifest in the index.
        digest: Digest,
        /// Why the request failed.
        #[source]
        source: RequestError,
    },
    /// A blob cannot be fetched.
    #[error("reading blob {digest}")]
    Blob {
        /// Digest of the blob.
        digest: Digest,
        /// Why the request failed.
        #[source]
        source: RequestError,
    },
    /// The signatures of the image cannot be fetched.
    #[error("reading signatures {tag}")]
    Signatures {
        /// Tag of their manifest.
        tag: String,
        /// Why the request failed.
        #[source]
        source: RequestError,
    },
    /// Where signatures are looked for cannot be read.
    #[error(transparent)]
    Attachments(#[from] AttachmentsError),
    /// A blob cannot be written to a temporary file.
    #[error("writing a temporary file")]
    Spool(#[source] io::Error),
}

impl PullError {
    /// Says whether only another reference or another configuration can help, so that a retry is
    /// pointless.
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

    /// Says whether the image is larger than it may be. Content never becomes smaller, only another
    /// image can help.
    ///
    /// Source: catalogs.md 5.8.
    pub fn is_of_size(&self) -> bool {
        match self {
            Self::Copy(CopyError::Manifest(manifest)) => matches!(
                manifest,
                ManifestError::Layers(_)
                    | ManifestError::LayerBytes { .. }
                    | ManifestError::ImageBytes { .. }
            ),
            Self::Unpack(error) => error.is_of_size(),
            Self::Copy(_)
            | Self::Reference(_)
            | Self::Registries(_)
            | Self::Resolve(_)
            | Self::Store(_)
            | Self::MissingLabel { .. }
            | Self::LabelDirectory { .. }
            | Self::Timeout(_) => false,
        }
    }

    /// Says whether the registry answered that there is no such image.
    pub fn is_not_found(&self) -> bool {
        let (Self::Resolve(source) | Self::Copy(CopyError::Source { source, .. })) = self else {
            return false;
        };
        let (SourceError::Endpoint(endpoint) | SourceError::All { source: endpoint, .. }) = source;
        matches!(endpoint, EndpointError::Manifest { source, .. } if source.is_not_found())
    }

    /// Returns how long the registry asked us to wait, if it did: at most a quarter of an hour,
    /// because one response must not block the caller for long, and `None` for no time at all,
    /// because the usual delays grow.
    pub fn retry_after(&self) -> Option<Duration> {
        let asked = self.asked_to_wait().filter(|asked| !asked.is_zero())?;
        Some(asked.min(MAX_RETRY_AFTER))
    }

    fn asked_to_wait(&self) -> Option<Duration> {
        let source = match self {
            Self::Resolve(source) | Self::Copy(CopyError::Source { source, .. }) => source,
            Self::Copy(
                CopyError::Blob { source, .. }
                | CopyError::Instance { source, .. }
                | CopyError::Signatures { source, .. },
            ) => return source.retry_after(),
            _ => return None,
        };
        let (SourceError::Endpoint(endpoint) | SourceError::All { source: endpoint, .. }) = source;
        match endpoint {
            EndpointError::Ping { source, .. } | EndpointError::Manifest { source, .. } => {
                source.retry_after()
            }
            EndpointError::Blocked(_) | EndpointError::Trust(_) => None,
        }
    }
}
