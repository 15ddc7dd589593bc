//! YAML of the plain kind that generators write, read in one pass.
//!
//! Nearly all YAML of bundles and catalogs is block maps and lists of plain, quoted and block
//! scalars, and there is a lot of it. This reader knows that much and nothing else: for anchors,
//! tags, merge keys, flow maps, odd keys, tabs, and for whatever could be a mistake it returns
//! nothing, and the general reader has the word. What it does return is what the general reader
//! would, which tests, fuzzing and the corpora hold.

use serde_json::{Map, Number, Value};

use super::read::careful;

/// Deepest nesting that is read here; below the limit of the general reader, which finds the words
/// for what is deeper.
const MAX_DEPTH: usize = 48;

/// Reads every document of a text, or returns nothing.
pub(super) fn read(text: &str) -> Option<Vec<Value>> {
    if !is_tame(text) {
        return None;
    }
    let mut reader = Reader::new(text);
    let mut documents = Vec::new();
    loop {
        while reader.is_marker() {
            reader.advance();
        }
        if reader.line.is_none() {
            return Some(documents);
        }
        let document = reader.block(-1, 0)?;
        if !(reader.line.is_none() || reader.is_marker()) {
            return None;
        }
        if !document.is_null() {
            documents.push(document);
        }
    }
}

/// Says whether a text holds nothing but printable characters, tabs and line feeds.
fn is_tame(text: &str) -> bool {
    let plain = |byte: &u8| matches!(byte, b'\n' | b'\t' | b' '..=b'~');
    text.as_bytes()
        .iter()
        .all(|byte| plain(byte) || *byte >= 0x80)
        && (text.is_ascii() || text.chars().all(|c| c.is_ascii() || is_tame_char(c)))
}

fn is_tame_char(character: char) -> bool {
    // What some reader takes for a line break, a mark of byte order, or nothing at all.
    !matches!(character, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
}

/// A line, or what is left of one behind `- `.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// Column of the first character.
    indent: usize,
    /// The text from there on.
    text: &'a str,
}

