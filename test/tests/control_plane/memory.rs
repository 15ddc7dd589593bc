//! What images hold cannot take the controller past the memory that its Deployment gives it:
//! neither the worst that is accepted nor what is refused for its size (catalogs.md 5.8).

use std::fmt::Write as _;

use olm_image::built::Compression;
use olm_test::archive::Archive;
use olm_test::prelude::*;
use olm_test::usage::Usage;

use crate::bad_input::{nothing_installed, publish};

/// The limit of `config/manager`, in KiB.
const LIMIT: u64 = 1 << 20;
const MIB: usize = 1 << 20;
/// For what takes a build without optimization long.
const READ: Duration = Duration::from_mins(5);

/// Values of one large ConfigMap: four of them, and the other manifests, are just below the limit.
const VALUES: usize = 124_000;

/// Returns a ConfigMap of so many bytes and at most [`VALUES`] values, in the form that takes the most
/// memory for its length: many short keys, or a long list of numbers.
fn config_map(name: &str, bytes: usize, keys: bool) -> Vec<u8> {
    let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    text.push_str(if keys { "data:\n" } else { "data: {numbers: [" });
    let end = if keys { "" } else { "1]}\n" };
    // A comment fills what is left.
    for number in 0..VALUES {
        if text.len() + end.len() + 16 > bytes {
            break;
        }
        if keys {
            writeln!(text, " k{number:x}: v").expect("memory");
        } else {
            text.push_str("1,");
        }
    }
    text.push_str(end);
    let left = bytes - text.len();
    let _ = writeln!(text, "{}", "#".repeat(left - 1));
    text.into_bytes()
}

/// Serves a package whose bundle has these files besides its own, and creates its extension, with
/// an account that may do everything.
async fn install(cluster: &Cluster, suffix: &str, extra: Files) -> (Scene, Extension) {
    let mut scene = Scene::empty(cluster.clone(), suffix);
    let mut files = scene.package.bundle_files(&Bundle::new("1.0.0"));
    files.extend(extra);
    scene.publish_files(files).await;
    let account = objects::account(&scene.name, "installer");
    let role = ("ClusterRole", "cluster-admin");
    scene.cluster.plane.create(&objects::binding(&scene.name, None, role, &account));
    let extension = scene.install(json!({})).await;
    (scene, extension)
}

fn manifests(maps: impl IntoIterator<Item = Vec<u8>>) -> Files {
    let maps = maps.into_iter().enumerate();
    maps.map(|(index, text)| (format!("manifests/big-{index}.yaml"), text)).collect()
}

/// Says whether the bundle was read, and installed or refused for something else than its size.
fn judged(extension: &ClusterExtension) -> bool {
    condition(extension, "Progressing").is_some_and(|found| {
        let message = &found.message;
        let read = message.contains("for resolved bundle") || message.contains("evision");
        read && !message.contains("takes long")
    })
}

/// Waits until memory has not grown for a while, prints a row of the table that `--nocapture
/// memory::` shows (what was fed, what became of it, MiB at most, MiB of the limit), and asserts that
/// it stayed below the limit.
async fn bounded(controller: &Controller, what: &str, became: &[&str]) -> u64 {
    let mut last = (0, Instant::now());
    let usage = wait::until("memory has stopped growing", READ, || {
        let usage = Usage::of(controller.pid());
        if usage.peak != last.0 {
            last = (usage.peak, Instant::now());
        }
        let rests = last.1.elapsed() >= Duration::from_secs(5);
        async move { if rests { Ok(usage) } else { Err(usage) } }
    })
    .await;
    let became = became.join("<br>");
    println!("| {what} | {became} | {} | {} |", usage.peak >> 10, LIMIT >> 10);
    assert!(usage.peak < LIMIT, "{what}: {usage}");
    // The next row is about what is fed next.
    let _ = std::fs::write(format!("/proc/{}/clear_refs", controller.pid()), "5");
    usage.peak
}

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_largest_bundles_together_stay_below_the_limit_of_the_pod() {
    let (cluster, controller) = cluster::started("memory-largest", &[]).await;
    // The other manifests have a few KiB.
    let largest = |keys: bool| {
        let sizes = [4 * MIB, 4 * MIB - 1, 4 * MIB - 2, 4 * MIB - 64 * 1024];
        let maps = sizes.into_iter().enumerate();
        manifests(maps.map(move |(at, size)| config_map(&format!("big-{at}"), size, keys)))
    };
    let (_one, first) = install(&cluster, "memkeys", largest(true)).await;
    let (_two, second) = install(&cluster, "memlists", largest(false)).await;
    futures::join!(
        first.eventually("the bundle is judged", READ, judged),
        second.eventually("the bundle is judged", READ, judged),
    );
    let what = "two bundles of 16 MiB each: many keys, long lists";
    let peak = bounded(&controller, what, &["within the limits, read"]).await;
    assert!(peak > 64 << 10, "nothing large was read: {peak} KiB");
}

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn larger_bundles_are_blocked_before_they_are_read() {
    let (cluster, controller) = cluster::started("memory-larger", &[]).await;
    let before = bounded(&controller, "nothing", &["at rest"]).await;
    let document = manifests([config_map("big", 5 * MIB, true)]);
    let (_one, first) = install(&cluster, "memdocument", document).await;
    let one = "error for resolved bundle \"buoy-memdocument.v1.0.0\" with version \"1.0.0\": \
        manifests/big-0.yaml, line 1: document of 5242880 bytes is larger than 4194304 (4 MiB), \
        which no API server takes";
    let found = first.says("False", "Blocked", one).await;
    nothing_installed(&first, &found).await;

    let all = [4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, MIB].into_iter().enumerate();
    let all = manifests(all.map(|(at, size)| config_map(&format!("big-{at}"), size, true)));
    let (_two, second) = install(&cluster, "memall", all).await;
    let two = "error for resolved bundle \"buoy-memall.v1.0.0\" with version \"1.0.0\": \
        manifests/big-4.yaml: with this file the manifests of the bundle are 17825792 bytes, more \
        than 16777216 (16 MiB)";
    let found = second.says("False", "Blocked", two).await;
    nothing_installed(&second, &found).await;

    let what = "a bundle with a document of 5 MiB, and one of 17 MiB";
    let after = bounded(&controller, what, &[one, two]).await;
    // Their bytes are unpacked, never parsed.
    assert!(after < before + (200 << 10), "{before} KiB before, {after} KiB after");
}

