//! An image on disk: the folder that the OCI image layout describes, and an archive of it.
//!
//! In: an index of images, and documents that refer to them. Out: blobs by digest, and `index.json`
//! that names the index first and then what refers to it. The same input gives the same bytes.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::built::{BuiltImage, BuiltIndex, Format, descriptor};
use crate::digest::Digest;
use crate::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, Platform};

/// File that says that a folder is a layout.
const MARKER: &str = "oci-layout";
const INDEX: &str = "index.json";
const BLOBS: &str = "blobs";
/// Annotation with the tag of an entry of `index.json`.
const NAME: &str = "org.opencontainers.image.ref.name";
/// Media type of a configuration that says nothing.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// A file that cannot be read or written, or holds something else than it should.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct LayoutError {
    path: PathBuf,
    reason: String,
}

impl LayoutError {
    /// Returns what makes the error out of its reason.
    fn at<R: Display>(path: &Path) -> impl Fn(R) -> Self {
        move |reason| Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

#[derive(Debug)]
pub struct Layout {
    folder: PathBuf,
    /// Entries of `index.json`.
    entries: Vec<Value>,
}

/// A manifest of a layout for a push.
pub(crate) struct ManifestContent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) blobs: Vec<Vec<u8>>,
    /// For what refers to an image: its digest, and an index that lists what refers to it.
    pub(crate) referrers: Option<(Digest, Vec<u8>)>,
}

impl Layout {
    /// Makes an empty layout in place of an earlier one. Other files of the folder stay; a folder that
    /// has files and is not a layout is refused.
    pub fn create(folder: &Path) -> Result<Self, LayoutError> {
        let is_empty = folder.read_dir().map_or(true, |mut files| files.next().is_none());
        if !is_empty && !folder.join(MARKER).is_file() {
            let reason = "is not empty and is not an OCI layout: name another directory";
            return Err(LayoutError::at(folder)(reason));
        }
        let removed = [
            (folder.join(BLOBS), fs::remove_dir_all(folder.join(BLOBS))),
            (folder.join(INDEX), fs::remove_file(folder.join(INDEX))),
        ];
        for (path, result) in removed {
            if let Err(source) = result
                && source.kind() != io::ErrorKind::NotFound
            {
                return Err(LayoutError::at(&path)(source));
            }
        }
        let mut layout = Self { folder: folder.to_owned(), entries: Vec::new() };
        layout.write(MARKER, json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes())?;
        layout.list(None)?;
        Ok(layout)
    }

