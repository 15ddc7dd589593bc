//! Rewrites scalars so that the general reader accepts every one that Go accepts.
//!
//! YAML requires the lines of a quoted scalar to be indented more than what holds it, with blanks
//! and not tabs, and has no `\'`; the general reader insists on all three. Go does not, and public
//! bundles rely on that in the descriptions of their CRDs. In: a text. Out: the same with the line
//! breaks inside such scalars written as escapes, after which indentation does not matter. Every
//! line keeps its number.
//!
//! A number that no 64-bit float holds, such as the short commit `8e91234`, is a text for Go, which also
//! writes such a text without quotes; the general reader refuses it. It gets quotes.
//!
//! This parses only as much of YAML as it takes to tell a quote that opens a scalar from any other,
//! and checks nothing: what is not YAML stays so, and the general reader reports the error.
//!
//! Source: `yaml_parser_scan_flow_scalar` of `go.yaml.in/yaml/v2`.

/// Rewrites such scalars of a text; `None` if that changes nothing.
///
/// Example: `a: 'b` with `c'` in the next line becomes `a: "b \` with `c"` in the next line.
///
/// A scalar on one line is left unchanged, unless it has `\'`. Takes time and space in proportion
/// to the text.
pub(super) fn respell(text: &str) -> Option<String> {
    Scanner { text, ..Scanner::default() }.scan()
}

const BLANKS: [char; 2] = [' ', '\t'];

#[derive(Default)]
struct Scanner<'a> {
    text: &'a str,
    /// Offset of the next byte to read.
    at: usize,
    /// Offset of the start of the current line.
    line: usize,
    /// Columns of the open block maps and lists, outermost first.
    blocks: Vec<usize>,
    /// How many brackets are open.
    brackets: usize,
    /// Column of the map that the next `:` opens, if a key may precede it.
    key: Option<usize>,
    /// Whether a quoted scalar or a closing bracket came last: `:` then needs no blank after it.
    after_json: bool,
    out: String,
    /// How much of the text was copied to `out`.
    copied: usize,
}

impl Scanner<'_> {
    fn scan(mut self) -> Option<String> {
        loop {
            self.skip_blanks();
            let column = self.column();
            let Some(byte) = self.byte(0) else { break };
            if self.is_marker() {
                self.blocks.clear();
                (self.brackets, self.key) = (0, None);
                self.at += 3;
            } else if byte == b'%' && column == 0 && self.blocks.is_empty() {
                self.skip_line();
            } else {
                if self.brackets == 0 {
                    self.close(column);
                }
                self.token(byte, column);
            }
        }
        if self.copied == 0 {
            return None;
        }
        self.out.push_str(&self.text[self.copied..]);
        Some(self.out)
    }

    fn token(&mut self, byte: u8, column: usize) {
        let after_json = std::mem::take(&mut self.after_json);
        let in_brackets = self.brackets > 0;
        match byte {
            b'[' | b'{' => {
                self.may_be_key(column);
                self.brackets += 1;
                self.at += 1;
            }
            b']' | b'}' => {
                self.brackets = self.brackets.saturating_sub(1);
                self.after_json = true;
                self.at += 1;
            }
            b',' => self.at += 1,
            b'-' | b'?' if self.is_blank(1) => {
                if !in_brackets {
                    self.open(column);
                    self.key = None;
                }
                self.at += 1;
            }
            b':' if self.is_blank(1) || (in_brackets && (after_json || self.is_bracket(1))) => {
                if !in_brackets {
                    self.open(self.key.unwrap_or(column));
                }
                self.at += 1;
            }
            b'|' | b'>' if !in_brackets => self.block_scalar(),
            b'\'' | b'"' => {
                self.may_be_key(column);
                self.quoted(byte);
                self.after_json = true;
            }
            b'&' | b'*' | b'!' => {
                self.may_be_key(column);
                while !(self.is_blank(0) || (in_brackets && self.is_bracket(0))) {
                    self.at += 1;
                }
            }
            _ => {
                self.may_be_key(column);
                let begin = self.at;
                self.plain();
                self.quote_overflow(begin);
            }
        }
    }

    /// Quotes a plain scalar that is a number beyond every float.
    fn quote_overflow(&mut self, begin: usize) {
        let text = self.text[begin..self.at].trim_end();
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        if is_digits && text.parse().is_ok_and(f64::is_infinite) {
            self.out.push_str(&self.text[self.copied..begin]);
            self.out.extend(["\"", text, "\""]);
            self.copied = begin + text.len();
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Says whether there is a blank, a line break or the end of the text.
    fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
    }

    fn is_bracket(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b',' | b'[' | b']' | b'{' | b'}'))
    }

    /// Says whether a document begins or ends here.
    fn is_marker(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        self.column() == 0
            && (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && self.is_blank(3)
    }

    fn column(&self) -> usize {
        self.at - self.line
    }

    /// Opens a map or list at a column, unless it is open.
    fn open(&mut self, column: usize) {
        if self.blocks.last().is_none_or(|last| *last < column) {
            self.blocks.push(column);
        }
    }

    /// Closes the maps and lists further in than a column.
    fn close(&mut self, column: usize) {
        while self.blocks.last().is_some_and(|last| *last > column) {
            self.blocks.pop();
        }
    }

    fn may_be_key(&mut self, column: usize) {
        if self.brackets == 0 {
            self.key.get_or_insert(column);
        }
    }

    /// Skips blanks, comments and line breaks.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.byte(0) {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\n' | b'\r' => self.end_line(),
                b'#' if self.follows_blank() => {
                    self.after_json = false;
                    self.skip_line();
                }
                _ => return,
            }
        }
    }

    fn follows_blank(&self) -> bool {
        self.column() == 0 || matches!(self.text.as_bytes()[self.at - 1], b' ' | b'\t')
    }

    /// Skips the rest of a line with its line break.
    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
        self.end_line();
    }

    /// Skips a line break, if there is one.
    fn end_line(&mut self) {
        self.at += line_break(&self.text[self.at..]).len();
        self.line = self.at;
        if self.brackets == 0 {
            self.key = None;
        }
    }

    fn plain(&mut self) {
        let least = self.blocks.last().map_or(0, |column| column + 1);
        let in_brackets = self.brackets > 0;
        self.at += 1;
        loop {
            while !self.is_blank(0) {
                let ends = match self.byte(0) {
                    Some(b':') => self.is_blank(1) || (in_brackets && self.is_bracket(1)),
                    _ => in_brackets && self.is_bracket(0),
                };
                if ends {
                    return;
                }
                self.at += 1;
            }
            while let Some(byte) = self.byte(0).filter(|_| self.is_blank(0)) {
                match byte {
                    b'\n' | b'\r' => self.end_line(),
                    _ => self.at += 1,
                }
            }
            let outside = !in_brackets && self.column() < least;
            if outside || self.byte(0).is_none_or(|byte| byte == b'#') || self.is_marker() {
                return;
            }
        }
    }

    /// Skips a block scalar; its lines can contain anything.
    fn block_scalar(&mut self) {
        let outer = self.blocks.last().copied();
        // After `|` or `>`, and perhaps `+` or `-`.
        let signs = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
        let digit = self.byte(1 + signs).filter(u8::is_ascii_digit);
        let mut indent = digit.map(|digit| outer.unwrap_or(0) + usize::from(digit - b'0'));
        self.skip_line();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let found = rest.len() - rest.trim_start_matches(' ').len();
            if !rest[found..].starts_with(['\n', '\r']) {
                let least = outer.map_or(0, |column| column + 1);
                let indent = *indent.get_or_insert(found.max(least));
                if found < indent || self.is_marker() {
                    return;
                }
            }
            self.skip_line();
        }
    }

    /// Skips a quoted scalar, and rewrites it if that changes it.
    fn quoted(&mut self, quote: u8) {
        let bytes = self.text.as_bytes();
        let begin = self.at + 1;
        let double = quote == b'"';
        let mut end = begin;
        let mut line = self.line;
        let mut only_in_go = false;
        while let Some(&byte) = bytes.get(end) {
            let next = bytes.get(end + 1);
            end += match byte {
                b'\'' if !double && next == Some(&b'\'') => 2,
                b'\\' if double && !matches!(next, None | Some(b'\n' | b'\r')) => {
                    only_in_go |= next == Some(&b'\'');
                    2
                }
                _ if byte == quote => break,
                _ => 1,
            };
            if matches!(byte, b'\n' | b'\r') {
                line = end;
            }
        }
        let closed = end < bytes.len();
        let after = end + usize::from(closed);
        if line != self.line || only_in_go {
            self.out.push_str(&self.text[self.copied..self.at]);
            let content = &self.text[begin..end];
            Quoted { content, double }.write(&mut self.out);
            if !closed {
                self.out.pop();
            }
            self.copied = after;
        }
        self.line = line;
        self.at = after;
    }
}

