//! Parsing of constraints and CEL rules: resolution.md 5.1 and 5.5, and that nothing panics.

use proptest::prelude::*;
use std::fmt::Display;

use serde_json::{Value, json};

use super::*;
use crate::fixture::{cases, rows, text};

const CASES: &str = include_str!("../../testdata/catalog/cases.yaml");

fn property(kind: &str, value: impl Display) -> Property {
    Property { kind: kind.to_owned(), value: value.to_string() }
}

fn declared(kind: &str, value: impl Display) -> Result<Constraint, ConstraintError> {
    let mut all = Declared::of(&[property(kind, value)]);
    all.remove(0).constraint
}

fn constraint(value: impl Display) -> Result<Constraint, ConstraintError> {
    declared("olm.constraint", value)
}

fn error(value: impl Display) -> String {
    constraint(value).unwrap_err().to_string()
}

// resolution.md 5.1
#[test]
fn malformed_constraints() {
    for row in rows(include_str!("../../testdata/catalog/malformed_constraints.yaml")) {
        assert_eq!(error(&row["constraint"]), row["want"], "{row}");
    }
}

// resolution.md 5.1
#[test]
fn the_first_of_several_members_counts() {
    let value = json!({
        "cel": {"rule": "true"}, "not": {"constraints": []}, "all": {"constraints": []},
        "package": {"packageName": "blue", "versionRange": "1.0.0"},
    });
    let demand = constraint(value).unwrap().demand;
    assert!(matches!(demand, Demand::Package { .. }), "{demand:?}");
    let value = json!({"cel": {"rule": "true"}, "not": {"constraints": []}});
    let demand = constraint(value).unwrap().demand;
    assert!(matches!(demand, Demand::Not(_)), "{demand:?}");
}

// resolution.md 5.1
#[test]
fn a_constraint_has_at_most_131072_bytes() {
    let sized = |bytes: usize| {
        let frame = json!({"failureMessage": "", "gvk": {"kind": "A"}}).to_string();
        let message = "x".repeat(bytes - frame.len());
        json!({"failureMessage": message, "gvk": {"kind": "A"}}).to_string()
    };
    assert!(constraint(sized(131_072)).is_ok());
    assert_eq!(
        error(sized(131_073)),
        "olm.constraint value is greater than max constraint size 131072 bytes"
    );
}

// resolution.md 5.1
#[test]
fn constraints_are_nested_at_most_100_deep() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"all":{"constraints":["#, "]}}");
        let inner = r#"{"gvk":{"kind":"A"}}"#;
        format!("{}{inner}{}", open.repeat(depth - 1), close.repeat(depth - 1))
    };
    assert!(constraint(nested(100)).is_ok());
    assert_eq!(error(nested(101)), "constraint is nested deeper than 100 levels");
}

// resolution.md 5.7
#[test]
fn messages_are_one_line_of_at_most_512_characters() {
    let message = |message: &str| {
        let value = json!({"failureMessage": message, "gvk": {}});
        constraint(value).unwrap().message
    };
    assert_eq!(message("a\n\tb\u{7f}c").as_deref(), Some("a b\u{fffd}c"));
    // Nothing turns the text around it.
    assert_eq!(message("a\u{202e}b").as_deref(), Some("a\u{fffd}b"));
    assert_eq!(message(&"é".repeat(600)), Some("é".repeat(512)));
    assert_eq!(message(" \n "), None);
}

#[test]
fn the_older_properties_are_read_as_the_rest_of_a_catalog() {
    let kind = json!({"Group": "g", "version": "v1", "kind": "K", "more": 1});
    assert!(declared("olm.gvk.required", kind).is_ok());
    let package = json!({"packageName": "p", "versionRange": ">=1.0.0", "x": 1});
    assert!(declared("olm.package.required", package).is_ok());
}

#[test]
fn only_three_kinds_of_properties_declare_constraints() {
    let properties = [
        property("olm.package", json!({})),
        property("olm.label.required", json!({})),
        property("olm.gvk.required", json!({"kind": "A"})),
        property("olm.constraint", "{"),
    ];
    let all = Declared::of(&properties);
    let found: Vec<_> = all.iter().map(|it| (it.index, it.constraint.is_ok())).collect();
    assert_eq!(found, [(2, true), (3, false)]);
}

fn facts() -> Facts {
    Facts::new(&[
        property("certified", true),
        property("olm.package", json!({"packageName": "blue", "version": "v1.2", "size": 3})),
        property("olm.gvk", json!({"group": "g", "version": "v1", "kind": "K"})),
        property("broken", "{"),
        property("list", json!(["a", "b"])),
    ])
}