    pub fn open(folder: &Path) -> Result<Self, LayoutError> {
        let path = folder.join(INDEX);
        let index = parsed(&path, &read(&path)?)?;
        let entries = index["manifests"].as_array().cloned().unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), entries })
    }

    /// Adds an index and its images under a tag.
    pub fn add(&mut self, index: &BuiltIndex, tag: &str) -> Result<(), LayoutError> {
        for image in &index.images {
            for blob in image.layers.iter().chain([&image.config, &image.manifest]) {
                self.blob(blob)?;
            }
        }
        self.blob(&index.manifest)?;
        let mut entry = descriptor(index.media_type, &index.manifest);
        entry["annotations"] = json!({ NAME: tag });
        self.list(Some(entry))
    }

    /// Adds a document about an image, which registries list as its referrer.
    pub fn refer(
        &mut self,
        image: &BuiltImage,
        artifact_type: &str,
        document: &[u8],
    ) -> Result<(), LayoutError> {
        let empty = b"{}";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_MEDIA_TYPE,
            "artifactType": artifact_type,
            "config": descriptor(EMPTY, empty),
            "layers": [descriptor(artifact_type, document)],
            "subject": descriptor(image.manifest_type(), &image.manifest),
        });
        let manifest = manifest.to_string().into_bytes();
        for blob in [empty.as_slice(), document, &manifest] {
            self.blob(blob)?;
        }
        let mut entry = descriptor(OCI_IMAGE_MEDIA_TYPE, &manifest);
        entry["artifactType"] = json!(artifact_type);
        self.list(Some(entry))
    }

    /// Writes everything into one tar archive, times being `seconds` since 1970.
    pub fn archive(&self, file: &Path, seconds: u64) -> Result<(), LayoutError> {
        let failed = LayoutError::at(file);
        let mut paths = vec![PathBuf::from(INDEX), PathBuf::from(MARKER)];
        let blobs = self.folder.join(BLOBS).join("sha256");
        let names = fs::read_dir(&blobs).map_err(LayoutError::at(&blobs))?;
        for name in names {
            let name = name.map_err(&failed)?.file_name();
            paths.push(Path::new("blobs/sha256").join(name));
        }
        paths.sort();
        let mut builder = tar::Builder::new(fs::File::create(file).map_err(&failed)?);
        for path in paths {
            let content = read(&self.folder.join(&path))?;
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_mtime(seconds);
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, &path, content.as_slice()).map_err(&failed)?;
        }
        builder.into_inner().map(drop).map_err(failed)
    }

    pub fn digest(&self) -> Result<Digest, LayoutError> {
        Ok(Digest::sha256(&self.index()?.1))
    }

    /// Returns the images of the index with their platforms.
    pub fn images(&self) -> Result<Vec<BuiltImage>, LayoutError> {
        let (path, index) = self.index()?;
        let index = parsed(&path, &index)?;
        let entries = index["manifests"].as_array().cloned().unwrap_or_default();
        let image = |entry: &Value| {
            let platform = serde_json::from_value(entry["platform"].clone());
            let platform = platform.map_err(LayoutError::at(&path))?;
            let manifest = self.entry(entry)?;
            let mut blobs = self.blobs(&manifest)?;
            let config = blobs.remove(0);
            Ok(BuiltImage { manifest, config, layers: blobs, platform, format: Format::Oci })
        };
        entries.iter().map(image).collect()
    }

    /// Returns the layers of the image for a platform as tar archives, the lowest first.
    pub fn layers(&self, platform: &Platform) -> Result<Vec<Vec<u8>>, LayoutError> {
        let image = self.images()?.into_iter().find(|image| image.platform == *platform);
        let none = format!("no image for {}/{}", platform.os, platform.architecture);
        let image = image.ok_or_else(|| LayoutError::at(&self.folder)(none))?;
        let open = |layer: Vec<u8>| {
            let mut tar = Vec::new();
            let read = GzDecoder::new(layer.as_slice()).read_to_end(&mut tar);
            read.map_err(LayoutError::at(&self.folder))?;
            Ok(tar)
        };
        image.layers.into_iter().map(open).collect()
    }

    /// Returns images, then what refers to them, and the index that gets the tag.
    pub(crate) fn contents(&self) -> Result<(Vec<ManifestContent>, Vec<u8>), LayoutError> {
        let mut manifests: Vec<_> =
            self.images()?.into_iter().map(|image| image.manifest).collect();
        for entry in self.entries.iter().skip(1) {
            manifests.push(self.entry(entry)?);
        }
        let content = |bytes: Vec<u8>| {
            Ok(ManifestContent {
                blobs: self.blobs(&bytes)?,
                referrers: self.referrers(&bytes)?,
                bytes,
            })
        };
        Ok((manifests.into_iter().map(content).collect::<Result<_, _>>()?, self.index()?.1))
    }

    /// Returns the image that a manifest refers to, and an index of that manifest, which registries
    /// without a list of referrers have under a tag made of the image's digest.
    fn referrers(&self, manifest: &[u8]) -> Result<Option<(Digest, Vec<u8>)>, LayoutError> {
        let content = parsed(&self.folder, manifest)?;
        let Some(subject) = content["subject"]["digest"].as_str() else { return Ok(None) };
        let subject = subject.parse().map_err(LayoutError::at(&self.folder))?;
        let mut entry = descriptor(OCI_IMAGE_MEDIA_TYPE, manifest);
        entry["artifactType"] = content["artifactType"].clone();
        let index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE,
            "manifests": [entry],
        });
        Ok(Some((subject, index.to_string().into_bytes())))
    }

    /// Returns the index that has the tag, and its file.
    fn index(&self) -> Result<(PathBuf, Vec<u8>), LayoutError> {
        let path = self.folder.join(INDEX);
        let first = self.entries.first();
        let first = first.filter(|entry| entry["mediaType"] == OCI_IMAGE_INDEX_MEDIA_TYPE);
        let first = first.ok_or_else(|| LayoutError::at(&path)("it names no image index"))?;
        Ok((path, self.entry(first)?))
    }

    /// Returns the blobs of a manifest: its configuration, then its layers.
    fn blobs(&self, manifest: &[u8]) -> Result<Vec<Vec<u8>>, LayoutError> {
        let manifest = parsed(&self.folder, manifest)?;
        let layers = manifest["layers"].as_array().into_iter().flatten();
        std::iter::once(&manifest["config"]).chain(layers).map(|entry| self.entry(entry)).collect()
    }

    /// Reads the blob an entry names, and checks it.
    fn entry(&self, entry: &Value) -> Result<Vec<u8>, LayoutError> {
        let digest = entry["digest"].as_str().unwrap_or_default();
        let digest: Digest = digest.parse().map_err(LayoutError::at(&self.folder))?;
        let path = self.folder.join(BLOBS).join("sha256").join(digest.hex());
        let content = read(&path)?;
        if Digest::sha256(&content) != digest {
            return Err(LayoutError::at(&path)("its digest is not its name"));
        }
        Ok(content)
    }

    fn blob(&self, content: &[u8]) -> Result<(), LayoutError> {
        self.write(&format!("blobs/sha256/{}", Digest::sha256(content).hex()), content)
    }

    /// Writes `index.json` anew, with one more entry.
    fn list(&mut self, entry: Option<Value>) -> Result<(), LayoutError> {
        self.entries.extend(entry);
        let index = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE,
            "manifests": self.entries,
        });
        self.write(INDEX, index.to_string().as_bytes())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), LayoutError> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(LayoutError::at(folder))?;
        fs::write(&path, content).map_err(LayoutError::at(&path))
    }
}

