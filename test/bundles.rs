//! Bundles as files on disk, read as an unpacked image is.

use std::fs;
use std::io;
use std::path::Path;

use olm_core::bundle::Files;

/// Reads a bundle directory into the map the bundle loader takes.
///
/// Everything below `manifests/` and `metadata/` is read, with `/` in the paths.
pub fn read_files(directory: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for top in ["manifests", "metadata"] {
        let path = directory.join(top);
        if path.is_dir() {
            collect(&path, top, &mut files)?;
        }
    }
    Ok(files)
}

fn collect(directory: &Path, prefix: &str, files: &mut Files) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &name, files)?;
        } else {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(())
}
