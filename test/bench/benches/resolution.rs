//! One request, resolved in the largest package of a catalog: a generated one with 7,000 bundles,
//! and the real one in the shared data, if it exists.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use olm_api::CatalogFilter;
use olm_bench::catalog::{BUNDLE_BYTES, BUNDLES, packages};
use olm_bench::table::{self, Table, median};
use olm_core::catalog::Content;
use olm_core::catalog::read::{self, Meta};
use olm_core::explain::explain;
use olm_core::resolve::{Catalog, Environment, Installed, Options, Request, resolve};
use olm_test::{bundles, paths};

const WARM: Duration = Duration::from_millis(1);
const FIRST: Duration = Duration::from_millis(10);
const GROUPS: [(&str, &str); 2] =
    [("generated", "generated catalog, 7000 bundles"), ("real", "catalog v4.19")];

/// The largest package of a catalog in the form the controller holds it: its lines in a file, and
/// the type of each line.
struct Sample {
    package: String,
    lines: File,
    index: Vec<(usize, Meta)>,
    bytes: u64,
}

impl Sample {
    fn new(group: &str, package: &str, blobs: Vec<Meta>) -> Self {
        let folder = table::folder().join("data");
        fs::create_dir_all(&folder).expect("the folder is made");
        let file = folder.join(format!("{group}.jsonl"));
        let text: String = blobs.iter().map(|blob| blob.json.as_str()).collect();
        fs::write(&file, &text).expect("the sample is written");
        let without_text = |blob: Meta| {
            let json = String::new();
            (blob.json.len(), Meta { json, ..blob })
        };
        Self {
            package: package.to_owned(),
            lines: File::open(file).expect("it was just written"),
            index: blobs.into_iter().map(without_text).collect(),
            bytes: text.len() as u64,
        }
    }

    /// Reads the blobs, each by itself, and indexes them.
    fn read(&self) -> Content {
        let mut offset = 0;
        let blobs = self.index.iter().map(|(len, meta)| {
            let mut bytes = vec![0; *len];
            self.lines.read_exact_at(&mut bytes, offset).expect("the sample is there");
            offset += *len as u64;
            let json = String::from_utf8(bytes).expect("the sample is text");
            Meta { json, ..meta.clone() }
        });
        let blobs: Vec<Meta> = blobs.collect();
        Content::from_blobs(&blobs)
    }

    /// Requests an upgrade from the middle of the package, within a range.
    fn request(&self, content: &Content) -> Request {
        let package = content.package(&self.package).expect("it is there");
        let bundles = &package.expect("it can be read").bundles;
        let middle = &bundles[bundles.len() / 2];
        let version = middle.version(false).expect("it has a version");
        let version = version.version.to_string();
        Request {
            filter: CatalogFilter {
                package_name: self.package.clone(),
                version: Some(format!(">={version}, <1000.0.0")),
                ..CatalogFilter::default()
            },
            installed: Some(Installed { name: middle.name.clone(), version, release: None }),
            ..Request::default()
        }
    }
}

fn catalog(content: &Content) -> [Catalog<'_>; 1] {
    [Catalog {
        name: "sample",
        labels: BTreeMap::new(),
        priority: 0,
        enabled: true,
        problem: None,
        content: Some(content),
    }]
}

fn answer(request: &Request, content: &Content) -> usize {
    let catalogs = catalog(content);
    let (environment, options) = (Environment::default(), Options::default());
    let resolution = resolve(request, &catalogs, &environment, &options);
    assert!(resolution.result.is_ok(), "{:?}", resolution.result);
    resolution.excluded.len()
}

/// Explains the verdict on every bundle, and how to get to the newest.
fn why(request: &Request, content: &Content, newest: &str) -> usize {
    let catalogs = catalog(content);
    let (environment, options) = (Environment::default(), Options::default());
    let report = explain(request, &catalogs, &environment, &options, Some(newest));
    report.bundles.len()
}

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, sample: &Sample) {
    let content = sample.read();
    let request = sample.request(&content);
    group.bench_function("warm", |bencher| {
        bencher.iter(|| answer(black_box(&request), black_box(&content)));
    });
    let package = content.package(&sample.package);
    let package = package.and_then(Result::ok).expect("it can be read");
    let newest = package.bundles[0].name.as_str();
    group.bench_function("why", |bencher| {
        bencher.iter(|| why(black_box(&request), black_box(&content), newest));
    });
    group.throughput(Throughput::Bytes(sample.bytes));
    group.bench_function("first use", |bencher| {
        bencher.iter(|| answer(&request, &black_box(sample).read()));
    });
}

fn generated(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generated");
    let mut all = packages(BUNDLES, BUNDLE_BYTES);
    let largest = all.next().expect("there are packages");
    let lines = largest.lines();
    let blobs = lines.iter().map(|line| Meta::parse(line).expect("a blob"));
    let sample = Sample::new("generated", &largest.name, blobs.collect());
    measure(&mut group, &sample);
    let rest = all.flat_map(|one| one.lines());
    let whole = lines.into_iter().chain(rest).map(|line| Meta::parse(&line).expect("a blob"));
    let whole: Vec<_> = whole.collect();
    let bytes = whole.iter().map(|meta| meta.json.len()).sum::<usize>() as u64;
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("whole catalog", |bencher| {
        bencher.iter(|| Content::from_blobs(black_box(&whole)));
    });
    group.finish();
}

fn real(criterion: &mut Criterion, folder: &Path) {
    let mut largest: (usize, String, Vec<Meta>) = Default::default();
    for package in paths::inside(folder) {
        let files = bundles::below(&package, "");
        let files = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
        let metas = read::read_catalog(files).expect("the catalog can be read");
        let bundles = metas.iter().filter(|meta| meta.schema == "olm.bundle").count();
        if bundles > largest.0 {
            let name = metas.iter().find(|meta| meta.schema == "olm.package");
            let name = name.map(|meta| meta.name.clone()).unwrap_or_default();
            largest = (bundles, name, metas);
        }
    }
    let (_, package, blobs) = largest;
    let mut group = criterion.benchmark_group("real");
    measure(&mut group, &Sample::new("real", &package, blobs));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .output_directory(&table::folder())
        .without_plots()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .configure_from_args();
    generated(&mut criterion);
    let folder = paths::shared_data_or(PathBuf::new()).join("catalogs/v4.19");
    if folder.is_dir() {
        real(&mut criterion, &folder);
    } else {
        println!("the real catalog is not there, and skipped");
    }
    criterion.final_summary();

    let mut results = Table::default();
    for (group, what) in GROUPS {
        results.add(format!("{what}: warm index"), median(group, "warm"), Some(WARM));
        results.add(format!("{what}: why, warm index"), median(group, "why"), Some(WARM));
        let first = median(group, "first use");
        results.add(format!("{what}: first use of the package"), first, Some(FIRST));
    }
    let whole = median("generated", "whole catalog");
    results.add("index all of the generated catalog", whole, None);
    println!("{}", results.to_text("RESOLVE ONE REQUEST IN THE LARGEST PACKAGE"));
}
