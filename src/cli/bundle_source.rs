//! Where a bundle comes from: a directory on this machine, an image, or a catalog.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use olm_api::CatalogFilter;
use olm_core::bundle::{ANNOTATIONS_FILE, Bundle, DEPENDENCIES_FILE, Files, PROPERTIES_FILE};
use olm_core::error::Chain;
use olm_core::resolve::{Environment, Options, Request, UpdatePolicy, resolve};
use olm_image::bundle::{BundleImage, pull_bundle};
use olm_image::reference::ImageRef;

use crate::catalogs::{CATALOG_SYNTAX, CatalogFlag, Catalogs};
use crate::offers::Named;
use crate::output::{UsageError, during, notice};
use crate::puller::puller;

/// A bundle by itself, or one that a catalog offers.
#[derive(Debug, Args)]
pub(crate) struct BundleArg {
    /// Directory of an unpacked bundle, or reference of a bundle image
    #[arg(
        value_name = "BUNDLE_DIR|IMAGE",
        required_unless_present = "from_catalog",
        conflicts_with = "from_catalog"
    )]
    bundle: Option<String>,
    /// The bundle that the catalogs offer of a package, the highest unless a version or a range
    /// is named
    #[arg(long, value_name = "PACKAGE[@VERSION]", requires = "catalogs")]
    from_catalog: Option<String>,
    /// The catalogs of the package.
    #[command(flatten)]
    offered: CatalogArgs,
}

/// Catalogs to look for a package in.
#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// A catalog: a directory or file of blobs, a catalog image, or the URL of a served catalog;
    /// may be repeated
    #[arg(
        id = "catalogs",
        long = "catalog",
        value_name = CATALOG_SYNTAX
    )]
    catalogs: Vec<CatalogFlag>,
    /// CA certificates of catalog servers, as a PEM file; no others are trusted then
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<PathBuf>,
}

impl BundleArg {
    /// Loads the bundle.
    pub(crate) async fn load(&self) -> anyhow::Result<Bundle> {
        match (&self.from_catalog, &self.bundle) {
            (Some(wanted), _) => self.offered.load(wanted).await,
            (None, Some(source)) => load_bundle_source(source).await,
            (None, None) => Err(UsageError("a bundle is required".to_owned()).into()),
        }
    }
}

impl CatalogArgs {
    /// Says whether any catalog is named.
    pub(crate) fn any(&self) -> bool {
        !self.catalogs.is_empty()
    }

    /// Returns the names of the catalogs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.catalogs.iter().map(|flag| flag.name.as_str())
    }

    /// Reads the catalogs with all their blobs.
    pub(crate) async fn read(&self) -> Vec<Named> {
        Named::read(&self.catalogs, self.catalog_ca.clone()).await
    }

    /// Returns these catalogs, of which some may be served with certificates of a CA of their own.
    pub(crate) fn new(catalogs: Vec<CatalogFlag>, catalog_ca: Option<PathBuf>) -> Self {
        Self {
            catalogs,
            catalog_ca,
        }
    }

    /// Returns the places of the catalogs.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.catalogs.iter().map(|flag| flag.place.as_str())
    }

    /// Loads the bundle that the catalogs offer for `PACKAGE` or `PACKAGE@VERSION`.
    pub(crate) async fn load(&self, wanted: &str) -> anyhow::Result<Bundle> {
        parse(self.files(wanted).await?.1).await
    }

    /// Pulls the bundle that the catalogs offer for `PACKAGE` or `PACKAGE@VERSION`; returns its image
    /// and its files.
    pub(crate) async fn files(&self, wanted: &str) -> anyhow::Result<(String, Files)> {
        let image = self.image(wanted).await?;
        let files = pull(&image).await?;
        Ok((image, files))
    }

    /// Returns the image of the bundle that the catalogs offer for `PACKAGE` or `PACKAGE@VERSION`.
    pub(crate) async fn image(&self, wanted: &str) -> anyhow::Result<String> {
        let (package, version) = match wanted.split_once('@') {
            Some((package, version)) => (package, Some(version.to_owned())),
            None => (wanted, None),
        };
        let mut catalogs = Catalogs::new(self.catalog_ca.clone());
        for flag in &self.catalogs {
            catalogs.load(&flag.place).await;
        }
        let given: Vec<_> = self
            .catalogs
            .iter()
            .map(|flag| catalogs.given(flag))
            .collect::<Result<_, _>>()?;
        let request = Request {
            filter: CatalogFilter {
                package_name: package.to_owned(),
                version,
                ..CatalogFilter::default()
            },
            ..Request::default()
        };
        let options = Options {
            updates: UpdatePolicy::Any,
            ..Options::default()
        };
        let resolution = resolve(&request, &given, &Environment::default(), &options);
        let selected = resolution
            .result
            .map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?;
        notice(&format!(
            "{} of catalog {}: {}",
            selected.bundle.name, selected.catalog, selected.bundle.image
        ));
        Ok(selected.bundle.image.clone())
    }
}

/// Loads the bundle that an argument names: a directory if one exists at that path, otherwise an
/// image reference.
pub(crate) async fn load_bundle_source(source: &str) -> anyhow::Result<Bundle> {
    parse(load_files(source).await?).await
}

/// Loads the bundle of an image, and says by which digest.
pub(crate) async fn load_image(image: &str) -> anyhow::Result<(Bundle, String)> {
    let parsed: ImageRef = image.parse().with_context(|| format!("image {image:?}"))?;
    let pulled = pull_image(&parsed).await?;
    let digest = pulled
        .image
        .digest()
        .context("a pulled image has a digest")?;
    let digest = digest.to_string();
    Ok((parse(pulled.files).await?, digest))
}

/// Loads the files of the bundle that an argument names.
pub(crate) async fn load_files(source: &str) -> anyhow::Result<Files> {
    if !Path::new(source).is_dir() {
        return pull(source).await;
    }
    let directory = PathBuf::from(source);
    let read = tokio::task::spawn_blocking(move || read_directory(&directory)).await?;
    read.with_context(|| format!("reading {source}"))
}

/// Parses a bundle on a blocking thread, because megabytes of YAML would block async tasks.
pub(crate) async fn parse(files: Files) -> anyhow::Result<Bundle> {
    let bundle = tokio::task::spawn_blocking(move || Bundle::from_files(&files)).await?;
    Ok(bundle?)
}

/// Pulls a bundle image with the configuration and credentials other container tools use.
async fn pull(source: &str) -> anyhow::Result<Files> {
    let image: ImageRef = source
        .parse()
        .with_context(|| format!("{source:?} is neither a directory nor an image reference"))?;
    Ok(pull_image(&image).await?.files)
}

async fn pull_image(image: &ImageRef) -> anyhow::Result<BundleImage> {
    let puller = puller()?;
    let (what, transfer) = (format!("pulling {image}"), puller.transfer());
    Ok(during(
        &what,
        &transfer,
        Box::pin(pull_bundle(&puller, image, None)),
    )
    .await?)
}

/// Reads the files of a bundle that are used.
fn read_directory(directory: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for name in [ANNOTATIONS_FILE, DEPENDENCIES_FILE, PROPERTIES_FILE] {
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
