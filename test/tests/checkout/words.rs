//! What CONTRIBUTING.md asks not to write is in no document and in no text of the programs. The
//! table there is the list.

use std::collections::BTreeMap;

use olm_test::{documents, paths};

use super::structure;

/// Where texts are read: README.md and `docs`, and the string literals of folders of sources.
/// Documents that are made from sources are read together with those.
const FOLDERS: &[&str] = &["docs", "src"];
const GENERATED: &str = "<!-- Generated";

/// A row of the table: what to write, what not, and what may be written all the same.
#[derive(Debug)]
struct Row {
    write: String,
    not: Vec<String>,
    but: Vec<String>,
}

/// Returns the rows of the table.
fn rows(text: &str) -> Vec<Row> {
    let table = text.lines().skip_while(|line| *line != "| write | not | but |").skip(2);
    let table = table.take_while(|line| line.starts_with('|'));
    table
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let quoted = |cell: usize| {
                let cell = cells.get(cell).copied().unwrap_or_default();
                cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
            };
            Row { write: cells[0].trim().to_owned(), not: quoted(1), but: quoted(2) }
        })
        .collect()
}

/// Returns what a text should not say, with what to write instead.
fn found<'r>(text: &str, rows: &'r [Row]) -> Vec<(&'r str, &'r str)> {
    let text = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for row in rows {
        for words in &row.not {
            if text.match_indices(words).any(|(at, words)| is_meant(&text, at, words, row)) {
                found.push((words.as_str(), row.write.as_str()));
            }
        }
    }
    found
}

/// Says whether the words at `at` are whole, in the plural maybe, and not part of what may be said.
fn is_meant(text: &str, at: usize, words: &str, row: &Row) -> bool {
    let (before, rest) = text.split_at(at);
    let after = &rest[words.len()..];
    let after = after.strip_prefix('s').unwrap_or(after);
    let begins = !before.ends_with(|c: char| c.is_alphanumeric() || "-_".contains(c));
    let ends = !after.starts_with(char::is_alphanumeric);
    let is_part = |but: &String| {
        but.match_indices(words).any(|(offset, _)| {
            let from = at.checked_sub(offset).and_then(|from| text.get(from..));
            from.is_some_and(|from| from.starts_with(but))
        })
    };
    begins && ends && !row.but.iter().any(is_part)
}

/// Returns the sentences of a document, without code; its lines are joined.
pub(crate) fn prose(document: &str) -> String {
    let mut lines = Vec::new();
    let mut fenced = false;
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside = line.split('`').step_by(2);
            lines.push(outside.collect::<Vec<_>>().join("`"));
        }
    }
    lines.join(" ")
}

/// Returns the string literals of code that are texts: those of more than one word.
fn texts(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        rest = &from[1..];
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, rest)| rest);
        } else if from.starts_with('\'') {
            rest = after_character(rest);
        } else if from.starts_with('"') {
            let (text, after) = literal(before, rest);
            rest = after;
            if text.contains(' ') {
                found.push(text);
            }
        }
    }
    found
}

/// Returns what follows a character literal or a lifetime, whose first quote was read.
fn after_character(code: &str) -> &str {
    if let Some(escaped) = code.strip_prefix('\\') {
        // The first character may be a quote.
        let end = escaped.char_indices().skip(1).find(|(_, c)| *c == '\'');
        return end.map_or("", |(at, _)| &escaped[at + 1..]);
    }
    let mut letters = code.chars();
    letters.next();
    letters.as_str().strip_prefix('\'').unwrap_or(code)
}

/// Returns a string literal whose first quote was read, and what follows it.
fn literal<'a>(before: &str, code: &'a str) -> (String, &'a str) {
    let plain = before.trim_end_matches('#');
    if plain.ends_with('r') {
        let hashes = &before[plain.len()..];
        let end = format!("\"{hashes}");
        let (text, after) = code.split_once(end.as_str()).unwrap_or((code, ""));
        return (text.to_owned(), after);
    }
    let mut text = String::new();
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                // The text continues in the next line.
                Some('\n') => letters = letters.as_str().trim_start().chars(),
                Some('n' | 't') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            letter => text.push(letter),
        }
    }
    (text, letters.as_str())
}

#[test]
fn no_text_says_what_contributing_asks_not_to_write() {
    let rows = rows(&documents::read("CONTRIBUTING.md"));
    assert!((10..=20).contains(&rows.len()), "{} rows were found", rows.len());
    let sources: Vec<&str> = FOLDERS.iter().copied().filter(|folder| *folder != "docs").collect();
    let mut read: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in documents::all() {
        let text = documents::read(&path);
        if !sources.is_empty() || !text.starts_with(GENERATED) {
            read.insert(path, vec![prose(&text)]);
        }
    }
    for (file, code) in structure::code(&sources) {
        let file = file.strip_prefix(paths::repository()).unwrap_or(&file).display().to_string();
        read.insert(file, texts(&code));
    }
    let mut wrong = Vec::new();
    for (file, texts) in &read {
        for text in texts {
            for (words, write) in found(text, &rows) {
                let quoted = if file.starts_with("src/") { text } else { "" };
                wrong.push(format!("{file}: {words:?}, write {write}: {quoted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "see Words in CONTRIBUTING.md:\n{}", wrong.join("\n"));
}

#[test]
fn words_are_found_as_the_table_says() {
    let table = "| write | not | but |\n|---|---|---|\n| rollout | `roll-out` | |\n\
                 | is not a | `is no`, `are no` | `there is no` |\n\n| other | `b` | |\n";
    let rows = rows(table);
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (text, want) in [
        ("Two Roll-outs are waiting", vec!["roll-out"]),
        ("a rollout; --roll-out; is not; there is no image", vec![]),
        ("it is no number and they are no\tnames", vec!["is no", "are no"]),
        ("There is no image, but this is no digest", vec!["is no"]),
    ] {
        let said: Vec<&str> = found(text, &rows).iter().map(|(words, _)| *words).collect();
        assert_eq!(said, want, "{text}");
    }
    let document = "A `roll-out` here\n```text\na roll-out\n```\nand there.";
    assert_eq!(prose(document), "A ` here and there.");
}

#[test]
fn texts_of_code_are_its_string_literals() {
    let code = "let a: &'static str = \"one two\"; // \"no text\"\nlet b = ['\"', '\\'', 'x'];\n\
                let c = r#\"three \"four\"\"#;\nlet d = \"five \\\n    \\\"six\\\" http://x\";\n\
                let e = \"word\";\n";
    assert_eq!(texts(code), ["one two", "three \"four\"", "five \"six\" http://x"]);
}
