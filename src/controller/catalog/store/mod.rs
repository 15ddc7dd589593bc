//! Catalog contents on disk: one read-only file of JSON lines per catalog, and its index.
//!
//! ```text
//! <root>/tmp/                                    what is being written or removed; emptied at start
//! <root>/<sha256 of the catalog's name>/current  name of the folder that counts
//!                                      /<sha256 of the reference>/catalog.jsonl index.json
//! ```
//!
//! No name from an image or a cluster becomes a path. A folder is written in `tmp`, moved into place
//! and only then pointed at and served. Nobody waits until the disk has it; the one before it is
//! removed afterwards, so that a crash leaves either the old content or the new. Readers hold open
//! files; removing a folder never cuts them off. No lock is held while content is read, parsed or
//! written.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use flate2::CrcReader;
use jiff::Timestamp;
use kube::ResourceExt as _;
use olm_api::ClusterCatalog;
use olm_core::catalog;
use olm_core::catalog::lint::{Linter, Tally};
use olm_core::catalog::read::Meta;
use olm_image::reference::pinned;
use olm_image::{Digest, Room, present};
use tempfile::TempDir;
use tokio::sync::watch;

pub use super::disk::{Blob, StoreError};
use super::disk::{INDEX, LINES, WRITING};
use super::index::{BlobIndex, BlobRef, Record};
pub use super::index::{Origin, whole_seconds};
use super::writer::Writer;
use crate::by_key::ByKey;

mod compare;

/// Name of the file that points at the folder that counts.
const CURRENT: &str = "current";
/// Name of the folder for what is not complete.
const TEMPORARY: &str = "tmp";

/// Bytes of blobs that are handed over together, one of up to 16 MiB beyond it; and how often that is
/// done before those before them are written.
const BATCH_BYTES: usize = 1 << 18;
const READ_AHEAD: usize = 2;

/// The contents of all catalogs. Shared by reference; cheap to ask from any thread.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    room: Room,
    contents: ByKey<Arc<Content>>,
    /// Held while folders are moved, never while content is written.
    moving: Mutex<()>,
    /// How often content was placed.
    placed: watch::Sender<u64>,
}

/// The content of one catalog at one digest. Never changes.
#[derive(Debug)]
pub struct Content {
    record: Record,
    lines: File,
}

/// Content that is complete and not served yet; it goes when this is dropped.
#[derive(Debug)]
pub struct Staged {
    content: Arc<Content>,
    folder: TempDir,
}

impl Content {
    pub fn origin(&self) -> &Origin {
        &self.record.facts.origin
    }

    /// Returns the digest of the image, with its algorithm.
    pub fn digest(&self) -> &str {
        let reference = &self.record.facts.origin.reference;
        reference.rsplit_once('@').map_or(reference, |(_, digest)| digest)
    }

    pub fn stored(&self) -> Timestamp {
        self.record.facts.stored
    }

    /// Returns how many blobs were left out because they have no schema.
    pub fn dropped(&self) -> usize {
        self.record.facts.dropped
    }

    pub fn findings(&self) -> Option<&Tally> {
        self.record.facts.findings.as_ref()
    }

    pub fn index(&self) -> &BlobIndex {
        &self.record.index
    }

    /// Reads `len` bytes from `offset` on. Blocks.
    pub fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.lines.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Reads what belongs to a package, one blob after the other: those whose `package` it is, and
    /// `olm.package` blobs whose `name` it is. Blocks.
    pub fn package(&self, package: &str) -> io::Result<catalog::Content> {
        let mut parts = catalog::Parts::default();
        for blob in self.record.index.of_package(package) {
            parts.add(&self.meta(&blob)?);
        }
        Ok(parts.content())
    }

    fn meta(&self, blob: &BlobRef) -> io::Result<Meta> {
        let bytes = self.read(blob.offset, blob.len as usize)?;
        let json = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(self.record.index.meta(blob, json))
    }

    fn open(folder: &Path) -> io::Result<Self> {
        let record = Record::read(File::open(folder.join(INDEX))?)?;
        let lines = File::open(folder.join(LINES))?;
        if lines.metadata()?.len() != record.index.bytes() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { record, lines })
    }

    /// Returns whether the lines are unchanged since they were written. The checksum finds what a disk
    /// or a crash has done; what the image had was compared with its digest.
    fn verify(&self) -> io::Result<bool> {
        let mut lines = BufReader::with_capacity(1 << 20, CrcReader::new(&self.lines));
        io::copy(&mut lines, &mut io::sink())?;
        Ok(lines.get_ref().crc().sum() == self.record.facts.checksum)
    }
}

