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

use olm_api::keys::property;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
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

impl<'de: 'a, 'a> Deserialize<'de> for QuickBundle<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = QuickBundle<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a bundle")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut bundle = QuickBundle::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key.eq_ignore_ascii_case("name") {
                        bundle.name = text(&mut map)?;
                    } else if key.eq_ignore_ascii_case("image") {
                        bundle.image = text(&mut map)?;
                    } else if key.eq_ignore_ascii_case("properties") {
                        let list = map.next_value::<Option<Vec<Option<QuickProperty<'de>>>>>()?;
                        let list = list.into_iter().flatten();
                        bundle.properties = list.map(Option::unwrap_or_default).collect();
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(bundle)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for QuickProperty<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = QuickProperty<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a property")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut property = QuickProperty::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key.eq_ignore_ascii_case("type") {
                        if matches!(property.value, QuickValue::Metadata(_)) {
                            return Err(A::Error::custom("two types"));
                        }
                        property.kind = text(&mut map)?;
                    } else if key.eq_ignore_ascii_case("value") {
                        property.value = if property.kind == property::CSV_METADATA {
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
                }
                Ok(property)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The member of that name, if the value is a map and the member a text.
struct MinKubeVersion(Option<String>);

impl<'de> Deserialize<'de> for MinKubeVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MetadataMembers)
    }
}

struct MetadataMembers;

impl<'de> Visitor<'de> for MetadataMembers {
    type Value = MinKubeVersion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key.eq_ignore_ascii_case("minKubeVersion") {
                let raw = map.next_value::<&RawValue>()?;
                found = serde_json::from_str::<Option<String>>(raw.get()).ok().flatten();
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(MinKubeVersion(found.filter(|text| !text.is_empty())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(MinKubeVersion(None))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(MinKubeVersion(None))
    }
}
