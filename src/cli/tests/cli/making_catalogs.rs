//! `kubectl olm catalog` as an author of catalogs runs it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{outcome, program};

/// Runs the program in a folder and returns exit code, stdout and stderr.
fn catalog(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(program(["catalog"]).args(arguments).current_dir(folder))
}

fn bundle(version: &str, image: &str) -> String {
    let image = format!("quay.io/pots/teapot@sha256:{}", image.repeat(64));
    format!(
        "---\nschema: olm.bundle\npackage: teapot\nname: teapot.v{version}\nimage: {image}\nproperties:\n  \
         - type: olm.package\n    value: {{packageName: teapot, version: {version}}}\n"
    )
}

/// Writes a catalog with these versions, each replacing the one before it.
fn write(folder: &Path, versions: &[(&str, &str)]) {
    let mut text =
        "schema: olm.package\nname: teapot\ndefaultChannel: stable\n---\nschema: olm.channel\n\
         package: teapot\nname: stable\nentries:\n"
            .to_owned();
    let mut before = "";
    for (version, _) in versions {
        writeln!(text, "  - name: teapot.v{version}").unwrap();
        if !before.is_empty() {
            writeln!(text, "    replaces: teapot.v{before}").unwrap();
        }
        before = version;
    }
    for (version, image) in versions {
        text.push_str(&bundle(version, image));
    }
    fs::create_dir_all(folder.join("teapot")).unwrap();
    fs::write(folder.join("teapot/index.yaml"), text).unwrap();
}

// plugin.md U61
#[test]
fn findings_name_a_place_that_can_be_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("catalog"), &[("1.0.0", "1"), ("1.1.0", "2")]);
    let (code, text, _) = catalog(root, &["lint", "catalog"]);
    assert_eq!((code, text.as_str()), (0, "0 errors, 0 warnings in 1 file\n"));
    let index = root.join("catalog/teapot/index.yaml");
    let sound = fs::read_to_string(&index).unwrap();
    let wrong = sound
        .replace("replaces: teapot.v1.0.0", "skipRange: '>1.0 <2'")
        .replace("name: stable", "name: Stable")
        .replace("@sha256:1111111111111111111111111111111111111111111111111111111111111111", ":1");
    fs::write(&index, wrong).unwrap();
    let (code, text, _) = catalog(root, &["lint", "catalog"]);
    insta::assert_snapshot!(text, @r#"
    catalog/teapot/index.yaml:3:17: error[default-channel]: default channel "stable" does not exist; channels are: Stable
    catalog/teapot/index.yaml:5:1: error[channel-head]: channel "Stable" has 2 heads: teapot.v1.0.0, teapot.v1.1.0
    catalog/teapot/index.yaml:7:7: warning[channel]: "Stable" is not a DNS subdomain: no extension can name it in channels
    catalog/teapot/index.yaml:11:16: error[skip-range]: skipRange ">1.0 <2" cannot be read: Could not parse Range ">1.0": Could not parse version "1.0" in ">1.0": No Major.Minor.Patch elements found; the edge does not exist
    3 errors, 1 warning, 1 note (--notes shows them) in 1 file
    "#);
    assert_eq!(code, 1);
    let (_, with_notes, _) = catalog(root, &["lint", "catalog", "--notes"]);
    assert!(with_notes.contains("note[bundle-image]: "), "{with_notes}");
    let (code, json, _) = catalog(root, &["lint", "catalog", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 1);
    assert_eq!(json["findings"][0]["file"], "catalog/teapot/index.yaml");
    assert_eq!(json["counts"]["warnings"], 1);
    let only_warning = sound.replace("name: stable", "name: Stable");
    let only_warning = only_warning.replace("defaultChannel: stable", "defaultChannel: Stable");
    fs::write(&index, only_warning).unwrap();
    assert_eq!(catalog(root, &["lint", "catalog"]).0, 0);
    assert_eq!(catalog(root, &["lint", "catalog", "--strict"]).0, 1);
}

// plugin.md U67, U68, U69
#[test]
fn the_same_catalog_gives_the_same_image() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("catalog"), &[("1.0.0", "1")]);
    fs::write(root.join("catalog/README.md"), "not\tcontent: [").unwrap();
    fs::write(root.join("catalog/.indexignore"), "*.md\n").unwrap();
    let build = |arguments: &[&str]| {
        let (code, text, errors) = catalog(root, &[&["build"], arguments].concat());
        assert_eq!(code, 0, "{errors}");
        text.split('@').nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    let one = build(&["catalog", "--oci", "one"]);
    assert_eq!(one, build(&["catalog", "--oci", "two"]));
    assert_eq!(one, build(&["catalog", "--dockerfile", "three"]));
    assert!(root.join("three/configs/teapot/index.yaml").is_file());
    assert!(!root.join("three/configs/README.md").exists());
    let (code, _, errors) = catalog(root, &["build", "catalog", "--dockerfile", "three"]);
    assert_eq!((code, errors.as_str()), (1, "error: three is not empty\n"));

    let file = "name: pots\nrepo: quay.io/pots/catalog\nreferences:\n- name: tea\n  image: catalog\n  packages: [teapot]\n";
    fs::write(root.join("pots.yaml"), file).unwrap();
    let (code, text, errors) = catalog(root, &["build", "pots.yaml", "--oci", "four"]);
    assert_eq!(code, 0, "{errors}");
    assert!(text.contains("(1 references, 1 bundles, "), "{text}");
    fs::write(root.join("pots.yaml"), file.replace("[teapot]", "[kettle]")).unwrap();
    let (code, _, errors) = catalog(root, &["build", "pots.yaml", "--oci", "four"]);
    assert_eq!(code, 1);
    assert!(errors.contains("catalog has no package \"kettle\""), "{errors}");
    let (code, _, errors) = catalog(root, &["build", "catalog"]);
    assert_eq!(code, 2);
    assert!(errors.contains("--push, --oci DIR or --dockerfile DIR"), "{errors}");
}

