//! Quoted scalars as Go reads them, and everything else unchanged.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::super::{SourcedValue, to_json, to_json_with_sources};
use super::*;

/// Each line: a text, and what `k8s.io/apimachinery/pkg/util/yaml` and `sigs.k8s.io/yaml` make of
/// it, `null` where they refuse it.
///
/// Texts that upstream refuses for other reasons than YAML are left out: what follows `---` at the
/// beginning of a line even inside quotes, and line breaks in JSON strings. So is `\/`, which only
/// YAML 1.2 has.
const CASES: &str = include_str!("../../testdata/yaml/quoted.jsonl");

/// A quoted scalar that the general reader refuses, and its document.
const UNINDENTED: &str = "a: 'b\nc'\n---\n";

#[test]
fn quoted_scalars_are_read_as_go_reads_them() {
    let mut read = 0;
    for line in CASES.lines() {
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

#[rstest]
#[case::single("a: 'b  \n c'\n", "a: \"b \\\n c\"\n")]
#[case::blank_lines("a: 'b\n\n \nc'\n", "a: \"b\\\n\n\nc\"\n")]
#[case::quotes("a: 'b\"\\''\nc'\n", "a: \"b\\\"\\\\' \\\nc\"\n")]
#[case::double("a: \"b\\\"\n\tc\"\n", "a: \"b\\\" \\\n c\"\n")]
#[case::escaped_break("a: \"b \\\n\n  c\"\n", "a: \"b \\\n\n c\"\n")]
#[case::escaped_blank("a: \"b\\  \nc\"\n", "a: \"b\\  \\\nc\"\n")]
#[case::carriage_returns("a: 'b\r\nc'\r\n", "a: \"b \\\r\nc\"\r\n")]
#[case::escaped_quote("a: \"b\\'c\"\n", "a: \"b'c\"\n")]
fn spells_quoted_scalars_anew(#[case] text: &str, #[case] want: &str) {
    assert_eq!(respell(text).as_deref(), Some(want));
}

#[rstest]
#[case::one_line("a: 'b'\nc: \"d\"\n")]
#[case::literal("a: |\n  'b\n  c'\n")]
#[case::literal_of_given_indentation("a: |2\n   b\n  'c\n  d'\n")]
#[case::literal_of_a_digit("|\n1 'a\nb'\n")]
#[case::literal_in_lists("a:\n- - >\n    'b\n    c'\n")]
#[case::literal_at_the_top("|\n'a\nb'\n")]
#[case::plain("a: b 'c\nd: e'f\n")]
#[case::plain_over_lines("a: b\n  'c\n  d'\n")]
#[case::comment("# 'a\nb: c # 'd\n#e'\n")]
#[case::brackets("a: [b'c, \"d\", {e: f'g}]\n")]
#[case::directive("%TAG ! 'a\n---\nb: c'\n")]
#[case::unclosed("a: 'b\\''")]
fn leaves_everything_else_alone(#[case] text: &str) {
    assert_eq!(respell(text), None);
}

#[rstest]
#[case::behind_the_quote("a: 'b\nc' d\n", 2)]
#[case::document_in_quotes("a: 1\nb: 'c\nd'\ne: 'f\n---\ng'\n", 4)]
#[case::below("a: 'b\n\nc'\nd:\n- e: 'f\ng'\n- h: [i\n", 7)]
#[case::above("a: [}\nb: 'c\nd'\n", 1)]
#[case::unclosed("a: 1\nb: \"c\nd\\", 2)]
#[case::escape("a: 'b\nc'\nd: \"\\q\"\n", 3)]
fn errors_name_the_line_of_the_text(#[case] text: &str, #[case] line: u64) {
    assert_eq!(to_json(text).unwrap_err().line, Some(line));
}

#[test]
fn numbers_keep_their_text_beside_quoted_scalars() {
    let values = to_json_with_sources("a: 'b\nc'\nd: 4.20\n").unwrap();
    let SourcedValue::Map(map) = &values[0] else { panic!("{values:?}") };
    assert!(matches!(&map[1].1, SourcedValue::Number(_, Some(text)) if text == "4.20"));
}

#[test]
fn many_and_long_ones_take_their_size() {
    let many = "  - description: 'b\n\n   c\n\nd'\n".repeat(50_000);
    assert_eq!(to_json(&format!("a:\n{many}")).unwrap()[0]["a"][49_999]["description"], "b\nc\nd");
    let deep = format!("{}a: 'b{}'\n", " ".repeat(100_000), "\nc".repeat(100_000));
    assert!(respell(&deep).unwrap().len() < 2 * deep.len());
    for open in ["'", "\"", "a: 'b\n", "- 'a\n'", "a:\n - |\n"] {
        assert!(to_json(&format!("{}\na: 'b\nc", open.repeat(100_000))).is_err());
    }
}

/// Lines that have a meaning around quotes.
fn lines() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a:",
        "b: ",
        "- ",
        "? ",
        ": ",
        "  ",
        "    ",
        "x",
        "'",
        "''",
        "\"",
        "\\",
        "\\'",
        "|",
        ">",
        "|2",
        "#",
        " #",
        "[",
        "]",
        "{",
        "}",
        ", ",
        ",",
        ":",
        "\t",
        "\n",
        "\n",
        "\n  ",
        "\n\n",
        "\r\n",
        "&x ",
        "*x",
        "!y ",
        "%z",
        "---",
        "--- ",
        "...",
        "c: d",
        "e: 'f",
        "g: \"h",
        "i: |\n  j",
        "k: >-\n   l",
        "\u{e9}",
        "'m'",
        "\"n\"",
        "'o\n p'",
        "\"q\n  r\"",
    ]);
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_was_read_before_reads_the_same(text in lines()) {
        let json = text.trim_start().starts_with('{');
        let directive = text.lines().any(|line| line.starts_with('%'));
        if let (Ok(documents), false) = (to_json(&text), json || directive) {
            let behind = to_json(&format!("{UNINDENTED}{text}"));
            let behind = behind.map(|mut all| all.split_off(1));
            prop_assert_eq!(behind, Ok(documents), "{}", text);
        }
    }

    #[test]
    fn every_line_keeps_its_number(text in lines()) {
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
