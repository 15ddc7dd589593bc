//! `kubectl olm version` (deploying.md 8).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use olm_test::plugin::checked;
use serde_json::Value;

fn version(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-olm"))
        .arg("version")
        .args(args)
        .output()
        .map(checked)
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_version_is_one_line_or_one_document() {
    let line = version(&[]);
    let start = concat!("version: \"v", env!("CARGO_PKG_VERSION"), "\", commit: \"");
    assert!(line.starts_with(start), "{line}");
    assert_eq!(line.lines().count(), 1);
    let json: Value = serde_json::from_str(&version(&["-o", "json"])).unwrap();
    let expected = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!(json["version"], expected);
    assert_eq!(json["crypto"], "aws-lc-rs");
    let said = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    assert!(said("rustc").starts_with("rustc "), "{json}");
    assert!(said("target").contains('-'), "{json}");
}
