//! The form in which blobs are stored and served: compact JSON with sorted keys.
//!
//! Works on tokens where the source is JSON, so that numbers keep their digits (catalogs.md 1.7).

use std::borrow::Cow;
use std::collections::BTreeMap;

use memchr::memchr2;
use serde::de::Visitor;
use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting of a document (catalogs.md 5.8).
pub(super) const MAX_DEPTH: usize = 100;

/// The nesting of a document is deeper than [`MAX_DEPTH`].
#[derive(Debug)]
pub(super) struct TooDeep;

/// A JSON object in canonical form.
#[derive(Debug)]
pub(super) struct Canonical<'a> {
    /// Its text.
    pub(super) json: String,
    members: Vec<Member<'a>>,
}

/// A member of an object that was written: its key, and where key and value stand.
#[derive(Debug)]
struct Member<'a> {
    key: Cow<'a, str>,
    start: usize,
    value: usize,
    end: usize,
}

impl<'a> Canonical<'a> {
    /// Rewrites a JSON text in one walk: keys sorted by bytes, the last of equal keys, no white space,
    /// numbers as they are, strings escaped no more than needed. `None` if it is not an object.
    ///
    /// The syntax of a raw value was checked when it was read, so depth is all that can be wrong here.
    pub(super) fn of(raw: &'a RawValue) -> Result<Option<Self>, TooDeep> {
        let text = raw.get();
        if !text.starts_with('{') {
            return Ok(None);
        }
        let mut json = String::with_capacity(text.len());
        let members = Walk { text, at: 0 }.object(&mut json, 0)?;
        Ok(Some(Self { json, members }))
    }

    /// Returns its members: each key, and the canonical text of its value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|member| (&*member.key, &self.json[member.value..member.end]))
    }
}

/// The members of an object: each key, and its value as it is written.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// The members of each element of a list, `None` where one is not an object; absent where it is not
/// a list.
type Elements<'a> = Option<Vec<Option<Members<'a>>>>;

/// Returns the members of an object whose syntax is known to be right; `None` if it is a value of
/// another kind.
pub(super) fn members(text: &str) -> Option<Members<'_>> {
    Walk { text, at: 0 }.members()
}

/// Returns the elements of a list, likewise.
pub(super) fn items(text: &str) -> Option<Vec<&str>> {
    Walk { text, at: 0 }.items(Walk::skip)
}

/// Returns the members of an object, likewise, and those of each element of its list of that name,
/// in one walk.
pub(super) fn members_with<'a>(text: &'a str, list: &str) -> Option<(Members<'a>, Elements<'a>)> {
    let (mut members, mut elements) = (Members::new(), None);
    let mut walk = Walk { text, at: 0 };
    walk.each_member(|walk, key| {
        let start = walk.at;
        if key.eq_ignore_ascii_case(list) && walk.peek() == Some(b'[') {
            elements = walk.items(|walk| {
                let members = walk.members();
                if members.is_none() {
                    walk.skip();
                }
                members
            });
            members.push((key, &text[start..walk.at]));
        } else {
            members.push((key, walk.skip()));
        }
    })?;
    Some((members, elements))
}

