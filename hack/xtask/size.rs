//! Lines of code by folder, without blanks and comments; tests are counted apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where sources are.
const ROOTS: [&str; 3] = ["api", "src", "test"];
/// Names of folders and files that contain only tests or test data.
const TESTS: [&str; 4] = ["test", "tests", "tests.rs", "fixture.rs"];

/// Lines of the product, and of its tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
}

/// Returns a table of the lines in each folder below `root`, to the third level.
pub(super) fn table(root: &Path) -> anyhow::Result<String> {
    let mut files = Vec::new();
    for folder in ROOTS {
        sources(&root.join(folder), &mut files)?;
    }
    let mut folders = BTreeMap::<String, Lines>::new();
    let mut sums = [("all of api and src", Lines::default()), ("all of test", Lines::default())];
    for file in files {
        let path = file.strip_prefix(root)?;
        let source = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut lines = count(&source);
        if path.iter().any(|part| TESTS.iter().any(|name| part == *name)) {
            lines = Lines { code: 0, tests: lines.code + lines.tests };
        }
        let parts: Vec<_> = path.parent().into_iter().flatten().collect();
        for depth in parts.len().min(2)..=parts.len().min(3) {
            let folder: PathBuf = parts.iter().take(depth).collect();
            folders.entry(folder.display().to_string()).or_default().add(lines);
        }
        sums[usize::from(path.starts_with("test"))].1.add(lines);
    }
    let mut text = "   code   tests\n".to_owned();
    let sums = sums.map(|(name, lines)| (name.to_owned(), lines));
    for (folder, Lines { code, tests }) in folders.into_iter().chain(sums) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{code:>7} {tests:>7}  {folder}");
    }
    Ok(text)
}

impl Lines {
    fn add(&mut self, other: Self) {
        self.code += other.code;
        self.tests += other.tests;
    }
}

/// Adds the sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target" && name != "testdata") {
                sources(&path, found)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Counts the lines of a source. The source is formatted, so that an item that is compiled for tests
/// ends with a line.
fn count(source: &str) -> Lines {
    let mut lines = Lines::default();
    // Brackets that are open in an item of tests.
    let mut item: Option<usize> = None;
    for line in stripped(source).lines().map(str::trim).filter(|line| !line.is_empty()) {
        if item.is_none() && line == "#[cfg(test)]" {
            item = Some(0);
        }
        let Some(open) = item else {
            lines.code += 1;
            continue;
        };
        lines.tests += 1;
        let opened = line.matches(['{', '(', '[']).count();
        let closed = line.matches(['}', ')', ']']).count();
        let open = (open + opened).saturating_sub(closed);
        item = (open > 0 || !line.ends_with(['}', ';', ','])).then_some(open);
    }
    lines
}

enum Token {
    Comment,
    Literal,
    Code,
}

/// Returns a source without its comments, and with an `x` for each character of its literals.
fn stripped(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (token, end) = token(rest);
        let (part, after) = rest.split_at(end);
        match token {
            Token::Comment => text.extend(part.chars().filter(|it| *it == '\n')),
            Token::Literal => {
                text.extend(part.chars().map(|it| if it.is_whitespace() { it } else { 'x' }));
            }
            Token::Code => text.push_str(part),
        }
        rest = after;
    }
    text
}

/// Returns the kind of token at the start of a text, and its end.
fn token(text: &str) -> (Token, usize) {
    if text.starts_with("//") {
        return (Token::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Token::Comment, comment(text));
    }
    if let Some(end) = literal(text) {
        return (Token::Literal, end);
    }
    (Token::Code, text.chars().next().map_or(0, char::len_utf8))
}

/// Returns the end of the block comment at the start of a text; comments can be nested.
fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut open, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match bytes[at..] {
            [b'/', b'*', ..] => (open, at) = (open + 1, at + 2),
            [b'*', b'/', ..] if open == 1 => return at + 2,
            [b'*', b'/', ..] => (open, at) = (open - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of the string or character at the start of a text, if there is one.
fn literal(text: &str) -> Option<usize> {
    let after = text.trim_start_matches(['b', 'c', 'r']);
    let begin = text.len() - after.len();
    let raw = after.trim_start_matches('#');
    if text[..begin].contains('r') && raw.starts_with('"') {
        let end = format!("\"{}", "#".repeat(after.len() - raw.len()));
        let from = text.len() - raw.len() + 1;
        return Some(text[from..].find(&end).map_or(text.len(), |at| from + at + end.len()));
    }
    if let Some(inside) = after.strip_prefix('"') {
        return Some(begin + 1 + quoted(inside, '"'));
    }
    let inside = after.strip_prefix('\'')?;
    let mut characters = inside.chars();
    // Otherwise it is a lifetime.
    let is_character = characters.next()? == '\\' || characters.next() == Some('\'');
    is_character.then(|| begin + 1 + quoted(inside, '\''))
}

/// Returns the length of a quoted text with its end.
fn quoted(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if !escaped && character == end {
            return at + 1;
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"//! A module.

use a::b;

/* Not /* a */ line. */
fn code<'a>(text: &'a str) -> char {
    let _ = "// code
        }";
    let _ = r#"" /* "#; // a comment
    if text.is_empty() { '"' } else { '\'' }
}

#[cfg(test)]
fn helper(
    one: u8,
) {
}

struct More {
    #[cfg(test)]
    field: u8,
    other: u8,
}

#[cfg(test)]
mod tests {
    const BRACE: &str = "}";
    // A comment.
    const CHARACTER: u8 = b'{';
}
"##;

    #[test]
    fn blanks_comments_and_tests_are_told_apart() {
        assert_eq!(count(SOURCE), Lines { code: 10, tests: 12 });
    }

    #[test]
    fn folders_are_summed_up() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("api/keys.rs", "const A: u8 = 1;\n");
        write("src/core/lib.rs", "mod a;\n");
        write("src/core/a/b/mod.rs", "fn a() {}\n#[cfg(test)]\nmod tests;\n");
        write("src/core/a/b/tests.rs", "fn b() {}\n");
        write("test/tests/checkout/main.rs", "mod a;\n\nmod b;\n");
        let want = "   code   tests
      1       0  api
      2       3  src/core
      1       3  src/core/a
      0       2  test/tests
      0       2  test/tests/checkout
      3       3  all of api and src
      0       2  all of test
";
        assert_eq!(table(root.path()).unwrap(), want);
    }
}