impl Store {
    /// Opens the store below `root`, restores every complete content and removes what is left of
    /// an interrupted process. What is written takes its room in `limit`. Blocks.
    ///
    /// Content that cannot be verified is removed as if it had never been there.
    pub fn open(root: &Path, limit: Room) -> Result<Self, StoreError> {
        let temporary = root.join(TEMPORARY);
        fs::create_dir_all(root).map_err(StoreError::disk("error creating the catalog cache"))?;
        remove(&temporary).map_err(StoreError::disk("error emptying the catalog cache"))?;
        fs::create_dir_all(&temporary)
            .map_err(StoreError::disk("error creating the catalog cache"))?;
        let store = Self {
            root: root.to_owned(),
            room: limit,
            contents: ByKey::default(),
            moving: Mutex::default(),
            placed: watch::Sender::new(0),
        };
        let entries =
            fs::read_dir(root).map_err(StoreError::disk("error reading the catalog cache"))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_key(name)) else { continue };
            match restore(&entry.path(), name) {
                Ok(content) => store.swap(Arc::new(content)),
                Err(error) => {
                    tracing::warn!(folder = name, %error, "removing unusable catalog content");
                    discard(&entry.path());
                }
            }
        }
        Ok(store)
    }

    pub fn content(&self, catalog: &str) -> Option<Arc<Content>> {
        self.contents.get(catalog)
    }

    /// Returns the content of this very object, not of an older one of the same name.
    pub fn content_of(&self, catalog: &ClusterCatalog) -> Option<Arc<Content>> {
        let uid = catalog.metadata.uid.as_deref().unwrap_or_default();
        let content = self.content(&catalog.name_any())?;
        (content.origin().uid == uid).then_some(content)
    }

    pub fn catalogs(&self) -> Vec<String> {
        let mut names = self.contents.keys();
        names.sort();
        names
    }

    /// Stores blobs as the content of `origin.catalog` and replaces what was there. Blocks. What is
    /// wrong with them is not looked at.
    ///
    /// Blobs without schema are left out and counted. After an error the old content is still
    /// there, and nothing else.
    pub fn write<E: Into<StoreError> + Send>(
        &self,
        origin: Origin,
        metas: impl IntoIterator<Item = Result<Meta, E>, IntoIter: Send>,
    ) -> Result<Arc<Content>, StoreError> {
        let (file, line) = ("", 0);
        let blobs = metas.into_iter().map(|meta| meta.map(|meta| Blob { file, line, meta }));
        self.place(self.fill(origin, blobs, None)?).inspect(|content| self.settle(content))
    }

    /// Writes blobs to the disk as content that is not served yet, and examines them. Blocks.
    pub fn stage<'b, E: Into<StoreError> + Send>(
        &self,
        origin: Origin,
        blobs: impl IntoIterator<Item = Result<Blob<'b>, E>> + Send,
    ) -> Result<Staged, StoreError> {
        self.fill(origin, blobs, Some(Linter::counting(pinned)))
    }

    fn fill<'b, E: Into<StoreError> + Send>(
        &self,
        origin: Origin,
        blobs: impl IntoIterator<Item = Result<Blob<'b>, E>> + Send,
        linter: Option<Linter>,
    ) -> Result<Staged, StoreError> {
        let folder = tempfile::tempdir_in(self.root.join(TEMPORARY));
        let folder = folder.map_err(StoreError::disk(WRITING))?;
        let writing = self.room.enter().map_err(StoreError::disk(WRITING))?;
        let mut writer =
            Writer::create(folder.path(), writing, linter).map_err(StoreError::disk(WRITING))?;
        // What is read, and what is examined and written, take a processor each.
        thread::scope(|scope| {
            let (ahead, read) = sync_channel(READ_AHEAD);
            scope.spawn(move || {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                for blob in blobs {
                    let failed = blob.is_err();
                    bytes += blob.as_ref().map_or(0, |blob| blob.meta.json.len());
                    batch.push(blob);
                    if failed {
                        break;
                    }
                    if bytes >= BATCH_BYTES {
                        bytes = 0;
                        ahead.send(mem::take(&mut batch))?;
                    }
                }
                ahead.send(batch)
            });
            for blob in read.into_iter().flatten() {
                writer.push(&blob.map_err(Into::into)?)?;
            }
            Ok::<_, StoreError>(())
        })?;
        writer.finish(folder.path(), origin).map_err(StoreError::disk(WRITING))?;
        let content = Content::open(folder.path()).map_err(StoreError::disk(WRITING))?;
        Ok(Staged { content: Arc::new(content), folder })
    }

    /// Serves what was staged, in place of what was there, until [`Self::settle`] beside it. Blocks.
    pub fn place(&self, staged: Staged) -> Result<Arc<Content>, StoreError> {
        let Staged { content, folder } = staged;
        let _moving = self.moving();
        self.install(folder.path(), content.origin())
            .map_err(StoreError::disk("error replacing catalog content"))?;
        self.swap(Arc::clone(&content));
        self.placed.send_modify(|count| *count += 1);
        Ok(content)
    }

    pub fn placements(&self) -> watch::Receiver<u64> {
        self.placed.subscribe()
    }

    /// Waits until the disk has what was placed, and removes what was there before. Blocks.
    ///
    /// If it cannot, both stay until the next start.
    pub fn settle(&self, content: &Arc<Content>) {
        if let Err(error) = self.try_settle(content) {
            let catalog = &content.origin().catalog;
            tracing::warn!(catalog, %error, "catalog content may not survive a loss of power");
        }
    }

    fn try_settle(&self, content: &Arc<Content>) -> io::Result<()> {
        // Most of it, while others move folders.
        content.lines.sync_all()?;
        let _moving = self.moving();
        let origin = content.origin();
        let served = self.content(&origin.catalog);
        if served.is_none_or(|served| !Arc::ptr_eq(&served, content)) {
            return Ok(());
        }
        let home = self.root.join(key(&origin.catalog));
        let folder = home.join(key(&origin.reference));
        for path in [&folder.join(INDEX), &folder, &home.join(CURRENT), &home, &self.root] {
            File::open(path)?.sync_all()?;
        }
        self.remove_others(origin);
        Ok(())
    }

    /// Removes the content of a catalog; it is served until this returns. Blocks.
    ///
    /// Nothing happens when there is none.
    pub fn remove(&self, catalog: &str) -> Result<(), StoreError> {
        let home = self.root.join(key(catalog));
        {
            let _moving = self.moving();
            self.retire(&home).map_err(StoreError::disk("error removing catalog content"))?;
            self.contents.put(catalog, None);
        }
        self.empty_temporary(&key(catalog));
        Ok(())
    }

    fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn swap(&self, content: Arc<Content>) {
        self.contents.put(&content.record.facts.origin.catalog.clone(), Some(content));
    }

    /// Moves a complete folder into place and points at it.
    fn install(&self, folder: &Path, origin: &Origin) -> io::Result<()> {
        let home = self.root.join(key(&origin.catalog));
        fs::create_dir_all(&home)?;
        let name = key(&origin.reference);
        let target = home.join(&name);
        self.retire(&target)?;
        fs::rename(folder, &target)?;
        let pointer = tempfile::NamedTempFile::new_in(self.root.join(TEMPORARY))?;
        pointer.as_file().write_all(name.as_bytes())?;
        pointer.persist(home.join(CURRENT))?;
        Ok(())
    }

    /// Moves a folder out of the way, into the one for what is not complete.
    fn retire(&self, folder: &Path) -> io::Result<()> {
        if !folder.exists() {
            return Ok(());
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let place = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .tempdir_in(self.root.join(TEMPORARY))?
            .keep();
        fs::rename(folder, place.join("old"))
    }

    /// Removes what was moved out of the way; what cannot be removed stays until the next start.
    fn empty_temporary(&self, name: &str) {
        let Ok(entries) = fs::read_dir(self.root.join(TEMPORARY)) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(name) {
                discard(&entry.path());
            }
        }
    }

    /// Removes the folders of a catalog that no longer count.
    fn remove_others(&self, origin: &Origin) {
        let name = key(&origin.reference);
        self.empty_temporary(&name);
        let Ok(entries) = fs::read_dir(self.root.join(key(&origin.catalog))) else { return };
        for entry in entries.flatten() {
            let other = entry.file_name();
            if other != *name && other != CURRENT {
                discard(&entry.path());
            }
        }
    }
}

