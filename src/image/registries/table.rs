//! Reads TOML tables with the rules of the decoder that containers/image uses.
//!
//! Keys match whatever their case, as in that decoder: if `Blocked = true` were ignored, this
//! program would allow what every other tool on the machine refuses. Values must have the right
//! type, unknown keys are ignored.
//!
//! Source: `BurntSushi/toml` 1.6 (`decode.go`).

use std::ops::Range;

use olm_core::catalog::read::fold;
use olm_core::error::quote;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The fault of a file, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line of the error, counted from 1.
    pub(super) line: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// A value and the line it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lined<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

/// A table of a file.
#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    text: &'t str,
    members: &'t DeTable<'t>,
    /// The line of its header.
    pub(super) line: usize,
}

type Member<'t> = (&'t Spanned<DeString<'t>>, &'t Spanned<DeValue<'t>>);

/// Parses a document and passes its root to `read`.
pub(super) fn with_root<T>(
    text: &str,
    read: impl FnOnce(Table<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let root = DeTable::parse(text).map_err(|err| {
        let line = err.span().map_or(1, |span| line(text, &span));
        Fault::new(line, format!("not TOML: {}", err.message()))
    })?;
    read(Table { text, members: root.get_ref(), line: 1 })
}

impl<'t> Table<'t> {
    /// Returns the string of `key`, empty when there is none.
    pub(super) fn text(&self, key: &str) -> Result<Lined<String>, Fault> {
        let Some((name, value)) = self.member(key)? else {
            return Ok(Lined { line: self.line, value: String::new() });
        };
        self.string(name, value)
    }

    /// Returns the boolean of `key`, false when there is none.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Fault> {
        let Some((name, value)) = self.member(key)? else { return Ok(false) };
        value.get_ref().as_bool().ok_or_else(|| self.mismatch(name, value, "a boolean"))
    }

    /// Returns the strings of `key`; an empty list differs from an absent one.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<Lined<String>>>, Fault> {
        let Some((name, value)) = self.member(key)? else { return Ok(None) };
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| self.mismatch(name, value, "a list of strings"))?;
        list.iter().map(|element| self.string(name, element)).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the tables of `key`; an empty list differs from an absent one.
    pub(super) fn tables(&self, key: &str) -> Result<Option<Vec<Self>>, Fault> {
        let Some((name, value)) = self.member(key)? else { return Ok(None) };
        let wanted = "a list of tables";
        let list = value.get_ref().as_array().ok_or_else(|| self.mismatch(name, value, wanted))?;
        let tables = list
            .iter()
            .map(|element| self.inner(element).ok_or_else(|| self.mismatch(name, element, wanted)));
        tables.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn table(&self, key: &str) -> Result<Option<Self>, Fault> {
        let Some((name, value)) = self.member(key)? else { return Ok(None) };
        let table = self.inner(value);
        table.ok_or_else(|| self.mismatch(name, value, "a table")).map(Some)
    }

    /// Returns the names and strings of the table at `key`. A value that is not a table counts as
    /// absent, as the decoder does for tables whose keys the user chooses.
    pub(super) fn names(&self, key: &str) -> Result<Option<Named>, Fault> {
        let found = self.member(key)?;
        let Some(table) = found.and_then(|(_, value)| self.inner(value)) else { return Ok(None) };
        let names = table.members.iter().map(|(name, value)| {
            let text = table.string(name, value)?;
            Ok((name.get_ref().clone().into_owned(), text))
        });
        names.collect::<Result<_, _>>().map(Some)
    }

    /// Finds a member by its name in any case. Two spellings of one key are refused: which of them
    /// would count is random.
    fn member(&self, key: &str) -> Result<Option<Member<'t>>, Fault> {
        let mut found: Option<Member<'t>> = None;
        for member in self.members {
            let (name, _) = member;
            if fold(name.get_ref()) != key {
                continue;
            }
            if let Some((first, _)) = found {
                let later = first.span().start.max(name.span().start);
                let [first, name] = [first, name].map(|it| quote(it.get_ref()));
                let why = format!("keys {first} and {name} are one key");
                return Err(Fault::new(line(self.text, &(later..later)), why));
            }
            found = Some(member);
        }
        Ok(found)
    }

    fn inner(&self, value: &'t Spanned<DeValue<'t>>) -> Option<Self> {
        Some(Self {
            text: self.text,
            members: value.get_ref().as_table()?,
            line: line(self.text, &value.span()),
        })
    }

    fn string(
        &self,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Lined<String>, Fault> {
        let text =
            value.get_ref().as_str().ok_or_else(|| self.mismatch(name, value, "a string"))?;
        Ok(Lined { line: line(self.text, &value.span()), value: text.to_owned() })
    }

    fn mismatch(
        &self,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        wanted: &str,
    ) -> Fault {
        let (name, found) = (quote(name.get_ref()), value.get_ref().type_str());
        let why = format!("key {name} must be {wanted}, not {found}");
        Fault::new(line(self.text, &value.span()), why)
    }
}

/// Names that the user chooses, each with its string.
type Named = Vec<(String, Lined<String>)>;

/// Returns the line on which a span begins.
fn line(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes()[..span.start.min(text.len())].split(|byte| *byte == b'\n').count()
}
