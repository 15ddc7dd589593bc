//! Properties of bundles, as catalogs hold them.

use olm_api::keys::property;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A property of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its type.
    pub kind: String,
    /// Its value as JSON text. Empty for `olm.csv.metadata` and `olm.bundle.object`, which make up
    /// almost all of a catalog and which resolution does not use.
    pub value: String,
}

impl Property {
    /// Reads a list of properties, such as annotation `olm.properties`; a value that is missing is null.
    pub fn list(json: &str) -> serde_json::Result<Vec<Self>> {
        #[derive(Deserialize)]
        struct Written<'a> {
            #[serde(rename = "type", default)]
            kind: String,
            #[serde(borrow, default)]
            value: Option<&'a RawValue>,
        }
        let written: Option<Vec<Written<'_>>> = serde_json::from_str(json)?;
        let property = |Written { kind, value }: Written<'_>| Self {
            kind,
            value: value.map_or("null", RawValue::get).to_owned(),
        };
        Ok(written.unwrap_or_default().into_iter().map(property).collect())
    }

    pub(super) fn keep((kind, value): (String, &str)) -> Self {
        let heavy = [property::CSV_METADATA, property::BUNDLE_OBJECT];
        let value = if heavy.contains(&kind.as_str()) { String::new() } else { value.to_owned() };
        Self { kind, value }
    }
}
