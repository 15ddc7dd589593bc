//! What a bundle declares for catalogs, in the form in which they list it.
//!
//! Rendering does not read this; tools that examine a bundle before it is in a catalog do. As opm does,
//! it takes properties and dependencies from the first file of `metadata/`, in byte order, that has
//! some. Source: rendering.md 1.1, resolution.md section 5.

use olm_api::keys::{annotation, property};
use serde_json::{Value, json};

use super::field::At;
use super::manifest::csv_as_written;
use super::{
    BundleError, DEPENDENCIES_FILE, Files, MAX_DOCUMENT_BYTES, PROPERTIES_FILE, ReadError,
    properties, utf8,
};
use crate::yaml;

/// Directory of what is said about a bundle, with its slash.
const METADATA: &str = "metadata/";

/// Properties that the author of a bundle declares, as JSON in which numbers are as written.
pub(crate) struct Properties {
    /// Those of the ClusterServiceVersion.
    pub(crate) annotated: Vec<String>,
    /// Those of a file.
    pub(crate) added: Vec<String>,
}

/// Returns the constraints of a bundle, each a property of `type` and `value` as catalogs have it.
///
/// Those of the annotation `olm.properties` come first, then those of files. Items that are not objects
/// are left out.
pub fn constraints(files: &Files) -> Result<Vec<Value>, BundleError> {
    let Properties { annotated, added } =
        declared_properties(&csv_as_written(files).manifest, files)?;
    let declared = annotated.iter().chain(&added);
    let declared = declared.filter_map(|text| serde_json::from_str(text).ok());
    Ok(declared.filter(is_constraint).chain(dependencies(files)?).collect())
}

/// Returns the properties of a bundle that are declared, given its ClusterServiceVersion.
pub(crate) fn declared_properties(csv: &Value, files: &Files) -> Result<Properties, BundleError> {
    let annotation = csv["metadata"]["annotations"][annotation::PROPERTIES].as_str();
    let annotated = annotation.map_or(Ok(Vec::new()), properties::of_annotation)?;
    let added = first_of_metadata(files, PROPERTIES_FILE, properties::of_file);
    Ok(Properties {
        annotated,
        added: added.map_err(BundleError::reading(properties::UNREADABLE))?,
    })
}

/// Returns the dependencies of a bundle that are constraints, with the types that catalogs give them.
pub(crate) fn dependencies(files: &Files) -> Result<Vec<Value>, BundleError> {
    let declared = first_of_metadata(files, DEPENDENCIES_FILE, read);
    let unreadable = "failed to unmarshal metadata/dependencies.yaml";
    let declared = declared.map_err(BundleError::reading(unreadable))?;
    Ok(declared.into_iter().map(as_in_catalog).filter(is_constraint).collect())
}

/// Returns what the first file of `metadata/` that has something of a kind has of it. Only of the file
/// that is meant for it anything else is an error.
fn first_of_metadata<T>(
    files: &Files,
    meant: &str,
    read: impl Fn(&[u8]) -> Result<Vec<T>, ReadError>,
) -> Result<Vec<T>, ReadError> {
    for (path, content) in files.range(METADATA.to_owned()..) {
        let Some(name) = path.strip_prefix(METADATA) else { break };
        if path != meant && (name.contains('/') || content.len() > MAX_DOCUMENT_BYTES) {
            continue;
        }
        match read(content) {
            Ok(found) if found.is_empty() => {}
            Err(_) if path != meant => {}
            read => return read,
        }
    }
    Ok(Vec::new())
}

fn read(content: &[u8]) -> Result<Vec<Value>, ReadError> {
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