/// Returns the line break that a text begins with, or an empty text.
fn line_break(text: &str) -> &str {
    let length = match text.as_bytes() {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    };
    &text[..length]
}

/// The text between two quotes.
struct Quoted<'a> {
    content: &'a str,
    /// Whether the quotes are `"`, so that `\` escapes.
    double: bool,
}

impl Quoted<'_> {
    /// Writes the scalar with every line break escaped, and what it stands for before it.
    ///
    /// One line break stands for a blank, several for one line feed less; blanks around them are
    /// dropped.
    fn write(&self, out: &mut String) {
        out.push('"');
        let mut line = self.content;
        while let Some(end) = line.find(['\n', '\r']) {
            let (text, escaped) = self.trim_end(&line[..end]);
            self.write_text(text, out);
            let first = line_break(&line[end..]);
            let mut rest = &line[end + first.len()..];
            let mut breaks = String::from(first);
            loop {
                line = rest.trim_start_matches(BLANKS);
                let next = line_break(line);
                if next.is_empty() {
                    break;
                }
                breaks.push_str(next);
                rest = &line[next.len()..];
            }
            if !escaped && breaks.len() == first.len() {
                out.push(' ');
            }
            out.push('\\');
            out.push_str(&breaks);
            if line.len() < rest.len() {
                // Indented, three dashes do not begin a document.
                out.push(' ');
            }
        }
        self.write_text(line, out);
        out.push('"');
    }

    /// Removes what a line break absorbs: blanks that are not escaped, or its own escape.
    fn trim_end<'a>(&self, line: &'a str) -> (&'a str, bool) {
        let text = line.trim_end_matches(BLANKS);
        let slashes = text.len() - text.trim_end_matches('\\').len();
        if !self.double || slashes.is_multiple_of(2) {
            (text, false)
        } else if text.len() == line.len() {
            (&text[..text.len() - 1], true)
        } else {
            (&line[..=text.len()], false)
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' if self.double => match characters.next() {
                    Some('\'') => out.push('\''),
                    escaped => out.extend(['\\'].into_iter().chain(escaped)),
                },
                '\\' | '"' => out.extend(['\\', character]),
                '\'' if !self.double => {
                    // The second quote of a doubled one.
                    characters.next();
                    out.push('\'');
                }
                _ => out.push(character),
            }
        }
    }
}

#[cfg(test)]
mod tests;
