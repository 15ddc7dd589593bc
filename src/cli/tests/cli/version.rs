//! `kubectl olm version` (deploying.md 8), without a cluster.

use serde_json::Value;

use super::olm;

#[test]
fn a_version_is_one_line_or_one_document() {
    let (code, line, _) = olm(&["version"]);
    let start = concat!("version: \"v", env!("CARGO_PKG_VERSION"), "\", commit: \"");
    assert!(code == 0 && line.starts_with(start), "{line}");
    assert_eq!(line.lines().count(), 1);
    let (code, json, _) = olm(&["version", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let expected = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!((code, json["version"].as_str()), (0, Some(expected)));
    assert_eq!(json["crypto"], "aws-lc-rs");
    let said = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
    assert!(said("rustc").starts_with("rustc "), "{json}");
    assert!(said("target").contains('-'), "{json}");
}
