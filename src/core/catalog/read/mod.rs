//! Reads a file-based catalog: files in, blobs in catalog order out.
//!
//! Files are visited depth first, the entries of each directory in byte order of their names; a
//! file holds JSON or YAML documents, each of which is one blob. Every blob comes out as one line
//! of canonical JSON. This module does not check the typed shape of blobs: it reads `schema`,
//! `package` and `name` and nothing else.
//!
//! Source: catalogs.md section 1.

mod error;
mod size;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memchr::memchr_iter;
use serde_json::value::{RawValue, to_raw_value};

use super::canonical::{self, Canonical};
use super::ignore::{IGNORE_FILE, IgnoreList, most_bytes};
use super::model::schema;
use crate::yaml::{self, YamlError};
use error::clip;
use window::Window;

pub use error::{Position, ReadError, Reason};
pub use size::{PackageSizes, PackageTooLarge};

/// Most bytes of one catalog, of an image or as a server has it (catalogs.md 4.3, 5.8).
pub const MAX_CATALOG_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Largest file that is read, in bytes (catalogs.md 5.8).
pub const MAX_FILE_BYTES: usize = 512 * 1024 * 1024;
/// Largest blob, in bytes of its canonical form (catalogs.md 5.8).
pub const MAX_BLOB_BYTES: usize = 16 * 1024 * 1024;
/// Largest text of one JSON value, and largest YAML text between separators, in bytes
/// (catalogs.md 5.8). What YAML becomes in memory is dozens of times its length.
const MAX_JSON_BYTES: usize = 64 * 1024 * 1024;
const MAX_YAML_BYTES: usize = MAX_BLOB_BYTES;
/// YAML texts of more bytes than this are parsed one at a time in a process: what the largest
/// becomes is more than half of what the controller may use.
const LARGE_YAML_BYTES: usize = 1024 * 1024;
static LARGE_YAML: Mutex<()> = Mutex::new(());

/// How much of the beginning of a file decides whether it is JSON.
const DETECTION_BYTES: usize = 4096;

/// One blob of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Value of `schema`, for example `olm.bundle`; empty when the blob has none.
    pub schema: String,
    /// Value of `package`; empty when the blob has none, as `olm.package` blobs do.
    pub package: String,
    /// Value of `name`; empty when the blob has none, as `olm.deprecations` blobs do.
    pub name: String,
    /// The blob as one line of canonical JSON: compact, keys sorted by bytes at every level,
    /// `<`, `>` and `&` as they are, no newline at the end.
    pub json: String,
}

impl Meta {
    /// Reads one blob from JSON text, for example a line that a catalog server sent.
    pub fn parse(json: &str) -> Result<Self, Reason> {
        let raw = serde_json::from_str(json).map_err(|err| Reason::Json(json_fault(&err)))?;
        meta_of_raw(raw)
    }

    /// Returns the package that the blob belongs to.
    pub fn owner(&self) -> &str {
        if self.schema == schema::PACKAGE { &self.name } else { &self.package }
    }
}

/// Reads a whole catalog: all blobs that have a schema, in catalog order.
///
/// `files` are paths and contents in any order; the paths use `/` and are relative to the root
/// that `.indexignore` patterns refer to. Every file counts whatever its extension, except ignore
/// files and what they exclude. The first fault of any file fails the whole catalog, as does a
/// package past the limits of [`PackageSizes`].
pub fn read_catalog<'a, R: Read>(
    files: impl IntoIterator<Item = (&'a str, R)>,
) -> Result<Vec<Meta>, ReadError> {
    let (mut metas, mut sizes) = (Vec::new(), PackageSizes::default());
    for Document { path, position, meta } in documents(files)? {
        let meta = meta?;
        if meta.schema.is_empty() {
            continue;
        }
        sizes.add(&meta).map_err(|large| {
            let reason = large.into();
            ReadError { path: path.to_owned(), position, reason }
        })?;
        metas.push(meta);
    }
    Ok(metas)
}

/// Returns every document of a catalog and where it begins, in catalog order.
///
/// Behind a document that cannot be read it goes on with the next one whose beginning is certain: in
/// YAML behind the next separator, else in the next file. See [`read_catalog`] for what `files` is.
pub fn documents<'a, R: Read>(
    files: impl IntoIterator<Item = (&'a str, R)>,
) -> Result<Documents<'a, R>, ReadError> {
    let files = kept(files)?;
    Ok(Documents { files, current: None })
}

