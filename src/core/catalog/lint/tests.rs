use std::fmt::Write as _;

use serde::Deserialize;

use super::*;
use crate::yaml;

const GOOD: &str = include_str!("../../testdata/lint/good.yaml");
const CASES: &str = include_str!("../../testdata/lint/cases.yaml");

#[derive(Deserialize)]
struct Case {
    name: String,
    replace: String,
    with: String,
}

fn image(text: &str) -> Result<Pinned, String> {
    match text {
        _ if text.contains(' ') => Err("invalid reference format".to_owned()),
        _ if !text.contains('/') => Ok(Pinned::Short),
        _ if text.contains('@') => Ok(Pinned::Digest),
        _ => Ok(Pinned::Tag),
    }
}

fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
    lint(files.collect::<Vec<_>>(), image).unwrap().0
}

fn printed(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        writeln!(text, "{finding}").unwrap();
        if let Some(hint) = &finding.hint {
            writeln!(text, "  hint: {hint}").unwrap();
        }
    }
    text
}

/// What is found in each case, by its name.
fn cases() -> Vec<(String, Vec<Finding>)> {
    let cases = yaml::to_json(CASES).unwrap().remove(0);
    let cases: Vec<Case> = serde_json::from_value(cases).unwrap();
    let found = |case: Case| {
        assert!(GOOD.contains(&case.replace), "{}", case.name);
        let changed = GOOD.replacen(&case.replace, &case.with, 1);
        (case.name, findings(&[("index.yaml", &changed)]))
    };
    cases.into_iter().map(found).collect()
}

// plugin.md U61, U62
#[test]
fn each_rule_says_what_is_wrong_and_where() {
    assert_eq!(printed(&findings(&[("index.yaml", GOOD)])), "");
    let mut text = String::new();
    for (name, found) in cases() {
        assert!(!found.is_empty(), "{name}");
        writeln!(text, "# {name}\n{}", printed(&found)).unwrap();
    }
    insta::assert_snapshot!(text);
}

// plugin.md U64
#[test]
fn what_opm_refuses_is_an_error() {
    let refused = [
        "no package",
        "two packages",
        "name of the package is missing",
        "default channel is missing",
        "default channel does not exist",
        "icon without type",
        "channel without a name",
        "channel of another package",
        "channel defined twice",
        "channel without entries",
        "entry without a name",
        "entry without bundle",
        "two heads",
        "circle",
        "bundle without a name",
        "bundle defined twice",
        "same version",
        "no image",
        "no version",
        "version of another package",
        "version",
        "deprecation of nothing",
        "deprecation without message",
        "deprecation of an unknown schema",
        "no schema",
    ];
    let cases: std::collections::BTreeMap<_, _> = cases().into_iter().collect();
    for name in refused {
        let errors = cases[name].iter();
        let mut errors = errors.filter(|it| it.severity == Severity::Error);
        assert!(errors.next().is_some(), "{name}: {}", printed(&cases[name]));
    }
}

// plugin.md U63: findings are the same under any order of files
#[test]
fn the_order_of_files_does_not_matter() {
    let documents: Vec<_> = GOOD.split("---\n").collect();
    let names: Vec<_> = (0..documents.len()).map(|i| format!("{i}.yaml")).collect();
    let broken = documents[1].replace("    replaces: teapot.v1.1.0\n", "    replaces: none\n");
    let mut files: Vec<_> = names.iter().map(String::as_str).zip(documents).collect();
    files[1].1 = &broken;
    let first = findings(&files);
    files.reverse();
    assert_eq!(first, findings(&files));
    assert!(!first.is_empty());
}

#[test]
fn json_has_the_same_places() {
    let line = |schema: &str, rest: &str| format!("{{\"schema\":\"{schema}\",{rest}}}\n");
    let text = line("olm.package", r#""name":"a","defaultChannel":"x""#)
        + &line(
            "olm.channel",
            r#""package":"a","name":"c","entries":[{"name":"a.v1"}]"#,
        );
    insta::assert_snapshot!(printed(&findings(&[("a/catalog.json", &text)])), @r#"
    a/catalog.json:1:32: error[package]: package "a" has no bundle
    a/catalog.json:1:53: error[default-channel]: default channel "x" does not exist; channels are: c
    a/catalog.json:2:69: error[entry]: entry "a.v1" has no olm.bundle
    "#);
}

// plugin.md 2.2: what cannot be read counts against nothing else
#[test]
fn what_cannot_be_read_is_one_finding() {
    let broken = GOOD.replacen("schema: olm.bundle\n", "schema: olm.bundle\nwrong\n", 1);
    let readme = "# Teapots\n\nShort and stout: see the handle\n\tand the spout\n";
    let found = findings(&[("README.md", readme), ("index.yaml", &broken)]);
    insta::assert_snapshot!(printed(&found), @r"
    README.md:3: error[file]: not catalog content: invalid YAML: while scanning a plain scalar, found a tab
      hint: list it in .indexignore
    index.yaml:23: error[yaml]: invalid YAML: simple key expected ':'
    ");
    // Listed in `.indexignore` it is not read.
    let ignored = findings(&[
        ("README.md", readme),
        (".indexignore", "*.md"),
        ("i.yaml", GOOD),
    ]);
    assert_eq!(printed(&ignored), "");
}