/// A walk over a JSON text whose syntax is known to be right.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), TooDeep> {
        match self.peek() {
            Some(b'{') => self.object(out, depth).map(drop),
            Some(b'[') => self.array(out, depth),
            Some(b'"') => {
                write_literal(out, self.literal());
                Ok(())
            }
            _ => {
                out.push_str(self.scalar());
                Ok(())
            }
        }
    }

    /// Passes a number, a boolean or null, and returns it.
    fn scalar(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let len = rest.bytes().position(|byte| ends(&byte));
        let len = len.unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Passes a value, and returns it as it is written.
    fn skip(&mut self) -> &'a str {
        match self.peek() {
            Some(b'"') => return self.literal().0,
            Some(b'{' | b'[') => {}
            _ => return self.scalar(),
        }
        let (start, mut depth) = (self.at, 0);
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => {
                    self.literal();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.step();
            if depth == 0 {
                break;
            }
        }
        &self.text[start..self.at]
    }

    /// Passes an object; `value` passes the value of each key.
    fn each_member(&mut self, mut value: impl FnMut(&mut Self, Cow<'a, str>)) -> Option<()> {
        (self.peek() == Some(b'{')).then(|| self.step())?;
        while !matches!(self.peek(), None | Some(b'}')) {
            let key = string(self.literal().0);
            // The colon.
            self.peek();
            self.step();
            self.peek();
            value(self, key);
            if self.peek() == Some(b',') {
                self.step();
            }
        }
        self.step();
        Some(())
    }

    fn members(&mut self) -> Option<Members<'a>> {
        let mut members = Members::new();
        self.each_member(|walk, key| members.push((key, walk.skip())))?;
        Some(members)
    }

    /// Passes a list; `item` passes each element.
    fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Option<Vec<T>> {
        (self.peek() == Some(b'[')).then(|| self.step())?;
        let mut items = Vec::new();
        while !matches!(self.peek(), None | Some(b']')) {
            items.push(item(self));
            if self.peek() == Some(b',') {
                self.step();
            }
        }
        self.step();
        Some(items)
    }

    /// Writes an object, and returns its members as they stand then.
    fn object(&mut self, out: &mut String, depth: usize) -> Result<Vec<Member<'a>>, TooDeep> {
        enter(depth)?;
        self.step();
        out.push('{');
        let begin = out.len();
        let mut members: Vec<Member<'a>> = Vec::new();
        while !matches!(self.peek(), None | Some(b'}')) {
            separate(out, members.len());
            let start = out.len();
            let literal = self.literal();
            write_literal(out, literal);
            out.push(':');
            // The colon.
            self.peek();
            self.step();
            let value = out.len();
            self.value(out, depth + 1)?;
            members.push(Member { key: string(literal.0), start, value, end: out.len() });
            if self.peek() == Some(b',') {
                self.step();
            }
        }
        self.step();
        if !members.is_sorted_by(|one, next| one.key < next.key) {
            members = sorted(out, begin, members);
        }
        out.push('}');
        Ok(members)
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), TooDeep> {
        enter(depth)?;
        self.step();
        out.push('[');
        let mut items = 0;
        while !matches!(self.peek(), None | Some(b']')) {
            separate(out, items);
            self.value(out, depth + 1)?;
            items += 1;
            if self.peek() == Some(b',') {
                self.step();
            }
        }
        self.step();
        out.push(']');
        Ok(())
    }

    /// Passes white space, and returns the byte behind it.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.text.len().min(self.at + 1);
    }

    /// Passes a string, and returns it with its quotes, and whether every escape in it is one that
    /// its shortest form has, too.
    fn literal(&mut self) -> (&'a str, bool) {
        let rest = &self.text[self.at..];
        let bytes = rest.as_bytes();
        let (mut end, mut shortest) = (1, true);
        while let Some(next) = bytes.get(end..).and_then(special) {
            end += next;
            if bytes[end] == b'"' {
                break;
            }
            let short = bytes.get(end + 1);
            shortest &= short.is_some_and(|byte| br#""\nrtbf"#.contains(byte));
            end += 2;
        }
        let end = bytes.len().min(end + 1);
        self.at += end;
        (&rest[..end], shortest)
    }
}

/// Returns where the next quote or backslash stands. In text with many of them a loop is faster than
/// a search, in text with few the search.
fn special(bytes: &[u8]) -> Option<usize> {
    const NEAR: usize = 32;
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let found = near.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    found.or_else(|| Some(near.len() + memchr2(b'"', b'\\', far)?))
}

/// Sorts members of an object that stand in `out` from `begin` on, and leaves the last of equal keys.
fn sorted<'a>(out: &mut String, begin: usize, mut members: Vec<Member<'a>>) -> Vec<Member<'a>> {
    let written = out.split_off(begin);
    // The sort is stable: of equal keys, the last one comes first when all are turned round.
    members.reverse();
    members.sort_by(|one, other| one.key.cmp(&other.key));
    members.dedup_by(|later, first| later.key == first.key);
    for (index, member) in members.iter_mut().enumerate() {
        separate(out, index);
        let (start, end) = (member.start - begin, member.end - begin);
        let moved = out.len();
        out.push_str(&written[start..end]);
        member.value = moved + (member.value - member.start);
        (member.start, member.end) = (moved, out.len());
    }
    members
}