/// Returns the files that are read, in catalog order: neither ignore files nor what they exclude.
pub fn kept<'a, R: Read>(
    files: impl IntoIterator<Item = (&'a str, R)>,
) -> Result<VecDeque<(&'a str, R)>, ReadError> {
    let mut files: BTreeMap<Vec<&str>, (&str, R)> =
        files.into_iter().map(|(path, file)| (path.split('/').collect(), (path, file))).collect();
    let ignored = ignore_list(&mut files)?;
    Ok(files
        .into_iter()
        .filter(|(parts, (path, _))| parts.last() != Some(&IGNORE_FILE) && !ignored.excludes(path))
        .map(|(_, file)| file)
        .collect())
}

/// Collects the patterns of all ignore files, parents before children.
fn ignore_list<R: Read>(
    files: &mut BTreeMap<Vec<&str>, (&str, R)>,
) -> Result<IgnoreList, ReadError> {
    let mut ignored = IgnoreList::default();
    let most = most_bytes(files.values().map(|(path, _)| path.len()).sum());
    let mut left = most;
    for (parts, (path, file)) in files {
        if parts.last() != Some(&IGNORE_FILE) {
            continue;
        }
        let fault =
            |reason| ReadError { path: (*path).to_owned(), position: Position::default(), reason };
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let mut bytes = Vec::new();
        let read = file.take(left as u64 + 1).read_to_end(&mut bytes);
        let read = read.map_err(|error| fault(error.into()))?;
        left = left.checked_sub(read).ok_or_else(|| fault(Reason::IgnoreFiles(most)))?;
        ignored.add(directory, &String::from_utf8_lossy(&bytes));
    }
    Ok(ignored)
}

/// One document of a catalog.
#[derive(Debug)]
pub struct Document<'a> {
    /// Path of its file.
    pub path: &'a str,
    /// Where it begins.
    pub position: Position,
    /// What it holds, or why that cannot be read.
    pub meta: Result<Meta, ReadError>,
}

/// The documents of a catalog; see [`documents`].
#[derive(Debug)]
pub struct Documents<'a, R> {
    files: VecDeque<(&'a str, R)>,
    current: Option<(&'a str, FileDocuments<R>)>,
}

impl<'a, R: Read> Iterator for Documents<'a, R> {
    type Item = Document<'a>;

    fn next(&mut self) -> Option<Document<'a>> {
        loop {
            let Some((path, documents)) = &mut self.current else {
                let (path, file) = self.files.pop_front()?;
                match FileDocuments::new(file) {
                    Ok(documents) => self.current = Some((path, documents)),
                    Err(fault) => return Some(Document::unreadable(path, fault)),
                }
                continue;
            };
            let path = *path;
            if documents.at_end && documents.chunk.is_empty() {
                self.current = None;
                continue;
            }
            match documents.next_meta() {
                Ok(Some((position, meta))) => {
                    let meta = Ok(meta);
                    return Some(Document { path, position, meta });
                }
                Ok(None) => {}
                Err(fault) => return Some(Document::unreadable(path, fault)),
            }
        }
    }
}

impl<'a> Document<'a> {
    fn unreadable(path: &'a str, Fault(position, reason): Fault) -> Self {
        let error = ReadError { path: path.to_owned(), position, reason };
        Self { path, position, meta: Err(error) }
    }
}

/// What is wrong in a file, and where.
struct Fault(Position, Reason);

impl From<Reason> for Fault {
    /// A fault of the file, not of a document in it.
    fn from(reason: Reason) -> Self {
        Self(Position::default(), reason)
    }
}

/// The documents of one file.
#[derive(Debug)]
struct FileDocuments<R> {
    /// The text from the next document on.
    window: Window<R>,
    /// Line where the window begins, from 1.
    line: usize,
    /// Documents handed out so far.
    count: usize,
    json: bool,
    /// Documents of the YAML chunk read last, and its first line.
    chunk: VecDeque<Result<Meta, Reason>>,
    chunk_line: usize,
    at_end: bool,
}

