//! Bundle images: the files below `manifests/` and `metadata/`, and a cache of them on disk.
//!
//! The cache has one directory for each owner (an extension), and in it one file for each digest. A
//! cache file holds all files of the bundle: a path of an image never becomes a path of the
//! machine. The file is created by a rename and contains the hash of its content, so it is either
//! complete or absent.
//!
//! Source: catalogs.md 5.1, D2.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use olm_core::error::without_path;
use serde::{Deserialize, Serialize};

use crate::digest::{Algorithm, Digest, Hasher};
use crate::folder::{self, present};
use crate::limits::MAX_BUNDLE_BYTES;
use crate::pull::{PullError, Puller};
use crate::reference::ImageRef;
use crate::room::Room;

/// Directories of a bundle image that are read.
pub const BUNDLE_DIRECTORIES: [&str; 2] = ["manifests", "metadata"];

/// Prefix of files that are still being written.
const UNFINISHED: &str = ".unfinished-";

/// The files of a bundle by their path in the image, for example `manifests/csv.yaml`.
pub type BundleFiles = BTreeMap<String, Vec<u8>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleImage {
    pub image: ImageRef,
    /// Files of the image below [`BUNDLE_DIRECTORIES`].
    pub files: BundleFiles,
}

/// Pulls the files of a bundle, within the limits for bundles.
///
/// With a cache and an owner, a cached digest is not pulled again, unless the policy demands other
/// signatures of it now than when it was pulled.
pub async fn pull_bundle(
    puller: &Puller,
    image: &ImageRef,
    cache: Option<(&BundleCache, &str)>,
) -> Result<BundleImage, PullError> {
    let resolved = puller.resolve(image).await?;
    let place = cache.map(|(cache, owner)| {
        let path = cache.file(owner, resolved.digest())?;
        Ok((path, cache.room.clone()))
    });
    let place = place.transpose().map_err(PullError::Store)?;
    let demanded = resolved.demanded();
    if let Some((path, _)) = place.clone()
        && let Some((files, satisfied)) = blocking(move || Ok(read(&path))).await?
        && (demanded.is_none() || demanded == satisfied)
    {
        return Ok(BundleImage { image: resolved.image().clone(), files });
    }
    let wanted = BUNDLE_DIRECTORIES.map(str::to_owned);
    let unpacked = puller.pull(&resolved, &wanted, &puller.config().bundle).await?;
    let files = blocking(move || {
        let files = unpacked.files.to_map()?;
        if let Some((path, room)) = place {
            write(&path, &files, demanded, &room)?;
        }
        Ok(files)
    })
    .await?;
    Ok(BundleImage { image: resolved.image().clone(), files })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, PullError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)
        .and_then(|it| it)
        .map_err(|error| PullError::Store(without_path(error)))
}

/// Cache of bundles on disk, by owner and digest. Its calls block briefly.
#[derive(Debug, Clone)]
pub struct BundleCache {
    base: PathBuf,
    room: Room,
}

impl BundleCache {
    /// Uses the directory `base`, which is created if absent; unfinished files of a killed process
    /// are removed.
    pub fn open(base: impl Into<PathBuf>) -> io::Result<Self> {
        let cache = Self { base: base.into(), room: Room::default() };
        fs::create_dir_all(&cache.base)?;
        for owner in cache.owners()? {
            for file in names(&owner)? {
                if file.starts_with(UNFINISHED) {
                    fs::remove_file(owner.join(file))?;
                }
            }
        }
        Ok(cache)
    }

    /// Has what is stored take its room here.
    #[must_use]
    pub fn within(self, room: Room) -> Self {
        Self { room, ..self }
    }

    /// Returns the bundle if it is cached and complete.
    pub fn load(&self, owner: &str, digest: &Digest) -> io::Result<Option<BundleFiles>> {
        Ok(read(&self.file(owner, digest)?).map(|(files, _)| files))
    }

    /// Returns the size of a cached bundle on disk in bytes; 0 if it is not cached.
    pub fn bytes(&self, owner: &str, digest: &Digest) -> u64 {
        let metadata = self.file(owner, digest).and_then(fs::metadata);
        metadata.map_or(0, |metadata| metadata.len())
    }

