//! Names that are not commands, and images of a bundle.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use olm_test::plugin::checked;
use rstest::rstest;
use serde_json::Value;

fn olm(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-olm"))
        .args(arguments.split(' '))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/testdata/bundle"))
        .output()
        .map(checked)
        .unwrap()
}

// plugin.md U3
#[rstest]
#[case("update quay", "upgrade")]
#[case("instal quay", "install")]
#[case("statsu", "status")]
fn a_name_that_is_none_is_refused_with_the_nearest(#[case] line: &str, #[case] want: &str) {
    let out = olm(line);
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains(want), "{text}");
}

// plugin.md 1.4, U56
#[test]
fn images_of_a_bundle_are_listed_and_make_a_configuration() {
    let names = String::from_utf8(olm("bundle images dir:sample -o name").stdout).unwrap();
    assert!(!names.is_empty());
    let answer: Value =
        serde_json::from_slice(&olm("bundle images dir:sample -o json").stdout).unwrap();
    assert_eq!(answer["schema"], "olm.images");
    assert_eq!(answer["schemaVersion"], 1);
    let images = answer["images"].as_array().unwrap();
    let listed: Vec<_> = images.iter().map(|image| image["image"].as_str().unwrap()).collect();
    assert_eq!(listed, names.lines().collect::<Vec<_>>());
    let set = String::from_utf8(olm("bundle images dir:sample -o imageset").stdout).unwrap();
    assert!(set.contains("apiVersion: mirror.openshift.io/v2alpha1\n"), "{set}");
    assert!(set.contains("kind: ImageSetConfiguration\n"), "{set}");
    assert!(listed.iter().all(|image| set.contains(&format!("- name: {image}\n"))), "{set}");
}
