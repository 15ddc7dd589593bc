//! Compares the quick reader with the general one.

use proptest::prelude::*;
use rstest::rstest;

use super::super::read::careful;
use super::*;

/// Checks the quick reader's result, if it gives one, against the general reader's.
fn check(text: &str) -> bool {
    match read(text) {
        Some(found) => {
            assert_eq!(Ok(found), careful(text), "{text}");
            true
        }
        None => false,
    }
}

#[rstest]
#[case::map("a: b\nc: 1\nd:\n  e: true\n  f:\n")]
#[case::lists("a:\n- b\n- c: 1\n  d: 2\n-\n- - x\n  - y\ne:\n  - f\n")]
#[case::documents("---\na: 1\n---\n# nothing\n---\nb: 2\n")]
#[case::comments("# x\na: b # y\n  # z\nc: 'd' # e\n")]
#[case::plain_over_lines("a: b\n  c\n\n  d:e\nf: g\n")]
#[case::quoted_over_lines("a: 'b\n  c ''d''\n\n  e'\nf: \"g \\\n  \\ h\\n\\u0041\n  i\"\n")]
#[case::literal("a: |\n  b\n    c\n\n  d\ne: |-\n  f\n\ng: |+\n  h\n\ni: j\n")]
#[case::folded("a: >\n  b\n  c\n\n  d\n    e\n  f\ng: >-\n\n  h\n   \n  i\n\nj: k\n")]
#[case::numbers("a: 1.0\nb: 0644\nc: 1e3\nd: 1.2.3\ne: -4\nf: 12345678901234567890\ng: 0\n")]
#[case::words("a: yes\nb: No\nc: NULL\nd: nan\ne: 2001-01-01\nf: 5 things\ng: 10%\n")]
#[case::keys("'a': 1\n\"b/c\": 2\nf:d: 3\n$ref: 4\nx-y.z: 5\n")]
#[case::empty_collections("a: []\nb: {}\nc: ''\nd: \"\"\n")]
#[case::other_letters("a: \u{fc}ber\nb: \"\u{4e2d}\"\n")]
#[case::no_end("a: b")]
#[case::nothing("")]
fn the_usual_is_read(#[case] text: &str) {
    assert!(check(text), "left to the general reader: {text}");
}

#[rstest]
#[case("a: &b c\nd: *b\n")]
#[case("a: !!str 1\n")]
#[case("<<: {a: 1}\n")]
#[case("a: 1\na: 2\n")]
#[case("on: 1\n")]
#[case("a:\n\tb: 1\n")]
#[case("a: b: c\n")]
#[case("a: |2\n  b\n")]
#[case("- a\nb: c\n")]
#[case("a:\n    b: 1\n  c: 2\n")]
#[case("a: 'b\nc'\n")]
#[case("%YAML 1.2\n---\na: 1\n")]
#[case("a: b\r\n")]
fn the_unusual_is_left_alone(#[case] text: &str) {
    assert_eq!(read(text), None);
}

/// Lines that have a meaning in many positions.
fn lines() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a:",
        "b: ",
        "- ",
        "-",
        "  ",
        " ",
        "    ",
        "x",
        "'",
        "''",
        "\"",
        "\\",
        "\\n",
        "|",
        ">",
        "|-",
        ">+",
        "#",
        " #",
        ":",
        "1",
        "0.5",
        "true",
        "null",
        "y",
        "---",
        "...",
        "\t",
        "[]",
        "{}",
        "c: d",
        "\n",
        "\n",
        "\n  ",
        "\n\n",
        "e: 'f",
        "g: \"h",
        "i: |\n  j",
        "k: >-\n   l",
        "\u{e9}",
        "=",
        "~",
        ".",
    ]);
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_lines_are_read_as_the_general_reader_reads_them(text in lines()) {
        check(&text);
        check(&format!("{text}\n"));
    }

    #[test]
    fn what_we_write_is_read_here(keys in prop::collection::btree_map("[a-z]{1,3}", "[ -~\\n]{0,40}", 0..5)) {
        let value = serde_json::json!({"outer": [keys]});
        check(&super::super::to_yaml(&value));
    }
}
