//! Hostile archives in real images: refused with the entry named, while others are served and the
//! disk stays clean.
//!
//! Cases of catalogs.md 5.7; the details of unpacking have unit tests.

use std::slice;

use olm_image::built::Compression;
use olm_test::archive::Archive;
use olm_test::prelude::*;

use super::{GOOD, controller_is_well, publish, waits_for_bundle};

const LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const OUTSIDE: &str = "symbolic link does not lead to a file of the wanted directories";
const BOMB: usize = 80 << 20;

/// A layer that must be refused, and the expected message.
struct Hostile {
    case: &'static str,
    layer: Vec<u8>,
    refusal: String,
}

fn hostile(case: &'static str, archive: Archive, refusal: impl Into<String>) -> Hostile {
    Hostile { case, layer: archive.finish(), refusal: refusal.into() }
}

fn entry(name: &str, reason: &str) -> String {
    format!("layer 1, entry \"{name}\": {reason}")
}

/// Returns a hostile layer of each sort for images whose directory `wanted` is read (catalogs.md A1,
/// A4, A5, A7, A8); `unpack` in `src/image` is tested with the others.
fn hostiles(wanted: &str) -> Vec<Hostile> {
    let at = |name: &str| format!("{wanted}/{name}");
    let climbing = at("../../x");
    let through = Archive::new().symlink(&at("out"), "/tmp").file(&at("out/olm-evil"), "{}");
    let fifo = Archive::new().entry(b'6', at("s").as_bytes(), b"", 0, b"");
    let sized = Archive::new().pax("size", "000001").file(&at("a"), "abc");
    vec![
        hostile(
            "a1-climbing",
            Archive::new().file(&climbing, "x"),
            entry(&climbing, "path leaves its directory with \"..\""),
        ),
        hostile("a4-through", through, format!("file \"{wanted}/out\": {OUTSIDE}")),
        hostile("a5-fifo", fifo, entry(&at("s"), "fifo is not allowed in a wanted directory")),
        hostile("a7-pax", sized, "layer 1: header says 3 bytes and its PAX record 1"),
        hostile(
            "a8-parent",
            Archive::new().file(".wh...", ""),
            entry(".wh...", "whiteout without a name"),
        ),
    ]
}

async fn catalog(
    cluster: &Cluster,
    case: &str,
    label: &str,
    layers: &[(Vec<u8>, Compression)],
) -> Catalog {
    let name = format!("bad-{case}");
    let image = format!("{}/hostile/{case}:v1", cluster.registry);
    let built = images::of_layers(layers.iter().cloned(), &[(LABEL, label)]);
    images::send_built(&image, &built).await;
    Catalog::create(cluster.plane, &name, &image)
}

