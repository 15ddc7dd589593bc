//! Compares the quick reader with the general one.

use proptest::prelude::*;

use super::super::fixture::lines;
use super::super::read::careful;
use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../../testdata/yaml/cases.yaml");

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

#[test]
fn the_usual_is_read() {
    for text in cases::<&str>(CASES, "the_usual_is_read") {
        assert!(check(text), "left to the general reader: {text}");
    }
}

#[test]
fn the_unusual_is_left_alone() {
    for text in cases::<&str>(CASES, "the_unusual_is_left_alone") {
        assert_eq!(read(text), None);
    }
}

/// Lines that have a meaning in many positions.
#[rustfmt::skip]
const IN_MANY_POSITIONS: &[&str] = &[
    "a:", "b: ", "- ", "-", "  ", " ", "    ", "x", "'", "''", "\"", "\\", "\\n", "|", ">", "|-",
    ">+", "#", " #", ":", "1", "0.5", "true", "null", "y", "---", "...", "\t", "[]", "{}", "c: d",
    "\n", "\n", "\n  ", "\n\n", "e: 'f", "g: \"h", "i: |\n  j", "k: >-\n   l", "\u{e9}", "=", "~",
    ".",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_lines_are_read_as_the_general_reader_reads_them(text in lines(IN_MANY_POSITIONS)) {
        check(&text);
        check(&format!("{text}\n"));
    }

    #[test]
    fn what_we_write_is_read_here(keys in prop::collection::btree_map("[a-z]{1,3}", "[ -~\\n]{0,40}", 0..5)) {
        let value = serde_json::json!({"outer": [keys]});
        check(&super::super::to_yaml(&value));
    }
}
