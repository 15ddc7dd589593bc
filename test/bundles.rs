//! Bundles as files on disk, read as an unpacked image is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use olm_core::bundle::Files;

use crate::paths;

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
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &name, files)?;
        } else {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// Reads everything below a folder; the paths begin with `prefix`.
pub fn below(folder: &Path, prefix: &str) -> Files {
    let mut files = Files::new();
    let read = collect(folder, prefix, &mut files);
    read.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files
}

/// Returns the folder of each shared bundle, with its `<package>/<version>`.
pub fn shared() -> Vec<(String, PathBuf)> {
    inside(&paths::shared_data().join("bundles"))
}

/// The same of the bundles in a folder.
pub fn inside(root: &Path) -> Vec<(String, PathBuf)> {
    let folders = |folder: &Path| {
        let paths = paths::inside(folder).into_iter();
        paths.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let all: Vec<_> = folders(root).iter().flat_map(|package| folders(package)).collect();
    let name = |path: &Path| path.strip_prefix(root).expect("below it").display().to_string();
    all.into_iter().map(|path| (name(&path), path)).collect()
}
