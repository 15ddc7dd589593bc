//! Hostile archives in real images: refused with the entry named, while others are served and the
//! disk stays clean.
//!
//! Cases of catalogs.md 5.7; the details of unpacking have unit tests.

use olm_image::built::{Compression, ImageBuilder};
use olm_test::archive::Archive;
use olm_test::prelude::*;

use super::{Catalog, GOOD, controller_is_well, waits_for_bundle};

const LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const OUTSIDE: &str = "symbolic link does not lead to a file of the wanted directories";
const NO_FILE: &str = "hard link target is not a file of the wanted directories";
const EMPTY_FILES: usize = 100_001;
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

fn file(name: &str, reason: &str) -> String {
    format!("file \"{name}\": {reason}")
}

/// Returns the hostile layers for images whose directory `wanted` is read.
fn hostiles(wanted: &str) -> Vec<Hostile> {
    let mut all = names(wanted);
    all.extend(links(wanted));
    all.extend(special_files(wanted));
    all.extend(sizes(wanted));
    all.extend(whiteouts(wanted));
    all
}

// catalogs.md A1, A12
fn names(wanted: &str) -> Vec<Hostile> {
    let climbing = format!("{wanted}/../../x");
    let nul = format!("{wanted}/a\0b");
    let shown = format!("{wanted}/a\u{fffd}b");
    let binary = [wanted.as_bytes(), b"/\xff"].concat();
    let parent = "path leaves its directory with \"..\"";
    vec![
        hostile("a1-parent", Archive::new().file("../x", "x"), entry("../x", parent)),
        hostile("a1-absolute", Archive::new().file("/../x", "x"), entry("/../x", parent)),
        hostile("a1-climbing", Archive::new().file(&climbing, "x"), entry(&climbing, parent)),
        hostile(
            "a1-nul",
            Archive::new().pax("path", &nul).file("short", ""),
            entry(&shown, "path has a NUL byte"),
        ),
        hostile(
            "a12-binary",
            Archive::new().entry(b'0', &binary, b"", 0, b""),
            entry(&format!("{wanted}/\u{fffd}"), "path is not valid UTF-8"),
        ),
    ]
}

// catalogs.md A2, A3, A4
fn links(wanted: &str) -> Vec<Hostile> {
    let link = format!("{wanted}/a.yaml");
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let to = |case, target| {
        let archive = Archive::new().file("other/b.yaml", "{}");
        hostile(case, archive.symlink(&link, target), file(&link, OUTSIDE))
    };
    let hard = |case, target| {
        let archive = Archive::new().file("other/b.yaml", "{}");
        hostile(case, archive.hard_link(&link, target), entry(&link, NO_FILE))
    };
    let chain = (0..41).fold(Archive::new(), |archive, at| {
        let (from, to) = (format!("{wanted}/l{at:02}"), format!("l{:02}", at + 1));
        archive.symlink(&from, &to)
    });
    let chain = chain.file(&format!("{wanted}/l41"), "{}");
    let first = format!("{wanted}/l00");
    vec![
        to("a2-passwd", "/etc/passwd"),
        to("a2-token", token),
        to("a2-relative", "../../../../etc/passwd"),
        to("a3-outside", "../other/b.yaml"),
        hostile("a3-loop", chain, file(&first, "more than 40 symbolic links on the way")),
        hostile(
            "a4-through",
            Archive::new()
                .symlink(&format!("{wanted}/out"), "/tmp")
                .file(&format!("{wanted}/out/olm-evil"), "{}"),
            file(&format!("{wanted}/out"), OUTSIDE),
        ),
        hard("a4-missing", "nothing"),
        hard("a4-outside", "../../etc/passwd"),
    ]
}

// catalogs.md A5
fn special_files(wanted: &str) -> Vec<Hostile> {
    let name = format!("{wanted}/s");
    let special = |case, kind: u8, what: &str| {
        let archive = Archive::new().entry(kind, name.as_bytes(), b"", 0, b"");
        let reason = format!("{what} is not allowed in a wanted directory");
        hostile(case, archive, entry(&name, &reason))
    };
    vec![special("a5-fifo", b'6', "fifo"), special("a5-device", b'3', "character device")]
}

