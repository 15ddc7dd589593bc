//! Bundle files to objects, for every real bundle of the shared data, or for those of the demo where
//! that is absent; and how fast YAML is read.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use olm_bench::table::{self, Table, median};
use olm_core::bundle::{Bundle, Files};
use olm_core::config::Features;
use olm_core::render::{CertificateSource, RolePlacement, Settings, render_configured};
use olm_core::yaml;
use olm_test::{bundles, paths};

const HALF: Duration = Duration::from_millis(5);
const LARGEST: Duration = Duration::from_millis(60);
const GROUP: &str = "render";

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

/// Returns the bundles by name and version.
fn all_bundles() -> Vec<(String, Files)> {
    let demo = paths::repository().join("hack/demo");
    let folders = bundles::inside(&paths::shared_data_or(demo).join("bundles"));
    let read = |folder| bundles::read_files(folder).expect("a bundle");
    folders.iter().map(|(name, folder)| (name.replacen('/', " ", 1), read(folder))).collect()
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
    let bundles = all_bundles();
    measure(&mut criterion, &bundles);
    let yaml_bytes = measure_yaml(&mut criterion, &bundles);
    criterion.final_summary();
    println!("{}", summarize(&bundles, yaml_bytes));
}
