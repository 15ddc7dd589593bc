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
    /// Whether opm refuses it.
    #[serde(default)]
    error: bool,
}

impl Case {
    fn changed(&self) -> String {
        assert!(GOOD.contains(&self.replace), "{}", self.name);
        GOOD.replacen(&self.replace, &self.with, 1)
    }
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

fn cases() -> Vec<Case> {
    let cases = yaml::to_json(CASES).unwrap().remove(0);
    serde_json::from_value(cases).unwrap()
}

// plugin.md U61, U62, U64
#[test]
fn each_rule_says_what_is_wrong_and_where() {
    assert_eq!(printed(&findings(&[("index.yaml", GOOD)])), "");
    let mut text = String::new();
    for case in cases() {
        let (name, found) = (&case.name, findings(&[("index.yaml", &case.changed())]));
        let severe = found.iter().any(|it| it.severity == Severity::Error);
        assert!(!found.is_empty() && (severe || !case.error), "{name}: {}", printed(&found));
        writeln!(text, "# {name}\n{}", printed(&found)).unwrap();
    }
    insta::assert_snapshot!(text);
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
        + &line("olm.channel", r#""package":"a","name":"c","entries":[{"name":"a.v1"}]"#);
    insta::assert_snapshot!(printed(&findings(&[("a/catalog.json", &text)])), @r#"
    a/catalog.json:1:32: error[package]: package "a" has no bundle
    a/catalog.json:1:53: error[default-channel]: default channel "x" does not exist; channels are: c
    a/catalog.json:2:69: error[entry]: entry "a.v1" has no olm.bundle
    "#);
}

#[test]
fn a_bundle_that_no_extension_can_install_is_named() {
    let changed = GOOD.replace("teapot.v1.2.0", "teapot.v1.2.0+2");
    let found = findings(&[("index.yaml", &changed)]);
    let text = "\"teapot.v1.2.0+2\" is not a DNS subdomain: no extension can install it";
    assert!(
        found.iter().any(|it| it.severity == Severity::Warning && it.text == text),
        "{}",
        printed(&found)
    );
}

#[test]
fn a_key_that_is_given_twice_is_named_with_its_place() {
    let twice =
        GOOD.replacen("      version: 1.1.0\n", "      version: 1.0.9\n      version: 1.1.0\n", 1);
    insta::assert_snapshot!(printed(&findings(&[("index.yaml", &twice)])), @r#"
    index.yaml:44:16: warning[key]: key "version" is given twice: the last value counts
    "#);
    let first = r#"{"schema":"example.com/x","name":"a"}"#;
    let second = r#"{"schema":"example.com/x","name":"b","c":[{"d":1,"d":2}]}"#;
    let found = findings(&[("c.json", &format!("{first}\n{second}\n"))]);
    assert_eq!((found.len(), found[0].line, found[0].severity), (1, 2, Severity::Warning));
    assert_eq!((found[0].name.as_str(), found[0].rule), ("b", Rule::Key));
    assert!(found[0].column > second.find(r#""d":1"#).unwrap(), "{found:?}");
    assert_eq!(found[0].text, "key \"d\" is given twice: the last value counts");
    let found = findings(&[("c.json", &format!("{first}{second}\n"))]);
    assert_eq!(found.len(), 0, "it would be said of the first value of the line");
}

#[test]
fn what_is_wrong_in_one_of_several_values_of_a_line_has_no_column() {
    let first = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#;
    let second = r#"{"name":"p","schema":"olm.package","defaultChannel":1}"#;
    let placed = |text: &str| {
        let found = findings(&[("c.json", text)]);
        let wrong = found.iter().find(|it| it.pointer == "/defaultChannel").unwrap();
        (wrong.line, wrong.column > 0)
    };
    assert_eq!(placed(&format!("{first}{second}\n")), (1, false));
    assert_eq!(placed(&format!("{first}\n{second}\n")), (2, true));
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
    let ignored = findings(&[("README.md", readme), (".indexignore", "*.md"), ("i.yaml", GOOD)]);
    assert_eq!(printed(&ignored), "");
}

// catalogs.md 5.8
#[test]
fn a_package_that_is_too_large_is_one_error_where_it_becomes_so() {
    let head = r#"{"schema":"example.com/x","package":"p","name":"a","v":""#;
    let blob = format!("{head}{}\"}}\n", ",".repeat(600_000));
    let found = findings(&[("c.json", &blob.repeat(3))]).into_iter();
    let errors: Vec<_> = found.filter(|it| it.severity == Severity::Error).collect();
    let text = "with this blob package \"p\" has 1200008 values, more than 1000000";
    assert_eq!(errors.len(), 1);
    let Finding { rule, line, package, text: said, .. } = &errors[0];
    assert_eq!((*rule, *line, package.as_str(), said.as_str()), (Rule::Package, 2, "p", text));
}

fn tally(files: &[(&str, &str)]) -> Tally {
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let mut linter = Linter::counting(image);
    for document in crate::catalog::read::documents(files).unwrap() {
        linter.add(&document);
    }
    linter.tally()
}

// plugin.md 2.4, U62, U72
#[test]
fn a_tally_counts_what_is_found_but_for_notes() {
    for case in cases() {
        let changed = case.changed();
        let (all, tally) =
            (findings(&[("index.yaml", &changed)]), tally(&[("index.yaml", &changed)]));
        let count = |severity| all.iter().filter(|it| it.severity == severity).count();
        let counts = (tally.errors, tally.warnings);
        let want = (count(Severity::Error), count(Severity::Warning));
        assert_eq!(counts, want, "{}", case.name);
        let told = all.iter().filter(|it| it.severity != Severity::Note);
        for finding in told.filter(|it| it.rule != Rule::Yaml) {
            let line = tally.worst.iter().find(|line| line.text.ends_with(&finding.text));
            assert_eq!(line.map(|it| &it.hint), Some(&finding.hint), "{}", case.name);
        }
    }
}

// plugin.md U72: errors first, then by package and line; ten of them
#[test]
fn the_worst_is_told_first_and_without_tricks() {
    let bundle = |package: &str, kind: &str| {
        format!(
            "---\nschema: olm.bundle\npackage: {package}\nname: {package}.v{kind}\nimage: \
             example.com/i@sha256:1\nproperties:\n- type: olm.gvk\n  value: {{group: a.example.com, \
             version: v1, kind: \"{kind}\"}}\n"
        )
    };
    // Warnings, one for a name that no extension can install, and errors: no version, in no channel, no
    // `olm.package`.
    let text = bundle("b", "\u{202e}x") + &bundle("a", "x") + &bundle("a", "y");
    let tally = tally(&[("b\u{1b}.yaml", &text)]);
    assert_eq!((tally.errors, tally.warnings, tally.packages), (9, 3, 2));
    let lines: Vec<_> = tally.worst.iter().map(|line| line.text.as_str()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    b�.yaml:10: needs exactly one olm.package property, has 0
    b�.yaml:10: package "a" has no olm.package blob
    b�.yaml:10: "a.vx" is in no channel
    b�.yaml:18: needs exactly one olm.package property, has 0
    b�.yaml:18: "a.vy" is in no channel
    b�.yaml:2: needs exactly one olm.package property, has 0
    b�.yaml:2: kind "�x" is not a name Kubernetes accepts
    b�.yaml:2: package "b" has no olm.package blob
    b�.yaml:2: "b.v�x" is in no channel
    b�.yaml:10: kind "x" begins with a lowercase letter
    "#);
}

// plugin.md U72: a catalog that is all findings costs no memory
#[test]
fn hostile_content_is_counted_in_little_memory() {
    let mut linter = Linter::counting(image);
    let long = "x".repeat(MAX_NAME + 1);
    let blob = format!("{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"{long}\"}}");
    let nothing = Meta::parse("{}").unwrap();
    let long = Meta::parse(&blob).unwrap();
    let entries = (0..40).map(|i| format!("{{\"name\":\"n{i}\",\"replaces\":\"{i}\"}}"));
    let entries = entries.collect::<Vec<_>>().join(",");
    let channel = format!(
        "{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{entries}]}}"
    );
    let channel = Meta::parse(&channel).unwrap();
    for line in 1..=1000 {
        linter.add_blob("f", line, &nothing);
        linter.add_blob("f", line, &long);
        linter.add_blob("f", line, &channel);
    }
    assert!(linter.findings.is_empty());
    linter.kept = MAX_KEPT;
    linter.add_blob("f", 1001, &channel);
    linter.add_blob("f", 1002, &channel);
    assert_eq!(linter.packages["p"].channels.len(), 1000);
    let tally = linter.tally();
    assert_eq!(tally.worst.len(), 10);
    let told = |start: &str| tally.worst.iter().any(|line| line.text.contains(start));
    assert!(told("not catalog content") || told("\"schema\" is missing"), "{tally:?}");
    // Each long name, and once that what is kept has an end.
    assert_eq!(tally.warnings, 1001);
}
