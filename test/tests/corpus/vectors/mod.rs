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

use crate::{rows, text};

/// Returns the path of a file in the shared data.
fn shared(path: &str) -> PathBuf {
    olm_test::paths::shared_data().join(path)
}

/// Reads one JSON document.
fn json(path: &str) -> Value {
    serde_json::from_str(&crate::shared_text(path)).unwrap()
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
