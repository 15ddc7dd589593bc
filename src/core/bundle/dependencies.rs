//! The constraints a bundle declares, in the form a catalog lists them.
//!
//! Rendering does not read this; tools that examine a bundle before it is in a catalog do. Source:
//! rendering.md 1.1, resolution.md section 5.

use olm_api::keys::{annotation, property};
use serde_json::{Value, json};

use super::field::At;
use super::{Bundle, BundleError, Files, MetadataError, utf8};
use crate::yaml;

/// Path of the file that declares dependencies for the catalog.
pub const DEPENDENCIES_FILE: &str = "metadata/dependencies.yaml";

/// Returns the constraints of a bundle, each a property of `type` and `value` as catalogs have it.
///
/// Those of the composed annotation `olm.properties` come first, then those of
/// `metadata/dependencies.yaml`, whose types `olm.package` and `olm.gvk` are named as a catalog
/// names them. Items that are not objects are left out.
pub fn constraints(bundle: &Bundle, files: &Files) -> Result<Vec<Value>, BundleError> {
    let composed = bundle.csv.annotations.get(annotation::PROPERTIES);
    let composed = composed.and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    let mut found: Vec<Value> = composed.unwrap_or_default();
    found.retain(is_constraint);
    if let Some(content) = files.get(DEPENDENCIES_FILE) {
        let declared = read(content).map_err(BundleError::Dependencies)?;
        found.extend(declared.into_iter().map(as_in_catalog).filter(is_constraint));
    }
    Ok(found)
}

fn read(content: &[u8]) -> Result<Vec<Value>, MetadataError> {
    let document = yaml::to_json(utf8(content)?)?.into_iter().next().unwrap_or_default();
    let list = At::root(&document).object()?.field("dependencies").list()?;
    let items = list.unwrap_or_default().into_iter();
    Ok(items.filter_map(|item| item.value().cloned()).collect())
}

fn as_in_catalog(dependency: Value) -> Value {
    let value = &dependency["value"];
    match dependency["type"].as_str() {
        Some(property::PACKAGE) => json!({
            "type": property::PACKAGE_REQUIRED,
            "value": { "packageName": value["packageName"], "versionRange": value["version"] },
        }),
        Some(property::GVK) => json!({ "type": property::GVK_REQUIRED, "value": value }),
        _ => dependency,
    }
}

fn is_constraint(property: &Value) -> bool {
    let kinds = [property::PACKAGE_REQUIRED, property::GVK_REQUIRED, property::CONSTRAINT];
    property["type"].as_str().is_some_and(|kind| kinds.contains(&kind))
}