struct Reader<'a> {
    /// What follows the current line.
    rest: &'a str,
    /// The current line, never blank or a comment.
    line: Option<Line<'a>>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let mut reader = Self {
            rest: text,
            line: None,
        };
        reader.advance();
        reader
    }

    /// Takes the next line whatever it holds, without its line feed.
    fn raw_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(line)
    }

    /// Goes to the next line that is neither blank nor a comment.
    fn advance(&mut self) {
        self.line = None;
        while let Some(line) = self.raw_line() {
            let text = line.trim_start_matches(' ');
            let indent = line.len() - text.len();
            if !(text.is_empty() || text.starts_with('#')) {
                self.line = Some(Line { indent, text });
                return;
            }
        }
    }

    /// Says whether the current line separates documents.
    fn is_marker(&self) -> bool {
        self.line
            .is_some_and(|line| line.indent == 0 && line.text.trim_end_matches(' ') == "---")
    }

    /// Reads the node that begins on the current line, inside one at column `outer`.
    fn block(&mut self, outer: isize, depth: usize) -> Option<Value> {
        let line = self.line?;
        if depth > MAX_DEPTH || self.is_marker() {
            return None;
        }
        if is_item(line.text) {
            self.list(line.indent, depth)
        } else if key(line.text).is_some() {
            self.map(line.indent, depth)
        } else if outer < 0 {
            // A document that is a scalar, a directive, the end of a document.
            None
        } else {
            self.line = None;
            self.scalar(line.text, outer)
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while let Some(line) = self.line.filter(|line| line.indent == indent) {
            if !is_item(line.text) {
                break;
            }
            let rest = line.text[1..].trim_start_matches(' ');
            if rest.is_empty() || rest.starts_with('#') {
                self.advance();
                items.push(self.nested(indent, false, depth)?);
            } else {
                let indent_of_rest = indent + line.text.len() - rest.len();
                self.line = Some(Line {
                    indent: indent_of_rest,
                    text: rest,
                });
                items.push(self.block(column(indent)?, depth + 1)?);
            }
        }
        self.ends(indent).then_some(Value::Array(items))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut entries = Map::new();
        while let Some(line) = self.line.filter(|line| line.indent == indent) {
            if self.is_marker() {
                break;
            }
            let (key, rest) = key(line.text)?;
            let value = if rest.is_empty() || rest.starts_with('#') {
                self.advance();
                self.nested(indent, true, depth)?
            } else {
                self.line = None;
                self.scalar(rest, column(indent)?)?
            };
            if entries.insert(key.to_owned(), value).is_some() {
                return None;
            }
        }
        self.ends(indent).then_some(Value::Object(entries))
    }

    /// Says whether what follows may follow a map or list at column `indent`.
    fn ends(&self, indent: usize) -> bool {
        self.line.is_none_or(|line| line.indent <= indent)
    }

    /// Reads the value of a key or item whose own line says nothing: what is further in, or, below
    /// a key, a list at the same column.
    fn nested(&mut self, indent: usize, below_key: bool, depth: usize) -> Option<Value> {
        let Some(line) = self.line else {
            return Some(Value::Null);
        };
        let deeper = line.indent > indent;
        let compact = below_key && line.indent == indent && is_item(line.text);
        if (deeper || compact) && !self.is_marker() {
            return self.block(column(indent)?, depth + 1);
        }
        Some(Value::Null)
    }

    /// Reads a scalar that begins with `text`, the rest of the line that was taken, inside a map or
    /// list at column `outer`; then goes to the next line.
    fn scalar(&mut self, text: &str, outer: isize) -> Option<Value> {
        let trimmed = text.trim_end_matches(' ');
        let value = match text.as_bytes().first()? {
            b'|' | b'>' => return self.block_scalar(trimmed, outer).map(Value::String),
            b'"' => Value::String(self.double_quoted(&text[1..], outer)?),
            b'\'' => Value::String(self.single_quoted(&text[1..], outer)?),
            b'[' if trimmed == "[]" => Value::Array(Vec::new()),
            b'{' if matches!(trimmed, "{}" | "{ }") => Value::Object(Map::new()),
            _ => return self.plain(trimmed, outer),
        };
        self.advance();
        Some(value)
    }

    /// Reads a plain scalar, which may go on in lines further in than `outer`.
    fn plain(&mut self, text: &str, outer: isize) -> Option<Value> {
        let (text, commented) = match text.find(" #") {
            Some(at) => (text[..at].trim_end_matches(' '), true),
            None => (text, false),
        };
        if !is_plain(text) || !begins_plain(text) {
            return None;
        }
        let mut breaks = 0;
        let mut whole: Option<String> = None;
        loop {
            let before = self.rest;
            let Some(line) = self.raw_line() else { break };
            let more = line.trim_matches(' ');
            if more.is_empty() {
                breaks += 1;
                continue;
            }
            let indent = line.len() - line.trim_start_matches(' ').len();
            if column(indent)? <= outer || more.starts_with('#') {
                self.rest = before;
                break;
            }
            if commented || more.contains(" #") || !is_plain(more) {
                return None;
            }
            let whole = whole.get_or_insert_with(|| text.to_owned());
            fold(whole, breaks);
            whole.push_str(more);
            breaks = 0;
        }
        self.advance();
        match whole {
            Some(whole) => Some(Value::String(whole)),
            None => resolve(text),
        }
    }

    /// Reads what follows an opening `'`, up to the end of the line with the closing one.
    fn single_quoted(&mut self, text: &str, outer: isize) -> Option<String> {
        let mut whole = String::new();
        let mut text = text;
        loop {
            match text.find('\'') {
                Some(at) if text[at + 1..].starts_with('\'') => {
                    whole.push_str(&text[..=at]);
                    text = &text[at + 2..];
                }
                Some(at) => {
                    whole.push_str(&text[..at]);
                    return is_over(&text[at + 1..]).then_some(whole);
                }
                None => {
                    whole.push_str(text);
                    trim(&mut whole, 0)?;
                    text = self.continued(&mut whole, outer)?;
                }
            }
        }
    }

    /// Reads what follows an opening `"`, up to the end of the line with the closing one.
    fn double_quoted(&mut self, text: &str, outer: isize) -> Option<String> {
        let mut whole = String::new();
        let mut text = text;
        // Blanks up to here were written as escapes and are not trimmed.
        let mut escaped = 0;
        loop {
            let Some(at) = text.find(['"', '\\']) else {
                whole.push_str(text);
                trim(&mut whole, escaped)?;
                text = self.continued(&mut whole, outer)?;
                continue;
            };
            whole.push_str(&text[..at]);
            let after = &text[at + 1..];
            if text.as_bytes()[at] == b'"' {
                return is_over(after).then_some(whole);
            }
            if after.is_empty() {
                // The line feed is escaped: nothing stands for it.
                let mark = whole.len();
                text = self.continued(&mut whole, outer)?;
                if whole[mark..] != *" " {
                    return None;
                }
                whole.truncate(mark);
            } else {
                text = escape(after, &mut whole)?;
            }
            escaped = whole.len();
        }
    }

    /// Goes to the next line of a quoted scalar, folds the line feeds before it, and returns it.
    fn continued(&mut self, whole: &mut String, outer: isize) -> Option<&'a str> {
        let mut breaks = 0;
        loop {
            let line = self.raw_line()?;
            let text = line.trim_start_matches(' ');
            if text.is_empty() {
                breaks += 1;
                continue;
            }
            if text.starts_with('\t') || column(line.len() - text.len())? <= outer {
                return None;
            }
            fold(whole, breaks);
            return Some(text);
        }
    }

    /// Reads a block scalar; `header` is `|` or `>`, then how its end is treated.
    fn block_scalar(&mut self, header: &str, outer: isize) -> Option<String> {
        let folded = header.starts_with('>');
        let end = match &header[1..] {
            "" => End::Clip,
            "-" => End::Strip,
            "+" => End::Keep,
            _ => return None,
        };
        let mut whole = String::new();
        let mut indent = None;
        let mut content = false;
        let mut after_blank = false;
        let mut breaks = 0;
        loop {
            let before = self.rest;
            let Some(line) = self.raw_line() else { break };
            if self.rest.is_empty() && !before.ends_with('\n') {
                // Whether a last line without line feed has one is a matter of opinion.
                return None;
            }
            let text = line.trim_start_matches(' ');
            let found = line.len() - text.len();
            if text.is_empty() && indent.is_none_or(|indent| found <= indent) {
                if indent.is_none() && found > 0 {
                    return None;
                }
                breaks += 1;
                continue;
            }
            let own = *indent.get_or_insert(found);
            if found < own || column(own)? <= outer {
                if text.starts_with('\t') || !content {
                    return None;
                }
                self.rest = before;
                break;
            }
            let text = &line[own..];
            let blank = text.starts_with([' ', '\t']);
            if content {
                if folded && !after_blank && !blank {
                    fold(&mut whole, breaks);
                } else {
                    push_breaks(&mut whole, breaks + 1);
                }
            } else {
                push_breaks(&mut whole, breaks);
            }
            whole.push_str(text);
            (content, after_blank, breaks) = (true, blank, 0);
        }
        if !content {
            return None;
        }
        match end {
            End::Strip => {}
            End::Clip => whole.push('\n'),
            End::Keep => push_breaks(&mut whole, breaks + 1),
        }
        self.advance();
        Some(whole)
    }
}