// catalogs.md A7
fn sizes(wanted: &str) -> Vec<Hostile> {
    let name = format!("{wanted}/a");
    let above = Archive::new().entry(b'0', name.as_bytes(), b"", 5000, b"short");
    let truncated = "content ends before the size its header says";
    vec![
        Hostile { case: "a7-above", layer: above.unfinished(), refusal: entry(&name, truncated) },
        hostile(
            "a7-pax",
            Archive::new().pax("size", "000001").file(&name, "abc"),
            "layer 1: header says 3 bytes and its PAX record 1",
        ),
    ]
}

// catalogs.md A8
fn whiteouts(wanted: &str) -> Vec<Hostile> {
    let of = |case, name: String| {
        let archive = Archive::new().file(&name, "");
        hostile(case, archive, entry(&name, "whiteout without a name"))
    };
    vec![of("a8-empty", format!("{wanted}/.wh.")), of("a8-parent", ".wh...".to_owned())]
}

/// Pushes an image of these layers, without checks.
async fn push(image: &str, label: Option<&str>, layers: &[(Vec<u8>, Compression)]) -> String {
    let mut builder = ImageBuilder::new();
    if let Some(directory) = label {
        builder = builder.label(LABEL, directory);
    }
    for (layer, compression) in layers {
        builder = builder.tar(layer.clone(), *compression);
    }
    images::send_built(image, &builder.build().expect("an image")).await
}

async fn catalog(
    cluster: &Cluster,
    case: &str,
    label: &str,
    layers: &[(Vec<u8>, Compression)],
) -> Catalog {
    let name = format!("bad-{case}");
    let image = format!("{}/hostile/{case}:v1", cluster.registry);
    push(&image, Some(label), layers).await;
    Catalog::create(cluster, &name, &image).await
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
            assert!(!["a.yaml", "s", "out", "x", "olm-evil"].contains(&&*name));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
}

// catalogs.md A1 to A8, A12
#[tokio::test(flavor = "multi_thread")]
async fn catalog_images_are_refused_with_the_entry_named_while_others_are_served() {
    let cluster = cluster::with_controller().await;
    let good = Archive::new().file("configs/catalog.json", GOOD).finish();
    let good = catalog(&cluster, "good", "/configs", &[(good, Compression::Gzip)]).await;
    let before = good.served().await;

    let mut refused = Vec::new();
    for Hostile { case, layer, refusal } in hostiles("configs") {
        let layers = [(layer, Compression::Gzip)];
        refused.push((catalog(&cluster, case, "/configs", &layers).await, refusal));
    }
    for (catalog, refusal) in &refused {
        let message = format!("source catalog content: error unpacking image: {refusal}");
        let found = catalog.says("True", "Retrying", &message).await;
        let status = found.status.expect("a status");
        assert!(status.resolved_source.is_none() && status.urls.is_none());
    }
    assert_eq!(good.served().await.status, before.status);
    nothing_is_left(&cluster);
    controller_is_well(&cluster);
    for (catalog, _) in &refused {
        catalog.delete().await;
    }
    good.delete().await;
}

// catalogs.md A6, A13
#[tokio::test(flavor = "multi_thread")]
async fn catalog_images_that_never_end_or_do_not_decompress_are_stopped() {
    let cluster = cluster::with_controller().await;
    let zeros = Archive::new().file("configs/zeros", vec![0; BOMB]).finish();
    let bomb = catalog(&cluster, "a6-bomb", "/configs", &[(zeros, Compression::Zstd)]).await;
    let many = (0..EMPTY_FILES)
        .fold(Archive::new(), |archive, at| archive.file(&format!("configs/{at}"), ""));
    let many = [(many.finish(), Compression::Gzip)];
    let many = catalog(&cluster, "a6-many", "/configs", &many).await;
    let good = Archive::new().file("configs/catalog.json", GOOD).finish();
    let garbage = [b"\x1f\x8b\x08\0".as_slice(), &[0x55; 4096]].concat();
    let layers = [(good, Compression::Gzip), (garbage, Compression::None)];
    let broken = catalog(&cluster, "a13-broken", "/configs", &layers).await;

    let source = "source catalog content: error unpacking image: ";
    let message = format!(
        "{source}layer 1, entry \"configs/zeros\": layer expands more than 1000 times when \
         decompressed"
    );
    bomb.says("True", "Retrying", &message).await;
    let message =
        format!("{source}layer 1, entry \"configs/100000\": more than 100000 files are wanted");
    many.says("True", "Retrying", &message).await;
    broken.says("True", "Retrying", &format!("{source}layer 2: corrupt deflate stream")).await;
    nothing_is_left(&cluster);
    controller_is_well(&cluster);
    for catalog in [bomb, many, broken] {
        catalog.delete().await;
    }
}

