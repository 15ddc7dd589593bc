//! Reads the files below `manifests/` into objects sorted by kind.

use serde_json::Value;

use super::csv::Csv;
use super::field::{At, FieldError};
use super::{Bundle, BundleError, Files, MANIFESTS, type_name, utf8};
use crate::object::Object;
use crate::yaml::{self, YamlError};

const CRD: &str = "CustomResourceDefinition";

/// Longest part of a document that an error quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 200;

/// Why a file of `manifests/` is not readable.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is neither YAML nor JSON.
    #[error("error parsing {file}: error converting YAML to JSON")]
    Yaml { file: String, source: YamlError },
    /// A document or a list item is not an object.
    #[error("error parsing {file}: expected an object, found {found}")]
    NoObject { file: String, found: &'static str },
    /// A document has no kind.
    /// `json` is the beginning of the document.
    #[error("unable to decode {file:?}: Object 'Kind' is missing in '{json}'")]
    NoKind { file: String, json: String },
    /// An object has no API version (rendering.md R7).
    #[error("Object 'apiVersion' is missing in {kind} {name:?}")]
    NoApiVersion { kind: String, name: String },
    /// A field of the ClusterServiceVersion has the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// Reads and classifies every manifest; the package stays empty. For a catalog, manifests that no
/// cluster takes are accepted, and of several ClusterServiceVersions the first counts.
pub(super) fn read(files: &Files, for_catalog: bool) -> Result<Bundle, BundleError> {
    let mut found = Found { for_catalog, ..Found::default() };
    let mut any = false;
    for (path, content) in files.range(MANIFESTS.to_owned()..) {
        let Some(name) = path.strip_prefix(MANIFESTS) else { break };
        any = true;
        if let Some((subdirectory, _)) = name.split_once('/') {
            return Err(BundleError::Subdirectory(format!("{MANIFESTS}{subdirectory}")));
        }
        let objects = objects(path, content).map_err(|cause| manifest_error(path, cause))?;
        for object in objects {
            found.classify(path, object)?;
        }
    }
    if !any {
        return Err(BundleError::NoManifests);
    }
    let (_, csv) = found.csv.ok_or(BundleError::NoCsv)?;
    Ok(Bundle {
        package: String::new(),
        csv,
        crds: found.crds,
        others: found.others,
        warnings: Vec::new(),
    })
}

fn manifest_error(file: &str, source: ManifestError) -> BundleError {
    let file = file.to_owned();
    BundleError::Manifest { file, source }
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
                let many = || BundleError::ManyCsvs(first.clone(), path.to_owned());
                return if self.for_catalog { Ok(()) } else { Err(many()) };
            }
            let csv = Csv::from_manifest(&object.into_value())
                .map_err(|cause| manifest_error(path, cause.into()))?;
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

fn check_installable(path: &str, object: &Object) -> Result<(), BundleError> {
    let (kind, name) = (object.kind().to_owned(), object.name().to_owned());
    let api_version = object.api_version().to_owned();
    if api_version.is_empty() {
        return Err(manifest_error(path, ManifestError::NoApiVersion { kind, name }));
    }
    if name.is_empty() {
        let file = path.to_owned();
        return Err(BundleError::Nameless { kind, file });
    }
    if kind == CRD && api_version != "apiextensions.k8s.io/v1" {
        return Err(BundleError::CrdVersion { name, api_version });
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
        read().map_err(|cause| manifest_error(&self.file, cause.into()))
    }
}

/// Returns the objects of a file, those of lists in place of the lists.
fn objects(file: &str, content: &[u8]) -> Result<Vec<Object>, ManifestError> {
    let documents = utf8(content)
        .and_then(yaml::to_json)
        .map_err(|source| ManifestError::Yaml { file: file.to_owned(), source })?;
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
) -> Result<(), ManifestError> {
    let found = type_name(&document);
    let Some(mut object) = Object::from_value(document) else {
        let file = file.to_owned();
        return Err(ManifestError::NoObject { file, found });
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
        let file = file.to_owned();
        return Err(ManifestError::NoKind { file, json });
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
