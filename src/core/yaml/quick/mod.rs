//! A fast reader for the plain YAML that generators write.
//!
//! Nearly all YAML of bundles and catalogs is block maps and lists of plain, quoted and block
//! scalars, and there is a lot of it. This reader supports only that: for anchors, tags, merge
//! keys, flow maps, odd keys, tabs, and for anything that could be an error it returns `None`, and
//! the caller falls back to the general reader. Otherwise it returns what the general reader would,
//! which tests, fuzzing and the corpora check.
//!
//! It stays for what `make bench` shows on two cores: the YAML of 40 real bundles (21 MB) is read at
//! 89 MB/s instead of 22, the median bundle is loaded and rendered in 1.1 ms instead of 3.5, the
//! largest in 93 ms instead of 269; a catalog of 130 MB in YAML would take six seconds, not 1.5.

mod word;

use serde_json::{Map, Value};

use word::{begins_plain, escape, is_item, is_plain, key, resolve};

/// Deepest nesting that is read here; below the limit of the general reader, which reports the
/// error for deeper nesting.
const MAX_DEPTH: usize = 48;

/// Reads every document of a text, or returns `None`.
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
    text.as_bytes().iter().all(|byte| plain(byte) || *byte >= 0x80)
        && (text.is_ascii() || text.chars().all(|c| c.is_ascii() || is_tame_char(c)))
}

fn is_tame_char(character: char) -> bool {
    // Characters that some reader takes for a line break, a byte order mark, or nothing at all.
    !matches!(character, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
}

/// A line, or what is left of one after `- `.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// Column of the first character.
    indent: usize,
    /// The text from that column on.
    text: &'a str,
}

struct Reader<'a> {
    /// The text after the current line.
    rest: &'a str,
    /// The current line, never blank or a comment.
    line: Option<Line<'a>>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let mut reader = Self { rest: text, line: None };
        reader.advance();
        reader
    }

    /// Takes the next line whatever it contains, without its line feed.
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
        self.line.is_some_and(|line| line.indent == 0 && line.text.trim_end_matches(' ') == "---")
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
            // A document that is a scalar, a directive, or the end of a document.
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
                self.line = Some(Line { indent: indent_of_rest, text: rest });
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

    /// Says whether a map or list at column `indent` ends before the current line.
    fn ends(&self, indent: usize) -> bool {
        self.line.is_none_or(|line| line.indent <= indent)
    }

    /// Reads the value of a key or item whose own line has none: what is indented more, or, below a
    /// key, a list at the same column.
    fn nested(&mut self, indent: usize, below_key: bool, depth: usize) -> Option<Value> {
        let Some(line) = self.line else { return Some(Value::Null) };
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

    /// Reads a plain scalar, which may continue in lines that are indented more than `outer`.
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
        // Length of the text up to which blanks were written as escapes and are not trimmed.
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
                // The line feed is escaped: it stands for nothing.
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

    /// Reads a block scalar; `header` is `|` or `>`, then its chomping indicator.
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
                // Readers disagree on whether a last line without a line feed has one.
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

/// Appends what a line feed and the blank lines after it stand for.
fn fold(whole: &mut String, blank_lines: usize) {
    if blank_lines == 0 {
        whole.push(' ');
    } else {
        push_breaks(whole, blank_lines);
    }
}

/// Removes trailing blanks, down to a length; returns `None` for tabs.
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

#[cfg(test)]
mod tests;
