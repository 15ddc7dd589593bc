//! What is wrong with the content of a catalog, and where.
//!
//! Documents of the reader come in one after the other; findings come out, each with its rule, its
//! place and, where it is known, the way out. An error is what the specification forbids or what no
//! extension could use, a warning works but not as meant. What cannot be read counts against nothing
//! else: whether something exists is not asked while a document is unread.
//!
//! Source: plugin.md 2.2.

mod blob;
mod constraints;
mod package;
mod place;
mod property;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::{FieldError, Fields};
use super::model::schema;
use super::read::{Document, Meta, PackageSizes, ReadError, Reason};
use crate::error::{Chain, first_of, quote};
use package::Package;

pub use place::locate;
use tally::Counted;
pub use tally::{Line, Tally};

/// Longest schema, package or name of a blob, and longest name in a channel, in bytes: more names
/// nothing on a cluster, and only costs.
const MAX_NAME: usize = 1024;
/// Most bytes that are kept for the rules about whole packages while findings are only counted.
const MAX_KEPT: usize = 64 << 20;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, Serialize, Deserialize, JsonSchema)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are those of the table in plugin.md 2.2")]
pub enum Rule {
    File,
    Yaml,
    Document,
    Key,
    Meta,
    Schema,
    Property,
    Package,
    PackageName,
    DefaultChannel,
    Icon,
    Channel,
    Entry,
    SkipRange,
    ChannelHead,
    ChannelChain,
    OneReplacement,
    ZStream,
    Bundle,
    BundleImage,
    RelatedImage,
    BundleVersion,
    Gvk,
    Required,
    Constraint,
    MaxOpenshift,
    Deprecations,
    ImageExists,
}

/// How bad a finding is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The specification forbids it, or no extension could use it.
    Error,
    /// It works, but not as it was meant.
    Warning,
    /// Worth to know.
    Note,
}

/// Something that is wrong in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What it is about.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Path of the file within the catalog.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    // That of the document until `locate` was asked.
    pub line: usize,
    /// Character of the line, from 1; 0 where it is not known.
    pub column: usize,
    /// Schema of the blob; empty where there is none.
    pub schema: String,
    /// Package of the blob.
    pub package: String,
    /// Name of the blob.
    pub name: String,
    /// What is wrong.
    pub text: String,
    /// What to do, if that is known.
    pub hint: Option<String>,
    /// What is wrong within the document, as a JSON pointer.
    #[serde(skip)]
    pub pointer: String,
}

/// Says whether a reference is pinned by a digest, or why it is not a reference.
pub type ImageCheck = fn(&str) -> Result<Pinned, String>;

/// What kind of image reference a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// It names a digest: what it stands for never changes.
    Digest,
    /// It names a tag.
    Tag,
    /// It names no registry; nodes may complete it.
    Short,
}

/// Where a blob stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Origin {
    /// Index among the files.
    file: usize,
    line: usize,
    schema: String,
    package: String,
    name: String,
}

/// Collects the findings about a catalog.
#[derive(Debug)]
pub struct Linter {
    image: ImageCheck,
    files: Vec<String>,
    findings: Vec<(usize, Finding)>,
    /// Files that were found not to be content.
    foreign: BTreeSet<usize>,
    /// Something that may be content could not be read, or does not say what it is.
    unread: bool,
    packages: BTreeMap<String, Package>,
    /// Where findings are counted instead of kept.
    tally: Option<Counted>,
    /// Bytes kept in `packages`, about.
    kept: usize,
}

/// Reads a catalog and returns what is wrong with it, in the order of its files and lines, with how
/// many files it has.
///
/// See [`super::read::read_catalog`] for what `files` is.
pub fn lint<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    image: ImageCheck,
) -> Result<(Vec<Finding>, usize), ReadError> {
    let (mut linter, mut sizes) = (Linter::new(image), PackageSizes::default());
    let mut read = Vec::new();
    for document in super::read::documents(files.clone())? {
        linter.add(&document);
        if let Ok(meta) = &document.meta {
            let Meta { schema, package, name, .. } = meta;
            let origin = linter.origin(document.path, document.position.line);
            let [schema, package, name] = [schema, package, name].map(Clone::clone);
            let origin = Origin { schema, package, name, ..origin };
            if !meta.schema.is_empty()
                && let Err(large) = sizes.add(meta)
            {
                linter.error(&origin, Rule::Package, "", large.to_string());
            }
            read.push(origin);
        }
    }
    linter.repeated(&read, files.clone());
    let count = linter.files.len();
    let mut findings = linter.finish();
    locate(&mut findings, files);
    Ok((findings, count))
}