    pub fn store(&self, owner: &str, digest: &Digest, files: &BundleFiles) -> io::Result<()> {
        write(&self.file(owner, digest)?, files, None, &self.room)
    }

    pub fn retain(&self, owner: &str, keep: &[Digest]) -> io::Result<()> {
        let keep: Vec<String> = keep.iter().map(file_name).collect();
        let directory = self.owner(owner)?;
        for file in names(&directory)? {
            if !keep.contains(&file) && !file.starts_with(UNFINISHED) {
                present(fs::remove_file(directory.join(file)))?;
            }
        }
        Ok(())
    }

    pub fn remove_owner(&self, owner: &str) -> io::Result<()> {
        present(fs::remove_dir_all(self.owner(owner)?)).map(drop)
    }

    pub fn retain_owners(&self, keep: &BTreeSet<String>) -> io::Result<()> {
        for owner in self.owners()? {
            let name = owner.file_name().and_then(OsStr::to_str);
            if name.is_some_and(|name| !keep.contains(name)) {
                present(fs::remove_dir_all(owner))?;
            }
        }
        Ok(())
    }

    /// Returns the directories of owners. A file that is not a directory does not belong to this cache.
    fn owners(&self) -> io::Result<Vec<PathBuf>> {
        let mut owners = folder::paths(&self.base)?;
        owners.retain(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()));
        Ok(owners)
    }

    fn owner(&self, owner: &str) -> io::Result<PathBuf> {
        // An owner is the name of an object, so this only fails on an error of the caller.
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        if owner.is_empty() || owner.starts_with('.') || !owner.bytes().all(plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "owner is not an object name"));
        }
        Ok(self.base.join(owner))
    }

    fn file(&self, owner: &str, digest: &Digest) -> io::Result<PathBuf> {
        Ok(self.owner(owner)?.join(file_name(digest)))
    }
}

fn file_name(digest: &Digest) -> String {
    digest.to_string().replace(':', "-")
}

/// First line of a cached file; the contents follow it in the same order.
#[derive(Serialize, Deserialize)]
struct Head {
    sha256: String,
    files: Vec<(String, usize)>,
    /// The requirement that its signatures met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    satisfied: Option<String>,
}

/// Reads a cached file; an incomplete one, and one that is larger than a bundle may be, counts as
/// absent and is replaced by the next pull.
fn read(path: &Path) -> Option<(BundleFiles, Option<String>)> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let mut head = Vec::new();
    file.read_until(b'\n', &mut head).ok()?;
    let head: Head = serde_json::from_slice(&head).ok()?;
    let bytes = head.files.iter().try_fold(0_usize, |all, (_, len)| all.checked_add(*len))?;
    if u64::try_from(bytes).ok()? > MAX_BUNDLE_BYTES {
        return None;
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut files = BundleFiles::new();
    for (path, len) in head.files {
        let mut content = vec![0; len];
        file.read_exact(&mut content).ok()?;
        hasher.update(&content);
        files.insert(path, content);
    }
    let is_whole = file.fill_buf().ok()?.is_empty() && hasher.finish().hex() == head.sha256;
    is_whole.then_some((files, head.satisfied))
}

fn write(
    path: &Path,
    files: &BundleFiles,
    satisfied: Option<String>,
    room: &Room,
) -> io::Result<()> {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for content in files.values() {
        hasher.update(content);
    }
    let head = Head {
        sha256: hasher.finish().hex().to_owned(),
        files: files.iter().map(|(path, content)| (path.clone(), content.len())).collect(),
        satisfied,
    };
    let mut head = serde_json::to_vec(&head)?;
    head.push(b'\n');
    let _writing = room.enter_with(head.len() + files.values().map(Vec::len).sum::<usize>())?;
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory)?;
    file.write_all(&head)?;
    files.values().try_for_each(|content| file.write_all(content))?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|err| err.error)
}

