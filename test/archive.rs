//! Tar archives built entry by entry, without checks, so that hostile ones can be made.

/// Size of a block, to which everything in an archive is padded.
const BLOCK: usize = 512;

/// An archive under construction.
#[derive(Debug, Clone, Default)]
pub struct Archive(Vec<u8>);

impl Archive {
    /// Starts with an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry of any type whose header says `size`, whatever the size of the content.
    #[must_use]
    pub fn entry(mut self, kind: u8, name: &[u8], link: &[u8], size: u64, content: &[u8]) -> Self {
        let mut header = tar::Header::new_ustar();
        {
            let fields = header.as_ustar_mut().expect("a ustar header");
            fields.name[..name.len()].copy_from_slice(name);
            fields.linkname[..link.len()].copy_from_slice(link);
            fields.typeflag = [kind];
        }
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// Adds a regular file.
    #[must_use]
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        self.entry(b'0', name.as_bytes(), b"", content.len() as u64, content)
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, name: &str, target: &str) -> Self {
        self.entry(b'2', name.as_bytes(), target.as_bytes(), 0, b"")
    }

    /// Adds a hard link.
    #[must_use]
    pub fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(b'1', name.as_bytes(), target.as_bytes(), 0, b"")
    }

    /// Adds a PAX record for the entry after it.
    #[must_use]
    pub fn pax(self, key: &str, value: &str) -> Self {
        let rest = key.len() + value.len() + " =\n".len();
        // The length counts its own digits.
        let mut length = rest;
        while rest + length.to_string().len() != length {
            length += 1;
        }
        let record = format!("{length} {key}={value}\n");
        self.entry(b'x', b"pax", b"", record.len() as u64, record.as_bytes())
    }

    /// Returns the bytes without an end marker, as if the rest were lost.
    pub fn unfinished(self) -> Vec<u8> {
        self.0
    }

    /// Returns the bytes with an end marker.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }
}