/// Opens and verifies what `current` points at below the folder of one catalog, or what was there
/// before if the disk does not have all of it.
fn restore(home: &Path, name: &str) -> io::Result<Content> {
    let current = fs::read_to_string(home.join(CURRENT)).unwrap_or_default();
    let folders = fs::read_dir(home)?.flatten().map(|entry| entry.file_name());
    let mut folders: Vec<_> = folders.filter(|name| name != CURRENT).collect();
    folders.sort_by_key(|name| **name != *current);
    let open = |folder: &OsString| -> io::Result<Content> {
        let content = Content::open(&home.join(folder))?;
        let origin = content.origin();
        let named = key(&origin.catalog) == name && **folder == *key(&origin.reference);
        let verified = named && content.verify()?;
        verified.then_some(content).ok_or(io::ErrorKind::InvalidData.into())
    };
    let none = Err(io::ErrorKind::NotFound.into());
    let content = folders.iter().fold(none, |found, folder| found.or_else(|_| open(folder)))?;
    let kept = key(&content.origin().reference);
    for other in folders.iter().filter(|name| **name != *kept) {
        discard(&home.join(other));
    }
    Ok(content)
}

/// Returns the path component that stands for a name: never the name itself.
fn key(name: &str) -> String {
    Digest::sha256(name.as_bytes()).hex().to_owned()
}

fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes what nobody needs; what cannot be removed stays until the next start.
fn discard(path: &Path) {
    if let Err(error) = remove(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove old catalog content");
    }
}

/// Removes a file or folder; fine if there is none.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    present(removed).map(drop)
}

#[cfg(test)]
mod tests;
