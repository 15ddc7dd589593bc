//! The members of a JSON object, read as Go's decoder reads them into a struct.
//!
//! Key names match without regard to case, of several matching keys the last one counts, `null` is
//! the same as absence, and members that are not read are never decoded.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::quote;

/// The members of one object, their values not decoded yet.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

/// A member that does not have the type its schema gives it.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// The text is not a JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A member has another type.
    #[error("field {} is not {expected}", quote(.field))]
    WrongType {
        /// Name of the member.
        field: &'static str,
        /// The type it should have, with its article.
        expected: &'static str,
    },
    /// An element of a list is malformed.
    #[error("{list}[{index}]")]
    Element {
        /// Name of the list.
        list: &'static str,
        /// Position in the list, from 0.
        index: usize,
        /// What is wrong with the element.
        #[source]
        source: Box<Self>,
    },
}

impl<'a> Fields<'a> {
    /// Reads the members of an object.
    pub(super) fn parse(json: &'a str) -> Result<Self, FieldError> {
        // The JSON error would quote catalog content of any length, which no message may hold.
        serde_json::from_str(json).map_err(|_| FieldError::NotAnObject)
    }

    /// Returns a member's undecoded value, unless it is absent or null.
    pub(super) fn raw(&self, field: &str) -> Option<&'a RawValue> {
        let matching = self.0.iter().rev();
        let (_, value) = matching
            .into_iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(field))?;
        (value.get() != "null").then_some(*value)
    }

    /// Returns the names of the members, in their order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the elements of a list, not decoded; an absent list is empty.
    pub(super) fn list(&self, list: &'static str) -> Result<Vec<&'a RawValue>, FieldError> {
        let split = |raw: &'a RawValue| serde_json::from_str::<Vec<&'a RawValue>>(raw.get());
        let elements = self.raw(list).map(split).transpose();
        Ok(elements
            .map_err(|_| wrong(list, "a list"))?
            .unwrap_or_default())
    }

    /// Returns a text, unless it is absent.
    pub(super) fn optional_text(&self, field: &'static str) -> Result<Option<String>, FieldError> {
        let decode = |raw: &'a RawValue| serde_json::from_str(raw.get());
        self.raw(field)
            .map(decode)
            .transpose()
            .map_err(|_| wrong(field, "a string"))
    }

    /// Returns a text; an absent one is empty.
    pub(super) fn text(&self, field: &'static str) -> Result<String, FieldError> {
        self.optional_text(field).map(Option::unwrap_or_default)
    }

    /// Returns a list of texts; an absent one is empty, and so is a `null` in it.
    pub(super) fn texts(&self, field: &'static str) -> Result<Vec<String>, FieldError> {
        let decode = |raw: &'a RawValue| serde_json::from_str::<Vec<Option<String>>>(raw.get());
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
        let element = |(index, raw): (usize, &'a RawValue)| {
            // Go leaves an element that is null at its zero value.
            let json = if raw.get() == "null" { "{}" } else { raw.get() };
            Fields::parse(json)
                .and_then(|fields| decode(&fields))
                .map_err(|source| FieldError::Element {
                    list,
                    index,
                    source: Box::new(source),
                })
        };
        let elements = self.list(list)?.into_iter().enumerate();
        elements.map(element).collect()
    }
}

fn wrong(field: &'static str, expected: &'static str) -> FieldError {
    FieldError::WrongType { field, expected }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Members).map(Self)
    }
}
