//! Tests of `why` with the built program: one snapshot for each instructive situation.

use insta::assert_snapshot;
use rstest::rstest;
use serde_json::Value;

use super::olm;

const RED: &[&str] = &["--package", "teapot", "--from", "red=why/red.yaml"];
const BLUE: &[&str] = &["--from", "blue=why/blue.yaml"];

/// Runs the program in the directory of these tests and returns exit code, stdout and stderr.
fn why(arguments: &[&[&str]]) -> (i32, String, String) {
    olm(&[&["why"], &arguments.concat()[..]].concat())
}

const FROM_FIRST: &[&str] = &["--installed", "teapot.v1.0.0@1.0.0"];
const FROM_LATER: &[&str] = &["--installed", "teapot.v1.0.2@1.0.2"];

#[rstest]
#[case::first_install("first_install", &[RED])]
#[case::two_steps_away("two_steps_away", &[RED, FROM_FIRST, &["--version", "1.0.2"]])]
#[case::next_major("next_major", &[RED, FROM_LATER])]
#[case::one_version("one_version", &[RED, FROM_FIRST, &["--channel", "stable", "1.1.0"]])]
#[case::broken_range("broken_range", &[RED, FROM_LATER, &["2.1.0"]])]
#[case::no_such_version("no_such_version", &[RED, &["1.0.7"]])]
#[case::prerelease("prerelease", &[RED, &["--version", ">=2.2.0"]])]
#[case::no_such_channel("no_such_channel", &[RED, &["--channel", "stabel"]])]
#[case::no_such_package("no_such_package", &[&["--package", "teapod"], BLUE])]
#[case::tied_catalogs("tied_catalogs", &[RED, BLUE])]
#[case::lower_catalog_is_missing(
    "lower_catalog_is_missing",
    &[RED, &["--from", "nowhere,priority=-1"]]
)]
#[case::equal_catalog_is_missing("equal_catalog_is_missing", &[RED, &["--from", "nowhere"]])]
#[case::manifest(
    "manifest",
    &[
        &["-f", "why/extension.yaml", "--from", "red=why/red.yaml"],
        BLUE,
        &["--installed", "teapot.v1.1.0@1.1.0"],
    ]
)]
fn situations(#[case] name: &str, #[case] arguments: &[&[&str]]) {
    let (code, stdout, stderr) = why(arguments);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_snapshot!(name, stdout);
}

// plugin.md 5
#[test]
fn settings_of_a_file_decide() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    let flag = format!("--controller-settings={}", file.display());
    let ask = |text: &str| {
        std::fs::write(&file, text).unwrap();
        why(&[RED, FROM_LATER, &["-o", "json", &flag]])
    };
    let result = |text: &str| -> Value {
        let (code, stdout, stderr) = ask(text);
        assert_eq!((code, stderr.as_str()), (0, ""));
        let report: Value = serde_json::from_str(&stdout).unwrap();
        report["selected"]["version"].clone()
    };
    assert_eq!(result("schemaVersion: 1\n"), "1.1.0");
    assert_eq!(result("defaultUpgradePolicy: Any\n"), "2.0.0");
    let (code, _, stderr) = ask("defaultUpgradePolicy: Some\n");
    assert_eq!(code, 1);
    let wrong = format!("{}: defaultUpgradePolicy: unknown variant `Some`", file.display());
    assert!(stderr.contains(&wrong), "{stderr}");
}

// resolution.md 6.1
#[test]
fn json_is_the_report() {
    let arguments = [RED, FROM_FIRST, &["--version", "1.0.2", "-o", "json"]];
    let (code, stdout, stderr) = why(&arguments);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["schema"], "olm.resolution.report");
    assert_eq!(report["result"], "NoCandidate");
    assert_eq!(report["hints"][0]["code"], "NotAdjacent");
    assert_eq!(why(&arguments).1, stdout);
}

#[test]
fn yaml_is_the_same() {
    let (_, json, _) = why(&[RED, &["-o", "json"]]);
    let (_, yaml, _) = why(&[RED, &["-o", "yaml"]]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(olm_core::yaml::to_json(&yaml).unwrap(), [json]);
}

#[rstest]
#[case::no_question(&[])]
#[case::no_catalog(&["--package", "teapot"])]
#[case::too_many_words(&["--package", "teapot", "--from", "why", "1.0.0", "1.0.1"])]
#[case::two_questions(&["--package", "teapot", "-f", "why/extension.yaml", "--from", "why"])]
fn wrong_usage_ends_with_2(#[case] arguments: &[&str]) {
    let (code, stdout, stderr) = why(&[arguments]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.starts_with("error: "), "{stderr}");
}
