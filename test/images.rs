//! Pushing bundles and catalogs to the registry of a control plane.

use olm_api::keys;
use olm_image::ImageRef;
use olm_image::built::{BuiltImage, Compression, ImageBuilder};
use olm_image::push::{PushOptions, push};

use crate::package::Files;

/// Pushes a bundle image and returns its reference by digest.
pub async fn push_bundle(image: &str, files: Files) -> String {
    send(image, files, &[]).await
}

/// Pushes a catalog image with its files below `configs/`, and returns its reference by digest.
pub async fn push_catalog(image: &str, files: Files) -> String {
    let label = (keys::name::CATALOG_CONFIGS_LABEL, "/configs");
    send(image, files, &[label]).await
}

/// Pushes an image of one layer with these labels, and returns its reference by digest.
pub async fn send(image: &str, files: Files, labels: &[(&str, &str)]) -> String {
    send_built(image, &build(&files, labels)).await
}

/// Makes an image of one layer with these labels.
pub fn build(files: &Files, labels: &[(&str, &str)]) -> BuiltImage {
    let layer = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    labelled(ImageBuilder::new().layer(layer).expect("a layer"), labels)
}

/// Makes an image of these layers, without checks.
pub fn of_layers(
    layers: impl IntoIterator<Item = (Vec<u8>, Compression)>,
    labels: &[(&str, &str)],
) -> BuiltImage {
    let all = layers.into_iter();
    labelled(all.fold(ImageBuilder::new(), |image, (layer, how)| image.tar(layer, how)), labels)
}

fn labelled(image: ImageBuilder, labels: &[(&str, &str)]) -> BuiltImage {
    let image = labels.iter().fold(image, |image, (key, value)| image.label(*key, *value));
    image.build().expect("an image")
}

/// Pushes an image without checks, and returns its reference by digest.
pub async fn send_built(image: &str, built: &BuiltImage) -> String {
    let options = PushOptions { plain_http: true, ..PushOptions::default() };
    send_with(image, built, &options).await
}

/// The same, with these options.
pub async fn send_with(image: &str, built: &BuiltImage, options: &PushOptions) -> String {
    // It may be installed already by another test, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let reference: ImageRef = image.parse().expect("a reference");
    let digest = push(built, &reference, options).await.expect("the registry takes the image");
    reference.with_digest(digest).to_string()
}
