//! The form in which blobs are stored and served: compact JSON with sorted keys.
//!
//! Works on tokens where the source is JSON, so that numbers keep their digits (catalogs.md 1.7).

use std::borrow::Cow;
use std::ops::Range;

use serde::de::{IgnoredAny, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting of a document (catalogs.md 5.8).
pub(super) const MAX_DEPTH: usize = 100;
/// Most bytes of a text in which the end of an object is looked for, and room for most objects.
const FIRST_BYTES: usize = 1 << 18;
const USUAL_BYTES: usize = 1 << 14;

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
    /// Rewrites an object in one walk: keys sorted by bytes, the last of equal keys, no white space,
    /// numbers as they are, strings escaped no more than needed.
    ///
    /// The syntax of a raw value was checked when it was read, so that `None` means that it is deeper
    /// than [`MAX_DEPTH`].
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        Self::read(text, text.len()).map(|(object, _)| object)
    }

    /// Rewrites the object that a text begins with, whose syntax is checked in the same walk, and
    /// returns it with its place. `None` if it is large, too deep, cut, wrong or no object: the parser
    /// finds out which.
    pub(super) fn first(text: &'a str) -> Option<(Self, Range<usize>)> {
        Self::read(&text[..text.floor_char_boundary(FIRST_BYTES)], USUAL_BYTES)
    }

    fn read(text: &'a str, room: usize) -> Option<(Self, Range<usize>)> {
        let mut walk = Walk { text, at: 0 };
        walk.peek().filter(|byte| *byte == b'{')?;
        let (start, mut json) = (walk.at, String::with_capacity(room));
        let members = walk.object(&mut json, 0)?;
        json.shrink_to_fit();
        Some((Self { json, members }, start..walk.at))
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

/// A walk over a JSON text. What is written is checked: `None` if it is wrong or too deep. The syntax
/// of what is only passed is known to be right.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' => self.object(out, depth).map(drop),
            b'[' => self.array(out, depth),
            b'"' => self.checked_literal().map(|literal| write_literal(out, literal)),
            _ => {
                let scalar = self.scalar();
                serde_json::from_str::<IgnoredAny>(scalar).ok()?;
                out.push_str(scalar);
                Some(())
            }
        }
    }

    /// Passes a number, a boolean or null, and returns it.
    fn scalar(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let len = rest.bytes().position(|byte| ends(&byte));
        // Where there is none in text that is not JSON, one character is passed: a walk comes to an end.
        let len = len.unwrap_or(rest.len()).max(1).min(rest.len());
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
    fn object(&mut self, out: &mut String, depth: usize) -> Option<Vec<Member<'a>>> {
        enter(depth)?;
        self.step();
        out.push('{');
        let begin = out.len();
        let mut members: Vec<Member<'a>> = Vec::new();
        while self.goes_on(b'}', members.is_empty())? {
            separate(out, members.len());
            let start = out.len();
            let literal = self.checked_literal()?;
            write_literal(out, literal);
            out.push(':');
            self.peek().filter(|byte| *byte == b':')?;
            self.step();
            let value = out.len();
            self.value(out, depth + 1)?;
            members.push(Member { key: string(literal.0), start, value, end: out.len() });
        }
        if !members.is_sorted_by(|one, next| one.key < next.key) {
            members = sorted(out, begin, members);
        }
        out.push('}');
        Some(members)
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Option<()> {
        enter(depth)?;
        self.step();
        out.push('[');
        let mut items = 0;
        while self.goes_on(b']', items == 0)? {
            separate(out, items);
            self.value(out, depth + 1)?;
            items += 1;
        }
        out.push(']');
        Some(())
    }

    /// Passes the end of a list or object, or what stands before the next of its elements, and says
    /// whether there is one.
    fn goes_on(&mut self, end: u8, is_first: bool) -> Option<bool> {
        let next = self.peek()?;
        if next == end || (next == b',' && !is_first) {
            self.step();
        } else if !is_first {
            return None;
        }
        Some(next != end)
    }

    /// Passes white space, and returns the byte behind it.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.text.ceil_char_boundary(self.at + 1);
    }

    /// Passes a string, and returns it with its quotes, whether every escape in it is one that its
    /// shortest form has, too, and whether it has an end, no control characters and no wrong escapes.
    fn literal(&mut self) -> (&'a str, bool, bool) {
        let rest = &self.text[self.at..];
        let bytes = rest.as_bytes();
        let (mut end, mut shortest, mut right) = (1, true, true);
        loop {
            let Some(next) = bytes.get(end..).and_then(special) else {
                (end, right) = (bytes.len(), false);
                break;
            };
            end += next + 1;
            match bytes[end - 1] {
                b'"' => break,
                b'\\' => {}
                _ => {
                    right = false;
                    continue;
                }
            }
            let escape = bytes.get(end).copied().unwrap_or_default();
            if !br#""\nrtbf"#.contains(&escape) {
                let digits = bytes.get(end + 1..end + 5).unwrap_or_default();
                let is_code = digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit);
                right &= escape == b'/' || (escape == b'u' && is_code);
                shortest = false;
            }
            end += 1;
        }
        self.at += end;
        (&rest[..end], shortest, right)
    }

    /// Passes what has to be a string, and returns it likewise.
    fn checked_literal(&mut self) -> Option<(&'a str, bool)> {
        self.peek().filter(|byte| *byte == b'"')?;
        let (literal, shortest, right) = self.literal();
        right.then_some((literal, shortest))
    }
}

/// Returns where the next quote, backslash or control character stands: eight bytes at once, because
/// most texts of a catalog have one within a few words.
fn special(bytes: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = EACH << 7;
    // The lowest bit that is set is right; those above it need not be.
    let below = |word: u64, least: u64| word.wrapping_sub(EACH * least) & !word & HIGH;
    let is = |word: u64, byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = below(word, b' '.into()) | is(word, b'"') | is(word, b'\\');
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, ..b' ' | b'"' | b'\\'));
    found.map(|at| words.len() * 8 + at)
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
        out.push_str(&Value::from(string(literal)).to_string());
    }
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

fn enter(depth: usize) -> Option<()> {
    (depth < MAX_DEPTH).then_some(())
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
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
mod tests;
