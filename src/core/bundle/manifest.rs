//! Reads the files below `manifests/` into objects sorted by kind.

use serde_json::Value;

use super::csv::Csv;
use super::field::{At, FieldError};
use super::{Bundle, BundleError, Files, MANIFESTS, type_name, utf8};
use crate::object::Object;
use crate::yaml;

const CRD: &str = "CustomResourceDefinition";

/// Longest part of a document that an error quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 200;

/// Reads and classifies every manifest; the package stays empty. For a catalog, manifests that no
/// cluster takes are accepted, and of several ClusterServiceVersions the first counts.
pub(super) fn read(files: &Files, for_catalog: bool) -> Result<Bundle, BundleError> {
    let mut found = Found { for_catalog, ..Found::default() };
    let mut any = false;
    for (path, content) in files.range(MANIFESTS.to_owned()..) {
        let Some(name) = path.strip_prefix(MANIFESTS) else { break };
        any = true;
        if let Some((subdirectory, _)) = name.split_once('/') {
            let found = format!("{MANIFESTS}{subdirectory}");
            return refused(format!(
                "subdirectories are not allowed within the \"manifests\" directory of the bundle image \
                 filesystem: found {found:?}"
            ));
        }
        for object in objects(path, content)? {
            found.classify(path, object)?;
        }
    }
    if !any {
        return refused("stat manifests: no such file or directory");
    }
    let Some((_, csv)) = found.csv else {
        return refused("no ClusterServiceVersion found in \"manifests\"");
    };
    Ok(Bundle {
        package: String::new(),
        csv,
        crds: found.crds,
        others: found.others,
        warnings: Vec::new(),
    })
}

fn refused<T>(text: impl Into<String>) -> Result<T, BundleError> {
    Err(BundleError::Refused(text.into()))
}

/// Names a file whose objects are not readable.
fn unreadable(file: &str) -> String {
    format!("error parsing objects in {file:?}")
}

#[derive(Default)]
struct Found {
    for_catalog: bool,
    csv: Option<(String, Csv)>,
    crds: Vec<Object>,
    others: Vec<Object>,
}

impl Found {
    /// Sorts an object by its kind alone, as upstream does.
    fn classify(&mut self, path: &str, object: Object) -> Result<(), BundleError> {
        if object.kind() == "ClusterServiceVersion" {
            if let Some((first, _)) = &self.csv {
                if self.for_catalog {
                    return Ok(());
                }
                return refused(format!(
                    "more than one ClusterServiceVersion found in \"manifests\": {first:?}, {path:?}"
                ));
            }
            let csv = Csv::from_manifest(&object.into_value());
            let csv = csv.map_err(BundleError::reading(unreadable(path)))?;
            self.csv = Some((path.to_owned(), csv));
            return Ok(());
        }
        if !self.for_catalog {
            check_installable(path, &object)?;
        }
        if object.kind() == CRD {
            self.crds.push(object);
        } else {
            self.others.push(object);
        }
        Ok(())
    }
}

/// Refuses what no cluster takes (rendering.md R6, R7).
fn check_installable(path: &str, object: &Object) -> Result<(), BundleError> {
    let (kind, name, api_version) = (object.kind(), object.name(), object.api_version());
    if api_version.is_empty() {
        let unreadable = unreadable(path);
        return refused(format!("{unreadable}: Object 'apiVersion' is missing in {kind} {name:?}"));
    }
    if name.is_empty() {
        return refused(format!("bundle manifest of kind {kind} in {path:?} has no name"));
    }
    if kind == CRD && api_version != "apiextensions.k8s.io/v1" {
        return refused(format!(
            "unsupported bundle: custom resource definition {name:?} has apiVersion {api_version:?}, \
             which no supported cluster serves"
        ));
    }
    Ok(())
}

/// The ClusterServiceVersion of a bundle with everything its author wrote.
#[derive(Debug, Default)]
pub(crate) struct CsvAsWritten {
    /// Path of its file.
    file: String,
    pub(crate) manifest: Value,
}

/// What a catalog says of the versions before and behind a bundle.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) version: String,
    pub(crate) release: String,
    pub(crate) replaces: String,
    pub(crate) skips: Vec<String>,
}

/// Returns the ClusterServiceVersion of a bundle.
pub(crate) fn csv_as_written(files: &Files) -> CsvAsWritten {
    let files = files.iter().filter(|(path, _)| path.starts_with(MANIFESTS));
    let mut objects = files.flat_map(|(path, content)| {
        objects(path, content).unwrap_or_default().into_iter().map(move |object| (path, object))
    });
    let csv = objects.find(|(_, object)| object.kind() == "ClusterServiceVersion");
    csv.map_or_else(CsvAsWritten::default, |(file, object)| CsvAsWritten {
        file: file.clone(),
        manifest: object.into_value(),
    })
}

impl CsvAsWritten {
    /// Returns what a catalog takes from it beside what people are shown.
    pub(crate) fn versions(&self) -> Result<Written, BundleError> {
        let read = || -> Result<Written, FieldError> {
            let spec = At::root(&self.manifest).object()?.field("spec").object()?;
            let release = spec.field("release").integer_or_text()?;
            Ok(Written {
                version: spec.field("version").text()?,
                release: release.as_ref().and_then(yaml::scalar_to_string).unwrap_or_default(),
                replaces: spec.field("replaces").text()?,
                skips: spec.field("skips").strings()?.unwrap_or_default(),
            })
        };
        read().map_err(BundleError::reading(unreadable(&self.file)))
    }
}

/// Returns the objects of a file, those of lists in place of the lists.
fn objects(file: &str, content: &[u8]) -> Result<Vec<Object>, BundleError> {
    let what =
        || format!("{}: error parsing {file}: error converting YAML to JSON", unreadable(file));
    let documents = utf8(content).and_then(yaml::to_json);
    let documents = documents.map_err(|cause| BundleError::reading(what())(cause))?;
    let mut objects = Vec::with_capacity(documents.len());
    for document in documents {
        flatten(file, document, None, &mut objects)?;
    }
    Ok(objects)
}

/// Kind and API version that a list gives to items that have neither.
struct ListType {
    item_kind: String,
    api_version: Value,
}

fn flatten(
    file: &str,
    document: Value,
    list: Option<&ListType>,
    out: &mut Vec<Object>,
) -> Result<(), BundleError> {
    let found = type_name(&document);
    let Some(mut object) = Object::from_value(document) else {
        let unreadable = unreadable(file);
        return refused(format!(
            "{unreadable}: error parsing {file}: expected an object, found {found}"
        ));
    };
    if let Some(list) = list
        && object.kind().is_empty()
        && object.api_version().is_empty()
    {
        object.0.insert("kind".to_owned(), list.item_kind.clone().into());
        object.0.insert("apiVersion".to_owned(), list.api_version.clone());
    }
    if object.kind().is_empty() {
        let mut json = object.into_value().to_string();
        json.truncate(json.floor_char_boundary(MAX_QUOTED_BYTES));
        let unreadable = unreadable(file);
        return refused(format!(
            "{unreadable}: unable to decode {file:?}: Object 'Kind' is missing in '{json}'"
        ));
    }
    let Some(Value::Array(items)) = object.0.get_mut("items") else {
        out.push(object);
        return Ok(());
    };
    let items = std::mem::take(items);
    let kind = object.kind();
    let list = ListType {
        item_kind: kind.strip_suffix("List").unwrap_or(kind).to_owned(),
        api_version: object.api_version().into(),
    };
    items.into_iter().try_for_each(|item| flatten(file, item, Some(&list), out))
}