impl<R: Read> FileDocuments<R> {
    fn new(file: R) -> Result<Self, Fault> {
        let window = Window::open(file)?;
        let beginning = window.text().as_bytes();
        let beginning = &beginning[..beginning.len().min(DETECTION_BYTES)];
        Ok(Self {
            json: beginning.trim_ascii_start().starts_with(b"{"),
            window,
            line: 1,
            count: 0,
            chunk: VecDeque::new(),
            chunk_line: 1,
            at_end: false,
        })
    }

    /// Returns the next blob; `None` means that there is none at this position, not that the file
    /// is at its end.
    fn next_meta(&mut self) -> Result<Option<(Position, Meta)>, Fault> {
        if let Some(meta) = self.chunk.pop_front() {
            self.count += 1;
            let position = self.at(self.chunk_line);
            return match meta {
                Ok(meta) => Ok(Some((position, meta))),
                Err(reason) => Err(Fault(position, reason)),
            };
        }
        let found = if self.json { self.next_json() } else { self.next_chunk().map(|()| None) };
        if matches!(&found, Err(Fault(_, reason)) if !reason.is_of_one_document()) {
            self.at_end = true;
        }
        found
    }

    /// Returns the position of the document handed out last, or about to be, at `line`.
    fn at(&self, line: usize) -> Position {
        Position { document: self.count.max(1), line }
    }

    fn next_json(&mut self) -> Result<Option<(Position, Meta)>, Fault> {
        loop {
            let rest = self.window.text();
            if let Some((object, place)) = Canonical::first(rest) {
                let meta = meta_of_object(object);
                return self.passed(&place, meta);
            }
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let found = stream.next();
            let read = stream.byte_offset();
            let goes_on = match &found {
                None => true,
                Some(Ok(_)) => read == rest.len(),
                Some(Err(error)) => error.is_eof(),
            };
            if goes_on && !self.window.is_last() {
                if rest.len() > MAX_JSON_BYTES {
                    let blank = rest.len() - rest.trim_start().len();
                    let line = self.line + newlines(&rest[..blank]);
                    self.count += 1;
                    return Err(Fault(self.at(line), Reason::TextTooLarge(MAX_JSON_BYTES)));
                }
                self.window.grow()?;
                continue;
            }
            return match found {
                None => {
                    self.at_end = true;
                    Ok(None)
                }
                Some(Ok(raw)) => {
                    let place = read - raw.get().len()..read;
                    let meta = meta_of_raw(raw);
                    self.passed(&place, meta)
                }
                // Flow mappings and trailing commas are not JSON but valid YAML, and so may be what
                // follows a first object. After two objects it is a broken JSON file.
                Some(Err(_)) if self.count < 2 => {
                    self.json = false;
                    Ok(None)
                }
                Some(Err(error)) => {
                    self.count += 1;
                    let position = self.at(self.line + error.line().saturating_sub(1));
                    Err(Fault(position, Reason::Json(json_fault(&error))))
                }
            };
        }
    }

    /// Leaves the document at this place of the window behind, and hands it out.
    fn passed(
        &mut self,
        place: &Range<usize>,
        meta: Result<Meta, Reason>,
    ) -> Result<Option<(Position, Meta)>, Fault> {
        let rest = self.window.text();
        let line = self.line + newlines(&rest[..place.start]);
        self.line = line + newlines(&rest[place.clone()]);
        self.window.pass(place.end);
        self.count += 1;
        let position = self.at(line);
        meta.map(|meta| Some((position, meta))).map_err(|reason| Fault(position, reason))
    }

    /// Reads the YAML text up to the next separator into `chunk`.
    fn next_chunk(&mut self) -> Result<(), Fault> {
        self.chunk_line = self.line;
        let (end, read) = self.find_separator()?;
        let chunk = &self.window.text()[..end];
        let first = chunk.lines().take_while(|line| is_blank(line)).count();
        let metas = metas_of_yaml(chunk);
        self.window.pass(read);
        match metas {
            Ok(metas) => {
                self.chunk_line += first;
                self.chunk = metas;
                Ok(())
            }
            Err(error) => {
                self.count += 1;
                let line = error.line.and_then(|line| usize::try_from(line).ok());
                let line = line.map_or(first, |line| line.saturating_sub(1));
                let position = self.at(self.chunk_line + line);
                Err(Fault(position, Reason::Yaml(clip(&error.message))))
            }
        }
    }

