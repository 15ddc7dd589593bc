//! What images hold cannot take the controller past the memory that its Deployment gives it:
//! neither the worst that is accepted nor what is refused for its size (catalogs.md 5.8).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use olm_api::ClusterExtension;
use olm_test::cluster::{self, Cluster, Controller, ControllerOptions};
use olm_test::extension::{Extension, condition};
use olm_test::package::{Bundle, Files};
use olm_test::scene::Scene;
use olm_test::usage::Usage;
use olm_test::{images, wait};
use serde_json::json;

use crate::bad_input::{Catalog, nothing_installed, says};

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
    let account = format!("--serviceaccount={}:installer", scene.name);
    let bind = ["create", "clusterrolebinding", &scene.name, "--clusterrole=cluster-admin"];
    scene.cluster.plane.kubectl(&[&bind[..], &[account.as_str()]].concat());
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

fn start(cluster: &Cluster, name: &str) -> Controller {
    let options = ControllerOptions { name: name.to_owned(), ..ControllerOptions::default() };
    Controller::start(cluster.plane, options)
}

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_largest_bundles_together_stay_below_the_limit_of_the_pod() {
    let cluster = cluster::own().await;
    let controller = start(&cluster, "memory-largest");
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
    let cluster = cluster::own().await;
    let controller = start(&cluster, "memory-larger");
    let before = bounded(&controller, "nothing", &["at rest"]).await;
    let document = manifests([config_map("big", 5 * MIB, true)]);
    let (_one, first) = install(&cluster, "memdocument", document).await;
    let one = "error for resolved bundle \"buoy-memdocument.v1.0.0\" with version \"1.0.0\": \
        manifests/big-0.yaml, line 1: document of 5242880 bytes is larger than 4194304 (4 MiB), \
        which no API server takes";
    let found = says(&first, "False", "Blocked", one).await;
    nothing_installed(&first, &found).await;

    let all = [4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, MIB].into_iter().enumerate();
    let all = manifests(all.map(|(at, size)| config_map(&format!("big-{at}"), size, true)));
    let (_two, second) = install(&cluster, "memall", all).await;
    let two = "error for resolved bundle \"buoy-memall.v1.0.0\" with version \"1.0.0\": \
        manifests/big-4.yaml: with this file the manifests of the bundle are 17825792 bytes, more \
        than 16777216 (16 MiB)";
    let found = says(&second, "False", "Blocked", two).await;
    nothing_installed(&second, &found).await;

    let what = "a bundle with a document of 5 MiB, and one of 17 MiB";
    let after = bounded(&controller, what, &[one, two]).await;
    // Their bytes are unpacked, never parsed.
    assert!(after < before + (200 << 10), "{before} KiB before, {after} KiB after");
    futures::join!(first.delete(), second.delete());
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

// catalogs.md 5.8; decision 43
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn catalogs_past_the_limits_of_the_index_are_refused() {
    let cluster = cluster::own().await;
    let controller = start(&cluster, "memory-catalogs");
    let refusals = [
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
        let catalog = Catalog::create(&cluster, &format!("memory-{name}"), &image).await;
        let message = format!("error storing fbc: error reading \"c.json\", {refusal}");
        catalog.says("True", "Retrying", &message).await;
        catalog.delete().await;
        let what = format!("catalog {name}");
        bounded(&controller, &what, &[&message]).await;
    }
}
