//! Bundles of the usual shape, read in one walk over the text.
//!
//! A blob of a bundle is kilobytes of metadata that resolution does not use, and a package has
//! hundreds of them; walking that text once instead of once for each level is most of the time of a
//! package's first use. What is unusual in any way is left to [`super::fields`], which also
//! produces the error messages.
//!
//! It stays for what `make bench` shows on two cores: the first use of a package of 350 bundles
//! takes 11 ms instead of 27, of the largest of a real catalog 2.6 ms instead of 6.3, and reading all
//! of a catalog of 7,000 bundles 0.31 s instead of 0.62.

use std::fmt;
use std::marker::PhantomData;

use olm_api::keys::property;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a bundle's blob that resolution reads.
#[derive(Debug, Default)]
pub(super) struct QuickBundle<'a> {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) properties: Vec<QuickProperty<'a>>,
}

/// A property of a bundle.
#[derive(Debug, Default)]
pub(super) struct QuickProperty<'a> {
    pub(super) kind: String,
    pub(super) value: QuickValue<'a>,
}

/// The value of a property.
#[derive(Debug, Default)]
pub(super) enum QuickValue<'a> {
    /// Absent or null.
    #[default]
    None,
    /// The value as it is written.
    Text(&'a RawValue),
    /// The value of `olm.csv.metadata`: only its `minKubeVersion`, if it can be read.
    Metadata(Option<String>),
}

impl<'a> QuickBundle<'a> {
    /// Reads a blob, or returns nothing if it is not of the usual shape.
    pub(super) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

/// Reads a member that may be null or absent.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<String, A::Error> {
    Ok(map.next_value::<Option<String>>()?.unwrap_or_default())
}

/// An object that is read one member after the other.
trait Members<'de>: Default {
    fn read<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Members<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(key) = map.next_key::<String>()? {
            object.read(&key, &mut map)?;
        }
        Ok(object)
    }
}

macro_rules! read_by_member {
    ($($object:ty),*) => {$(
        impl<'de> Deserialize<'de> for $object {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(MembersVisitor(PhantomData))
            }
        }
    )*};
}
read_by_member!(QuickBundle<'de>, QuickProperty<'de>, MinKubeVersion);

impl<'de> Members<'de> for QuickBundle<'de> {
    fn read<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key.eq_ignore_ascii_case("name") {
            self.name = text(map)?;
        } else if key.eq_ignore_ascii_case("image") {
            self.image = text(map)?;
        } else if key.eq_ignore_ascii_case("properties") {
            let list = map.next_value::<Option<Vec<Option<QuickProperty<'de>>>>>()?;
            let list = list.into_iter().flatten();
            self.properties = list.map(Option::unwrap_or_default).collect();
        } else {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl<'de> Members<'de> for QuickProperty<'de> {
    fn read<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key.eq_ignore_ascii_case("type") {
            if matches!(self.value, QuickValue::Metadata(_)) {
                return Err(A::Error::custom("two types"));
            }
            self.kind = text(map)?;
        } else if key.eq_ignore_ascii_case("value") {
            self.value = if self.kind == property::CSV_METADATA {
                QuickValue::Metadata(map.next_value::<MinKubeVersion>()?.0)
            } else {
                let raw = map.next_value::<&RawValue>()?;
                match raw.get() {
                    "null" => QuickValue::None,
                    _ => QuickValue::Text(raw),
                }
            };
        } else {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// The member of that name, if it is a text. Any other value than a map is unusual.
#[derive(Default)]
struct MinKubeVersion(Option<String>);

impl<'de> Members<'de> for MinKubeVersion {
    fn read<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key.eq_ignore_ascii_case("minKubeVersion") {
            let raw = map.next_value::<&RawValue>()?;
            let found = serde_json::from_str::<Option<String>>(raw.get()).ok().flatten();
            self.0 = found.filter(|text| !text.is_empty());
        } else {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
