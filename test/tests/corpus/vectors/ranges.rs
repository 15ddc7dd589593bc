//! `version-ranges.json` and `ranges-generated.jsonl`: resolution.md 2, 4.

use std::cmp::Ordering;

use olm_core::error::Chain;
use olm_core::version::{Release, SkipRange, Version, VersionRange, VersionRelease};
use serde_json::Value;

use super::{conclude, json, rows, text};

/// Returns the result of a range case: whether the version is inside, or the error text.
fn contains(grammar: &str, range: &str, version: &str) -> Result<bool, String> {
    let version: Version = version.parse().expect("versions of the vectors are valid");
    match grammar {
        "masterminds" => match range.parse::<VersionRange>() {
            Ok(range) => Ok(range.contains(&version)),
            Err(error) => Err(Chain(&error).to_string()),
        },
        "blang" => match range.parse::<SkipRange>() {
            Ok(range) => Ok(range.contains(&version)),
            Err(error) => Err(Chain(&error).to_string()),
        },
        other => panic!("unknown grammar {other}"),
    }
}

/// Runs every row of one section through a check that returns the difference, if any.
fn section(name: &str, check: impl Fn(&Value) -> Option<String>) {
    let document = json("vectors/version-ranges.json");
    let rows = document[name].as_array().expect("a section is a list");
    let differences: Vec<String> = rows
        .iter()
        .filter_map(|row| check(row).map(|ours| format!("{row}\n    ours: {ours}")))
        .collect();
    conclude(&format!("version-ranges.json {name}"), rows.len(), &differences);
}

/// Compares two results by their printed form.
#[expect(clippy::needless_pass_by_value, reason = "callers have nothing else to do with it")]
fn unless_equal<T: std::fmt::Debug + PartialEq>(ours: T, expected: &T) -> Option<String> {
    (ours != *expected).then(|| format!("{ours:?}, expected {expected:?}"))
}

fn expected_text(row: &Value, key: &str) -> Result<String, String> {
    match row["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(row[key].as_str().unwrap_or_default().to_owned()),
    }
}

#[test]
fn range_cases() {
    section("cases", |row| {
        let ours = contains(text(row, "grammar"), text(row, "range"), text(row, "version"));
        let expected = match row["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(row["matches"].as_bool().expect("a case has an answer")),
        };
        unless_equal(ours, &expected)
    });
}

#[test]
fn version_parse() {
    section("versionParse", |row| {
        let parsed = text(row, "version").parse::<Version>();
        let ours = parsed.map(|_| String::new()).map_err(|error| Chain(&error).to_string());
        unless_equal(ours, &expected_text(row, "none"))
    });
}

#[test]
fn version_order() {
    section("versionOrder", |row| {
        let parse = |key| text(row, key).parse::<Version>().unwrap();
        unless_equal(parse("a").precedence(&parse("b")), &order(row))
    });
}

#[test]
fn release_parse() {
    section("releaseParse", |row| {
        let parsed = text(row, "input").parse::<Release>();
        let ours =
            parsed.map(|release| release.to_string()).map_err(|error| Chain(&error).to_string());
        unless_equal(ours, &expected_text(row, "release"))
    });
}

#[test]
fn legacy_version_release() {
    section("legacyVersionRelease", |row| {
        let ours = VersionRelease::legacy(text(row, "input"))
            .map(|pair| {
                let release = pair.release.unwrap_or_default().to_string();
                (pair.version.to_string(), release)
            })
            .map_err(|error| Chain(&error).to_string());
        let expected =
            expected_text(row, "version").map(|version| (version, text(row, "release").to_owned()));
        unless_equal(ours, &expected)
    });
}

#[test]
fn version_release_order() {
    section("versionReleaseOrder", |row| {
        let parse = |key| VersionRelease::legacy(text(row, key)).unwrap();
        unless_equal(parse("a").precedence(&parse("b")), &order(row))
    });
}

/// The text of Masterminds errors reaches conditions and must be equal; that of blang need not.
#[test]
fn generated_ranges() {
    let rows = rows("vectors/ranges-generated.jsonl");
    let mut differences = Vec::new();
    for row in &rows {
        let grammar = text(row, "grammar");
        let ours = contains(grammar, text(row, "range"), text(row, "version"));
        let equal = match (&ours, row["gotError"].as_str()) {
            (Ok(inside), None) => row["got"].as_bool() == Some(*inside),
            (Err(error), Some(expected)) => grammar == "blang" || error == expected,
            (Ok(_), Some(_)) | (Err(_), None) => false,
        };
        if !equal {
            differences.push(format!("{row}\n    ours: {ours:?}"));
        }
    }
    conclude("ranges-generated.jsonl", rows.len(), &differences);
}

fn order(row: &Value) -> Ordering {
    row["order"].as_i64().expect("an order is a number").cmp(&0)
}
