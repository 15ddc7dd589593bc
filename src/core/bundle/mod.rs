//! Registry+v1 bundles: from the files of an unpacked image to a [`Bundle`], and what is wrong
//! with it.
//!
//! In: a map from path to bytes. Out: the fields of the ClusterServiceVersion that rendering uses,
//! the custom resource definitions, every other manifest. Nothing is looked up, and upstream's Go
//! types are not reproduced: the types of unused fields are not checked (rendering.md R17).

mod csv;
mod dependencies;
mod field;
mod manifest;
mod properties;
mod size;
mod validate;

use std::collections::BTreeMap;

use serde_json::Value;

pub use csv::{
    ApiServiceDefinition, Csv, Endpoint, InstallMode, Permission, PolicyRule, StrategyDeployment,
    Summary, WebhookDefinition, WebhookRule, mode,
};
pub use dependencies::constraints;
pub(crate) use dependencies::{Properties, declared_properties, dependencies};
pub use field::FieldError;
pub(crate) use manifest::{Written, csv_as_written};
pub(crate) use properties::UNREADABLE_ANNOTATION;
pub use size::{MAX_DOCUMENT_BYTES, MAX_MANIFESTS_BYTES, MAX_VALUES};
pub use validate::{MAX_SUBDOMAIN_BYTES, ValidationError, is_subdomain, supported_kind, validate};
pub(crate) use validate::{SUBDOMAIN_FORM, is_label};

use crate::object::Object;
use crate::yaml::{self, YamlError};

/// The files of an unpacked bundle: path relative to its root, with `/`, to content.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Path of the file that names the package.
pub const ANNOTATIONS_FILE: &str = "metadata/annotations.yaml";

/// Path of the file whose properties are added to those of the ClusterServiceVersion.
pub const PROPERTIES_FILE: &str = "metadata/properties.yaml";

/// Path of the file that declares dependencies for the catalog, as a rule.
pub const DEPENDENCIES_FILE: &str = "metadata/dependencies.yaml";

/// Directory of the manifests, with its slash.
const MANIFESTS: &str = "manifests/";

const PACKAGE_KEY: &str = "operators.operatorframework.io.bundle.package.v1";

/// A registry+v1 bundle, read but not yet judged: see [`validate`].
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// Package named in `metadata/annotations.yaml`; empty when the file does not say.
    pub package: String,
    /// The fields used of the ClusterServiceVersion; `olm.properties` is composed with
    /// `metadata/properties.yaml`.
    pub csv: Csv,
    /// Custom resource definitions, all `apiextensions.k8s.io/v1`, in file order.
    pub crds: Vec<Object>,
    /// Every other manifest, in file order.
    pub others: Vec<Object>,
    /// Warnings for people, one sentence each; none of them stops anything.
    pub warnings: Vec<String>,
}

/// Why the files are not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file, or all together, would take too much memory.
    #[error("{0}")]
    TooLarge(String),
    /// Something is missing, or is not allowed.
    #[error("{0}")]
    Refused(String),
    /// A file, or an annotation, cannot be read; holds what it is.
    #[error("{0}")]
    Unreadable(String, #[source] ReadError),
}

/// Why a file or an annotation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// It is not JSON, or of another form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A field has the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
}

impl BundleError {
    /// Returns whether the error is that the bundle is too large, which no retry changes.
    pub fn is_of_size(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }

    /// Returns what makes the error out of that of a reader.
    pub(crate) fn reading<E: Into<ReadError>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source: E| Self::Unreadable(what, source.into())
    }
}

impl Bundle {
    /// Reads a bundle from its files.
    ///
    /// Files outside `manifests/`, `metadata/annotations.yaml` and `metadata/properties.yaml` are
    /// ignored. Nothing is validated beyond what reading needs, and nothing is parsed of a bundle
    /// that is too large.
    ///
    /// Source: rendering.md section 1.
    pub fn from_files(files: &Files) -> Result<Self, BundleError> {
        Self::read(files, false)
    }

    /// Reads a bundle for a catalog, which also lists versions that no supported cluster installs, and
    /// returns why [`Self::from_files`] refuses it (rendering.md R6, R7, R8).
    pub fn for_catalog(files: &Files) -> Result<(Self, Option<BundleError>), BundleError> {
        match Self::from_files(files) {
            Ok(bundle) => Ok((bundle, None)),
            Err(refusal) => Ok((Self::read(files, true)?, Some(refusal))),
        }
    }

    fn read(files: &Files, for_catalog: bool) -> Result<Self, BundleError> {
        size::check(files)?;
        let missing =
            || BundleError::Refused(format!("open {ANNOTATIONS_FILE}: no such file or directory"));
        let annotations = files.get(ANNOTATIONS_FILE).ok_or_else(missing)?;
        let package = package(annotations)
            .map_err(BundleError::reading(format!("parsing {ANNOTATIONS_FILE:?}")))?;
        let mut bundle = Self { package, ..manifest::read(files, for_catalog)? };
        let annotations = &mut bundle.csv.annotations;
        bundle.warnings = properties::compose(annotations, files.get(PROPERTIES_FILE))?;
        size::check_copies(&bundle.csv)?;
        Ok(bundle)
    }
}

/// Reads the package name; a file without it is accepted here and refused by [`validate`].
fn package(content: &[u8]) -> Result<String, ReadError> {
    let document = yaml::to_json(utf8(content)?)?.into_iter().next();
    let Some(document) = document else { return Ok(String::new()) };
    let root = field::At::root(&document);
    let value = root.object()?.field("annotations").object()?.field(PACKAGE_KEY);
    match value.value() {
        None => Ok(String::new()),
        // This file alone is decoded into text fields upstream, so scalars are coerced.
        Some(scalar) => match yaml::scalar_to_string(scalar) {
            Some(text) => Ok(text),
            None => Ok(value.text()?),
        },
    }
}

/// Decodes bytes as UTF-8, with an error that looks like one of the YAML reader.
fn utf8(content: &[u8]) -> Result<&str, YamlError> {
    std::str::from_utf8(content).map_err(|error| {
        let before = &content[..error.valid_up_to()];
        let line = before.split(|&byte| byte == b'\n').count();
        YamlError { line: u64::try_from(line).ok(), message: "invalid UTF-8".to_owned() }
    })
}

/// Returns the JSON type of a value, as error messages name it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
