use itertools::Itertools as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../testdata/yaml/cases.yaml");

fn one(text: &str) -> Value {
    let mut values = to_json(text).unwrap();
    assert_eq!(values.len(), 1, "{values:?}");
    values.remove(0)
}

// stack.md case 10: each row of section 7
#[test]
fn reads_as_go() {
    for (text, want) in cases::<(&str, Value)>(CASES, "reads_as_go") {
        assert_eq!(one(text), want);
    }
}

#[test]
fn keys_that_stand_twice_are_found() {
    for (text, want) in
        cases::<(&str, Vec<(&str, usize, usize)>)>(CASES, "keys_that_stand_twice_are_found")
    {
        let found = repeated_keys(text);
        let found: Vec<_> =
            found.iter().map(|(key, line, column)| (key.as_str(), *line, *column)).collect();
        assert_eq!(found, want);
    }
}

// stack.md case 10; rendering.md 1.1
#[test]
fn counts_documents() {
    for (text, documents) in cases::<(&str, usize)>(CASES, "counts_documents") {
        assert_eq!(to_json(text).unwrap().len(), documents);
    }
}

// stack.md 7: a short commit that looks like a number is a text
#[test]
fn a_number_beyond_every_float_is_a_text() {
    let text = "ref: 8e91234 # a commit\n8e91234: [12e4567, -1e999, 1e3]\n\
                list:\n- 8e91234\n- a\nlast: 9e99999";
    let want = json!({"ref": "8e91234", "8e91234": ["12e4567", "-1e999", 1000],
        "list": ["8e91234", "a"], "last": "9e99999"});
    assert_eq!(to_json(text).unwrap(), [want]);
    assert!(to_json("a: .inf\nb: 8e91234").is_err());
}

#[test]
fn refuses() {
    for text in cases::<&str>(CASES, "refuses") {
        let error = to_json(text).unwrap_err();
        assert!(error.to_string().starts_with("yaml: "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn errors_carry_the_line() {
    let error = to_json("a: 1\nb: 2\nc: [\n").unwrap_err();
    assert!(error.line.unwrap() >= 3, "{error}");
}

// stack.md case 10
#[test]
fn bombs_are_refused_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let aliases = [alias.as_str(); 10].join(", ");
        bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
    }
    assert!(to_json(&bomb).is_err());
    assert!(to_json(&"[".repeat(10_000)).is_err());
    assert!(to_json(&"{\"a\":".repeat(10_000)).is_err());
    let deep: String = (0..10_000).map(|level| " ".repeat(level) + "a:\n").collect();
    assert!(to_json(&deep).is_err());
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), ["*a"; 1000].join(", "));
    assert!(to_json(&long).is_err(), "a gigabyte through aliases");
}

// rendering.md 1.7
#[test]
fn a_map_of_many_keys_is_read_in_a_moment() {
    let keys = (0..100_000).map(|key| format!("k{key}: \n")).join("");
    let values = to_json_with_sources(&format!("{keys}k0: 4.20\n")).unwrap();
    let SourcedValue::Map(map) = &values[0] else { panic!("no map") };
    assert_eq!(map.len(), 100_000);
    assert!(matches!(&map["k0"], SourcedValue::Number(_, Some(text)) if text == "4.20"));
}

#[test]
fn many_aliases_of_one_anchor_are_allowed() {
    let text = format!("a: &a {{x: 1}}\nb: [{}]", ["*a"; 1000].join(", "));
    assert_eq!(one(&text)["b"].as_array().unwrap().len(), 1000);
}

#[test]
fn deep_but_allowed_nesting_is_read() {
    let depth = read::MAX_DEPTH - 1;
    let text = "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(to_json(&text).unwrap().len(), 1);
}

#[test]
fn coerces_scalars_to_text() {
    for (value, want) in cases::<(Value, Option<&str>)>(CASES, "coerces_scalars_to_text") {
        assert_eq!(scalar_to_string(&value).as_deref(), want);
    }
}

// rendering.md 1.7
#[test]
fn numbers_keep_their_text_where_asked() {
    let values = to_json_with_sources("a: 4.20\nb: [1.0, x, 0x10]\nc: {d: 4.10}").unwrap();
    let SourcedValue::Map(map) = &values[0] else { panic!("{values:?}") };
    assert!(matches!(&map["a"], SourcedValue::Number(_, Some(text)) if text == "4.20"));
    let SourcedValue::List(list) = &map["b"] else { panic!("{map:?}") };
    assert!(matches!(&list[0], SourcedValue::Number(_, Some(text)) if text == "1.0"));
    assert!(matches!(&list[2], SourcedValue::Number(_, Some(text)) if text == "0x10"));
    let SourcedValue::Map(inner) = &map["c"] else { panic!("{map:?}") };
    assert!(matches!(&inner["d"], SourcedValue::Number(_, Some(text)) if text == "4.10"));
}

#[test]
fn writes_what_nobody_misreads() {
    let value = json!({
        "yes": "no", "octal": "0644", "date": "2001-01-01", "number": "1", "float": "1e3",
        "null": "null", "empty": "", "text": "hello world", "path": "/a/b:c", "image": "a/b@sha256:c",
        "colon": "a: b", "hash": "a #b", "block": "a\n  b\n\nc\n", "stripped": "a\nb",
        "spaces": " a", "list": ["- x", {"a": 1, "b": [true, null]}, [1, [2]], [], {}],
        "tilde": "~", "time": "12:30:45", "big": 1e21,
    });
    insta::assert_snapshot!(to_yaml(&value));
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[a-zA-Z0-9 _./:#'\"\\n\\t-]{0,12}",
        proptest::sample::select(vec!["yes", "1e3", "0o7", "<<", "=", "? a", "- a", "a\n", "\n"])
            .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (any::<i32>()).prop_map(|integer| Value::from(f64::from(integer) + 0.25)),
        text.clone().prop_map(Value::from),
    ];
    crate::fixture::json(leaf, text)
}

proptest! {
    #[test]
    fn writing_and_reading_gives_the_value_back(value in any_json()) {
        // A null document counts as absent, and integral floats are integers when read.
        let wrapped = json!({ "v": value });
        let text = to_yaml(&wrapped);
        let read = to_json(&text);
        let again = read.clone().ok().and_then(|mut values| values.pop());
        prop_assert_eq!(again.map(|v| v.to_string()), Some(wrapped.to_string()), "{} {:?}", text, read);
    }

    // stack.md case 10, rendering.md 1
    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = to_json(&text);
        let _ = to_json_with_sources(&text);
    }

    #[test]
    fn never_panics_on_nearly_yaml(text in "[a-c:\\-{}\\[\\]&*|>'\"\\n #!<0-9.,?]{0,60}") {
        let _ = to_json(&text);
        let _ = to_json_with_sources(&text);
    }
}