    /// Returns where the text before the next separator ends, and where the one behind it begins.
    fn find_separator(&mut self) -> Result<(usize, usize), Fault> {
        let (mut end, mut read, first) = (0, 0, self.line);
        let too_large = |found: &mut Self| {
            found.count += 1;
            Err(Fault(found.at(first), Reason::TextTooLarge(MAX_YAML_BYTES)))
        };
        loop {
            let last = self.window.is_last();
            let lines = self.window.text()[read..].split_inclusive('\n');
            for line in lines.take_while(|line| last || line.ends_with('\n')) {
                read += line.len();
                self.line += 1;
                if let Some(rest) = line.strip_prefix("---") {
                    let rest = rest.trim();
                    if !rest.is_empty() && !rest.starts_with('#') {
                        self.count += 1;
                        return Err(Fault(self.at(self.line - 1), Reason::Separator));
                    }
                    return Ok((end, read));
                }
                end = read;
                if end > MAX_YAML_BYTES {
                    return too_large(self);
                }
            }
            if last {
                self.at_end = true;
                return Ok((end, read));
            }
            if self.window.text().len() > MAX_YAML_BYTES {
                return too_large(self);
            }
            self.window.grow()?;
        }
    }
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn newlines(text: &str) -> usize {
    memchr_iter(b'\n', text.as_bytes()).count()
}

/// Returns the message of a JSON error without its position, which is reported separately.
fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    clip(&text[..end])
}

fn meta_of_raw(raw: &RawValue) -> Result<Meta, Reason> {
    if !raw.get().starts_with('{') {
        return Err(Reason::NotAnObject);
    }
    meta_of_object(Canonical::of(raw).ok_or(Reason::TooDeep)?)
}

/// Checks the keys of a blob, and returns it with the values of `schema`, `package` and `name`, empty
/// where absent.
fn meta_of_object(object: Canonical<'_>) -> Result<Meta, Reason> {
    const FIELDS: [&str; 3] = ["schema", "package", "name"];
    let mut found = [const { String::new() }; 3];
    let mut spellings: BTreeMap<String, &str> = BTreeMap::new();
    for (key, value) in object.members() {
        let folded = fold(key);
        if let Some(field) = FIELDS.iter().position(|field| *field == folded) {
            if !value.starts_with('"') {
                let scalar = !(value.starts_with(['{', '[']) || value == "null");
                return Err(Reason::NotAString { field: FIELDS[field], scalar });
            }
            found[field] = canonical::string(value).into_owned();
        }
        if let Some(first) = spellings.insert(folded.clone(), key) {
            return Err(Reason::DuplicateKeys {
                key: folded,
                first: first.to_owned(),
                second: key.to_owned(),
            });
        }
    }
    if object.json.len() > MAX_BLOB_BYTES {
        return Err(Reason::BlobTooLarge);
    }
    let [schema, package, name] = found;
    Ok(Meta { schema, package, name, json: object.json })
}

fn metas_of_yaml(text: &str) -> Result<VecDeque<Result<Meta, Reason>>, YamlError> {
    let alone = (text.len() > LARGE_YAML_BYTES)
        .then(|| LARGE_YAML.lock().unwrap_or_else(PoisonError::into_inner));
    let metas = yaml::to_json(text)?.into_iter().map(|value| {
        let raw = to_raw_value(&value);
        meta_of_raw(&raw.map_err(|error| Reason::Json(json_fault(&error)))?)
    });
    let metas = metas.collect();
    drop(alone);
    Ok(metas)
}

/// Folds case the simple way, one character for one, as Go compares keys without case: `ſ` becomes
/// `s`, the Kelvin sign `k`.
pub fn fold(key: &str) -> String {
    fn single(mut mapped: impl Iterator<Item = char>, otherwise: char) -> char {
        match (mapped.next(), mapped.next()) {
            (Some(character), None) => character,
            _ => otherwise,
        }
    }
    key.chars()
        .map(|character| {
            let upper = single(character.to_uppercase(), character);
            single(upper.to_lowercase(), upper)
        })
        .collect()
}

#[cfg(test)]
mod tests;
