//! Where a bundle comes from: a directory on this machine, or an image.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use olm_core::bundle::{ANNOTATIONS_FILE, Bundle, Files, PROPERTIES_FILE};

/// Loads the bundle an argument names: a directory if there is one of that path, otherwise an
/// image reference.
pub(crate) async fn load_bundle_source(source: &str) -> anyhow::Result<Bundle> {
    let files = if Path::new(source).is_dir() {
        let directory = PathBuf::from(source);
        let read = tokio::task::spawn_blocking(move || read_directory(&directory)).await?;
        read.with_context(|| format!("reading {source}"))?
    } else {
        anyhow::bail!(
            "{source:?} is no directory, and bundle images cannot be pulled by this build"
        )
    };
    // Megabytes of YAML would hold up everything else on an async thread.
    let bundle = tokio::task::spawn_blocking(move || Bundle::from_files(&files)).await?;
    Ok(bundle?)
}

/// Reads the files of a bundle that its loader looks at.
fn read_directory(directory: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for name in [ANNOTATIONS_FILE, PROPERTIES_FILE] {
        match fs::read(directory.join(name)) {
            Ok(content) => {
                files.insert(name.to_owned(), content);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let manifests = match fs::read_dir(directory.join("manifests")) {
        Ok(manifests) => manifests,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(error),
    };
    for entry in manifests {
        let entry = entry?;
        let name = format!("manifests/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            // The loader refuses directories by a path below them; their content is not read.
            files.insert(format!("{name}/"), Vec::new());
        } else {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    // rendering.md L3
    #[test]
    fn a_subdirectory_of_manifests_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("manifests/sub")).unwrap();
        fs::create_dir_all(root.join("metadata")).unwrap();
        fs::write(root.join(ANNOTATIONS_FILE), "annotations: {}").unwrap();
        let loaded = runtime().block_on(load_bundle_source(root.to_str().unwrap()));
        assert_eq!(
            loaded.unwrap_err().to_string(),
            "subdirectories are not allowed within the \"manifests\" directory of the bundle \
             image filesystem: found \"manifests/sub\""
        );
    }

    // rendering.md L1
    #[test]
    fn an_empty_directory_lacks_its_annotations() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().to_str().unwrap();
        let error = runtime().block_on(load_bundle_source(source)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "open metadata/annotations.yaml: no such file or directory"
        );
    }
}
