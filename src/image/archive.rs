//! The entries of one tar stream, with their long names.
//!
//! The `tar` crate reads the fields of a header. Where headers are is decided here, because the crate
//! takes what follows a link or directory with a size for its content, and ends at one block of zeros;
//! and so are extension headers (GNU long names, PAX records) read, because it reads them into memory
//! without a bound, splits PAX values at newlines, and expands sparse files. An archive that two readers
//! could understand differently is refused.

use std::borrow::Cow;
use std::io::{self, Read};

use tar::{EntryType, Header};

/// Largest extension header, in bytes. Source: Go `archive/tar`, `maxSpecialFileSize`.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// Why an archive, or an entry of it, is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is larger than it may be.
    #[error("{0}")]
    TooLarge(String),
    /// It is not read: it is malformed, not allowed, or two readers could understand it differently.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// Decompression failed, a limit was exceeded, or an entry is cut short.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl Refusal {
    pub(crate) fn of(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(text.into())
    }

    fn pax() -> Self {
        Self::of("malformed PAX record")
    }

    fn sparse() -> Self {
        Self::of("sparse files are not supported")
    }
}

/// Size of a header, and of each of the two blocks of zeros that end an archive.
const BLOCK_BYTES: u64 = 512;

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

impl Kind {
    /// Returns whether content follows the header. Some tools write a size into others, too; as for Go
    /// it means nothing there.
    fn has_content(self) -> bool {
        matches!(self, Self::File | UNKNOWN)
    }
}

/// The kind of a type that is not known.
const UNKNOWN: Kind = Kind::Special("entry of unknown type");

/// One entry; reads its content.
pub(crate) struct Entry<'a> {
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) content: &'a mut dyn Read,
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

/// Iterates the entries of an archive; reads the content of the present one.
pub(crate) struct Entries<R> {
    inner: R,
    /// Bytes of the content that are not read yet, and what fills its last block.
    left: u64,
    padding: u64,
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, left: 0, padding: 0 }
    }

    /// Returns the next entry, `None` at the end marker or the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>, Refusal> {
        let mut extensions = Extensions::default();
        for _ in 0..=MAX_EXTENSIONS {
            let Some(header) = self.header()? else { return Ok(None) };
            match header.entry_type() {
                EntryType::GNULongName => extensions.long_name = self.text()?,
                EntryType::GNULongLink => extensions.long_link = self.text()?,
                EntryType::XHeader => extensions.read_pax(&self.bounded()?)?,
                // A global header describes the archive, for example the commit it was made from.
                EntryType::XGlobalHeader => {
                    self.bounded()?;
                    extensions = Extensions::default();
                }
                EntryType::GNUSparse => return Err(Refusal::sparse()),
                _ => return extensions.complete(&header, self.left, self).map(Some),
            }
        }
        Err(Refusal::of("too many extension headers"))
    }

    /// Returns the stream behind the last entry.
    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// Passes what is left of the present entry, and returns the next header, `None` at the end.
    fn header(&mut self) -> Result<Option<Header>, Refusal> {
        if self.skip(self.left)? < self.left {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        // As for Go an archive may end without what fills its last block.
        if self.skip(self.padding)? < self.padding {
            return Ok(None);
        }
        let Some(header) = self.block()? else { return Ok(None) };
        if is_zero(&header) {
            // Two of them end an archive.
            return match self.block()? {
                Some(other) if !is_zero(&other) => {
                    Err(Refusal::of("a single block of zeros does not end an archive"))
                }
                _ => Ok(None),
            };
        }
        // The errors of the crate quote what it takes for a header, which may be content.
        let size = header.entry_size().ok().filter(|_| is_sound(&header));
        let size = size.ok_or_else(|| Refusal::of("malformed header"))?;
        self.left = if kind(header.entry_type()).has_content() { size } else { 0 };
        self.padding = self.left.wrapping_neg() % BLOCK_BYTES;
        Ok(Some(header))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        io::copy(&mut (&mut self.inner).take(bytes), &mut io::sink())
    }

    fn block(&mut self) -> io::Result<Option<Header>> {
        let mut block = Vec::new();
        match (&mut self.inner).take(BLOCK_BYTES).read_to_end(&mut block)? as u64 {
            0 => Ok(None),
            BLOCK_BYTES => Ok(Some(Header::from_byte_slice(&block).clone())),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bounded(&mut self) -> Result<Vec<u8>, Refusal> {
        let size = self.left;
        if size > MAX_EXTENSION_BYTES {
            let text = format!("extension header is larger than {MAX_EXTENSION_BYTES} bytes");
            return Err(Refusal::of(text));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        if bytes.len() as u64 != size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }

    /// Reads a GNU long name, which ends at its first NUL; an empty one is none.
    fn text(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let mut bytes = self.bounded()?;
        if let Some(nul) = bytes.iter().position(|b| *b == 0) {
            bytes.truncate(nul);
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.inner).take(self.left).read(buffer)?;
        self.left -= read as u64;
        Ok(read)
    }
}

impl Extensions {
    fn read_pax(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        (self.path, self.link_path, self.size) = (None, None, None);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (key, value, after) = pax_record(rest).ok_or_else(Refusal::pax)?;
            rest = after;
            let value = (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" => self.path = value,
                b"linkpath" => self.link_path = value,
                b"size" => self.size = value.map(|text| number(&text)).transpose()?,
                key if key.starts_with(b"GNU.sparse.") => return Err(Refusal::sparse()),
                _ => {}
            }
        }
        Ok(())
    }

    fn complete<'a>(
        self,
        header: &Header,
        size: u64,
        content: &'a mut dyn Read,
    ) -> Result<Entry<'a>, Refusal> {
        let mut kind = kind(header.entry_type());
        if let Some(pax) = self.size.filter(|pax| kind.has_content() && *pax != size) {
            let text = format!("header says {size} bytes and its PAX record {pax}");
            return Err(Refusal::of(text));
        }
        let name = self.long_name.or(self.path).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = self.long_link.or(self.link_path);
        let link = link.or_else(|| header.link_name_bytes().map(Cow::into_owned));
        // Before there was a type for directories, a trailing slash marked them.
        if kind == Kind::File && name.ends_with(b"/") {
            if size > 0 {
                return Err(Refusal::of("a directory has content"));
            }
            kind = Kind::Directory;
        }
        Ok(Entry { name, link: link.unwrap_or_default(), kind, size, content })
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
        _ => UNKNOWN,
    }
}

fn is_zero(header: &Header) -> bool {
    header.as_bytes().iter().all(|byte| *byte == 0)
}

/// Returns whether the checksum of a header is right, in which its own field counts as blanks.
fn is_sound(header: &Header) -> bool {
    let bytes = header.as_bytes();
    let others = bytes[..148].iter().chain(&bytes[156..]);
    let sum = others.map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
    header.cksum().is_ok_and(|checksum| checksum == sum)
}

/// Splits `length key=value\n` off the front; the length counts the whole record.
fn pax_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|b| *b == b' ')?;
    let len = usize::try_from(number(&bytes[..space]).ok()?).ok()?;
    let record = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &bytes[len..]))
}

fn number(digits: &[u8]) -> Result<u64, Refusal> {
    let text = std::str::from_utf8(digits).map_err(|_| Refusal::pax())?;
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refusal::pax());
    }
    text.parse().map_err(|_| Refusal::pax())
}
