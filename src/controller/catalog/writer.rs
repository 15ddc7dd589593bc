//! Writes the folder of one content: lines, their compressed forms, and the index that vouches
//! for them.

use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use olm_core::catalog::read::Meta;
use olm_image::room::{GrowingFile, Writing};
use sha2::{Digest as _, Sha256};

use super::index::{BlobIndex, Record};
use super::store::{
    Compression, GZIP, INDEX, LINES, Origin, ZSTD, hex, sync_folder, whole_seconds,
};

/// Compression levels: the best that costs less than a second for a large catalog.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// Writes one folder.
pub(super) struct Writer {
    lines: io::BufWriter<GrowingFile>,
    gzip: Option<flate2::write::GzEncoder<GrowingFile>>,
    zstd: Option<zstd::Encoder<'static, GrowingFile>>,
    writing: Writing,
    hash: Sha256,
    index: BlobIndex,
    dropped: usize,
}

impl Writer {
    pub(super) fn create(
        folder: &Path,
        compression: Compression,
        writing: Writing,
    ) -> io::Result<Self> {
        let made = compression == Compression::Made;
        let create = |name: &str| writing.create(&folder.join(name));
        let gzip = |file| flate2::write::GzEncoder::new(file, flate2::Compression::new(GZIP_LEVEL));
        Ok(Self {
            lines: io::BufWriter::new(create(LINES)?),
            gzip: made.then(|| create(GZIP)).transpose()?.map(gzip),
            zstd: made
                .then(|| zstd::Encoder::new(create(ZSTD)?, ZSTD_LEVEL))
                .transpose()?,
            writing,
            hash: Sha256::new(),
            index: BlobIndex::default(),
            dropped: 0,
        })
    }

    pub(super) fn push(&mut self, meta: &Meta) -> io::Result<()> {
        if meta.schema.is_empty() {
            self.dropped += 1;
            return Ok(());
        }
        for bytes in [meta.json.as_bytes(), b"\n"] {
            self.lines.write_all(bytes)?;
            self.hash.update(bytes);
            if let Some(gzip) = &mut self.gzip {
                gzip.write_all(bytes)?;
            }
            if let Some(zstd) = &mut self.zstd {
                zstd.write_all(bytes)?;
            }
        }
        self.index.push(meta)
    }

    pub(super) fn finish(self, folder: &Path, origin: Origin) -> io::Result<()> {
        let lines = self
            .lines
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        lines.file().sync_all()?;
        let synced = |written: GrowingFile| {
            written.file().sync_all()?;
            Ok::<_, io::Error>(written.file().metadata()?.len())
        };
        let gzip_bytes = self.gzip.map(|gzip| synced(gzip.finish()?)).transpose()?;
        let zstd_bytes = self.zstd.map(|zstd| synced(zstd.finish()?)).transpose()?;
        let record = Record {
            origin,
            stored: whole_seconds(Timestamp::now()),
            sha256: hex(&self.hash.finalize()),
            gzip_bytes,
            zstd_bytes,
            dropped: self.dropped,
            index: self.index,
        };
        let mut index = self.writing.create(&folder.join(INDEX))?;
        index.write_all(&record.to_json()?)?;
        index.file().sync_all()?;
        sync_folder(folder)
    }
}