/// Returns the names in a directory, empty if it is absent.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let paths = folder::paths(directory)?;
    Ok(paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> BundleFiles {
        BundleFiles::from([
            ("manifests/a\n.yaml".into(), b"one\n".to_vec()),
            ("metadata/../x".into(), vec![]),
            ("metadata/b".into(), vec![0, 255]),
        ])
    }

    #[test]
    fn bundles_survive_a_restart_and_go_with_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (Digest::sha256(b"1"), Digest::sha256(b"2"));
        let cache = BundleCache::open(dir.path().join("c")).unwrap();
        cache.store("ext", &one, &bundle()).unwrap();
        cache.store("ext", &two, &BundleFiles::new()).unwrap();
        cache.store("other", &one, &bundle()).unwrap();
        let cache = BundleCache::open(dir.path().join("c")).unwrap();
        assert_eq!(cache.load("ext", &one).unwrap(), Some(bundle()));
        assert_eq!(cache.load("ext", &two).unwrap(), Some(BundleFiles::new()));
        cache.retain("ext", std::slice::from_ref(&two)).unwrap();
        assert_eq!(cache.load("ext", &one).unwrap(), None);
        cache.remove_owner("ext").unwrap();
        cache.remove_owner("ext").unwrap();
        assert_eq!(cache.load("ext", &two).unwrap(), None);
        assert_eq!(cache.load("other", &one).unwrap(), Some(bundle()));
        cache.retain_owners(&BTreeSet::new()).unwrap();
        assert_eq!(names(&dir.path().join("c")).unwrap(), [""; 0]);
    }

    #[test]
    fn a_file_beside_the_owners_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let stray = dir.path().join("core.1234");
        fs::write(&stray, "dump").unwrap();
        let cache = BundleCache::open(dir.path()).unwrap();
        cache.store("ext", &Digest::sha256(b"1"), &bundle()).unwrap();
        cache.retain_owners(&BTreeSet::new()).unwrap();
        assert_eq!(names(dir.path()).unwrap(), ["core.1234"]);
        assert_eq!(fs::read(&stray).unwrap(), b"dump");
    }

    #[test]
    fn what_is_larger_than_a_bundle_is_not_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BundleCache::open(dir.path()).unwrap();
        let digest = Digest::sha256(b"1");
        assert_eq!(cache.bytes("ext", &digest), 0);
        let most = usize::try_from(MAX_BUNDLE_BYTES).unwrap();
        let files = |bytes| BundleFiles::from([("manifests/a".into(), vec![b'~'; bytes])]);
        cache.store("ext", &digest, &files(most)).unwrap();
        assert!(cache.bytes("ext", &digest) > MAX_BUNDLE_BYTES);
        assert!(cache.load("ext", &digest).unwrap().is_some());
        cache.store("ext", &digest, &files(most + 1)).unwrap();
        assert_eq!(cache.load("ext", &digest).unwrap(), None);
    }

    // catalogs.md D2, C7
    #[test]
    fn names_of_an_image_never_become_paths() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BundleCache::open(dir.path().join("c")).unwrap();
        cache.store("ext", &Digest::sha256(b"1"), &bundle()).unwrap();
        assert_eq!(names(dir.path()).unwrap(), ["c"]);
        assert_eq!(names(&dir.path().join("c/ext")).unwrap().len(), 1);
        for owner in ["", "..", ".x", "a/b", "A"] {
            assert!(cache.remove_owner(owner).is_err(), "{owner}");
        }
    }

    #[test]
    fn damaged_and_unfinished_files_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BundleCache::open(dir.path()).unwrap();
        let digest = Digest::sha256(b"1");
        cache.store("ext", &digest, &bundle()).unwrap();
        let path = cache.file("ext", &digest).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(cache.load("ext", &digest).unwrap(), None);
        fs::write(&path, [bytes.as_slice(), b"x"].concat()).unwrap();
        assert_eq!(cache.load("ext", &digest).unwrap(), None);
        fs::write(dir.path().join("ext").join(".unfinished-x"), "").unwrap();
        BundleCache::open(dir.path()).unwrap();
        assert_eq!(names(&dir.path().join("ext")).unwrap().len(), 1);
    }
}