/// Asserts that no file of a refused image is left on the disk of the shared controller.
fn nothing_is_left(cluster: &Cluster) {
    let state = cluster.dir.join("controller-state");
    assert!(!Path::new("/tmp/olm-evil").exists());
    let mut folders = vec![state.join("catalogs"), state.join("bundles")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            assert!(!["s", "out", "x", "olm-evil"].contains(&&*name));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
}

// catalogs.md A1, A4, A5, A6, A7, A8, A13
#[tokio::test(flavor = "multi_thread")]
async fn catalog_images_are_refused_with_the_entry_named_while_others_are_served() {
    let cluster = cluster::with_controller().await;
    let content = Archive::new().file("configs/catalog.json", GOOD).finish();
    let content = (content, Compression::Gzip);
    let good = catalog(&cluster, "good", "/configs", slice::from_ref(&content)).await;
    let before = good.served().await;

    let zeros = Archive::new().file("configs/zeros", vec![0; BOMB]).finish();
    let endless = "layer expands more than 1000 times when decompressed";
    let garbage = [b"\x1f\x8b\x08\0".as_slice(), &[0x55; 4096]].concat();
    let hostiles = hostiles("configs").into_iter();
    let refused =
        hostiles.map(|it| (it.case, vec![(it.layer, Compression::Gzip)], it.refusal)).chain([
            ("a6-bomb", vec![(zeros, Compression::Zstd)], entry("configs/zeros", endless)),
            (
                "a13-broken",
                vec![content, (garbage, Compression::None)],
                "layer 2: corrupt deflate stream".to_owned(),
            ),
        ]);
    let mut catalogs = Vec::new();
    for (case, layers, refusal) in refused {
        catalogs.push((catalog(&cluster, case, "/configs", &layers).await, refusal));
    }
    for (catalog, refusal) in &catalogs {
        let message = format!("source catalog content: error unpacking image: {refusal}");
        let found = catalog.says("True", "Retrying", &message).await;
        assert!(found["status"]["resolvedSource"].is_null() && found["status"]["urls"].is_null());
    }
    assert_eq!(good.served().await["status"], before["status"]);
    nothing_is_left(&cluster);
    controller_is_well(&cluster);
    for (catalog, _) in &catalogs {
        catalog.delete();
    }
    good.delete();
}

// catalogs.md A9, A11, A12: `unpack` in `src/image` is tested with the others.
#[tokio::test(flavor = "multi_thread")]
async fn odd_catalog_images_that_are_good_are_served() {
    let cluster = cluster::with_controller().await;
    let gzip = |archive: Archive| (archive.finish(), Compression::Gzip);
    let readable = || Archive::new().file("configs/catalog.json", GOOD);
    let broken = Archive::new().file("configs/broken.json", "no catalog");
    let newline = Archive::new().pax("path", "configs/new\nline").file("x", GOOD);
    let hidden = vec![gzip(broken), gzip(readable().file(".wh.configs", ""))];
    let cases = [
        ("a9-hidden", "/configs", hidden),
        ("a11-file", "configs/catalog.json", vec![gzip(readable().file("configs/x", "no"))]),
        ("a11-nowhere", "/nowhere", vec![gzip(readable())]),
        ("a12-newline", "/configs", vec![gzip(newline)]),
    ];
    let mut catalogs = Vec::new();
    for (case, label, layers) in cases {
        catalogs.push(catalog(&cluster, case, label, &layers).await);
    }
    for catalog in &catalogs {
        catalog.served().await;
    }
    controller_is_well(&cluster);
    for catalog in catalogs {
        catalog.delete();
    }
}

// catalogs.md A11
#[tokio::test(flavor = "multi_thread")]
async fn label_that_leaves_the_image_is_blocked() {
    let cluster = cluster::with_controller().await;
    let layers = [(Archive::new().file("x", GOOD).finish(), Compression::Gzip)];
    let catalog = catalog(&cluster, "a11-leaves", "../x", &layers).await;
    let message = format!(
        "source catalog content: label \"{LABEL}\" does not name a directory of the image: \
         \"../x\""
    );
    catalog.says("False", "Blocked", &message).await;
    catalog.delete();
}

// catalogs.md A1, A4, A5, A7, A8, for installed bundles
#[tokio::test(flavor = "multi_thread")]
async fn bundle_images_are_refused_with_the_entry_named() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "hostile");
    let cases = hostiles("manifests");
    let layer = |case: &Hostile| [(case.layer.clone(), Compression::Gzip)];
    let built = cases.iter().map(|case| images::of_layers(layer(case), &[]));
    let versions = publish(&mut scene, built).await;
    let extension = scene.install(json!({"version": "1.0.0"})).await;
    for (Hostile { refusal, .. }, version) in cases.iter().zip(&versions) {
        extension.patch_catalog(json!({"version": version})).await;
        waits_for_bundle(&extension, version, &format!("error unpacking image: {refusal}")).await;
    }
    nothing_is_left(&scene.cluster);
    controller_is_well(&scene.cluster);
    extension.delete().await;
}