impl Linter {
    /// Starts without documents.
    pub fn new(image: ImageCheck) -> Self {
        Self {
            image,
            files: Vec::new(),
            findings: Vec::new(),
            foreign: BTreeSet::new(),
            unread: false,
            packages: BTreeMap::new(),
            tally: None,
            kept: 0,
        }
    }

    /// Starts without documents, to count errors and warnings; notes are not looked for, and what
    /// is kept is small whatever comes.
    pub fn counting(image: ImageCheck) -> Self {
        Self { tally: Some(Counted::default()), ..Self::new(image) }
    }

    /// Examines one document; those of a file come one after the other.
    pub fn add(&mut self, document: &Document<'_>) {
        let line = document.position.line;
        match &document.meta {
            Ok(meta) => self.add_blob(document.path, line, meta),
            Err(error) => {
                let origin = self.origin(document.path, line);
                self.unreadable(&origin, error);
            }
        }
    }

    /// Examines one blob that begins in a line of a file.
    pub fn add_blob(&mut self, path: &str, line: usize, meta: &Meta) {
        let mut origin = self.origin(path, line);
        let names = [&meta.schema, &meta.package, &meta.name];
        if names.into_iter().any(|name| name.len() > MAX_NAME) {
            self.too_long(&origin, "schema, package or name");
            return;
        }
        let [schema, package, name] = names.map(Clone::clone);
        (origin.schema, origin.package, origin.name) = (schema, package, name);
        self.blob(origin, meta);
    }

    fn origin(&mut self, path: &str, line: usize) -> Origin {
        if self.files.last().is_none_or(|file| file != path) {
            self.files.push(path.to_owned());
        }
        Origin { file: self.files.len() - 1, line, ..Origin::default() }
    }

    /// Adds that a blob is not examined.
    fn too_long(&mut self, origin: &Origin, what: &str) {
        self.unread = true;
        let text = format!("not examined: {what} is longer than {MAX_NAME} bytes");
        self.warning(origin, Rule::Meta, "", text);
    }

    /// Says whether there is room to keep so many bytes of a blob for the rules about whole packages.
    fn keeps(&mut self, origin: &Origin, bytes: usize) -> bool {
        if self.tally.is_none() || self.kept > MAX_KEPT {
            return self.tally.is_none();
        }
        self.kept += bytes;
        if self.kept > MAX_KEPT {
            self.unread = true;
            let text = "too large to be examined whole: kubectl olm catalog lint does it";
            self.warning(origin, Rule::Package, "", text);
        }
        self.kept <= MAX_KEPT
    }

    /// Returns the findings in the order of files and lines, those about whole packages included.
    pub fn finish(mut self) -> Vec<Finding> {
        self.whole_packages();
        let mut findings = self.findings;
        findings.sort_by(|(file, a), (other, b)| {
            let (a, b) = ((file, a.line, &a.pointer), (other, b.line, &b.pointer));
            a.cmp(&b)
        });
        findings.into_iter().map(|(_, finding)| finding).collect()
    }

    /// Returns how much was found, those about whole packages included.
    pub fn tally(mut self) -> Tally {
        self.whole_packages();
        self.tally.unwrap_or_default().finish()
    }

    fn whole_packages(&mut self) {
        for (name, package) in std::mem::take(&mut self.packages) {
            self.whole_package(&name, &package);
        }
    }

    /// Says whether findings of a severity are wanted: notes are not where findings are counted.
    fn looks_for(&self, severity: Severity) -> bool {
        self.tally.is_none() || severity != Severity::Note
    }

    /// Adds a finding at a place within a document.
    fn report(
        &mut self,
        origin: &Origin,
        rule: Rule,
        severity: Severity,
        pointer: impl Into<String>,
        text: impl Into<String>,
    ) -> &mut Finding {
        let finding = Finding {
            rule,
            severity,
            file: self.files.get(origin.file).cloned().unwrap_or_default(),
            line: origin.line,
            column: 0,
            schema: origin.schema.clone(),
            package: origin.package.clone(),
            name: origin.name.clone(),
            text: text.into(),
            hint: None,
            pointer: pointer.into(),
        };
        if let Some(tally) = &mut self.tally {
            return tally.add(origin.file, finding);
        }
        self.findings.push((origin.file, finding));
        let last = self.findings.len() - 1;
        &mut self.findings[last].1
    }

