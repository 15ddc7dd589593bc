//! Where a bundle comes from: a directory on this machine, or an image.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use olm_core::bundle::{ANNOTATIONS_FILE, Bundle, Files, PROPERTIES_FILE};
use olm_image::auth::Credentials;
use olm_image::bundle::pull_bundle;
use olm_image::pull::{PullConfig, Puller};
use olm_image::reference::ImageRef;
use olm_image::registries::RegistriesPaths;

/// Loads the bundle an argument names: a directory if there is one of that path, otherwise an
/// image reference.
pub(crate) async fn load_bundle_source(source: &str) -> anyhow::Result<Bundle> {
    let files = if Path::new(source).is_dir() {
        let directory = PathBuf::from(source);
        let read = tokio::task::spawn_blocking(move || read_directory(&directory)).await?;
        read.with_context(|| format!("reading {source}"))?
    } else {
        pull(source).await?
    };
    // Megabytes of YAML would hold up everything else on an async thread.
    let bundle = tokio::task::spawn_blocking(move || Bundle::from_files(&files)).await?;
    Ok(bundle?)
}

/// Pulls a bundle image with the configuration and credentials other container tools use.
async fn pull(source: &str) -> anyhow::Result<Files> {
    let image: ImageRef = source
        .parse()
        .with_context(|| format!("{source:?} is neither a directory nor an image reference"))?;
    let configured = env::var_os("CONTAINERS_REGISTRIES_CONF").filter(|path| !path.is_empty());
    let puller = Puller::new(PullConfig {
        registries: RegistriesPaths::new(configured.map(PathBuf::from)),
        ..PullConfig::default()
    });
    puller.set_credentials(credentials()?);
    Ok(pull_bundle(&puller, &image, None).await?.files)
}

/// Reads the credentials of container tools; a file that is not there has none.
///
/// `REGISTRY_AUTH_FILE` alone is read if it is set, else Docker's file and over it the one of the
/// login session.
fn credentials() -> anyhow::Result<Credentials> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let files = match set("REGISTRY_AUTH_FILE") {
        Some(file) => vec![file],
        None => [
            set("HOME").map(|home| home.join(".docker/config.json")),
            set("XDG_RUNTIME_DIR").map(|session| session.join("containers/auth.json")),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    let mut all = Credentials::default();
    for file in files {
        match fs::read(&file) {
            Ok(content) => {
                let parsed = Credentials::parse(&content);
                all.merge(parsed.with_context(|| format!("reading {}", file.display()))?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("reading {}", file.display()));
            }
        }
    }
    Ok(all)
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
