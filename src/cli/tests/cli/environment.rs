//! The state of the cluster in `resolve`, with the built program: files and flags.

use std::path::{Path, PathBuf};

use super::olm;

/// Writes a file in the temporary directory of the tests.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Resolves package `kettle`, whose version 1.1.0 needs a kind and Kubernetes 1.25.
fn resolve(flags: &[&str]) -> (i32, String) {
    let kettle = ["resolve", "--package", "kettle", "--from", "catalog"];
    let (code, text, errors) = olm(&[&kettle, flags].concat());
    (code, text + &errors)
}

// decisions 8 and 9
#[test]
fn what_is_told_is_judged_and_nothing_else() {
    let tap = file("tap.yaml", "['water.test/v1, Tap', {version: v1, kind: Pod}]");
    let none = file("none.json", "[]");
    let cases: [(&[&str], &str, &str); 6] = [
        (&[], "kettle.v1.1.0  1.1.0", ""),
        (&["--kube-version", "v1.33.1+k3s1"], "kettle.v1.1.0  1.1.0", ""),
        (
            &["--kube-version", "1.24"],
            "kettle.v1.0.0  1.0.0",
            "held: kettle.v1.1.0: unmet constraints: requires Kubernetes \"1.25.0\" or later (the \
             cluster runs \"1.24.0\")",
        ),
        (&["--served-kinds", tap.to_str().unwrap()], "kettle.v1.1.0  1.1.0", ""),
        (
            &["--served-kinds", none.to_str().unwrap()],
            "kettle.v1.0.0  1.0.0",
            "held: kettle.v1.1.0: unmet constraints: requires API \"water.test/v1, Kind=Tap\" \
             (not served by the cluster)",
        ),
        (&["--installed", none.to_str().unwrap()], "kettle.v1.1.0  1.1.0", ""),
    ];
    for (flags, chosen, held) in cases {
        let (code, text) = resolve(flags);
        assert_eq!(code, 0, "{flags:?}: {text}");
        assert!(text.contains(chosen) && text.contains(held), "{flags:?}: {text}");
    }
}

// resolution.md 5.6
#[test]
fn an_update_that_would_break_something_installed_is_held() {
    let installed = file(
        "installed.yaml",
        "- extension: my-kettle\n  package: kettle\n  version: 1.0.0\n\
         - extension: pot\n  package: pot\n  version: 1.0.0\n  constraints:\n  \
         - {type: olm.package.required, value: {packageName: kettle, versionRange: <1.1.0}}\n",
    );
    let flag = "--installed";
    let (code, text) = resolve(&[flag, "kettle.v1.0.0@1.0.0", flag, installed.to_str().unwrap()]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("kettle.v1.0.0  1.0.0"), "{text}");
    let held = "held: kettle.v1.1.0: would break installed ClusterExtension \"pot\": requires \
                package \"kettle\" in version range \"<1.1.0\" (version would become \"1.1.0\" \
                from ClusterExtension \"my-kettle\")";
    assert!(text.contains(held), "{text}");
}

#[test]
fn files_of_another_shape_are_refused() {
    let wrong = file("wrong.yaml", "[{extension: a, package: b, version: 1.0.0, versoin: 2}]");
    let wrong = wrong.to_str().unwrap();
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--installed", wrong], 1, "unknown field `versoin`"),
        (&["--served-kinds", wrong], 1, "must be `group/version, Kind` or an object"),
        (&["--kube-version", "new"], 2, "invalid value 'new'"),
        (&["--installed", "a"], 2, "must be NAME@VERSION, or a file that ends with"),
    ];
    for (flags, want, reason) in cases {
        let (code, text) = resolve(flags);
        assert_eq!(code, want, "{flags:?}: {text}");
        assert!(text.contains(reason), "{flags:?}: {text}");
    }
}
