//! The members of a JSON object, read as Go's decoder reads them into a struct.
//!
//! Key names match without regard to case, of several matching keys the last one counts, `null` is
//! the same as absence, and members that are not read are never decoded.

use serde_json::value::RawValue;

use super::canonical::{self, items, members, members_with};
use crate::error::quote;

/// The elements of a list of objects, where it is one.
pub(super) type Elements<'a> = Option<Vec<Option<Fields<'a>>>>;

/// The members of one object, their values not decoded yet.
#[derive(Debug)]
pub(super) struct Fields<'a>(canonical::Members<'a>);

/// A member that does not have the type its schema gives it.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldError {
    /// The text is not a JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A member has another type.
    /// `expected` has its article.
    #[error("field {} is not {expected}", quote(.field))]
    WrongType { field: &'static str, expected: &'static str },
    /// An element of a list is malformed.
    /// `index` is its position in `list`, from 0.
    #[error("{list}[{index}]")]
    Element { list: &'static str, index: usize, source: Box<Self> },
}

impl<'a> Fields<'a> {
    /// Reads the members of an object.
    pub(super) fn parse(json: &'a str) -> Result<Self, FieldError> {
        // The JSON error would quote catalog content of any length, which no message may hold.
        let raw: &RawValue = serde_json::from_str(json).map_err(|_| FieldError::NotAnObject)?;
        Self::of(raw.get())
    }

    /// Reads the members of an object in a text that is JSON for certain.
    pub(super) fn of(json: &'a str) -> Result<Self, FieldError> {
        members(json).map(Self).ok_or(FieldError::NotAnObject)
    }

    /// Reads likewise, and in the same walk the elements of the list of that name; `None` where an
    /// element is not an object.
    pub(super) fn with(json: &'a str, list: &str) -> Result<(Self, Elements<'a>), FieldError> {
        let (members, list) = members_with(json, list).ok_or(FieldError::NotAnObject)?;
        let elements = list.map(|list| list.into_iter().map(|it| it.map(Self)).collect());
        Ok((Self(members), elements))
    }

    /// Returns a member's undecoded value, unless it is absent or null.
    pub(super) fn raw(&self, field: &str) -> Option<&'a str> {
        let matching = self.0.iter().rev();
        let (_, value) = matching.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(field))?;
        (*value != "null").then_some(*value)
    }

    /// Returns the names of the members, in their order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Returns the elements of a list, not decoded; an absent list is empty.
    pub(super) fn list(&self, list: &'static str) -> Result<Vec<&'a str>, FieldError> {
        let Some(raw) = self.raw(list) else { return Ok(Vec::new()) };
        items(raw).ok_or_else(|| wrong(list, "a list"))
    }

    /// Returns a text, unless it is absent.
    pub(super) fn optional_text(&self, field: &'static str) -> Result<Option<String>, FieldError> {
        self.raw(field).map(serde_json::from_str).transpose().map_err(|_| wrong(field, "a string"))
    }

    /// Returns a text; an absent one is empty.
    pub(super) fn text(&self, field: &'static str) -> Result<String, FieldError> {
        self.optional_text(field).map(Option::unwrap_or_default)
    }

    /// Returns a list of texts; an absent one is empty, and so is a `null` in it.
    pub(super) fn texts(&self, field: &'static str) -> Result<Vec<String>, FieldError> {
        let decode = serde_json::from_str::<Vec<Option<String>>>;
        let texts = self.raw(field).map(decode).transpose();
        let texts = texts.map_err(|_| wrong(field, "a list of strings"))?;
        let texts = texts.unwrap_or_default().into_iter();
        Ok(texts.map(Option::unwrap_or_default).collect())
    }

    /// Decodes the elements of a list of objects; an absent list is empty.
    pub(super) fn objects<T>(
        &self,
        list: &'static str,
        decode: impl Fn(&Self) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FieldError> {
        let element = |(index, json): (usize, &'a str)| {
            // Go leaves an element that is null at its zero value.
            let json = if json == "null" { "{}" } else { json };
            Fields::of(json)
                .and_then(|fields| decode(&fields))
                .map_err(|source| FieldError::Element { list, index, source: Box::new(source) })
        };
        self.list(list)?.into_iter().enumerate().map(element).collect()
    }
}

fn wrong(field: &'static str, expected: &'static str) -> FieldError {
    FieldError::WrongType { field, expected }
}