// resolution.md 5.5
#[test]
fn rules() {
    for row in rows(include_str!("../../testdata/catalog/rules.yaml")) {
        let rule = text(&row, "rule");
        let found = Rule::compile(rule).unwrap().matches(&facts(), &Steps::default());
        assert_eq!(row["want"], found.unwrap(), "{rule}");
    }
}

// resolution.md 5.5
#[test]
fn rules_that_are_none() {
    for (rule, want) in cases::<(&str, &str)>(CASES, "rules_that_are_none") {
        assert_eq!(Rule::compile(rule).unwrap_err().to_string(), want);
    }
    assert!(!Rule::compile("").unwrap_err().to_string().is_empty());
}

/// What a hostile catalog may hold: long chains, deep nesting, nested loops, values that double.
#[test]
fn rules_beyond_a_limit_match_nothing() {
    let many = (0..200).map(|it| property("number", it));
    let facts = Facts::new(&many.collect::<Vec<_>>());
    let literal = format!("[{}]", vec!["0"; 1_000].join(","));
    for (open, times, inside, close) in
        cases::<([&str; 2], usize, &str, &str)>(CASES, "rules_beyond_a_limit_match_nothing")
    {
        let rule = open[0].to_owned() + &open[1].repeat(times) + inside + &close.repeat(times);
        let rule = Rule::compile(&rule.replace("LITERAL", &literal));
        let found = rule.map(|rule| rule.matches(&facts, &Steps::default()));
        assert!(found.is_err() || found == Ok(Some(false)));
    }
}

#[test]
fn rules_may_be_large_as_long_as_they_are_flat() {
    let terms: Vec<_> =
        (0..300).map(|it| format!("properties.exists(p, p.type == '{it}')")).collect();
    let others = terms.join(" || ");
    let matches = |rule: &str| {
        let rule = Rule::compile(rule).unwrap();
        rule.matches(&facts(), &Steps::default()).unwrap()
    };
    assert!(!matches(&others));
    let last = "properties.exists(p, p.type == 'certified')";
    assert!(matches(&format!("{others} || {last}")));
}

proptest! {
    #[test]
    fn parsing_never_panics(
        value in prop_oneof![
            any::<String>(),
            "[{}\\[\\]\":,a-z0-9 ]{0,60}",
            any_constraint().prop_map(|value| value.to_string()),
        ],
        kind in 0usize..4,
    ) {
        let kinds = ["olm.constraint", "olm.gvk.required", "olm.package.required", "olm.gvk"];
        let properties = [property(kinds[kind], value)];
        let _ = Declared::of(&properties);
        let _ = GroupVersionKind::provided(&properties).count();
        let _ = Facts::new(&properties);
    }

    #[test]
    fn rules_never_panic(rule in prop_oneof![
        any::<String>(),
        "[a-z0-9 .()\\[\\]{}?:!&|=<>+*/%,'\"-]{0,40}",
        prop::collection::vec(prop_oneof![
            Just("properties"), Just(".exists(p,"), Just("p.type"), Just("=="), Just("'a'"),
            Just(")"), Just("&&"), Just("||"), Just("1"), Just("-"), Just("[0]"), Just("{'a':1}"),
            Just("?"), Just(":"), Just("size("), Just(".map(p,"), Just("in"), Just("!"), Just("%"),
            Just("9223372036854775807"), Just("'1'.matches("), Just("1u"), Just("b'a'"),
        ], 0..14).prop_map(|words| words.join(" ")),
    ]) {
        let rule = format!("({rule}) == ({rule})");
        if let Ok(rule) = Rule::compile(&rule) {
            let _ = rule.matches(&facts(), &Steps::default());
        }
    }
}

fn any_constraint() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"gvk": {"group": "g", "version": "v1", "kind": "K"}})),
        Just(json!({"package": {"packageName": "p", "versionRange": ">=1.0.0"}})),
        "[a-z .=<>0-9]{0,12}".prop_map(|range| json!({"package": {"versionRange": range}})),
        "[a-z.()=' ]{0,12}".prop_map(|rule| json!({"cel": {"rule": rule}})),
        any::<String>().prop_map(|message| json!({"failureMessage": message})),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let children = prop::collection::vec(inner, 0..3);
        (children, prop_oneof![Just("all"), Just("any"), Just("not")])
            .prop_map(|(children, kind)| json!({kind: {"constraints": children}}))
    })
}