/// What becomes of the line feeds at the end of a block scalar.
enum End {
    Clip,
    Strip,
    Keep,
}

fn column(indent: usize) -> Option<isize> {
    isize::try_from(indent).ok()
}

fn push_breaks(whole: &mut String, count: usize) {
    whole.extend(std::iter::repeat_n('\n', count));
}

/// Puts in what stands for a line feed and the blank lines after it.
fn fold(whole: &mut String, blank_lines: usize) {
    if blank_lines == 0 {
        whole.push(' ');
    } else {
        push_breaks(whole, blank_lines);
    }
}

/// Removes blanks at the end, down to a length; steps aside for tabs.
fn trim(whole: &mut String, from: usize) -> Option<()> {
    let tail = &whole[from..];
    if tail.ends_with('\t') {
        return None;
    }
    let kept = from + tail.trim_end_matches(' ').len();
    if whole[from..kept].ends_with('\t') {
        return None;
    }
    whole.truncate(kept);
    Some(())
}

/// Says whether nothing but a comment follows a closing quote.
fn is_over(text: &str) -> bool {
    let rest = text.trim_start_matches(' ');
    rest.is_empty() || (rest.starts_with('#') && rest.len() < text.len())
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// Splits `key: value` into both; nothing for what is no key, or none of the usual ones.
fn key(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = match text.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let inside = &text[1..];
            let end = inside.find(char::from(*quote))?;
            let (key, rest) = (&inside[..end], &inside[end + 1..]);
            // An escape or a doubled quote is not for us; nor is a key that needs folding.
            if key.contains(['\\', ' ', '\t']) {
                return None;
            }
            (key, rest.strip_prefix(':')?)
        }
        b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' => {
            let usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./$@-".contains(byte);
            let mut end = 0;
            let bytes = text.as_bytes();
            loop {
                end += bytes[end..].iter().take_while(|byte| usual(byte)).count();
                if bytes.get(end) != Some(&b':') {
                    return None;
                }
                if matches!(bytes.get(end + 1), None | Some(b' ')) {
                    break;
                }
                end += 1;
            }
            let key = &text[..end];
            if is_special(key) {
                return None;
            }
            (key, &text[end + 1..])
        }
        _ => return None,
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    Some((key, rest.trim_start_matches(' ')))
}

