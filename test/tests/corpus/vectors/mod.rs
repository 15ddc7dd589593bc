//! The test vectors made with upstream's own code, from `OLM_SHARED` (default: `shared` next to the
//! repository).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say how many cases there were"
)]

mod catalogs;
mod ranges;
mod resolution;

use std::path::PathBuf;

use serde_json::Value;

/// Returns the path of a file in the shared data.
fn shared(path: &str) -> PathBuf {
    olm_test::paths::shared_data().join(path)
}

/// Reads one JSON document.
fn json(path: &str) -> Value {
    let path = shared(path);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Reads one JSON document per line.
fn json_lines(path: &str) -> Vec<Value> {
    let path = shared(path);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a member that must be a string.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {value}"))
}

/// Fails with all differences, or prints how many cases were equal.
fn conclude(name: &str, cases: usize, differences: &[String]) {
    println!("{name}: {} of {cases} equal", cases - differences.len());
    assert!(cases > 0, "{name}: no case was found");
    assert!(
        differences.is_empty(),
        "{name}: {} of {cases} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}
