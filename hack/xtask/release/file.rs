//! Files of a release, and archives of files: the same content gives the same bytes.

use std::fmt::Write as _;
use std::io;

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

/// A file, by its name or path.
pub(super) struct File {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl File {
    pub(super) fn new(name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), content: content.into() }
    }

    /// Returns the SHA-256 of the content.
    pub(super) fn sum(&self) -> String {
        let digest = Sha256::digest(&self.content);
        digest.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Packs files with their modes; times are zero, and owners root.
pub(super) fn archive(files: &[(u32, File)]) -> io::Result<Vec<u8>> {
    let packed = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(packed);
    for (mode, file) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(file.content.len() as u64);
        archive.append_data(&mut header, &file.name, file.content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Returns the sums of files as `sha256sum` prints them.
pub(super) fn sums(files: &[File]) -> String {
    files.iter().fold(String::new(), |mut text, file| {
        let _ = writeln!(text, "{}  {}", file.sum(), file.name);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md P61
    #[test]
    fn the_same_files_give_the_same_archive_and_sums() {
        let files = || {
            vec![(0o755, File::new("program", "program")), (0o644, File::new("LICENSE", "text"))]
        };
        let packed = archive(&files()).unwrap();
        assert_eq!(packed, archive(&files()).unwrap());
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let entries = read.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = entry.path().unwrap().display().to_string();
            (name, header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap())
        });
        let expected = [("program".to_owned(), 0o755, 0, 0), ("LICENSE".to_owned(), 0o644, 0, 0)];
        assert_eq!(entries.collect::<Vec<_>>(), expected);
        // echo -n text | sha256sum
        let sum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1  LICENSE\n";
        assert_eq!(sums(&[File::new("LICENSE", "text")]), sum);
    }
}
