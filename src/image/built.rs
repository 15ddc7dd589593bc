//! Builds small images in memory, for the demo, for tests and for our own release.
//!
//! Same input, same bytes: times, owners and order are fixed.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, Platform,
};

/// The compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
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

#[derive(Debug, Clone, Default)]
pub struct ImageBuilder {
    labels: BTreeMap<String, String>,
    runtime: serde_json::Map<String, Value>,
    platform: Option<Platform>,
    created: Option<Timestamp>,
    format: Format,
    layers: Vec<(Vec<u8>, Compression)>,
}

/// An image in memory, ready to be pushed.
#[derive(Debug, Clone)]
pub struct BuiltImage {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub layers: Vec<Vec<u8>>,
    pub platform: Platform,
    pub(crate) format: Format,
}

/// Several images under one name.
#[derive(Debug, Clone)]
pub struct BuiltIndex {
    pub manifest: Vec<u8>,
    pub images: Vec<BuiltImage>,
    pub(crate) media_type: &'static str,
}

impl BuiltIndex {
    /// Makes an index of images with annotations; with an image of Docker's format it is of that format
    /// too.
    pub fn new(images: Vec<BuiltImage>, annotations: &BTreeMap<&str, String>) -> Self {
        let is_docker = images.iter().any(|image| image.format == Format::Docker);
        let media_type =
            if is_docker { IMAGE_MANIFEST_LIST_MEDIA_TYPE } else { OCI_IMAGE_INDEX_MEDIA_TYPE };
        let mut index = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "manifests": images.iter().map(BuiltImage::entry).collect::<Vec<_>>(),
        });
        if !annotations.is_empty() {
            index["annotations"] = json!(annotations);
        }
        Self { manifest: index.to_string().into_bytes(), images, media_type }
    }

    pub fn digest(&self) -> Digest {
        Digest::sha256(&self.manifest)
    }
}

impl BuiltImage {
    pub fn digest(&self) -> Digest {
        Digest::sha256(&self.manifest)
    }

    pub fn config_json(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.config)
    }

    pub(crate) fn manifest_type(&self) -> &'static str {
        match self.format {
            Format::Oci => OCI_IMAGE_MEDIA_TYPE,
            Format::Docker => IMAGE_MANIFEST_MEDIA_TYPE,
        }
    }

    /// Returns the entry of an index for this image.
    fn entry(&self) -> Value {
        let mut entry = descriptor(self.manifest_type(), &self.manifest);
        entry["platform"] = json!(self.platform);
        entry
    }
}

impl ImageBuilder {
    /// Starts with an image for `linux/amd64` without layers.
    pub fn new() -> Self {
        Self::default()
    }

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

    #[must_use]
    pub fn platform(mut self, platform: Platform) -> Self {
        self.platform = Some(platform);
        self
    }

    #[must_use]
    pub fn created(mut self, time: Timestamp) -> Self {
        self.created = Some(time);
        self
    }

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
        let mut config = json!({
            "architecture": platform.architecture,
            "os": platform.os,
            "config": runtime,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        if let Some(created) = self.created {
            config["created"] = json!(created.to_string());
        }
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

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": Digest::sha256(content).to_string(),
        "size": content.len(),
    })
}

fn layer_type(format: Format, compression: Compression) -> &'static str {
    match (format, compression) {
        (Format::Oci, Compression::None) => "application/vnd.oci.image.layer.v1.tar",
        (Format::Oci, Compression::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
        (_, Compression::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
        (Format::Docker, Compression::None) => "application/vnd.docker.image.rootfs.diff.tar",
        (Format::Docker, Compression::Gzip) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
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
