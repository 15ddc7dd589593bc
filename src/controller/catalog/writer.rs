//! Writes the folder of one content: lines, and the index that vouches for them.

use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use olm_core::catalog::lint::Linter;
use olm_image::room::{GrowingFile, Writing};
use sha2::{Digest as _, Sha256};

use super::index::{BlobIndex, Record};
use super::store::{Blob, INDEX, LINES, Origin, hex, sync_folder, whole_seconds};

/// Writes one folder.
pub(super) struct Writer {
    lines: io::BufWriter<GrowingFile>,
    writing: Writing,
    hash: Sha256,
    index: BlobIndex,
    dropped: usize,
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
            linter,
        })
    }

    pub(super) fn push(&mut self, blob: &Blob<'_>) -> io::Result<()> {
        let Blob { file, line, meta } = blob;
        if let Some(linter) = &mut self.linter {
            linter.add_blob(file, *line, meta);
        }
        if meta.schema.is_empty() {
            self.dropped += 1;
            return Ok(());
        }
        for bytes in [meta.json.as_bytes(), b"\n"] {
            self.lines.write_all(bytes)?;
            self.hash.update(bytes);
        }
        self.index.push(meta)
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
        index.write_all(&record.to_json()?)?;
        index.file().sync_all()?;
        sync_folder(folder)
    }
}