// plugin.md 2.1
#[test]
fn a_catalog_with_errors_is_not_built() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("catalog"), &[("1.0.0", "1")]);
    let index = root.join("catalog/teapot/index.yaml");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("defaultChannel: stable", "defaultChannel: none")).unwrap();
    let (code, _, errors) = catalog(root, &["build", "catalog", "--oci", "out"]);
    assert_eq!(code, 1);
    assert!(errors.contains("error[default-channel]"), "{errors}");
    assert!(!root.join("out").exists());
    assert_eq!(catalog(root, &["build", "catalog", "--oci", "out", "--no-lint"]).0, 0);
}

// plugin.md U70
#[test]
fn a_difference_that_could_hurt_ends_the_program_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("old"), &[("1.0.0", "1"), ("1.1.0", "2")]);
    write(&root.join("next"), &[("1.0.0", "1"), ("1.1.0", "2"), ("1.2.0", "3")]);
    write(&root.join("bad"), &[("1.1.0", "4"), ("1.2.0", "3")]);
    let (code, text, _) = catalog(root, &["diff", "old", "old"]);
    assert_eq!((code, text.as_str()), (0, "nothing changes\n"));
    let (code, text, _) = catalog(root, &["diff", "old", "next"]);
    assert_eq!((code, text.as_str()), (0, "teapot: head stable 1.1.0 -> 1.2.0; added 1.2.0\n"));
    let (code, text, _) = catalog(root, &["diff", "old", "bad"]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(text, @r#"
    teapot: head stable 1.1.0 -> 1.2.0; added 1.2.0; removed 1.0.0
      1.1.0: edges in channel "stable": replaces "teapot.v1.0.0" is gone
      error: stranded: 1.0.0 (nothing replaces or skips them)
      error: 1.1.0 has another image: quay.io/pots/teapot@sha256:2222222222222222222222222222222222222222222222222222222222222222 -> quay.io/pots/teapot@sha256:4444444444444444444444444444444444444444444444444444444444444444
    "#);
    let (code, _, errors) = catalog(root, &["diff", "old", "./absent"]);
    assert_eq!(code, 1);
    assert!(errors.contains("\nerror: ./absent: "), "{errors}");
}

#[test]
fn what_is_no_catalog_is_neither_examined_nor_built() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir(root.join("nothing")).unwrap();
    fs::write(root.join("empty.json"), "").unwrap();
    for arguments in
        [&["lint", "./nothing"][..], &["lint", "empty.json"], &["build", "nothing", "--oci", "out"]]
    {
        let (code, _, errors) = catalog(root, arguments);
        let want = "error: the catalog is empty: no file of it has a document\n";
        assert_eq!((code, errors.as_str()), (1, want), "{arguments:?}");
    }
    let (code, _, errors) = catalog(root, &["render", "empty.json"]);
    assert_eq!((code, errors.as_str()), (1, "nothing to print: no document has a schema\n"));
    write(&root.join("catalog"), &[("1.0.0", "1")]);
    assert_eq!(catalog(root, &["build", "catalog", "--oci", "out"]).0, 0);
    let (code, _, errors) = catalog(root, &["lint", "./out"]);
    let want = "error: ./out is an OCI layout, not the files of a catalog\n";
    assert_eq!((code, errors.as_str()), (1, want));
}

// plugin.md U66
#[test]
fn a_catalog_is_rendered_package_by_package_and_a_bundle_as_its_blob() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("catalog"), &[("1.0.0", "1")]);
    let (code, text, _) = catalog(root, &["render", "catalog", "--package", "teapot"]);
    assert_eq!((code, text.lines().count()), (0, 3));
    let (code, _, errors) = catalog(root, &["render", "catalog", "--package", "kettle"]);
    let note = "note: \"catalog\" is ./catalog here, not a catalog of the cluster\n";
    assert_eq!((code, errors), (1, format!("{note}nothing of kettle\n")));
    let (_, again, _) = catalog(root, &["render", "catalog", "-o", "yaml"]);
    fs::write(root.join("again.yaml"), again).unwrap();
    assert_eq!(catalog(root, &["render", "again.yaml"]).1, text);

    let lamps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/demo/bundles/lamp-operator");
    let lamps = fs::read_dir(lamps).unwrap();
    let mut lamps: Vec<_> = lamps.map(|entry| entry.unwrap().path()).collect();
    lamps.sort();
    let lamps: Vec<_> = lamps.iter().map(|path| path.to_str().unwrap()).collect();
    let arguments = [&["render", "--graph-from-csv"], &lamps[..]].concat();
    let (code, text, _) = catalog(root, &arguments);
    assert_eq!(code, 0);
    fs::write(root.join("lamps.json"), text).unwrap();
    let (_, text, _) = catalog(root, &["lint", "lamps.json"]);
    let errors: Vec<_> = text.lines().filter(|it| it.contains("error[")).collect();
    // A directory has no image, and the CSVs of the demo do not say what they replace.
    let known = ["image is empty", "has 3 heads"];
    let known = |it: &&&str| known.iter().any(|known| it.contains(known));
    assert_eq!(errors.iter().filter(known).count(), errors.len(), "{text}");
    assert_eq!(errors.len(), 4, "{text}");
}