// catalogs.md A3, A5, A7, A9, A10, A11, A12, A14
#[tokio::test(flavor = "multi_thread")]
async fn odd_catalog_images_that_are_good_are_served() {
    let cluster = cluster::with_controller().await;
    let gzip = |archive: Archive| (archive.finish(), Compression::Gzip);
    let readable = || Archive::new().file("configs/catalog.json", GOOD);
    let mut after = readable().finish();
    after.extend_from_slice(&[7; 5000]);
    let broken = || Archive::new().file("configs/broken.json", "no catalog");
    let cases = [
        ("a3-link", "/configs", vec![gzip(readable().symlink("configs/b.json", "catalog.json"))]),
        ("a5-elsewhere", "/configs", vec![gzip(readable().entry(b'6', b"dev/s", b"", 0, b""))]),
        ("a7-after", "/configs", vec![(after, Compression::Gzip)]),
        ("a9-hidden", "/configs", vec![gzip(broken()), gzip(readable().file(".wh.configs", ""))]),
        (
            "a10-opaque",
            "/configs",
            vec![gzip(broken()), gzip(readable().file("configs/.wh..wh..opq", ""))],
        ),
        ("a11-file", "configs/catalog.json", vec![gzip(readable().file("configs/x", "no"))]),
        ("a11-slash", "configs/", vec![gzip(readable())]),
        ("a11-nowhere", "/nowhere", vec![gzip(readable())]),
        (
            "a12-newline",
            "/configs",
            vec![gzip(Archive::new().pax("path", "configs/new\nline").file("x", GOOD))],
        ),
        (
            "a14-tags",
            "/configs",
            vec![gzip(Archive::new().file(
                "configs/c.yaml",
                "schema: olm.package\nname: !!python/object:os.system shop\n",
            ))],
        ),
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
        catalog.delete().await;
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
    catalog.delete().await;
}

// catalogs.md A1 to A8, A12, for installed bundles
#[tokio::test(flavor = "multi_thread")]
async fn bundle_images_are_refused_with_the_entry_named() {
    let cluster = cluster::with_controller().await;
    let mut scene = Scene::empty(cluster, "hostile");
    let cases = hostiles("manifests");
    let versions: Vec<String> = (0..cases.len()).map(|at| format!("1.0.{at}")).collect();
    let mut pushed = BTreeMap::new();
    for (Hostile { case, layer, .. }, version) in cases.iter().zip(&versions) {
        let image = format!("{}/hostile-bundle/{case}:v1", scene.cluster.registry);
        let layers = [(layer.clone(), Compression::Gzip)];
        pushed.insert(version.clone(), push(&image, None, &layers).await);
    }
    let entries: Vec<&str> = versions.iter().map(String::as_str).collect();
    let catalog = scene.package.catalog_files(&chain(&entries), &pushed);
    scene.publish_catalog(catalog).await;
    scene.create_namespace();
    scene.grant(&[Bundle::new("1.0.0")]);

    let extension = scene.install(json!({"version": "1.0.0"})).await;
    for (Hostile { refusal, .. }, version) in cases.iter().zip(&versions) {
        extension.patch_catalog(json!({"version": version})).await;
        waits_for_bundle(&extension, version, &format!("error unpacking image: {refusal}")).await;
    }
    nothing_is_left(&scene.cluster);
    controller_is_well(&scene.cluster);
    extension.delete().await;
}