/// Compresses a part of a layer; the parts of a layer follow each other.
fn squeezed(part: Vec<u8>, compression: Compression) -> Vec<u8> {
    images::of_layers([(part, compression)], &[]).layers.remove(0)
}

/// Returns a small layer with a GiB of zeros in a file that nobody wants.
fn bomb(compression: Compression) -> Vec<u8> {
    let part = |bytes| squeezed(bytes, compression);
    let header = Archive::new().entry(b'0', b"var/zeros", b"", 1 << 30, b"");
    let zeros = part(vec![0; 64 * MIB]).repeat(16);
    [part(header.unfinished()), zeros, part(Archive::new().finish())].concat()
}

/// Returns a small layer with a million empty files that nobody wants.
fn crowd() -> Vec<u8> {
    let mut layer = Vec::new();
    for first in (0..1_000_000).step_by(100_000) {
        let names = (first..first + 100_000).map(|number| format!("var/{number}"));
        let files = names.fold(Archive::new(), |files, name| files.file(&name, ""));
        layer.extend(squeezed(files.unfinished(), Compression::Zstd));
    }
    layer
}

// catalogs.md 5.7, 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn layers_that_are_or_become_too_large_are_refused() {
    let (cluster, controller) = cluster::started("memory-layers", &[]).await;
    let half = Archive::new().file("var/zeros", vec![0; 129 * MIB]).finish();
    let sizes = format!(
        "error copying image: the layers of the image are {} bytes together, more than 268435456",
        2 * half.len()
    );
    let expands = "error unpacking image: layer 1, entry \"var/zeros\": layer expands more than \
        1000 times when decompressed";
    let crowded = "error unpacking image: layer 1, entry \"var/500000\": image has more than 500000 \
        entries";
    let odd = "error unpacking image: layer 1: sparse files are not supported";
    let sparse = Archive::new().entry(b'S', b"var/sparse", b"", 0, b"").finish();
    let blocked = ("False", "Blocked");
    let rows = [
        ("layers of 258 MiB", vec![half.clone(), half], blocked, sizes.as_str()),
        ("a GiB of zeros, gzip", vec![bomb(Compression::Gzip)], blocked, expands),
        ("a GiB of zeros, zstd", vec![bomb(Compression::Zstd)], blocked, expands),
        ("a million files", vec![crowd()], blocked, crowded),
        ("a sparse file", vec![sparse], ("True", "Retrying"), odd),
    ];
    let rows = rows.map(|(what, layers, status, refusal)| {
        // They are compressed already, where they are.
        let layers = layers.into_iter().map(|layer| (layer, Compression::None));
        (what, images::of_layers(layers, &[]), status, refusal)
    });
    let mut scene = Scene::empty(cluster.clone(), "memlayers");
    let versions = publish(&mut scene, rows.iter().map(|(_, built, ..)| built.clone())).await;
    let before = bounded(&controller, "nothing", &["at rest"]).await;
    let extension = scene.install(json!({"version": versions[0]})).await;
    for ((what, _, (status, reason), refusal), version) in rows.iter().zip(&versions) {
        extension.patch_catalog(json!({"version": version})).await;
        let message = format!(
            "error for resolved bundle \"buoy-memlayers.v{version}\" with version \"{version}\": \
             {refusal}"
        );
        let found = extension.says(status, reason, &message).await;
        nothing_installed(&extension, &found).await;
        let after = bounded(&controller, what, &[&message]).await;
        assert!(after < before + (200 << 10), "{before} KiB before, {after} KiB after");
    }
}

