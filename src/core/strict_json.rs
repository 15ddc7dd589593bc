//! JSON in which no member stands twice, at any depth: of two members with one name one reader takes
//! the first and another the last.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::error::quote;

/// The members of an object, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members<T>(pub BTreeMap<String, T>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// A value of any kind, which is only checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json;

struct MembersVisitor<T>(PhantomData<T>);

struct JsonVisitor;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = Members<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("{} is given twice", quote(&name))));
            }
            members.insert(name, map.next_value()?);
        }
        Ok(Members(members))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        while list.next_element::<Json>()?.is_some() {}
        Ok(Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Json, A::Error> {
        MembersVisitor::<Json>(PhantomData).visit_map(map)?;
        Ok(Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("testdata/cases.yaml");

    #[test]
    fn no_member_stands_twice() {
        for (text, want) in cases::<(&str, Option<&str>)>(CASES, "no_member_stands_twice") {
            let read =
                serde_json::from_str::<Members<Json>>(text).map_err(|error| error.to_string());
            match want {
                None => assert!(read.is_ok(), "{read:?}"),
                Some(want) => assert!(read.clone().is_err_and(|it| it.contains(want)), "{read:?}"),
            }
        }
    }
}
