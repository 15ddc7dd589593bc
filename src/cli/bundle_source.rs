//! Sources of bundles: a directory on this machine, or an image.

use std::fs;
use std::io;

use olm_core::bundle::{Bundle, Files};
use olm_image::bundle::{BUNDLE_DIRECTORIES, BundleImage, pull_bundle};
use olm_image::present;

use crate::output::{Failure, Outcome, during};
use crate::prelude::*;
use crate::puller::puller;

/// The hint for an image without a registry.
const EXAMPLE: &str = "an image needs its registry, for example registry.example.com/team/quay:1.0";

/// The beginning of an argument that is an image, whatever is on this machine.
pub(crate) const IMAGE: &str = "image:";

/// The beginning of one that is a directory.
pub(crate) const DIRECTORY: &str = "dir:";

/// Loads the bundle of an image, and says by which digest.
pub(crate) async fn load_image(image: &str) -> anyhow::Result<(Bundle, String)> {
    let pulled = pull_image(image).await?;
    let digest = pulled.image.digest().context("a pulled image has a digest")?.to_string();
    Ok((parse(pulled.files).await?, digest))
}

/// Loads the files of the bundle of an image, which may come from a catalog: a directory of its name
/// is not meant.
pub(crate) async fn image_files(image: &str) -> anyhow::Result<Files> {
    Ok(pull_image(image).await?.files)
}

/// Loads the files of the bundle that an argument names: a directory if one exists at that path,
/// otherwise an image reference.
pub(crate) async fn load_files(source: &str) -> anyhow::Result<Files> {
    if let Some(image) = source.strip_prefix(IMAGE) {
        return image_files(image).await;
    }
    if !Path::new(source).is_dir() {
        source.parse::<ImageRef>().map_err(|error| Failure {
            text: format!(
                "{source:?} is neither a directory nor an image reference: {}",
                Chain(&error)
            ),
            hint: source.contains(':').then(|| EXAMPLE.to_owned()),
            outcome: Outcome::Failed,
        })?;
        return image_files(source).await;
    }
    let directory = PathBuf::from(source);
    let read = tokio::task::spawn_blocking(move || read_directory(&directory)).await?;
    read.with_context(|| format!("reading {source}"))
}

/// Parses a bundle on a blocking thread, because megabytes of YAML would block async tasks.
pub(crate) async fn parse(files: Files) -> anyhow::Result<Bundle> {
    Ok(tokio::task::spawn_blocking(move || Bundle::from_files(&files)).await??)
}

/// Pulls a bundle image with the configuration and credentials other container tools use.
async fn pull_image(image: &str) -> anyhow::Result<BundleImage> {
    let image: ImageRef = image.parse().with_context(|| format!("image {image:?}"))?;
    let puller = puller()?;
    let (what, transfer) = (format!("pulling {image}"), puller.transfer());
    Ok(during(&what, &transfer, Box::pin(pull_bundle(&puller, &image, None))).await?)
}

fn read_directory(root: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for directory in BUNDLE_DIRECTORIES {
        let entries = present(fs::read_dir(root.join(directory)))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry?;
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                // The loader refuses directories of manifests by a path below them; their content is
                // not read.
                files.insert(format!("{name}/"), Vec::new());
            } else {
                files.insert(name, fs::read(entry.path())?);
            }
        }
    }
    Ok(files)
}
