//! Bundle files to objects, for every real bundle of the shared data, or for a generated one where
//! that is absent; and how fast YAML is read.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use criterion::{Criterion, Throughput};
use olm_bench::bundle::{self, LARGE};
use olm_bench::table::{self, Table, median};
use olm_core::bundle::{Bundle, Files};
use olm_core::config::Features;
use olm_core::render::{CertificateSource, RolePlacement, Settings, render_configured};
use olm_core::yaml;

const HALF: Duration = Duration::from_millis(5);
const LARGEST: Duration = Duration::from_millis(60);
const GROUP: &str = "render";
const GENERATED: &str = "generated";

/// Loads and renders a bundle; for one that is refused, until the refusal.
fn render(files: &Files) -> usize {
    let Ok(bundle) = Bundle::from_files(files) else { return 0 };
    let settings = Settings {
        install_namespace: "bench",
        inline: None,
        features: Features::default(),
        role_placement: RolePlacement::default(),
        certificates: Some(CertificateSource::CertManager.into()),
    };
    render_configured(&bundle, &settings).map_or(0, |rendered| rendered.objects.len())
}

/// Returns the bundles of the shared data by name and version.
fn real_bundles() -> io::Result<Vec<(String, Files)>> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = env::var_os("OLM_SHARED").unwrap_or_else(|| "../shared".into());
    let mut found = Vec::new();
    for package in folders(&checkout.join(named).join("bundles"))? {
        for version in folders(&package)? {
            let mut files = Files::new();
            for part in folders(&version)? {
                for file in fs::read_dir(&part)? {
                    let path = file?.path();
                    let name = [last(&part), last(&path)].join("/");
                    files.insert(name, fs::read(&path)?);
                }
            }
            found.push((format!("{} {}", last(&package), last(&version)), files));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn last(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn bytes(files: &Files) -> u64 {
    files.values().map(Vec::len).sum::<usize>() as u64
}

fn measure(criterion: &mut Criterion, bundles: &[(String, Files)]) {
    let mut group = criterion.benchmark_group(GROUP);
    for (name, files) in bundles {
        group.throughput(Throughput::Bytes(bytes(files)));
        group.bench_function(name, |bencher| bencher.iter(|| render(black_box(files))));
    }
    group.finish();
}

/// Reads every YAML file of every bundle.
fn measure_yaml(criterion: &mut Criterion, bundles: &[(String, Files)]) -> u64 {
    let texts: Vec<&str> = bundles
        .iter()
        .flat_map(|(_, files)| files.values())
        .filter_map(|bytes| std::str::from_utf8(bytes).ok())
        .filter(|text| !text.trim_start().starts_with('{'))
        .collect();
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>() as u64;
    let mut group = criterion.benchmark_group("yaml");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            for text in black_box(&texts) {
                let _ = black_box(yaml::to_json(text));
            }
        });
    });
    group.finish();
    bytes
}

fn summarize(bundles: &[(String, Files)], yaml_bytes: u64) -> String {
    let mut times: Vec<(Duration, &str)> = bundles
        .iter()
        .filter_map(|(name, _)| Some((median(GROUP, name)?, name.as_str())))
        .collect();
    times.sort();
    let mut results = Table::default();
    // The smallest time that this many percent of the bundles do not exceed.
    let percentile = |hundredths: usize| {
        let rank = (times.len() * hundredths).div_ceil(100);
        times.get(rank.checked_sub(1)?).map(|(time, _)| *time)
    };
    results.add("p50", percentile(50), Some(HALF));
    results.add("p99", percentile(99), None);
    if let Some((time, name)) = times.last() {
        results.add(format!("largest ({name})"), Some(*time), Some(LARGEST));
    }
    if let Some(time) = median("yaml", "read") {
        #[expect(clippy::cast_precision_loss, reason = "megabytes")]
        let megabytes = yaml_bytes as f64 / 1e6;
        let speed = megabytes / time.as_secs_f64();
        let what = format!("YAML read ({megabytes:.1} MB)");
        results.note(what, format!("{speed:.1} MB/s"));
    }
    results.to_text(&format!("LOAD AND RENDER ONE OF {} BUNDLES", bundles.len()))
}

fn main() {
    let mut criterion = Criterion::default()
        .output_directory(&table::folder())
        .without_plots()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10)
        .configure_from_args();
    let bundles = real_bundles().unwrap_or_else(|error| {
        println!("no real bundles: {error}; a generated one takes their place");
        vec![(GENERATED.to_owned(), bundle::files(LARGE))]
    });
    measure(&mut criterion, &bundles);
    let yaml_bytes = measure_yaml(&mut criterion, &bundles);
    criterion.final_summary();
    println!("{}", summarize(&bundles, yaml_bytes));
}