/// Returns so many blobs, one a line, whose names have so many bytes.
fn blobs(count: usize, name: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..count {
        let number = format!("{number:0>name$}");
        writeln!(text, "{{\"schema\":\"a\",\"name\":\"{}\"}}", &number[..name]).expect("memory");
    }
    text.into_bytes()
}

/// Returns a text of so many bytes that does not become small when it is compressed.
fn filler(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        write!(text, "{number} ").expect("memory");
    }
    text.truncate(bytes);
    text
}

/// Returns the blobs of a package just below the limits, in the form that takes the most memory: a
/// channel of short entries, and bundles with long properties.
fn largest_package(package: &str, image: &str) -> Vec<u8> {
    let (entries, note) = ("{},".repeat(990_000), filler(15 * MIB));
    let mut text = format!(
        "{{\"schema\":\"olm.package\",\"name\":\"{package}\",\"defaultChannel\":\"stable\"}}\n\
         {{\"schema\":\"olm.channel\",\"package\":\"{package}\",\"name\":\"stable\",\
         \"entries\":[{entries}{{\"name\":\"{package}.v1.0.0\"}}]}}\n"
    );
    for minor in 0..4 {
        let version = format!("1.{minor}.0");
        let about = json!({"packageName": package, "version": version});
        let bundle = json!({"schema": "olm.bundle", "package": package, "image": image,
            "name": format!("{package}.v{version}"), "properties": [
                {"type": "olm.package", "value": about}, {"type": "note", "value": note}]});
        writeln!(text, "{bundle}").expect("memory");
    }
    text.into_bytes()
}

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_largest_package_of_a_catalog_stays_below_the_limit_of_the_pod() {
    let (cluster, controller) = cluster::started("memory-package", &[]).await;
    let scene = Scene::empty(cluster.clone(), "mempackage");
    scene.create_namespace();
    scene.grant(&[Bundle::new("1.0.0")]);
    let (image, none) = (
        format!("{}/memory/package:v1", cluster.registry),
        format!("{}/memory/none:v1", cluster.registry),
    );
    let text = largest_package(&scene.package.name(), &none);
    images::push_catalog(&image, Files::from([("configs/c.json".to_owned(), text)])).await;
    Catalog::create(cluster.plane, &scene.name, &image);
    let extension = scene.install(json!({})).await;
    extension.eventually("a bundle of the package is chosen", READ, judged).await;
    let what = "a package of 63 MiB with a million values";
    bounded(&controller, what, &["within the limits, read"]).await;
}

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn catalogs_past_the_limits_of_the_index_are_refused() {
    let (cluster, controller) = cluster::started("memory-catalogs", &[]).await;
    let blob = json!({"name": "b", "package": "p", "schema": "a", "v": filler(27 * MIB / 2)});
    let blob = format!("{blob}\n");
    let large = format!(
        "line 5: with this blob package \"p\" is {} bytes long, more than 67108864 (64 MiB)",
        5 * (blob.len() - 1)
    );
    let refusals = [
        ("large-package", blob.repeat(5).into_bytes(), large.as_str()),
        ("many-blobs", blobs(1_000_001, 7), "line 1000001: catalog has more than 1000000 blobs"),
        (
            "long-name",
            blobs(2, 1025),
            "line 1: name of the blob is 1025 bytes long, more than 1024",
        ),
        (
            "long-names",
            blobs(65_536, 1024),
            "line 65536: different schemas, packages and names of the catalog are longer than \
             67108864 bytes together",
        ),
    ];
    for (name, text, refusal) in refusals {
        let image = format!("{}/memory/{name}:v1", cluster.registry);
        images::push_catalog(&image, Files::from([("configs/c.json".to_owned(), text)])).await;
        let catalog = Catalog::create(cluster.plane, &format!("memory-{name}"), &image);
        let message = format!("error storing fbc: error reading \"c.json\", {refusal}");
        catalog.says("True", "Retrying", &message).await;
        catalog.delete();
        bounded(&controller, &format!("catalog {name}"), &[&message]).await;
    }
}