    /// Adds an error.
    fn error(
        &mut self,
        origin: &Origin,
        rule: Rule,
        pointer: impl Into<String>,
        text: impl Into<String>,
    ) -> &mut Finding {
        self.report(origin, rule, Severity::Error, pointer, text)
    }

    /// Adds a warning.
    fn warning(
        &mut self,
        origin: &Origin,
        rule: Rule,
        pointer: impl Into<String>,
        text: impl Into<String>,
    ) -> &mut Finding {
        self.report(origin, rule, Severity::Warning, pointer, text)
    }

    /// Adds that a member does not have the type its schema gives it.
    fn wrong_type(&mut self, origin: &Origin, error: &FieldError) {
        self.error(origin, Rule::Meta, pointer_to(error), Chain(error).to_string());
    }

    /// Returns `FILE:LINE` of a blob.
    fn place(&self, origin: &Origin) -> String {
        let file = self.files.get(origin.file).map_or("", String::as_str);
        format!("{file}:{}", origin.line)
    }

    fn unreadable(&mut self, origin: &Origin, error: &ReadError) {
        let content = error.path.rsplit_once('.').is_none_or(|(_, extension)| {
            matches!(extension, "yaml" | "yml" | "json") || extension.contains('/')
        });
        if !content {
            let cause = error.reason.to_string();
            return self.not_content(origin, &cause, None);
        }
        self.unread = true;
        let nowhere = String::new();
        let (rule, pointer, text) = match &error.reason {
            Reason::NotAnObject => {
                let text = "a document must be an object, not a list or a single value";
                (Rule::Document, nowhere, text.to_owned())
            }
            Reason::DuplicateKeys { first, second, .. } => {
                let text = format!("keys {} and {} are the same", quote(first), quote(second));
                (Rule::Key, format!("/{}", escaped(second)), text)
            }
            Reason::NotAString { field, .. } => {
                (Rule::Meta, format!("/{field}"), format!("{} must be text", quote(field)))
            }
            fault @ (Reason::Yaml(_) | Reason::Json(_) | Reason::Separator) => {
                (Rule::Yaml, nowhere, fault.to_string())
            }
            other => (Rule::File, nowhere, other.to_string()),
        };
        let finding = self.error(origin, rule, pointer, text);
        if let Reason::NotAString { field, scalar: true } = &error.reason {
            finding.hint = Some(format!("quote it: {field}: \"4.10\""));
        }
    }

    /// Adds, once for each file, that it is not content.
    fn not_content(&mut self, origin: &Origin, cause: &str, hint: Option<&str>) {
        if self.foreign.insert(origin.file) {
            let text = format!("not catalog content: {cause}");
            let finding = self.error(origin, Rule::File, "", text);
            finding.hint = Some(hint.unwrap_or("list it in .indexignore").to_owned());
        }
    }

    fn blob(&mut self, origin: Origin, meta: &Meta) {
        // What is read of a bundle, which is large, is read in one walk.
        if meta.schema == schema::BUNDLE {
            return self.bundle(origin, meta);
        }
        let Ok(fields) = Fields::of(&meta.json) else { return };
        match meta.schema.as_str() {
            "" => self.without_schema(&origin, &fields),
            schema::PACKAGE => self.package(origin, meta, &fields),
            schema::CHANNEL => self.channel(origin, meta, &fields),
            schema::DEPRECATIONS => self.deprecations(origin, meta, &fields),
            other => self.other_schema(&origin, other),
        }
    }
}

impl fmt::Display for Finding {
    /// `FILE:LINE:COLUMN: SEVERITY[RULE]: TEXT`; numbers that are not known are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        for number in [self.line, self.column] {
            if number > 0 {
                write!(f, ":{number}")?;
            }
        }
        write!(f, ": {}[{}]: {}", self.severity, self.rule, self.text)
    }
}

/// Returns the pointer to the member that a fault is about.
fn pointer_to(error: &FieldError) -> String {
    match error {
        FieldError::NotAnObject => String::new(),
        FieldError::WrongType { field, .. } => format!("/{field}"),
        FieldError::Element { list, index, source } => {
            format!("/{list}/{index}{}", pointer_to(source))
        }
    }
}

/// Escapes a key for a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Joins names as a message lists them, at most ten.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    first_of(names, 10)
}

#[cfg(test)]
mod tests;
