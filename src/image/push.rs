//! Builds small images and pushes them, for the demo, for tests and for our own release.
//!
//! Same input, same bytes: times, owners and order are fixed. Pushing is done by `oci-client`.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE,
    IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::auth::Credential;
use crate::digest::Digest;
use crate::limits::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::manifest::Platform;
use crate::reference::ImageRef;

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip, the most common.
    #[default]
    Gzip,
    /// zstd, faster than gzip.
    Zstd,
}

/// Which media types an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// OCI image 1.1.
    #[default]
    Oci,
    /// Docker, version 2 schema 2. It has no zstd layers.
    Docker,
}

/// Builder of an image.
#[derive(Debug, Clone, Default)]
pub struct ImageBuilder {
    labels: BTreeMap<String, String>,
    runtime: serde_json::Map<String, Value>,
    platform: Option<Platform>,
    format: Format,
    layers: Vec<(Vec<u8>, Compression)>,
}

/// An image in memory, ready to be pushed.
#[derive(Debug, Clone)]
pub struct BuiltImage {
    /// The manifest as JSON.
    pub manifest: Vec<u8>,
    /// The image configuration as JSON.
    pub config: Vec<u8>,
    /// Compressed layers.
    pub layers: Vec<Vec<u8>>,
    /// Platform of the image.
    pub platform: Platform,
    format: Format,
}

impl BuiltImage {
    /// Returns the digest of the manifest.
    pub fn digest(&self) -> Digest {
        Digest::sha256(&self.manifest)
    }

    fn manifest_type(&self) -> &'static str {
        match self.format {
            Format::Oci => OCI_IMAGE_MEDIA_TYPE,
            Format::Docker => IMAGE_MANIFEST_MEDIA_TYPE,
        }
    }
}

impl ImageBuilder {
    /// Starts with an image for `linux/amd64` without layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label to the configuration.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets a member of the configuration's `config`, such as `Entrypoint` or `User`.
    #[must_use]
    pub fn runtime(mut self, key: impl Into<String>, value: Value) -> Self {
        self.runtime.insert(key.into(), value);
        self
    }

    /// Sets the platform of the image.
    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Sets which media types are used.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Adds a layer of files by their path in the image, gzip-compressed. Their directories get
    /// entries of their own.
    pub fn layer<'f>(
        self,
        files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
    ) -> io::Result<Self> {
        let tar = tar_of(files)?;
        Ok(self.tar(tar, Compression::Gzip))
    }

    /// Adds a layer from the bytes of a tar archive, unchecked.
    #[must_use]
    pub fn tar(mut self, tar: Vec<u8>, compression: Compression) -> Self {
        self.layers.push((tar, compression));
        self
    }

    /// Builds the image in memory.
    pub fn build(self) -> io::Result<BuiltImage> {
        let platform = self.platform.unwrap_or_else(|| Platform::linux("amd64"));
        let (mut layers, mut descriptors, mut diff_ids) = (Vec::new(), Vec::new(), Vec::new());
        for (tar, compression) in self.layers {
            diff_ids.push(Digest::sha256(&tar).to_string());
            let blob = compress(tar, compression)?;
            descriptors.push(descriptor(layer_type(self.format, compression), &blob));
            layers.push(blob);
        }
        let mut runtime = self.runtime;
        runtime.insert("Labels".into(), json!(self.labels));
        let config = json!({
            "architecture": platform.architecture,
            "os": platform.os,
            "config": runtime,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = config.to_string().into_bytes();
        let (manifest_type, config_type) = match self.format {
            Format::Oci => (OCI_IMAGE_MEDIA_TYPE, IMAGE_CONFIG_MEDIA_TYPE),
            Format::Docker => (IMAGE_MANIFEST_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE),
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": descriptor(config_type, &config),
            "layers": descriptors,
        });
        Ok(BuiltImage {
            manifest: manifest.to_string().into_bytes(),
            config,
            layers,
            platform,
            format: self.format,
        })
    }
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": Digest::sha256(content).to_string(),
        "size": content.len(),
    })
}

fn layer_type(format: Format, compression: Compression) -> &'static str {
    match (format, compression) {
        (Format::Oci, Compression::None) => IMAGE_LAYER_MEDIA_TYPE,
        (Format::Oci, Compression::Gzip) => IMAGE_LAYER_GZIP_MEDIA_TYPE,
        (_, Compression::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
        (Format::Docker, Compression::None) => IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE,
        (Format::Docker, Compression::Gzip) => IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE,
    }
}

