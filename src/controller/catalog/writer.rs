//! Writes the folder of one content: lines, and the index that vouches for them.

use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use olm_core::catalog::lint::Linter;
use olm_core::error::quote;
use olm_image::room::{GrowingFile, Writing};
use sha2::{Digest as _, Sha256};

use super::disk::{Blob, INDEX, LINES, StoreError, WRITING, hex, sync_folder};
use super::index::{BlobIndex, Record};
use super::origin::{Origin, whole_seconds};

/// Writes one folder.
pub(super) struct Writer {
    lines: io::BufWriter<GrowingFile>,
    writing: Writing,
    hash: Sha256,
    index: BlobIndex,
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
        Ok(Self {
            lines: io::BufWriter::new(writing.create(&folder.join(LINES))?),
            writing,
            hash: Sha256::new(),
            index: BlobIndex::default(),
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
        self.index.push(meta).map_err(|source| StoreError::Index {
            place: match *file {
                "" => format!("entry {}", self.entries),
                file => format!("{}, line {line}", quote(file)),
            },
            source,
        })?;
        for bytes in [meta.json.as_bytes(), b"\n"] {
            let written = self.lines.write_all(bytes);
            written.map_err(StoreError::disk(WRITING))?;
            self.hash.update(bytes);
        }
        Ok(())
    }

    pub(super) fn finish(self, folder: &Path, origin: Origin) -> io::Result<()> {
        let lines = self.lines.into_inner().map_err(io::IntoInnerError::into_error)?;
        lines.file().sync_all()?;
        let record = Record {
            origin,
            stored: whole_seconds(Timestamp::now()),
            sha256: hex(&self.hash.finalize()),
            dropped: self.dropped,
            findings: self.linter.map(Linter::tally),
            index: self.index,
        };
        let mut index = self.writing.create(&folder.join(INDEX))?;
        record.write(&mut index)?;
        index.file().sync_all()?;
        sync_folder(folder)
    }
}