/// Says whether a text can be a line of a plain scalar: no key, no tab.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_key = |at: usize| matches!(bytes.get(at + 1), None | Some(b' '));
    !bytes.contains(&b'\t')
        && !bytes
            .iter()
            .enumerate()
            .any(|(at, byte)| *byte == b':' && ends_key(at))
}

/// Says whether a plain scalar may begin so, as far as we care.
fn begins_plain(text: &str) -> bool {
    let mut characters = text.chars();
    let Some(first) = characters.next() else {
        return false;
    };
    let second = characters.next();
    match first {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '/' | '$' | '(' | '^' | '<' | '=' | '\\' => true,
        // Three of either would end the document if they stood alone.
        '-' => second.is_some_and(|c| c != ' ') && !text.starts_with("---"),
        '.' => second.is_some_and(|c| c.is_ascii_alphanumeric() || "*/".contains(c)),
        '+' | ':' => second.is_some_and(|c| c.is_ascii_digit()),
        other => other.is_alphabetic(),
    }
}

/// Words that are more than text, or could be to somebody.
fn is_special(text: &str) -> bool {
    const WORDS: [&str; 13] = [
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan", "infinity", "_",
    ];
    text.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Gives a plain scalar on one line its type.
fn resolve(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return Some(Value::Null),
        _ => {}
    }
    let bytes = text.as_bytes();
    let first = *bytes.first()?;
    if first.is_ascii_digit() {
        let plain = bytes.iter().all(u8::is_ascii_digit) && bytes.len() <= 18;
        if plain && (first != b'0' || bytes.len() == 1) {
            return text
                .parse()
                .ok()
                .map(|number: u64| Value::Number(Number::from(number)));
        }
    }
    let word = match first {
        b'.' | b'-' => bytes.get(1).is_some_and(u8::is_ascii_alphabetic) && !is_special(&text[1..]),
        _ => first.is_ascii_alphabetic() || b"/$(^".contains(&first) || first >= 0x80,
    };
    let flag = text.starts_with("--");
    if flag || bytes.contains(&b' ') || (word && !is_special(text)) {
        return Some(Value::String(text.to_owned()));
    }
    // Numbers of all kinds, versions, times: few, and the rules are many.
    match careful(text).ok()?.as_slice() {
        [] => Some(Value::Null),
        [value] => Some(value.clone()),
        _ => None,
    }
}

/// Reads an escape behind its `\`; returns what follows.
fn escape<'a>(text: &'a str, whole: &mut String) -> Option<&'a str> {
    let mut characters = text.chars();
    let character = match characters.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        ' ' => ' ',
        '"' => '"',
        '\\' => '\\',
        '/' => '/',
        'u' => {
            let digits = characters.as_str().get(..4)?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            // A surrogate is none.
            let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            whole.push(character);
            return Some(&characters.as_str()[4..]);
        }
        _ => return None,
    };
    whole.push(character);
    Some(characters.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The general reader's answer, which is ours too where we have one.
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

    /// Lines that mean something in many places.
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
}
