//! Compressed forms of a content: made when they are first asked for, and gone with it.
//!
//! They are files in the folder for what is not complete, so nothing vouches for them beyond the
//! process that made them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use olm_image::Room;
use tempfile::NamedTempFile;

use super::{Content, Encoding};

/// Compression levels: the best that costs few seconds for a large catalog.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// Bytes compressed at once.
const CHUNK_BYTES: u64 = 256 * 1024;

#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) room: Room,
}

#[derive(Debug, Default)]
pub(super) struct Form {
    begun: AtomicBool,
    pub(super) made: OnceLock<(NamedTempFile, u64)>,
}

impl Content {
    /// Makes a compressed form, unless somebody has begun to. Blocks.
    ///
    /// One that cannot be made is missing for good: it is compressed anew for each answer.
    pub fn compress(&self, encoding: Encoding) {
        let Some(form) = self.form(encoding) else { return };
        if form.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        match self.compressed(encoding) {
            // Nobody else sets it.
            Ok(made) => drop(form.made.set(made)),
            Err(error) => {
                let catalog = &self.origin().catalog;
                tracing::warn!(catalog, ?encoding, %error, "cannot keep compressed content");
            }
        }
    }

    fn compressed(&self, encoding: Encoding) -> io::Result<(NamedTempFile, u64)> {
        let file = NamedTempFile::new_in(&self.place.folder)?;
        let out = self.place.room.enter()?.create(file.path())?;
        if encoding == Encoding::Zstd {
            let mut encoder = zstd::Encoder::new(out, ZSTD_LEVEL)?;
            self.copy(&mut encoder)?;
            encoder.finish()?;
        } else {
            let level = flate2::Compression::new(GZIP_LEVEL);
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            self.copy(&mut encoder)?;
            encoder.finish()?;
        }
        let len = file.as_file().metadata()?.len();
        Ok((file, len))
    }

    fn copy(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut left = 0..self.index().bytes();
        while !left.is_empty() {
            let len = CHUNK_BYTES.min(left.end - left.start);
            let wanted = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
            out.write_all(&self.read(Encoding::Identity, left.start, wanted)?)?;
            left.start += len;
        }
        Ok(())
    }
}
