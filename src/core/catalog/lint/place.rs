//! Finds the line and the column of findings in the text of their files.

use std::collections::BTreeMap;

use memchr::memchr_iter;
use serde_json::value::RawValue;

use super::{Finding, Linter, Origin, Rule};
use crate::error::quote;
use crate::strict_json::{Json, Members};
use crate::yaml::{Places, repeated_keys};

/// Characters that YAML does not accept at the beginning of a plain text.
const INDICATORS: &str = ">*&!@`%|";

/// Sets line and column of findings to those of the value that is wrong, and adds hints that need
/// the text.
pub fn locate<'a>(findings: &mut [Finding], files: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
    let mut of_files: BTreeMap<String, Vec<&mut Finding>> = BTreeMap::new();
    let unplaced = |finding: &&mut Finding| finding.line > 0 && finding.column == 0;
    for finding in findings.iter_mut().filter(unplaced) {
        of_files.entry(finding.file.clone()).or_default().push(finding);
    }
    for (path, bytes) in files {
        let Some(mut findings) = of_files.remove(path) else { continue };
        let text = String::from_utf8_lossy(bytes);
        let source = Source::new(&text);
        // Each document is read once, however much is wrong with it.
        findings.sort_by_key(|finding| finding.line);
        for of_document in findings.chunk_by_mut(|a, b| a.line == b.line) {
            source.place(of_document);
        }
    }
    for of_file in findings.chunk_by_mut(|a, b| a.file == b.file) {
        of_file.sort_by_key(|finding| (finding.line, finding.column));
    }
}

impl Linter {
    /// Adds a warning for each key that a map of a document has twice: readers keep the last value and
    /// say nothing. The documents of a file follow one another.
    pub(super) fn repeated<'a>(
        &mut self,
        documents: &[Origin],
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) {
        let of_files = documents.chunk_by(|a, b| a.file == b.file);
        let of_files: BTreeMap<String, &[Origin]> =
            of_files.map(|of_file| (self.files[of_file[0].file].clone(), of_file)).collect();
        for (path, bytes) in files {
            let Some(documents) = of_files.get(path) else { continue };
            let text = String::from_utf8_lossy(bytes);
            let source = Source::new(&text);
            for document in *documents {
                for (key, line, column) in source.repeated(document.line) {
                    let text = format!("key {key} is given twice: the last value counts");
                    let finding = self.warning(document, Rule::Key, "", text);
                    (finding.line, finding.column) = (document.line + line - 1, column);
                }
            }
        }
    }
}

/// A file with the beginnings of its lines.
struct Source<'a> {
    text: &'a str,
    lines: Vec<usize>,
    json: bool,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let newlines = memchr_iter(b'\n', text.as_bytes());
        let lines = std::iter::once(0).chain(newlines.map(|at| at + 1));
        Self { lines: lines.collect(), json: text.trim_start().starts_with('{'), text }
    }

    /// Returns the text from a line on, which is counted from 1.
    fn beginning_at(&self, line: usize) -> Option<&'a str> {
        self.text.get(*self.lines.get(line.checked_sub(1)?)?..)
    }

    /// Places the findings about the document that begins in their line.
    fn place(&self, findings: &mut [&mut Finding]) {
        let Some(rest) = findings.first().and_then(|it| self.beginning_at(it.line)) else { return };
        let document = if self.json { json_document(rest) } else { Some(yaml_document(rest)) };
        let places = document.and_then(|(text, before)| Some((Places::read(text)?, before)));
        for finding in findings {
            if finding.rule == Rule::Yaml {
                finding.hint = unquoted(rest);
                continue;
            }
            let Some((places, before)) = &places else { continue };
            let path: Vec<_> = finding.pointer.split('/').skip(1).map(unescaped).collect();
            if let Some((line, column)) = places.find(&path) {
                finding.line += line - 1;
                finding.column = column + if line == 1 { *before } else { 0 };
            }
        }
    }

    /// Returns the keys that the document beginning in a line has twice, in JSON the first of them:
    /// quoted, with the place within the document.
    fn repeated(&self, line: usize) -> Vec<(String, usize, usize)> {
        let Some(rest) = self.beginning_at(line) else { return Vec::new() };
        if !self.json {
            let found = repeated_keys(yaml_document(rest).0).into_iter();
            return found.map(|(key, line, column)| (quote(&key), line, column)).collect();
        }
        json_document(rest).and_then(repeated_member).into_iter().collect()
    }
}

/// Returns the first key that stands twice in an object of a JSON value, quoted, with its place.
fn repeated_member((text, before): (&str, usize)) -> Option<(String, usize, usize)> {
    let error = serde_json::from_str::<Members<Json>>(text).err()?;
    let told = error.to_string();
    let (key, _) = told.split_once(" is given twice")?;
    let before = if error.line() == 1 { before } else { 0 };
    Some((key.to_owned(), error.line(), error.column() + before))
}

/// Returns the JSON value that begins in the first line of a text, and how much stands before it;
/// nothing where another begins there, too, because it is not known which of them is meant.
fn json_document(text: &str) -> Option<(&str, usize)> {
    let start = text.find('{')?;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<&RawValue>();
    let raw = values.next()?.ok()?;
    let line = text[start..].lines().next().and_then(|line| line.get(values.byte_offset()..));
    if line.is_some_and(|line| line.contains('{')) {
        return None;
    }
    Some((raw.get(), text[..start].chars().count()))
}

/// Returns the text up to the next separator.
fn yaml_document(text: &str) -> (&str, usize) {
    let end = text.find("\n---").map_or(text.len(), |end| end + 1);
    (&text[..end], 0)
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns the way out for a line whose value YAML does not read as text.
fn unquoted(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let (key, value) = line.split_once(": ")?;
    let key = key.trim_start().trim_start_matches("- ");
    let value = value.trim();
    if !value.starts_with(|first| INDICATORS.contains(first)) {
        return None;
    }
    let what = if key.to_ascii_lowercase().ends_with("range") { "range" } else { "value" };
    Some(format!("quote the {what}: {key}: {}", quote(value)))
}
