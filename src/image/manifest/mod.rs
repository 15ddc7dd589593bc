//! Manifests, indexes and image configurations, and the choice of a platform.
//!
//! Source: OCI image specification 1.1, catalogs.md 5.3, 5.6.

use std::collections::BTreeMap;

use olm_core::error::quote;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestError};
use crate::limits::{Limits, MAX_SIGNATURES, MAX_SIGNATURES_BYTES};
use crate::shown::shown;

pub(crate) const OCI_IMAGE_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_IMAGE_INDEX_MEDIA_TYPE: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const IMAGE_CONFIG_MEDIA_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const IMAGE_MANIFEST_MEDIA_TYPE: &str =
    "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const IMAGE_MANIFEST_LIST_MEDIA_TYPE: &str =
    "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const IMAGE_DOCKER_CONFIG_MEDIA_TYPE: &str =
    "application/vnd.docker.container.image.v1+json";

/// Media types sent in the `Accept` header.
pub(crate) const ACCEPT: [&str; 4] = [
    OCI_IMAGE_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
];

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Only another reference can help: this is not an image, or its format is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// The layers are larger than allowed, or there are more.
    #[error("{0}")]
    TooLarge(String),
    /// A required member is missing, or a value is not allowed.
    #[error("{0}")]
    Invalid(String),
}

/// An operating system and processor architecture.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Platform {
    #[serde(default)]
    pub os: String,
    /// Architecture in Go's spelling, for example `amd64`.
    #[serde(default)]
    pub architecture: String,
    /// Variant of the architecture, for example `v8`; only for arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Returns Linux on `architecture`, in Go's spelling.
    pub fn linux(architecture: &str) -> Self {
        Self { os: "linux".into(), architecture: architecture.into(), variant: None }
    }

    /// Returns Linux on the processor this program was built for.
    pub fn host() -> Self {
        Self::linux(match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        })
    }
}

/// A reference to content by media type, digest and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// The parts of a manifest that are used. `urls` of descriptors are deliberately not read: content
/// comes from the registry that was requested, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manifest {
    Image { config: Descriptor, layers: Vec<Descriptor> },
    Index(Vec<IndexEntry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) descriptor: Descriptor,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: Option<i64>,
    media_type: Option<String>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    manifests: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: i64,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
}

impl RawDescriptor {
    fn checked(&self) -> Result<Descriptor, ManifestError> {
        let digest = digest(&self.digest)?;
        match u64::try_from(self.size) {
            Ok(size) => Ok(Descriptor { digest, size }),
            Err(_) => Err(ManifestError::Invalid(format!("negative size of {digest}"))),
        }
    }

    fn index_entry(&self) -> Result<IndexEntry, ManifestError> {
        let named = |it: &Platform| !it.os.is_empty() || !it.architecture.is_empty();
        let platform = self.platform.clone().filter(named);
        Ok(IndexEntry { descriptor: self.checked()?, platform })
    }
}

fn digest(text: &str) -> Result<Digest, ManifestError> {
    let invalid = |why| format!("digest {} of a descriptor: {why}", shown(text));
    text.parse().map_err(|why: DigestError| ManifestError::Invalid(invalid(why)))
}

/// Parses a manifest or index; `content_type` is only used if the document has no media type.
pub(crate) fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Manifest, ManifestError> {
    let raw = read("manifest", bytes, content_type)?;
    if raw.schema_version == Some(1) {
        // The format before 2016, whose digests cannot be trusted.
        return Err(ManifestError::Unsupported("manifest schema 1 is not supported".to_owned()));
    }
    let image_like = raw.config.is_some() || raw.layers.is_some();
    if image_like && raw.manifests.is_some() {
        // Two readers would interpret it differently.
        let text = "manifest is both an image and an image index";
        return Err(ManifestError::Invalid(text.to_owned()));
    }
    let media_type = media_type(&raw, content_type);
    if let Some(other) = media_type.filter(|it| it.contains("manifest") && !ACCEPT.contains(it)) {
        return Err(unsupported(other));
    }
    if let Some(entries) = &raw.manifests {
        let entries = entries.iter().map(RawDescriptor::index_entry);
        return entries.collect::<Result<_, _>>().map(Manifest::Index);
    }
    let Some(config) = &raw.config else {
        return Err(unsupported(media_type.unwrap_or_default()));
    };
    let known = [IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE];
    // Old tools and registries wrote `application/octet-stream` and others into docker's manifests.
    let is_any = media_type == Some(IMAGE_MANIFEST_MEDIA_TYPE);
    if !is_any && !known.contains(&config.media_type.as_str()) {
        let other = shown(&config.media_type);
        let text = format!("not a container image: configuration has media type {other}");
        return Err(ManifestError::Unsupported(text));
    }
    let layers = raw.layers.iter().flatten().map(RawDescriptor::checked);
    Ok(Manifest::Image { config: config.checked()?, layers: layers.collect::<Result<_, _>>()? })
}

/// Reads a manifest. What does not even look like one is a fault of the registry or of a proxy before
/// it, which may answer otherwise the next time.
fn read(
    what: &'static str,
    bytes: &[u8],
    content_type: Option<&str>,
) -> Result<RawManifest, ManifestError> {
    let other = || {
        let type_ = shown(content_type.unwrap_or_default());
        ManifestError::Invalid(format!("the answer is not a {what}, its content type is {type_}"))
    };
    let raw: RawManifest = json(what, bytes).map_err(|error| match content_type {
        Some(type_) if !type_.contains("json") => other(),
        _ => error,
    })?;
    let is_one = raw.schema_version.is_some()
        || raw.media_type.is_some()
        || raw.config.is_some()
        || raw.manifests.is_some();
    if is_one { Ok(raw) } else { Err(other()) }
}