/// Parses a document; `path` is only named in errors.
fn parsed(path: &Path, document: &[u8]) -> Result<Value, LayoutError> {
    serde_json::from_slice(document).map_err(LayoutError::at(path))
}

fn read(path: &Path) -> Result<Vec<u8>, LayoutError> {
    fs::read(path).map_err(LayoutError::at(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::built::ImageBuilder;

    fn index() -> BuiltIndex {
        let image = |name: &str| {
            let files = [("bin/program", name.as_bytes())];
            let builder = ImageBuilder::new().platform(Platform::linux(name));
            builder.layer(files).unwrap().build().unwrap()
        };
        let annotations = BTreeMap::from([("a", "b".to_owned())]);
        BuiltIndex::new(vec![image("amd64"), image("arm64")], &annotations)
    }

    fn written(folder: &Path) -> (Layout, Vec<u8>) {
        let mut layout = Layout::create(&folder.join("layout")).unwrap();
        let index = index();
        layout.add(&index, "v1").unwrap();
        let archive = folder.join("archive.tar");
        layout.archive(&archive, 7).unwrap();
        layout.refer(&index.images[0], "text/plain", b"about it").unwrap();
        (layout, fs::read(archive).unwrap())
    }

    #[test]
    fn only_a_layout_is_replaced_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (source, layout) = (folder.path().join("catalog.yaml"), folder.path());
        fs::write(&source, "schema: olm.package").unwrap();
        let error = Layout::create(layout).unwrap_err().to_string();
        assert!(error.ends_with("is not an OCI layout: name another directory"), "{error}");
        assert!(source.exists());
        fs::write(layout.join(MARKER), "{}").unwrap();
        Layout::create(layout).unwrap().add(&index(), "v1").unwrap();
        Layout::create(layout).unwrap();
        assert_eq!(Layout::open(layout).unwrap().entries, Vec::<Value>::new());
        assert!(source.exists());
    }

    // deploying.md P1, P5
    #[test]
    fn what_is_written_is_read_and_always_the_same() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (layout, archive) = written(here.path());
        assert_eq!(archive, written(there.path()).1);
        let read = Layout::open(&here.path().join("layout")).unwrap();
        let digests = |layout: &Layout| {
            let images = layout.images().unwrap();
            images.iter().map(BuiltImage::digest).collect::<Vec<_>>()
        };
        assert_eq!(digests(&read), digests(&layout));
        assert_eq!(read.digest().unwrap(), index().digest());
        let (manifests, tagged) = read.contents().unwrap();
        assert_eq!(Digest::sha256(&tagged), index().digest());
        assert_eq!(manifests.len(), 3);
        assert_eq!(manifests[2].blobs[1], b"about it");
        let (subject, _) = manifests[2].referrers.as_ref().unwrap();
        assert_eq!(*subject, index().images[0].digest());
        assert_eq!(read.layers(&Platform::linux("arm64")).unwrap().len(), 1);
        assert!(read.layers(&Platform::linux("s390x")).is_err());
    }

    #[test]
    fn a_damaged_blob_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (layout, _) = written(folder.path());
        let digest = index().images[1].digest();
        let path = folder.path().join("layout/blobs/sha256").join(digest.hex());
        fs::write(&path, "rubbish").unwrap();
        let error = layout.images().unwrap_err().to_string();
        assert!(error.contains(digest.hex()), "{error}");
    }
}
