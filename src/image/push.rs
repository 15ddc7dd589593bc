//! Pushes images, for the demo, for tests and for our own release. `oci-client` does the talking.

use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use oci_client::secrets::RegistryAuth;
use reqwest::header::HeaderValue;

use crate::auth::Credential;
use crate::built::{BuiltImage, IndexBuilder};
use crate::digest::Digest;
use crate::layout::{Layout, LayoutError};
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::reference::{ImageRef, ReferenceError};

/// Options for the connection to a registry for a push.
#[derive(Debug, Clone, Default)]
pub struct PushOptions {
    /// Whether to use plain HTTP.
    pub plain_http: bool,
    /// Whether certificates are not verified and plain HTTP is used where there is no HTTPS, as
    /// `registries.conf` says.
    pub insecure: bool,
    /// Credentials of the user who pushes.
    pub credential: Option<Credential>,
}

/// Why a push failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The reference has no tag and not the digest of the image.
    #[error("image has digest {digest}, the reference is {image}")]
    Digest {
        /// Digest of the image.
        digest: Digest,
        /// Reference of the image.
        image: String,
    },
    /// Credentials of a kind that is not supported for pushes.
    #[error("pushing needs a user name and password or a registry token")]
    Credential,
    /// The tag is in use.
    #[error("{image} is {found} already; FORCE=1 moves the tag")]
    Tagged {
        /// Reference of the image.
        image: String,
        /// Digest the tag names.
        found: String,
    },
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A tag cannot be named.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The registry refused the image or failed.
    #[error("pushing {image}")]
    Registry {
        /// Reference of the image.
        image: String,
        /// The error of the registry client.
        #[source]
        source: OciDistributionError,
    },
}

/// Pushes an image and returns its digest.
pub async fn push(
    image: &BuiltImage,
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    match attempt(image, to, options).await {
        Err(PushError::Registry { source: OciDistributionError::RequestError(_), .. })
            if options.insecure && !options.plain_http =>
        {
            attempt(image, to, &PushOptions { plain_http: true, ..options.clone() }).await
        }
        pushed => pushed,
    }
}

async fn attempt(
    image: &BuiltImage,
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    let pusher = Pusher::new(to, options)?;
    pusher.content(image).await?;
    pusher.manifest(&image.manifest, image.manifest_type()).await
}

/// Pushes images and an index of them, and returns the digest of the index.
pub async fn push_index(
    images: &[BuiltImage],
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    for image in images {
        let by_digest = to.with_digest(image.digest());
        push(image, &by_digest, options).await?;
    }
    let images = images.iter().cloned();
    let index = images.fold(IndexBuilder::default(), IndexBuilder::image);
    let index = index.build();
    let pusher = Pusher::new(to, options)?;
    pusher.manifest(&index.manifest, index.media_type()).await
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
    let pusher = Pusher::new(to, options)?;
    pusher.authorize().await?;
    let contents = layout.contents()?;
    let digest = Digest::sha256(&contents.index);
    if let Some(found) = pusher.tagged().await?
        && found != digest.to_string()
        && !replace
    {
        return Err(PushError::Tagged { image: to.to_string(), found });
    }
    for manifest in &contents.manifests {
        for blob in &manifest.blobs {
            pusher.blob(blob).await?;
        }
        let by_digest = to.with_digest(Digest::sha256(&manifest.bytes));
        let pusher = Pusher::new(&by_digest, options)?;
        pusher.authorize().await?;
        pusher.manifest(&manifest.bytes, OCI_IMAGE_MEDIA_TYPE).await?;
        if let Some((image, index)) = &manifest.referrers {
            let tag = to.with_tag(&image.to_string().replace(':', "-"))?;
            let pusher = Pusher::new(&tag, options)?;
            pusher.authorize().await?;
            pusher.manifest(index, OCI_IMAGE_INDEX_MEDIA_TYPE).await?;
        }
    }
    pusher.manifest(&contents.index, OCI_IMAGE_INDEX_MEDIA_TYPE).await
}

struct Pusher<'a> {
    client: Client,
    auth: RegistryAuth,
    to: &'a ImageRef,
    reference: Reference,
}

impl<'a> Pusher<'a> {
    fn new(to: &'a ImageRef, options: &PushOptions) -> Result<Self, PushError> {
        let auth = match &options.credential {
            None => RegistryAuth::Anonymous,
            Some(Credential::Basic { username, password }) => {
                RegistryAuth::Basic(username.clone(), password.expose().to_owned())
            }
            Some(Credential::RegistryToken(token)) => {
                RegistryAuth::Bearer(token.expose().to_owned())
            }
            Some(Credential::IdentityToken(_)) => return Err(PushError::Credential),
        };
        let config = ClientConfig {
            protocol: if options.plain_http { ClientProtocol::Http } else { ClientProtocol::Https },
            accept_invalid_certificates: options.insecure,
            use_monolithic_push: true,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(IDLE_TIMEOUT),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config)
            .map_err(|source| PushError::Registry { image: to.to_string(), source })?;
        let (registry, repository) = (to.registry().to_owned(), to.repository().to_owned());
        let reference = match to.digest() {
            Some(digest) => Reference::with_digest(registry, repository, digest.to_string()),
            None => Reference::with_tag(registry, repository, to.version()),
        };
        Ok(Self { client, auth, to, reference })
    }

    async fn content(&self, image: &BuiltImage) -> Result<(), PushError> {
        self.authorize().await?;
        for blob in image.layers.iter().chain([&image.config]) {
            self.blob(blob).await?;
        }
        Ok(())
    }

    async fn authorize(&self) -> Result<(), PushError> {
        let operation = oci_client::RegistryOperation::Push;
        let authorized = self.client.auth(&self.reference, &self.auth, operation).await;
        authorized.map(drop).map_err(|err| self.failed(err))
    }

    /// Sends a blob, unless the registry has it.
    async fn blob(&self, blob: &[u8]) -> Result<(), PushError> {
        let digest = Digest::sha256(blob).to_string();
        let there = self.client.blob_exists(&self.reference, &digest).await;
        if !there.unwrap_or(false) {
            let pushed = self.client.push_blob(&self.reference, blob.to_vec(), &digest).await;
            pushed.map_err(|err| self.failed(err))?;
        }
        Ok(())
    }

    /// Returns the digest the tag names, if there is one.
    async fn tagged(&self) -> Result<Option<String>, PushError> {
        let found = self.client.fetch_manifest_digest(&self.reference, &self.auth).await;
        match found {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn manifest(&self, bytes: &[u8], media_type: &'static str) -> Result<Digest, PushError> {
        let digest = Digest::sha256(bytes);
        if self.to.digest().is_some_and(|wanted| *wanted != digest) {
            return Err(PushError::Digest { digest, image: self.to.to_string() });
        }
        self.client.store_auth_if_needed(self.to.registry(), &self.auth).await;
        let media_type = HeaderValue::from_static(media_type);
        let pushed =
            self.client.push_manifest_raw(&self.reference, bytes.to_vec(), media_type).await;
        pushed.map_err(|err| self.failed(err))?;
        Ok(digest)
    }

    fn failed(&self, source: OciDistributionError) -> PushError {
        PushError::Registry { image: self.to.to_string(), source }
    }
}

/// Says whether an error means that there is nothing under a tag.
fn is_absent(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::ImageManifestNotFoundError(_) => true,
        OciDistributionError::ServerError { code, .. } => *code == 404,
        OciDistributionError::RegistryError { envelope, .. } => {
            envelope.errors.iter().any(|error| {
                matches!(error.code, OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown)
            })
        }
        _ => false,
    }
}
