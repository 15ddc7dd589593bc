//! The files kept from an image: paths in memory, contents in a spool.
//!
//! The spool is memory up to [`SPOOL_MEMORY_BYTES`] and a temporary file without a name beyond
//! it. No path of an image ever becomes a path of the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::FileExt as _;
#[cfg(windows)]
use std::os::windows::fs::FileExt as _;

use tempfile::{SpooledData, SpooledTempFile};

use crate::limits::SPOOL_MEMORY_BYTES;

/// Bytes written to the spool at once.
const BUFFER_BYTES: usize = 128 << 10;

/// Position of a file's bytes in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Collects bytes, one file after the other.
pub(crate) struct Spool {
    file: SpooledTempFile,
    written: u64,
    buffer: Vec<u8>,
}

impl Spool {
    pub(crate) fn new() -> Self {
        let file = SpooledTempFile::new(SPOOL_MEMORY_BYTES);
        Self { file, written: 0, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Copies all of `reader` and returns its position in the spool.
    pub(crate) fn append(&mut self, reader: &mut dyn Read) -> io::Result<Span> {
        let start = self.written;
        loop {
            let read = match reader.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                Err(err) => return Err(err),
            };
            self.file.write_all(&self.buffer[..read])?;
            self.written += read as u64;
        }
        Ok(Span { start, len: self.written - start })
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }
}

/// Files by their path in the image, in byte order, for example `configs/pkg/catalog.yaml`.
///
/// Reading is positioned and needs no `&mut`, so several threads may read at once.
pub struct Files {
    spans: BTreeMap<String, Span>,
    data: SpooledData,
}

impl Files {
    pub(crate) fn new(spans: BTreeMap<String, Span>, spool: Spool) -> Self {
        Self { spans, data: spool.file.into_inner() }
    }

    /// Returns the paths with the sizes in bytes, in byte order.
    pub fn paths(&self) -> impl Iterator<Item = (&str, u64)> {
        self.spans.iter().map(|(path, span)| (path.as_str(), span.len))
    }

    /// Reads the files one after the other, in byte order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, io::Result<Vec<u8>>)> {
        self.readers().map(|(path, mut reader)| {
            let mut bytes = Vec::new();
            (path, reader.read_to_end(&mut bytes).map(|_| bytes))
        })
    }

    /// Reads everything into memory; meant for bundles, which are small.
    pub fn to_map(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        self.iter().map(|(path, bytes)| Ok((path.to_owned(), bytes?))).collect()
    }

    /// Opens the files one after the other, in byte order of their paths.
    pub fn readers(&self) -> impl Iterator<Item = (&str, FileReader<'_>)> {
        let data = &self.data;
        let open = move |span| FileReader { data, span };
        self.spans.iter().map(move |(path, span)| (path.as_str(), open(*span)))
    }
}

pub struct FileReader<'a> {
    data: &'a SpooledData,
    /// The part that is still to be read.
    span: Span,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.span.len).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..wanted];
        let read = match &self.data {
            SpooledData::InMemory(bytes) => {
                let start = usize::try_from(self.span.start).unwrap_or(usize::MAX);
                bytes.get_ref().get(start..).unwrap_or_default().read(buffer)?
            }
            SpooledData::OnDisk(file) => read_at(file, buffer, self.span.start)?,
        };
        if read == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.span.start += read as u64;
        self.span.len -= read as u64;
        Ok(read)
    }
}

/// Reads at a position, whatever else reads the file.
#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(buffer, position)
}

/// Reads at a position, whatever else reads the file.
#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    file.seek_read(buffer, position)
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.paths()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_survive_the_move_to_a_temporary_file() {
        let mut spool = Spool::new();
        let mut spans = BTreeMap::new();
        let large = vec![7; SPOOL_MEMORY_BYTES];
        for (path, content) in [("a", b"one".as_slice()), ("b", &large), ("c", b"two")] {
            spans.insert(path.to_owned(), spool.append(&mut &*content).unwrap());
        }
        let files = Files::new(spans, spool);
        assert!(matches!(files.data, SpooledData::OnDisk(_)));
        let read = files.to_map().unwrap();
        assert_eq!(read["a"], b"one");
        assert_eq!(read["b"], large);
        assert_eq!(read["c"], b"two");
        assert_eq!(read.len(), 3);
    }
}
