//! Room on disk: the caches together stop below a limit, before somebody evicts the pod for them.
//!
//! The files are measured when somebody begins to write and nobody else does; from then on every byte
//! that is written counts. So a limit is never passed, and what is removed in the meantime counts as
//! room for whoever begins next. A writer that knows its size is let in without a measurement if it fits
//! by the count so far, so that an install does not read through the bundles of all others.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::folder::present;

/// Room for what is cached, by default without an end; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Room(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    folders: Vec<PathBuf>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// At least what the files have; absent before they were measured.
    bytes: Option<u64>,
    /// Those who do not know how much they will write.
    writers: usize,
    /// What the others write, of which a measurement may not have seen all.
    sized: u64,
}

/// Somebody who writes into a room, until it is dropped; clones are the same one.
#[derive(Debug, Clone)]
pub struct Writing(Option<Arc<Turn>>);

/// Its place, and the bytes of one that knows its size.
#[derive(Debug)]
struct Turn(Arc<Shared>, Option<u64>);

/// A file that takes room as it grows.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    writing: Writing,
}

impl Room {
    /// Returns room for at most `limit` bytes in all files below `folders` together.
    pub fn within(limit: u64, folders: Vec<PathBuf>) -> Self {
        Self(Some(Arc::new(Shared { limit, folders, taken: Mutex::default() })))
    }

    /// Begins to write, nobody knows how much. Blocks.
    pub fn enter(&self) -> io::Result<Writing> {
        self.begin(None)
    }

    /// Begins to write so many bytes, and takes the room for them. Blocks.
    pub fn enter_with(&self, bytes: usize) -> io::Result<Writing> {
        let writing = self.begin(Some(bytes as u64))?;
        writing.take(bytes)?;
        Ok(writing)
    }

    fn begin(&self, sized: Option<u64>) -> io::Result<Writing> {
        let Some(shared) = &self.0 else { return Ok(Writing(None)) };
        let mut taken = shared.taken();
        let fits = sized.zip(taken.bytes).is_some_and(|(more, all)| shared.fits(all, more));
        if taken.writers == 0 && !fits {
            let measured = shared.folders.iter().map(|folder| bytes_below(folder));
            let all = measured.sum::<io::Result<u64>>()?;
            taken.bytes = Some(all.saturating_add(taken.sized));
        }
        match sized {
            Some(bytes) => taken.sized += bytes,
            None => taken.writers += 1,
        }
        Ok(Writing(Some(Arc::new(Turn(Arc::clone(shared), sized)))))
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, all: u64, more: u64) -> bool {
        all.saturating_add(more) <= self.limit
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        match self.1 {
            Some(bytes) => taken.sized -= bytes,
            None => taken.writers -= 1,
        }
    }
}

impl Writing {
    /// Takes room for so many bytes, or fails.
    pub fn take(&self, bytes: usize) -> io::Result<()> {
        let Some(Turn(shared, _)) = self.0.as_deref() else { return Ok(()) };
        let mut taken = shared.taken();
        let all = taken.bytes.unwrap_or_default();
        if !shared.fits(all, bytes as u64) {
            let text = format!("cache limit of {} bytes reached", shared.limit);
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        taken.bytes = Some(all + bytes as u64);
        Ok(())
    }

    pub fn create(&self, path: &Path) -> io::Result<GrowingFile> {
        Ok(GrowingFile { file: File::create(path)?, writing: self.clone() })
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writing.take(bytes.len())?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the size of all files below a folder. Links are not followed.
pub fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in present(fs::read_dir(&folder))?.into_iter().flatten() {
            let entry = entry?;
            match present(entry.metadata())? {
                Some(found) if found.is_dir() => folders.push(entry.path()),
                Some(found) => sum += found.len(),
                None => {}
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_in_folders_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), [0; 10]).unwrap();
        fs::write(folder.path().join("c"), [0; 5]).unwrap();
        assert_eq!(bytes_below(folder.path()).unwrap(), 15);
        assert_eq!(bytes_below(&folder.path().join("none")).unwrap(), 0);
    }

    fn write(room: &Room, path: &Path, bytes: usize) -> io::Result<()> {
        room.enter()?.create(path)?.write_all(&vec![0; bytes])
    }

    // deploying.md P42
    #[test]
    fn all_folders_together_stay_within_the_limit() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [&one, &two].map(|folder| folder.path().to_owned());
        let room = Room::within(100, folders.to_vec());
        let file = |folder: &tempfile::TempDir, name| folder.path().join(name);
        write(&room, &file(&one, "a"), 60).unwrap();
        let error = write(&room, &file(&two, "b"), 41).unwrap_err();
        assert_eq!(error.to_string(), "cache limit of 100 bytes reached");
        write(&room, &file(&two, "b"), 40).unwrap();
        fs::remove_file(file(&one, "a")).unwrap();
        write(&room, &file(&one, "c"), 60).unwrap();
        write(&Room::default(), &file(&one, "d"), 1000).unwrap();
    }

    #[test]
    fn what_was_removed_is_found_when_something_would_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let (hidden, file) = (folder.path().join("hidden"), folder.path().join("a"));
        let room = Room::within(100, vec![folder.path().to_owned()]);
        write(&room, &file, 60).unwrap();
        // Written by somebody else: seen only by who measures.
        fs::write(&hidden, [0; 60]).unwrap();
        drop(room.enter_with(40).unwrap());
        room.enter_with(1).unwrap_err();
        fs::remove_file(&hidden).unwrap();
        drop(room.enter_with(40).unwrap());
        room.enter_with(41).unwrap_err();
    }

    #[test]
    fn who_knows_its_size_hides_no_room_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let room = Room::within(100, vec![folder.path().to_owned()]);
        write(&room, &file, 60).unwrap();
        fs::remove_file(&file).unwrap();
        let sized = room.enter_with(30).unwrap();
        let (other, more) = (room.enter().unwrap(), 71);
        other.take(more).unwrap_err();
        other.take(more - 1).unwrap();
        drop((sized, other));
        room.enter_with(100).unwrap();
    }

    #[test]
    fn who_writes_at_the_same_time_shares_the_room() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::within(100, vec![folder.path().to_owned()]);
        let (first, second) = (room.enter().unwrap(), room.enter().unwrap());
        first.take(60).unwrap();
        second.take(41).unwrap_err();
        // What the first gave up counts until nobody writes.
        drop(first);
        second.take(41).unwrap_err();
        drop(second);
        room.enter().unwrap().take(100).unwrap();
    }
}
