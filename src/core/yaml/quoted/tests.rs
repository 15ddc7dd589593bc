//! Quoted scalars as Go reads them, and everything else unchanged.

use proptest::prelude::*;
use serde_json::Value;

use super::super::fixture::lines;
use super::super::{SourcedValue, to_json, to_json_with_sources};
use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../../testdata/yaml/cases.yaml");

/// Each line: a text, and what `k8s.io/apimachinery/pkg/util/yaml` and `sigs.k8s.io/yaml` make of
/// it, `null` where they refuse it.
///
/// Texts that upstream refuses for other reasons than YAML are left out: what follows `---` at the
/// beginning of a line even inside quotes, and line breaks in JSON strings. So is `\/`, which only
/// YAML 1.2 has.
const QUOTED: &str = include_str!("../../testdata/yaml/quoted.jsonl");

/// A quoted scalar that the general reader refuses, and its document.
const UNINDENTED: &str = "a: 'b\nc'\n---\n";

#[test]
fn quoted_scalars_are_read_as_go_reads_them() {
    let mut read = 0;
    for line in QUOTED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["yaml"].as_str().unwrap();
        let want = case["json"].as_array();
        assert_eq!(to_json(text).as_ref().ok(), want, "{text}");
        let sourced = to_json_with_sources(text).ok();
        let sourced = sourced.map(|documents| documents.into_iter().map(plain).collect());
        assert_eq!(sourced.as_ref(), want, "{text}");
        read += usize::from(want.is_some());
    }
    assert!(read > 400, "only {read} cases that Go reads");
}

fn plain(value: SourcedValue) -> Value {
    match value {
        SourcedValue::Number(number, _) => Value::Number(number),
        SourcedValue::Scalar(scalar) => scalar,
        SourcedValue::List(items) => items.into_iter().map(plain).collect(),
        SourcedValue::Map(entries) => {
            entries.into_iter().map(|(key, value)| (key, plain(value))).collect()
        }
    }
}

#[test]
fn spells_quoted_scalars_anew() {
    for (text, want) in cases::<(&str, &str)>(CASES, "spells_quoted_scalars_anew") {
        assert_eq!(respell(text).as_deref(), Some(want));
    }
}

#[test]
fn leaves_everything_else_alone() {
    for text in cases::<&str>(CASES, "leaves_everything_else_alone") {
        assert_eq!(respell(text), None);
    }
}

#[test]
fn errors_name_the_line_of_the_text() {
    for (text, line) in cases::<(&str, u64)>(CASES, "errors_name_the_line_of_the_text") {
        assert_eq!(to_json(text).unwrap_err().line, Some(line));
    }
}

#[test]
fn numbers_keep_their_text_beside_quoted_scalars() {
    let values = to_json_with_sources("a: 'b\nc'\nd: 4.20\n").unwrap();
    let SourcedValue::Map(map) = &values[0] else { panic!("{values:?}") };
    assert!(matches!(&map["d"], SourcedValue::Number(_, Some(text)) if text == "4.20"));
}

#[test]
fn many_and_long_ones_take_their_size() {
    let many = "  - description: 'b\n\n   c\n\nd'\n".repeat(20_000);
    assert_eq!(to_json(&format!("a:\n{many}")).unwrap()[0]["a"][19_999]["description"], "b\nc\nd");
    let deep = format!("{}a: 'b{}'\n", " ".repeat(40_000), "\nc".repeat(40_000));
    assert!(respell(&deep).unwrap().len() < 2 * deep.len());
    for open in ["'", "\"", "a: 'b\n", "- 'a\n'", "a:\n - |\n"] {
        assert!(to_json(&format!("{}\na: 'b\nc", open.repeat(40_000))).is_err());
    }
}

/// Lines that have a meaning around quotes.
#[rustfmt::skip]
const AROUND_QUOTES: &[&str] = &[
    "a:", "b: ", "- ", "? ", ": ", "  ", "    ", "x", "'", "''", "\"", "\\", "\\'", "|", ">", "|2",
    "#", " #", "[", "]", "{", "}", ", ", ",", ":", "\t", "\n", "\n", "\n  ", "\n\n", "\r\n", "&x ",
    "*x", "!y ", "%z", "---", "--- ", "...", "c: d", "e: 'f", "g: \"h", "i: |\n  j", "k: >-\n   l",
    "\u{e9}", "'m'", "\"n\"", "'o\n p'", "\"q\n  r\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_was_read_before_reads_the_same(text in lines(AROUND_QUOTES)) {
        let json = text.trim_start().starts_with('{');
        let directive = text.lines().any(|line| line.starts_with('%'));
        if let (Ok(documents), false) = (to_json(&text), json || directive) {
            let behind = to_json(&format!("{UNINDENTED}{text}"));
            let behind = behind.map(|mut all| all.split_off(1));
            prop_assert_eq!(behind, Ok(documents), "{}", text);
        }
    }

    #[test]
    fn every_line_keeps_its_number(text in lines(AROUND_QUOTES)) {
        if let Some(respelled) = respell(&text) {
            for line_break in ['\n', '\r'] {
                prop_assert_eq!(respelled.matches(line_break).count(), text.matches(line_break).count());
            }
        }
    }

    #[test]
    fn indentation_inside_quotes_means_nothing(
        first in "[a-z:#' -]{0,8}",
        more in prop::collection::vec(("[ \\t]{0,6}", "([a-z:#\\[-][a-z:# \\[-]{0,8})?"), 1..5),
    ) {
        prop_assume!(more.iter().all(|(_, line)| !line.starts_with("---")));
        let text = |indented: bool, quote: &str| {
            let lines = more.iter().map(|(indent, line)| {
                format!("\n{}{line}", if indented { "    " } else { indent.as_str() })
            });
            let first = first.replace('\'', "''");
            format!("a:\n- b: {quote}{first}{}{quote}\n  c: 1\n", lines.collect::<String>())
        };
        for quote in ["'", "\""] {
            prop_assert_eq!(to_json(&text(false, quote)), to_json(&text(true, quote)));
        }
    }
}
