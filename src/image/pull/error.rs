//! Why a pull fails, layer by layer, with upstream's texts where it has them.

use std::io;
use std::time::Duration;

use olm_api::keys::name::CATALOG_CONFIGS_LABEL as LABEL;
use olm_core::error::{Chain, MAX_RETRY_AFTER, quote};

use crate::manifest::ManifestError;
use crate::policy::PolicyError;
use crate::reference::ReferenceError;
use crate::registries::RegistriesError;
use crate::registry::RequestError;
use crate::shown::shown;
use crate::trust::TrustError;
use crate::unpack::UnpackError;

/// Why an image could not be pulled. The texts are those of upstream where it has them.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Registries(#[from] RegistriesError),
    #[error("error creating image source")]
    Resolve(#[source] SourceError),
    #[error("error copying image")]
    Copy(#[source] CopyError),
    #[error("error unpacking image")]
    Unpack(#[from] UnpackError),
    #[error("error storing image")]
    Store(#[source] io::Error),
    /// A catalog image does not have the label that says where its content is.
    #[error("catalog image is missing the required label {}{}", quote(LABEL), if *sqlite { ": it is an SQLite catalog image, convert it with opm migrate" } else { "" })]
    MissingLabel {
        /// Whether the image was named by a digest, so that no push can fix it.
        by_digest: bool,
        /// Whether it is an older catalog with an `SQLite` database.
        sqlite: bool,
    },
    /// The label's value is not a directory of the image.
    #[error("label {} does not name a directory of the image: {}", quote(LABEL), shown(.0))]
    LabelDirectory(String),
    #[error("pulling took longer than {0:?}")]
    Timeout(Duration),
}

/// Why no endpoint served a manifest: what the origin says, and before it the mirrors, if there are any,
/// each with its reference.
#[derive(Debug, thiserror::Error)]
#[error("{}", listed(.mirrors, .at))]
pub struct SourceError {
    pub mirrors: Vec<(String, EndpointError)>,
    /// The reference at the origin.
    pub at: String,
    #[source]
    pub origin: EndpointError,
}

fn listed(mirrors: &[(String, EndpointError)], origin: &str) -> String {
    if mirrors.is_empty() {
        return String::new();
    }
    let mirrors = mirrors.iter().map(|(at, error)| format!("[{at}: {}]", Chain(error)));
    format!("(Mirrors also failed: {}): {origin}", mirrors.collect::<Vec<_>>().join("\n"))
}

/// Why an endpoint did not serve a manifest.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("registry {0} is blocked by the registries configuration")]
    Blocked(String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The registry cannot be reached, or does not respond as a registry.
    #[error("pinging container registry {0}")]
    Ping(String, #[source] RequestError),
    /// The registry answers, but not with the manifest of this tag or digest in this repository.
    #[error("reading manifest {0} in {1}")]
    Manifest(String, String, #[source] RequestError),
}

/// Why an image could not be fetched, other than that its tag could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No endpoint serves the digest.
    #[error("initializing source docker://{0}")]
    Source(String, #[source] SourceError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest for the platform, a blob or the signatures cannot be fetched.
    #[error("reading {0}")]
    Request(String, #[source] RequestError),
    #[error("writing a temporary file")]
    Spool(#[source] io::Error),
}

impl CopyError {
    /// Returns what makes the error out of a failed request.
    pub(super) fn reading(what: String) -> impl Fn(RequestError) -> Self {
        move |source| Self::Request(what.clone(), source)
    }
}

impl PullError {
    /// Returns whether only another reference or another configuration can help, so that a retry is
    /// pointless.
    ///
    /// Source: catalogs.md 2.5, 5.5, 5.6, O3 and A11.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Reference(_)
            | Self::LabelDirectory(_)
            | Self::Copy(CopyError::Manifest(ManifestError::Unsupported(_))) => true,
            Self::MissingLabel { by_digest, .. } => *by_digest,
            Self::Copy(CopyError::Policy(policy)) => policy.is_terminal(),
            _ => false,
        }
    }

    /// Returns whether the image is larger than it may be. Content never becomes smaller, only
    /// another image can help.
    ///
    /// Source: catalogs.md 5.8.
    pub fn is_of_size(&self) -> bool {
        match self {
            Self::Copy(CopyError::Manifest(ManifestError::TooLarge(_))) => true,
            Self::Unpack(error) => error.is_of_size(),
            _ => false,
        }
    }

    /// Returns whether the registry answered that there is no such image.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.endpoint(),
            Some(EndpointError::Manifest(.., source)) if source.is_not_found()
        )
    }

    /// Returns how long the registry asked us to wait, if it did: at most [`MAX_RETRY_AFTER`], and
    /// `None` for no time at all, because the usual delays grow.
    pub fn retry_after(&self) -> Option<Duration> {
        Some(self.request()?.retry_after().filter(|asked| !asked.is_zero())?.min(MAX_RETRY_AFTER))
    }

    /// Returns the request to a registry that failed, if one did.
    pub fn request(&self) -> Option<&RequestError> {
        if let Self::Copy(CopyError::Request(_, source)) = self {
            return Some(source);
        }
        match self.endpoint()? {
            EndpointError::Ping(_, source) | EndpointError::Manifest(.., source) => Some(source),
            EndpointError::Blocked(_) | EndpointError::Trust(_) => None,
        }
    }

    /// Returns why no endpoint served the manifest: what the origin says, unless it is blocked and a
    /// mirror is not. Of several mirrors the last counts that may have it, and otherwise the last.
    pub fn endpoint(&self) -> Option<&EndpointError> {
        let (Self::Resolve(source) | Self::Copy(CopyError::Source(_, source))) = self else {
            return None;
        };
        let is_blocked = |it: &EndpointError| matches!(it, EndpointError::Blocked(_));
        if !is_blocked(&source.origin) {
            return Some(&source.origin);
        }
        let is_absent = |it: &&EndpointError| matches!(it, EndpointError::Manifest(.., source) if source.is_not_found());
        let mirrors = || source.mirrors.iter().rev().map(|(_, it)| it).filter(|it| !is_blocked(it));
        let mirror = mirrors().find(|it| !is_absent(it)).or_else(|| mirrors().next());
        mirror.or(Some(&source.origin))
    }
}
