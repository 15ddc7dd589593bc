use proptest::prelude::*;

use super::*;
use crate::fixture::cases;
use std::collections::{BTreeMap, BTreeSet};

const CASES: &str = include_str!("../../testdata/catalog/cases.yaml");

fn canonical(text: &str) -> String {
    let raw: &RawValue = serde_json::from_str(text).unwrap();
    let written = Canonical::of(raw).unwrap();
    let members: Vec<_> = written.members().collect();
    let joined = members.iter().map(|(key, value)| {
        let mut key = Value::from(*key).to_string();
        key.push(':');
        key + value
    });
    let joined: Vec<_> = joined.collect();
    assert_eq!(format!("{{{}}}", joined.join(",")), written.json);
    written.json
}

// catalogs.md 1.7
#[test]
fn text_is_rewritten() {
    for (text, want) in cases::<(&str, &str)>(CASES, "text_is_rewritten") {
        assert_eq!(canonical(text), want);
    }
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for (depth, fits) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
        let text = format!("{{\"a\":{}}}", nested(depth));
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        assert_eq!(Canonical::of(raw).is_some(), fits, "{depth}");
    }
}

fn text() -> impl Strategy<Value = String> {
    let key = r#""([a-c]|\\\\|\\u00e9|\\n|é|/){0,3}""#;
    let blank = "[ \n]{0,2}";
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        key.prop_map(|text| text),
    ];
    let any = leaf.prop_recursive(4, 32, 5, move |inner| {
        let items = prop::collection::vec((blank, inner.clone(), blank), 0..4);
        let members = prop::collection::vec((blank, key, blank, inner, blank), 0..4);
        prop_oneof![
            items.prop_map(|items| {
                let items = items.iter().map(|(a, item, b)| format!("{a}{item}{b}"));
                format!("[{}]", items.collect::<Vec<_>>().join(","))
            }),
            members.prop_map(|members| {
                let members = members.iter();
                let members =
                    members.map(|(a, key, b, value, c)| format!("{a}{key}{b}:{c}{value}{b}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    any.prop_map(|value| format!("{{\"b\":{value},\"a\":{value}}}"))
}

proptest! {
    // ours: eight bytes at once find what one after the other find
    #[test]
    fn what_ends_or_escapes_a_string_is_found(
        bytes in r#"([a-zé~\x7f]{0,80}["\\\x00\x1f !]?){0,3}"#,
    ) {
        let want = bytes.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\');
        prop_assert_eq!(special(bytes.as_bytes()), want);
    }

    // ours: one walk over the text says what reading all of it and writing it anew says
    #[test]
    fn a_walk_writes_what_a_value_is(text in text()) {
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(canonical(&text), value.to_string());
    }

    // ours: an object that the walk reads is one that the parser reads, and the other way round
    #[test]
    fn the_walk_reads_what_the_parser_reads(
        text in text(),
        at in any::<prop::sample::Index>(),
        other in r#"[{}\[\]:,"\\a1u/ é\n\x01\x0c]?"#,
    ) {
        let mut text = text;
        let at = text.floor_char_boundary(at.index(text.len()));
        let end = text.ceil_char_boundary(at + 1);
        text.replace_range(at..end, &other);
        let mut parser = serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>();
        let found = parser.next().and_then(Result::ok);
        let want = found.filter(|raw| raw.get().starts_with('{')).map(|_| parser.byte_offset());
        let read = Canonical::first(&text).map(|(_, place)| place.end);
        prop_assert_eq!(read, want, "{:?}", text);
    }

    // ours: a disk may return anything
    #[test]
    fn a_walk_over_any_text_comes_to_an_end(text in r#"([{}\[\]:,"\\a1 é\n]){0,40}"#) {
        let _ = (members(&text), items(&text), members_with(&text, "a"));
    }

    // ours: what is passed without being read is what stands there
    #[test]
    fn members_and_items_are_what_a_value_has(text in text()) {
        fn same(text: &str, value: &Value) {
            let again: Value = serde_json::from_str(text).unwrap();
            assert_eq!(&again, value);
            match value {
                Value::Object(map) => {
                    let (members, elements) = members_with(text, "a").unwrap();
                    assert_eq!(members, super::members(text).unwrap());
                    let counted: BTreeMap<_, _> = members.into_iter().collect();
                    assert_eq!(counted.len(), map.len());
                    for (key, text) in &counted {
                        same(text, &map[&**key]);
                    }
                    if let Some(Value::Array(items)) = map.get("a") {
                        let objects = items.iter().map(|it| it.as_object().map(serde_json::Map::len));
                        let list = elements.unwrap();
                        let found = list.iter().map(|it| it.as_ref().map(|members| {
                            members.iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len()
                        }));
                        assert!(objects.eq(found), "{text}");
                    }
                }
                Value::Array(items) => {
                    let texts = super::items(text).unwrap();
                    assert_eq!(texts.len(), items.len());
                    texts.iter().zip(items).for_each(|(text, item)| same(text, item));
                }
                _ => assert!(super::items(text).is_none() && super::members(text).is_none()),
            }
        }
        same(&text, &serde_json::from_str(&text).unwrap());
    }
}
