//! Pushes folders as images, for the demo.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use olm_image::ImageRef;
use olm_image::built::{BuiltImage, ImageBuilder};
use olm_image::catalog::CONFIGS_LABEL;
use olm_image::push::{PushOptions, push};

/// Pushes a bundle: `manifests` and `metadata` below `folder`.
pub(crate) async fn bundle(folder: &Path, image: &str) -> anyhow::Result<String> {
    let files = files(folder)?;
    send(build(&files, "", None)?, image).await
}

/// Pushes a catalog: everything below `folder`, as `/configs`.
pub(crate) async fn catalog(folder: &Path, image: &str) -> anyhow::Result<String> {
    let files = files(folder)?;
    send(build(&files, "configs/", Some("/configs"))?, image).await
}

fn build(
    files: &BTreeMap<String, Vec<u8>>,
    prefix: &str,
    configs: Option<&str>,
) -> anyhow::Result<BuiltImage> {
    let placed: Vec<_> =
        files.iter().map(|(path, bytes)| (format!("{prefix}{path}"), bytes.as_slice())).collect();
    let mut builder =
        ImageBuilder::new().layer(placed.iter().map(|(path, bytes)| (path.as_str(), *bytes)))?;
    if let Some(configs) = configs {
        builder = builder.label(CONFIGS_LABEL, configs);
    }
    Ok(builder.build()?)
}

async fn send(built: BuiltImage, image: &str) -> anyhow::Result<String> {
    let reference: ImageRef = image.parse().with_context(|| image.to_owned())?;
    // The demo's registry speaks plain HTTP; it listens on loopback only.
    let options = PushOptions { plain_http: true, ..PushOptions::default() };
    let digest = push(&built, &reference, &options).await?;
    Ok(format!("{image}@{digest}"))
}

/// Reads all files below `folder`, by their path relative to it.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    collect(folder, folder, &mut found)?;
    anyhow::ensure!(!found.is_empty(), "{} contains no files", folder.display());
    Ok(found)
}

fn collect(
    root: &Path,
    folder: &Path,
    found: &mut BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else {
            let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            found.insert(relative, bytes);
        }
    }
    Ok(())
}
