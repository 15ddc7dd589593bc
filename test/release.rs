//! Bundle folders as releases of a package, and the file-based catalog that offers them, as the plugin
//! makes one of bundles.

use std::path::{Path, PathBuf};

use olm_core::bundle::Bundle;
use olm_core::catalog::{CatalogBundle, graph_of_bundles};

use crate::bundles;
use crate::package::Files;

/// One version of a package, as its folder describes it.
#[derive(Debug, Clone)]
pub struct Release {
    /// Folder of the bundle.
    pub folder: PathBuf,
    /// Name of the package.
    pub package: String,
    /// Name of the ClusterServiceVersion, and so of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: String,
}

impl Release {
    /// Reads a bundle folder; panics when it does not contain a bundle.
    pub fn read(folder: &Path) -> Self {
        let (Bundle { package, csv, .. }, _) = load(folder);
        let version = csv.summary.version.unwrap_or_default();
        Self { folder: folder.to_owned(), package, name: csv.name, version }
    }

    /// Returns the files of the bundle image.
    pub fn files(&self) -> Files {
        load(&self.folder).1
    }
}

/// Reads a bundle, which need not be one that can be installed.
fn load(folder: &Path) -> (Bundle, Files) {
    let files = bundles::read_files(folder).expect("the bundle folder can be read");
    let (bundle, _) = Bundle::for_catalog(&files).expect("a bundle");
    (bundle, files)
}

/// Returns the files of a catalog image; each release is given with the image of its bundle.
pub fn catalog_files(releases: &[(Release, String)]) -> Files {
    let read = |(release, image): &(Release, String)| {
        let (bundle, files) = load(&release.folder);
        CatalogBundle::new(&bundle, &files, image).expect("a bundle of a catalog")
    };
    let bundles: Vec<_> = releases.iter().map(read).collect();
    let graph = graph_of_bundles(&bundles).into_iter().map(|blob| blob.to_string());
    let blobs: Vec<_> = graph.chain(bundles.iter().map(|it| it.blob.clone())).collect();
    Files::from([("configs/catalog.json".to_owned(), blobs.join("\n").into_bytes())])
}
