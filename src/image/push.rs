//! Pushes images, for the demo, for tests and for our own release.

use std::collections::BTreeMap;

use crate::built::{BuiltImage, BuiltIndex};
use crate::digest::Digest;
use crate::keyring::Keyring;
use crate::layout::{Layout, LayoutError};
use crate::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use crate::proxies::Proxies;
use crate::reference::ImageRef;
use crate::registries::Endpoint;
use crate::registry::{Access, RequestError, Session};
use crate::trust::{self, CertificateDirs, TrustError};

/// Options for the connection to a registry for a push.
#[derive(Debug, Clone, Default)]
pub struct PushOptions {
    /// Whether plain HTTP may be used where the registry has no HTTPS.
    pub plain_http: bool,
    /// The credentials to choose from.
    pub keyring: Keyring,
}

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The reference names another image.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("pushing {image}")]
    Registry {
        image: String,
        #[source]
        source: RequestError,
    },
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Pushes an image and returns its digest.
pub async fn push(
    image: &BuiltImage,
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    let pusher = Pusher::new(to, options).await?;
    pusher.content(image).await?;
    pusher.named(&image.manifest, image.manifest_type()).await
}

/// Pushes images and an index of them, and returns the digest of the index.
pub async fn push_index(
    images: &[BuiltImage],
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    let pusher = Pusher::new(to, options).await?;
    for image in images {
        pusher.content(image).await?;
        let digest = image.digest().to_string();
        pusher.manifest(&digest, &image.manifest, image.manifest_type()).await?;
    }
    let index = BuiltIndex::new(images.to_vec(), &BTreeMap::new());
    pusher.named(&index.manifest, index.media_type).await
}

/// Pushes what a layout holds: images, their index under the tag of `to`, and what refers to them.
///
/// Blobs that the registry has are not sent. A tag that names something else is moved only if
/// `replace` says so.
pub async fn push_layout(
    layout: &Layout,
    to: &ImageRef,
    options: &PushOptions,
    replace: bool,
) -> Result<Digest, PushError> {
    let pusher = Pusher::new(to, options).await?;
    let (manifests, index) = layout.contents()?;
    let digest = Digest::sha256(&index);
    let found = pusher.session.tagged(&to.version()).await;
    if let Some(found) = found.map_err(|error| pusher.failed(error))?
        && found != digest
        && !replace
    {
        let text = format!("{to} is {found} already; FORCE=1 moves the tag");
        return Err(PushError::Refused(text));
    }
    for manifest in &manifests {
        for blob in &manifest.blobs {
            pusher.blob(blob).await?;
        }
        let digest = Digest::sha256(&manifest.bytes).to_string();
        pusher.manifest(&digest, &manifest.bytes, OCI_IMAGE_MEDIA_TYPE).await?;
        if let Some((image, index)) = &manifest.referrers {
            let tag = image.to_string().replace(':', "-");
            pusher.manifest(&tag, index, OCI_IMAGE_INDEX_MEDIA_TYPE).await?;
        }
    }
    pusher.named(&index, OCI_IMAGE_INDEX_MEDIA_TYPE).await
}

struct Pusher<'a> {
    session: Session,
    to: &'a ImageRef,
}

impl<'a> Pusher<'a> {
    async fn new(to: &'a ImageRef, options: &PushOptions) -> Result<Self, PushError> {
        let dirs = CertificateDirs::default();
        let http = trust::client(&dirs, to.registry(), false, &Proxies::default())?;
        let endpoint = Endpoint { image: to.clone(), insecure: options.plain_http, blocked: None };
        let access = Access {
            choice: options.keyring.choose(to.registry(), to.repository()),
            certificates: trust::places(&dirs, to.registry()),
        };
        match Session::open(http, &endpoint, access).await {
            Ok(session) => Ok(Self { session: session.pushing(), to }),
            Err(source) => Err(PushError::Registry { image: to.to_string(), source }),
        }
    }

    async fn content(&self, image: &BuiltImage) -> Result<(), PushError> {
        for blob in image.layers.iter().chain([&image.config]) {
            self.blob(blob).await?;
        }
        Ok(())
    }

    async fn blob(&self, blob: &[u8]) -> Result<(), PushError> {
        self.session.push_blob(blob).await.map_err(|error| self.failed(error))
    }

    async fn manifest(
        &self,
        version: &str,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<(), PushError> {
        let pushed = self.session.push_manifest(version, bytes, media_type).await;
        pushed.map_err(|error| self.failed(error))
    }

    /// Pushes what the reference names.
    async fn named(&self, bytes: &[u8], media_type: &str) -> Result<Digest, PushError> {
        let digest = Digest::sha256(bytes);
        if self.to.digest().is_some_and(|wanted| *wanted != digest) {
            let text = format!("image has digest {digest}, the reference is {}", self.to);
            return Err(PushError::Refused(text));
        }
        self.manifest(&self.to.version(), bytes, media_type).await?;
        Ok(digest)
    }

    fn failed(&self, source: RequestError) -> PushError {
        PushError::Registry { image: self.to.to_string(), source }
    }
}