/// Writes a string literal in its shortest form, in which it mostly is already.
fn write_literal(out: &mut String, (literal, shortest): (&str, bool)) {
    if shortest {
        out.push_str(literal);
    } else {
        write_text(out, &string(literal));
    }
}

/// Writes a value read from YAML in the same form.
pub(super) fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<(), TooDeep> {
    match value {
        Value::Object(map) => {
            enter(depth)?;
            // Sorted here, because the map keeps insertion order when another crate asks for it.
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                separate(out, index);
                write_text(out, key);
                out.push(':');
                write_value(out, value, depth + 1)?;
            }
            out.push('}');
        }
        Value::Array(items) => {
            enter(depth)?;
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write_value(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::String(text) => write_text(out, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Returns the text of a JSON string literal. Halves of surrogate pairs become U+FFFD.
pub(super) fn string(literal: &str) -> Cow<'_, str> {
    if let Some(plain) = literal.strip_prefix('"').and_then(|it| it.strip_suffix('"'))
        && !plain.contains('\\')
    {
        return Cow::Borrowed(plain);
    }
    let text = serde_json::from_str::<Text>(literal);
    Cow::Owned(text.map(|text| text.0).unwrap_or_default())
}

fn enter(depth: usize) -> Result<(), TooDeep> {
    if depth < MAX_DEPTH { Ok(()) } else { Err(TooDeep) }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

/// A JSON string that is read even where its escapes do not spell valid Unicode.
struct Text(String);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lossy;
        impl Visitor<'_> for Lossy {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Lossy)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use std::collections::BTreeSet;

    fn canonical(text: &str) -> String {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let written = Canonical::of(raw).unwrap().unwrap();
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
    #[rstest]
    #[case::nothing("{ }", "{}")]
    #[case::blanks("{ \"a\" :\n[ 1 ,\t2 ] }", r#"{"a":[1,2]}"#)]
    #[case::order(r#"{"b":1,"a":{"d":1,"c":2}}"#, r#"{"a":{"c":2,"d":1},"b":1}"#)]
    #[case::last_of_equal(r#"{"a":1,"b":2,"a":3,"\u0061":4}"#, r#"{"a":4,"b":2}"#)]
    #[case::numbers(r#"{"a":1.0,"b":1e400,"c":-0}"#, r#"{"a":1.0,"b":1e400,"c":-0}"#)]
    #[case::short_escapes(r#"{"a":"\n\"\t"}"#, r#"{"a":"\n\"\t"}"#)]
    #[case::long_escapes(r#"{"a":"\u000a\/\u003c"}"#, r#"{"a":"\n/<"}"#)]
    #[case::backslashes(r#"{"a":"\\u0041\\","b":"\\\\"}"#, r#"{"a":"\\u0041\\","b":"\\\\"}"#)]
    #[case::brackets_in_strings(r#"{"a":"]}","b":","}"#, r#"{"a":"]}","b":","}"#)]
    #[case::half_a_pair(r#"{"a":"\ud800"}"#, "{\"a\":\"\u{fffd}\u{fffd}\u{fffd}\"}")]
    fn text_is_rewritten(#[case] text: &str, #[case] want: &str) {
        assert_eq!(canonical(text), want);
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for (depth, fits) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
            let text = format!("{{\"a\":{}}}", nested(depth));
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            assert_eq!(Canonical::of(raw).is_ok(), fits, "{depth}");
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
        // ours: one walk over the text says what reading all of it and writing it anew says
        #[test]
        fn a_walk_writes_what_a_value_is(text in text()) {
            let value: Value = serde_json::from_str(&text).unwrap();
            let mut want = String::new();
            write_value(&mut want, &value, 0).unwrap();
            prop_assert_eq!(canonical(&text), want);
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
}
