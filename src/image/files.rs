//! The files kept from an image: paths in memory, contents in a spool.
//!
//! The spool is memory up to [`SPOOL_MEMORY_BYTES`] and a temporary file without a name beyond
//! it. No path of an image ever becomes a path of the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;

use tempfile::{SpooledData, SpooledTempFile};

use crate::limits::SPOOL_MEMORY_BYTES;

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
}

impl Spool {
    pub(crate) fn new() -> Self {
        Self {
            file: SpooledTempFile::new(SPOOL_MEMORY_BYTES),
            written: 0,
        }
    }

    /// Copies all of `reader` and returns its position in the spool.
    pub(crate) fn append(&mut self, reader: &mut dyn Read) -> io::Result<Span> {
        let start = self.written;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                Err(err) => return Err(err),
            };
            self.file.write_all(&buffer[..read])?;
            self.written += read as u64;
        }
        Ok(Span {
            start,
            len: self.written - start,
        })
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    fn seal(self) -> Data {
        match self.file.into_inner() {
            SpooledData::InMemory(cursor) => Data::Memory(cursor.into_inner()),
            SpooledData::OnDisk(file) => Data::File(file),
        }
    }
}

enum Data {
    Memory(Vec<u8>),
    File(File),
}

/// Files by their path in the image, in byte order, for example `configs/pkg/catalog.yaml`.
///
/// Reading is positioned and needs no `&mut`, so several threads may read at once.
pub struct Files {
    spans: BTreeMap<String, Span>,
    data: Data,
}

impl Files {
    pub(crate) fn new(spans: BTreeMap<String, Span>, spool: Spool) -> Self {
        Self {
            spans,
            data: spool.seal(),
        }
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Says whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the paths with the sizes in bytes, in byte order.
    pub fn paths(&self) -> impl Iterator<Item = (&str, u64)> {
        self.spans
            .iter()
            .map(|(path, span)| (path.as_str(), span.len))
    }

    /// Returns the sum of all sizes in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.spans.values().map(|span| span.len).sum()
    }

    /// Reads one file; `None` when there is no file at `path`.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.spans
            .get(path)
            .map(|span| self.bytes(*span))
            .transpose()
    }

    /// Reads the files one after the other, in byte order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, io::Result<Vec<u8>>)> {
        self.spans
            .iter()
            .map(|(path, span)| (path.as_str(), self.bytes(*span)))
    }

    /// Reads everything into memory; meant for bundles, which are small.
    pub fn to_map(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        self.iter()
            .map(|(path, bytes)| Ok((path.to_owned(), bytes?)))
            .collect()
    }

    fn bytes(&self, span: Span) -> io::Result<Vec<u8>> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let len = usize::try_from(span.len).map_err(too_large)?;
        match &self.data {
            Data::Memory(bytes) => {
                let start = usize::try_from(span.start).map_err(too_large)?;
                let end = start.checked_add(len);
                end.and_then(|end| bytes.get(start..end))
                    .map(<[u8]>::to_vec)
                    .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
            Data::File(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, span.start)?;
                Ok(bytes)
            }
        }
    }
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
        assert!(matches!(files.data, Data::File(_)));
        assert_eq!(files.read("a").unwrap().unwrap(), b"one");
        assert_eq!(files.read("b").unwrap().unwrap(), large);
        assert_eq!(files.read("c").unwrap().unwrap(), b"two");
        assert!(files.read("d").unwrap().is_none());
        assert_eq!(files.total_bytes(), 6 + SPOOL_MEMORY_BYTES as u64);
    }
}
