//! Files and folders of configuration.

use std::io;
use std::path::{Path, PathBuf};

use olm_core::error::quote;

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct FileError {
    pub(crate) doing: String,
    #[source]
    pub(crate) source: io::Error,
}

impl FileError {
    /// Returns what makes the error out of that of the operating system.
    pub(crate) fn doing(doing: &str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let doing = format!("{doing} {}", quote(&path.display().to_string()));
        move |source| Self { doing: doing.clone(), source }
    }
}

/// Returns `None` if the file or folder does not exist.
pub fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns what is in a folder, by name; nothing if there is no folder.
pub(crate) fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(entries) = present(std::fs::read_dir(folder))? else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
