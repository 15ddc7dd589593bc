//! A catalog image of 130 MB from its layer on disk to being served, in a process of its own: time,
//! and memory at its highest and afterwards. Beside it the least that has to be done: decompress
//! the layer and walk once over its JSON.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use jiff::Timestamp;
use olm_bench::catalog::{BUNDLE_BYTES, BUNDLES, packages};
use olm_controller::catalog::store::{Blob, Origin, Store};
use olm_core::catalog::read;
use olm_image::Room;
use olm_image::limits::Limits;
use olm_image::unpack::{Layer, unpack};
use serde::de::IgnoredAny;

/// A file for each package, as public catalogs have them, or one for all.
const SHAPES: [&str; 2] = ["packages", "one-file"];

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["floor", layer] => floor(Path::new(layer)),
        ["ingest", layer] => ingest(Path::new(layer)),
        _ => compare(),
    }
}

fn compare() {
    let folder = tempfile::tempdir().expect("a folder");
    for shape in SHAPES {
        let layer = folder.path().join(shape);
        generate(&layer, shape == "one-file").expect("the layer is written");
        for work in ["floor", "ingest"] {
            let program = env::current_exe().expect("this program");
            print!("{shape}: ");
            io::stdout().flush().expect("somebody reads");
            let status = Command::new(program).arg(work).arg(&layer).status();
            assert!(status.expect("this program runs").success(), "{work}");
        }
    }
}

fn generate(path: &Path, one_file: bool) -> io::Result<()> {
    let encoder = GzEncoder::new(File::create(path)?, Compression::default());
    let mut archive = tar::Builder::new(encoder);
    let mut add = |path: &str, text: &str| {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, path, text.as_bytes())
    };
    let mut files = packages(BUNDLES, BUNDLE_BYTES).map(|package| package.file());
    if one_file {
        let texts: String = files.map(|(_, text)| text).collect();
        add("configs/catalog.json", &texts)?;
    } else {
        files.try_for_each(|(path, text)| add(&path, &text))?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

fn floor(layer: &Path) {
    let start = Instant::now();
    let file = io::BufReader::new(File::open(layer).expect("the layer"));
    let mut archive = tar::Archive::new(MultiGzDecoder::new(file));
    let mut blobs = 0;
    for entry in archive.entries().expect("entries") {
        let mut text = String::new();
        let mut entry = entry.expect("an entry");
        entry.read_to_string(&mut text).expect("a file");
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<IgnoredAny>();
        for document in documents {
            document.expect("a document");
            blobs += 1;
        }
    }
    println!("{:.2} s to decompress and walk over {blobs} blobs", start.elapsed().as_secs_f64());
}

fn ingest(layer: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Room::default()).expect("a store");
    let memory = [status("VmHWM"), status("VmRSS")];
    let start = Instant::now();
    let layers = [Layer { source: File::open(layer).expect("the layer"), diff_id: None }];
    let unpacked =
        unpack(&layers, &["configs".to_owned()], &Limits::catalog(), &AtomicBool::new(false));
    let files = unpacked.expect("the layer is good").files;
    let unpacked = start.elapsed();
    let origin = Origin {
        catalog: "generated".to_owned(),
        uid: "u".to_owned(),
        reference: "example.com/generated@sha256:1".to_owned(),
        unpacked: Timestamp::now(),
    };
    let documents = read::documents(files.readers()).expect("no pattern is wrong");
    let blobs = documents.map(|document| {
        let (file, line) = (document.path, document.position.line);
        document.meta.map(|meta| Blob { file, line, meta })
    });
    let staged = store.stage(origin, blobs).expect("the catalog is good");
    let content = store.place(staged).expect("the catalog is good");
    drop(files);
    let served = start.elapsed();
    store.settle(&content);
    let settled = start.elapsed();
    let (bytes, blobs) = (content.index().bytes(), content.index().len());
    println!(
        "{:.2} s to unpack, {:.2} s until {blobs} blobs of {} MB are served, {:.2} s until the disk \
         has them; at the start {} MB, highest {} MB, after it {} MB",
        unpacked.as_secs_f64(),
        served.as_secs_f64(),
        bytes / 1_000_000,
        settled.as_secs_f64(),
        memory[0],
        status("VmHWM"),
        status("VmRSS"),
    );
}

/// Returns a number of `/proc/self/status` in megabytes.
fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.and_then(|it| it.parse::<u64>().ok()).expect("a number") / 1024
}