/// Makes a tar archive of files, with entries for their directories.
pub fn tar_of<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> io::Result<Vec<u8>> {
    // A directory has no content and a trailing slash, which puts it before its files.
    let mut entries: BTreeMap<String, Option<&[u8]>> = BTreeMap::new();
    for (path, content) in files {
        for (slash, _) in path.match_indices('/') {
            entries.insert(path[..=slash].to_owned(), None);
        }
        entries.insert(path.to_owned(), Some(content));
    }
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_mode(if content.is_some() { 0o644 } else { 0o755 });
        header.set_entry_type(match content {
            Some(_) => tar::EntryType::Regular,
            None => tar::EntryType::Directory,
        });
        let content = content.unwrap_or_default();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, &path, content)?;
    }
    builder.into_inner()
}

fn compress(tar: Vec<u8>, compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(tar),
        Compression::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(&tar)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::encode_all(tar.as_slice(), 0),
    }
}

/// Options for the connection to a registry for a push.
#[derive(Debug, Clone, Default)]
pub struct PushOptions {
    /// Whether to use plain HTTP.
    pub plain_http: bool,
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
    let pusher = Pusher::new(to, options)?;
    pusher.content(image).await?;
    pusher
        .manifest(&image.manifest, image.manifest_type())
        .await
}

/// Pushes images and an index of them, and returns the digest of the index.
pub async fn push_index(
    images: &[BuiltImage],
    to: &ImageRef,
    options: &PushOptions,
) -> Result<Digest, PushError> {
    let mut entries = Vec::new();
    for image in images {
        let by_digest = to.with_digest(image.digest());
        push(image, &by_digest, options).await?;
        let mut entry = descriptor(image.manifest_type(), &image.manifest);
        let mut platform = json!({
            "os": image.platform.os,
            "architecture": image.platform.architecture,
        });
        if let Some(variant) = &image.platform.variant {
            platform["variant"] = json!(variant);
        }
        entry["platform"] = platform;
        entries.push(entry);
    }
    let docker = images.iter().any(|image| image.format == Format::Docker);
    let media_type = if docker {
        IMAGE_MANIFEST_LIST_MEDIA_TYPE
    } else {
        OCI_IMAGE_INDEX_MEDIA_TYPE
    };
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": entries});
    let pusher = Pusher::new(to, options)?;
    pusher
        .manifest(index.to_string().as_bytes(), media_type)
        .await
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
            protocol: if options.plain_http {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            use_monolithic_push: true,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(IDLE_TIMEOUT),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|source| PushError::Registry {
            image: to.to_string(),
            source,
        })?;
        let (registry, repository) = (to.registry().to_owned(), to.repository().to_owned());
        let reference = match to.digest() {
            Some(digest) => Reference::with_digest(registry, repository, digest.to_string()),
            None => Reference::with_tag(registry, repository, to.version()),
        };
        Ok(Self {
            client,
            auth,
            to,
            reference,
        })
    }

    async fn content(&self, image: &BuiltImage) -> Result<(), PushError> {
        let operation = oci_client::RegistryOperation::Push;
        let authorized = self
            .client
            .auth(&self.reference, &self.auth, operation)
            .await;
        authorized.map_err(|err| self.failed(err))?;
        for blob in image.layers.iter().chain([&image.config]) {
            let digest = Digest::sha256(blob).to_string();
            let there = self.client.blob_exists(&self.reference, &digest).await;
            if !there.unwrap_or(false) {
                let pushed = self
                    .client
                    .push_blob(&self.reference, blob.clone(), &digest)
                    .await;
                pushed.map_err(|err| self.failed(err))?;
            }
        }
        Ok(())
    }

    async fn manifest(&self, bytes: &[u8], media_type: &'static str) -> Result<Digest, PushError> {
        let digest = Digest::sha256(bytes);
        if self.to.digest().is_some_and(|wanted| *wanted != digest) {
            return Err(PushError::Digest {
                digest,
                image: self.to.to_string(),
            });
        }
        self.client
            .store_auth_if_needed(self.to.registry(), &self.auth)
            .await;
        let media_type = HeaderValue::from_static(media_type);
        let pushed = self
            .client
            .push_manifest_raw(&self.reference, bytes.to_vec(), media_type)
            .await;
        pushed.map_err(|err| self.failed(err))?;
        Ok(digest)
    }

    fn failed(&self, source: OciDistributionError) -> PushError {
        PushError::Registry {
            image: self.to.to_string(),
            source,
        }
    }
}
