//! Writes the folder of one content: lines, and the index that vouches for them.

use std::io::{self, Write as _};
use std::path::Path;

use flate2::CrcWriter;
use jiff::Timestamp;
use olm_core::catalog::lint::Linter;
use olm_core::catalog::read::PackageSizes;
use olm_core::error::quote;
use olm_image::room::{GrowingFile, Writing};

use super::disk::{Blob, INDEX, LINES, StoreError, WRITING};
use super::index::{BlobIndex, Facts, IndexError, Origin, Record, whole_seconds};

/// Bytes of lines written at once.
const BUFFER_BYTES: usize = 1 << 18;

pub(super) struct Writer {
    lines: CrcWriter<io::BufWriter<GrowingFile>>,
    writing: Writing,
    index: BlobIndex,
    packages: PackageSizes,
    dropped: usize,
    /// Blobs so far, those that were dropped included.
    entries: usize,
    linter: Option<Linter>,
}

impl Writer {
    pub(super) fn create(
        folder: &Path,
        writing: Writing,
        linter: Option<Linter>,
    ) -> io::Result<Self> {
        let lines = writing.create(&folder.join(LINES))?;
        Ok(Self {
            lines: CrcWriter::new(io::BufWriter::with_capacity(BUFFER_BYTES, lines)),
            writing,
            index: BlobIndex::default(),
            packages: PackageSizes::default(),
            dropped: 0,
            entries: 0,
            linter,
        })
    }

    pub(super) fn push(&mut self, blob: &Blob<'_>) -> Result<(), StoreError> {
        let Blob { file, line, meta } = blob;
        self.entries += 1;
        if let Some(linter) = &mut self.linter {
            linter.add_blob(file, *line, meta);
        }
        if meta.schema.is_empty() {
            self.dropped += 1;
            return Ok(());
        }
        let sized = self.packages.add(meta).map_err(|error| IndexError(error.to_string()));
        let indexed = self.index.push(meta).and(sized);
        indexed.map_err(|error| {
            let place = match *file {
                "" => format!("entry {}", self.entries),
                file => format!("{}, line {line}", quote(file)),
            };
            StoreError::Index(place, error)
        })?;
        for bytes in [meta.json.as_bytes(), b"\n"] {
            self.lines.write_all(bytes).map_err(StoreError::disk(WRITING))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, folder: &Path, origin: Origin) -> io::Result<()> {
        self.lines.flush()?;
        let facts = Facts {
            origin,
            stored: whole_seconds(Timestamp::now()),
            checksum: self.lines.crc().sum(),
            dropped: self.dropped,
            findings: self.linter.map(Linter::tally),
        };
        let record = Record { facts, index: self.index };
        record.write(self.writing.create(&folder.join(INDEX))?)
    }
}
