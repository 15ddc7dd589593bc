//! The entries of one tar stream, with their long names.
//!
//! The `tar` crate finds the headers and checks them; the extension headers (GNU long names, PAX
//! records) are read here instead, because the crate reads them into memory without a bound,
//! splits PAX values at newlines, and expands sparse files. An archive that two readers could
//! understand differently is refused.

use std::borrow::Cow;
use std::io::{self, Read};

use tar::EntryType;

/// Largest extension header, in bytes. Source: Go `archive/tar`, `maxSpecialFileSize`.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// Why reading an archive stopped.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Decompression failed, a limit was exceeded, a header is bad, or an entry is cut short.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not read: it is malformed, or two readers could understand it differently.
    #[error("{0}")]
    Refused(Cow<'static, str>),
}

impl ArchiveError {
    fn refused(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(text.into())
    }

    fn pax() -> Self {
        Self::refused("malformed PAX record")
    }

    fn sparse() -> Self {
        Self::refused("sparse files are not supported")
    }
}

/// Most extension headers in a row; real archives have at most one of each of the four kinds.
const MAX_EXTENSIONS: usize = 16;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    HardLink,
    SymbolicLink,
    /// A device, fifo, or an unknown type; holds its name for messages.
    Special(&'static str),
}

/// One entry; reads its content.
pub(crate) struct Entry<'a> {
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) content: Box<dyn Read + 'a>,
}

/// Extension headers for the next entry.
#[derive(Default)]
struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    link_path: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Iterates the entries of an archive.
pub(crate) struct Entries<'a, R: Read + 'a> {
    raw: tar::Entries<'a, R>,
}

impl<'a, R: Read + 'a> Entries<'a, R> {
    pub(crate) fn new(archive: &'a mut tar::Archive<R>) -> io::Result<Self> {
        Ok(Self { raw: archive.entries()?.raw(true) })
    }

    /// Returns the next entry, `None` at the end marker or the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'a>>, ArchiveError> {
        let mut extensions = Extensions::default();
        for _ in 0..=MAX_EXTENSIONS {
            let Some(raw) = self.raw.next() else { return Ok(None) };
            let mut raw = raw?;
            match raw.header().entry_type() {
                EntryType::GNULongName => extensions.long_name = Some(text(&mut raw)?),
                EntryType::GNULongLink => extensions.long_link = Some(text(&mut raw)?),
                EntryType::XHeader => extensions.read_pax(&bounded(&mut raw)?)?,
                // A global header describes the archive, for example the commit it was made from.
                EntryType::XGlobalHeader => drop(bounded(&mut raw)?),
                EntryType::GNUSparse => return Err(ArchiveError::sparse()),
                _ => return extensions.complete(raw).map(Some),
            }
        }
        Err(ArchiveError::refused("too many extension headers"))
    }
}

impl Extensions {
    fn read_pax(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (key, value, after) = pax_record(rest).ok_or_else(ArchiveError::pax)?;
            rest = after;
            let value = (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" => self.path = value,
                b"linkpath" => self.link_path = value,
                b"size" => self.size = value.map(|text| number(&text)).transpose()?,
                key if key.starts_with(b"GNU.sparse.") => return Err(ArchiveError::sparse()),
                _ => {}
            }
        }
        Ok(())
    }

    fn complete<'a, R: Read + 'a>(self, raw: tar::Entry<'a, R>) -> Result<Entry<'a>, ArchiveError> {
        let header = raw.header();
        let size = header.entry_size()?;
        if let Some(pax) = self.size.filter(|pax| *pax != size) {
            let text = format!("header says {size} bytes and its PAX record {pax}");
            return Err(ArchiveError::refused(text));
        }
        let name = self.path.or(self.long_name).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = self.link_path.or(self.long_link);
        let link = link.or_else(|| header.link_name_bytes().map(Cow::into_owned));
        let mut kind = kind(header.entry_type());
        // Before there was a type for directories, a trailing slash marked them.
        if kind == Kind::File && name.ends_with(b"/") {
            kind = Kind::Directory;
        }
        Ok(Entry { name, link: link.unwrap_or_default(), kind, size, content: Box::new(raw) })
    }
}

fn kind(entry_type: EntryType) -> Kind {
    match entry_type {
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Directory => Kind::Directory,
        EntryType::Link => Kind::HardLink,
        EntryType::Symlink => Kind::SymbolicLink,
        EntryType::Char => Kind::Special("character device"),
        EntryType::Block => Kind::Special("block device"),
        EntryType::Fifo => Kind::Special("fifo"),
        _ => Kind::Special("entry of unknown type"),
    }
}

/// Splits `length key=value\n` off the front; the length counts the whole record.
fn pax_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|b| *b == b' ')?;
    let len = usize::try_from(number(&bytes[..space]).ok()?).ok()?;
    let record = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &bytes[len..]))
}

fn number(digits: &[u8]) -> Result<u64, ArchiveError> {
    let text = std::str::from_utf8(digits).map_err(|_| ArchiveError::pax())?;
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ArchiveError::pax());
    }
    text.parse().map_err(|_| ArchiveError::pax())
}

fn bounded<R: Read>(raw: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, ArchiveError> {
    let size = raw.header().entry_size()?;
    if size > MAX_EXTENSION_BYTES {
        let text = format!("extension header is larger than {MAX_EXTENSION_BYTES} bytes");
        return Err(ArchiveError::refused(text));
    }
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes)?;
    if bytes.len() as u64 != size {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(bytes)
}

/// Reads a GNU long name, which ends at its first NUL.
fn text<R: Read>(raw: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = bounded(raw)?;
    if let Some(nul) = bytes.iter().position(|b| *b == 0) {
        bytes.truncate(nul);
    }
    Ok(bytes)
}
