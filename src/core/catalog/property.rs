//! Properties of bundles, as catalogs hold them.

use olm_api::keys::property;

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
    pub(super) fn keep((kind, value): (String, &str)) -> Self {
        let heavy = [property::CSV_METADATA, property::BUNDLE_OBJECT];
        let value = if heavy.contains(&kind.as_str()) { String::new() } else { value.to_owned() };
        Self { kind, value }
    }
}