/// Returns the media type of a document, else of its answer, to which some registries add a character
/// set.
fn media_type<'a>(raw: &'a RawManifest, content_type: Option<&'a str>) -> Option<&'a str> {
    let content_type = content_type.and_then(|it| it.split(';').next()).map(str::trim);
    raw.media_type.as_deref().or(content_type)
}

fn unsupported(media_type: &str) -> ManifestError {
    let media_type = shown(media_type);
    ManifestError::Unsupported(format!("unsupported manifest media type {media_type}"))
}

type Annotated = (Descriptor, BTreeMap<String, String>);

/// Returns the layers of one media type in a manifest of what is attached to an image, with what is
/// annotated to each.
pub(crate) fn attached(
    bytes: &[u8],
    content_type: Option<&str>,
    wanted: &str,
) -> Result<Vec<Annotated>, ManifestError> {
    let raw = read("manifest of signatures", bytes, content_type)?;
    let media_type = media_type(&raw, content_type).unwrap_or_default();
    if media_type != OCI_IMAGE_MEDIA_TYPE {
        return Err(unsupported(media_type));
    }
    let layers = raw.layers.into_iter().flatten().filter(|layer| layer.media_type == wanted);
    let read = |layer: RawDescriptor| -> Result<_, ManifestError> {
        Ok((layer.checked()?, layer.annotations.unwrap_or_default()))
    };
    let found = layers.map(read).collect::<Result<Vec<_>, _>>()?;
    let bytes = found.iter().fold(0_u64, |sum, (blob, _)| sum.saturating_add(blob.size));
    if found.len() > MAX_SIGNATURES || bytes > MAX_SIGNATURES_BYTES {
        return Err(ManifestError::Invalid(format!(
            "image has more than {MAX_SIGNATURES} signatures, or more than {MAX_SIGNATURES_BYTES} bytes \
             of them"
        )));
    }
    Ok(found)
}

/// Returns the entries of an index that will do for `platform`, the best first, and whether each really
/// matches.
///
/// Entries without a platform come after those that match. Catalogs and bundles are data, so if
/// nothing matches, or the registry lacks it, any Linux entry will do (catalogs.md 5.3).
pub(crate) fn by_fitness<'e>(
    entries: &'e [IndexEntry],
    platform: &Platform,
) -> Vec<(&'e IndexEntry, bool)> {
    let rank = |entry: &IndexEntry| match &entry.platform {
        Some(it) if it.os == platform.os && it.architecture == platform.architecture => Some(0),
        None => Some(1),
        Some(it) if it.os == "linux" => Some(2),
        Some(_) => None,
    };
    let mut found: Vec<_> =
        entries.iter().filter_map(|entry| Some((entry, rank(entry)?))).collect();
    found.sort_by_key(|(_, rank)| *rank);
    found.into_iter().map(|(entry, rank)| (entry, rank < 2)).collect()
}

/// Returns the error where no entry of an index will do for a platform.
pub(crate) fn unsuited(platform: &Platform) -> ManifestError {
    let Platform { os, architecture, variant } = platform;
    ManifestError::Invalid(format!(
        "no image found in image index for architecture {}, variant {}, OS {}",
        quote(architecture),
        quote(variant.as_deref().unwrap_or_default()),
        quote(os)
    ))
}

/// Checks layers against the limits before any of them is downloaded.
pub(crate) fn check_layers(layers: &[Descriptor], limits: &Limits) -> Result<(), ManifestError> {
    let refused = |text| Err(ManifestError::TooLarge(text));
    if layers.len() > limits.layers {
        return refused(format!("image has more than {} layers", limits.layers));
    }
    let limit = limits.compressed_layer;
    if let Some(index) = layers.iter().position(|layer| layer.size > limit) {
        let (layer, bytes) = (index + 1, layers[index].size);
        return refused(format!("layer {layer} is {bytes} bytes, more than {limit}"));
    }
    let total = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    let limit = limits.compressed_image;
    if total > limit {
        let text = format!("the layers of the image are {total} bytes together, more than {limit}");
        return refused(text);
    }
    Ok(())
}

/// The parts of an image configuration that are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageConfig {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct RawConfig {
    config: Option<RawRuntime>,
    rootfs: Option<RawRootFs>,
}

#[derive(Deserialize)]
struct RawRuntime {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize)]
struct RawRootFs {
    diff_ids: Option<Vec<String>>,
}

/// Parses an image configuration and checks that it describes `layers` layers.
pub(crate) fn parse_config(bytes: &[u8], layers: usize) -> Result<ImageConfig, ManifestError> {
    let raw: RawConfig = json("image configuration", bytes)?;
    let labels = raw.config.and_then(|config| config.labels).unwrap_or_default();
    let ids = raw.rootfs.and_then(|rootfs| rootfs.diff_ids).unwrap_or_default();
    if ids.len() != layers {
        let text = format!("image configuration lists {} layers, the manifest {layers}", ids.len());
        return Err(ManifestError::Invalid(text));
    }
    Ok(ImageConfig {
        labels: labels.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect(),
        diff_ids: ids.iter().map(|id| digest(id)).collect::<Result<_, _>>()?,
    })
}

fn json<'de, T: Deserialize<'de>>(
    what: &'static str,
    bytes: &'de [u8],
) -> Result<T, ManifestError> {
    // The error text of the crate may quote the document.
    serde_json::from_slice(bytes).map_err(|err| {
        let (line, column) = (err.line(), err.column());
        ManifestError::Invalid(format!("invalid {what}: line {line} column {column}"))
    })
}

#[cfg(test)]
mod tests;
