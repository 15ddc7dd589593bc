//! Composition of the annotation `olm.properties`.
//!
//! Source: rendering.md 1.7; the text is what Go's JSON encoder would write, because the upgrade
//! gate and other programs read it.

use std::collections::BTreeMap;

use olm_api::keys;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::field::FieldError;
use super::{BundleError, ReadError, utf8};
use crate::error::quote;
use crate::go_json;
use crate::yaml::{self, SourcedValue};

/// Said of a file of properties that cannot be read, and of an annotation.
pub(super) const UNREADABLE: &str = "failed to unmarshal metadata/properties.yaml";
pub(crate) const UNREADABLE_ANNOTATION: &str =
    "failed to unmarshal csv.metadata.annotations['olm.properties']";

#[derive(Deserialize)]
struct AnnotatedProperty {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    value: Option<Box<RawValue>>,
}

/// Appends the properties of `metadata/properties.yaml` to the annotation and returns warnings.
///
/// Without such a file, or with an empty one, the annotation stays as it is, absent included.
/// Keys of values from the annotation keep their order, keys of values from the file are sorted,
/// numbers of the file keep their spelling (rendering.md R13).
pub(super) fn compose(
    annotations: &mut BTreeMap<String, String>,
    file: Option<&Vec<u8>>,
) -> Result<Vec<String>, BundleError> {
    // An unreadable annotation is refused whether or not a file is added to it.
    let annotated = annotations.get(keys::annotation::PROPERTIES);
    let mut written = annotated.map_or(Ok(Vec::new()), |text| of_annotation(text))?;
    let Some(content) = file.filter(|content| !content.is_empty()) else { return Ok(Vec::new()) };
    let added = read(content).map_err(BundleError::reading(UNREADABLE))?;
    if added.is_empty() && !annotations.contains_key(keys::annotation::PROPERTIES) {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    for property in &added {
        warnings.extend(property.warning());
        written.push(property.json());
    }
    let text = format!("[{}]", written.join(","));
    annotations.insert(keys::annotation::PROPERTIES.to_owned(), text);
    Ok(warnings)
}

/// Returns the properties of an annotation, as JSON.
pub(super) fn of_annotation(text: &str) -> Result<Vec<String>, BundleError> {
    let properties = serde_json::from_str::<Option<Vec<AnnotatedProperty>>>(text)
        .map_err(BundleError::reading(UNREADABLE_ANNOTATION))?;
    Ok(properties.unwrap_or_default().iter().map(annotated_json).collect())
}

/// Returns the properties of a file, as JSON.
pub(super) fn of_file(content: &[u8]) -> Result<Vec<String>, ReadError> {
    Ok(read(content)?.iter().map(FileProperty::json).collect())
}

fn annotated_json(property: &AnnotatedProperty) -> String {
    json(property.kind.as_deref().unwrap_or_default(), |out| match &property.value {
        Some(raw) => go_json::push_compact(out, raw.get()),
        None => out.push_str("null"),
    })
}

fn json(kind: &str, push: impl FnOnce(&mut String)) -> String {
    let mut out = String::from("{\"type\":");
    go_json::push_string(&mut out, kind);
    out.push_str(",\"value\":");
    push(&mut out);
    out.push('}');
    out
}

struct FileProperty {
    kind: String,
    value: SourcedValue,
}

impl FileProperty {
    fn json(&self) -> String {
        json(&self.kind, |out| push_sourced(out, &self.value))
    }

    /// Warns of a number that other readers of the bundle parse to a different value.
    fn warning(&self) -> Option<String> {
        let SourcedValue::Number(number, Some(text)) = &self.value else { return None };
        (*text != number.to_string()).then(|| {
            format!(
                "property {} in metadata/properties.yaml has the unquoted number {text}, which \
                 other programs read as {number}",
                quote(&self.kind)
            )
        })
    }
}

fn read(content: &[u8]) -> Result<Vec<FileProperty>, ReadError> {
    let document = yaml::to_json_with_sources(utf8(content)?)?.into_iter().next();
    let mut entries = match document {
        None => return Ok(Vec::new()),
        Some(SourcedValue::Map(entries)) => entries,
        Some(other) => return Err(mismatch("", "object", &other).into()),
    };
    match entries.remove("properties") {
        None | Some(SourcedValue::Scalar(serde_json::Value::Null)) => Ok(Vec::new()),
        Some(SourcedValue::List(items)) => {
            let items = items.into_iter().enumerate();
            Ok(items.map(|(index, item)| property(index, item)).collect::<Result<_, _>>()?)
        }
        Some(other) => Err(mismatch("properties", "array", &other).into()),
    }
}

fn property(index: usize, item: SourcedValue) -> Result<FileProperty, FieldError> {
    let SourcedValue::Map(entries) = item else {
        return Err(mismatch(&format!("properties[{index}]"), "object", &item));
    };
    let mut property =
        FileProperty { kind: String::new(), value: SourcedValue::Scalar(serde_json::Value::Null) };
    for (key, value) in entries {
        match (key.as_str(), value) {
            ("type", SourcedValue::Scalar(serde_json::Value::Null)) => {}
            ("type", SourcedValue::Scalar(scalar)) => {
                property.kind = yaml::scalar_to_string(&scalar).unwrap_or_default();
            }
            ("type", SourcedValue::Number(number, _)) => {
                property.kind = yaml::scalar_to_string(&number.into()).unwrap_or_default();
            }
            ("type", other) => {
                return Err(mismatch(&format!("properties[{index}].type"), "string", &other));
            }
            ("value", value) => property.value = value,
            _ => {}
        }
    }
    Ok(property)
}

fn mismatch(path: &str, expected: &'static str, found: &SourcedValue) -> FieldError {
    FieldError {
        path: path.to_owned(),
        expected,
        found: match found {
            SourcedValue::Number(..) => "number",
            SourcedValue::Scalar(scalar) => super::type_name(scalar),
            SourcedValue::List(_) => "array",
            SourcedValue::Map(_) => "object",
        },
    }
}

fn push_sourced(out: &mut String, value: &SourcedValue) {
    match value {
        SourcedValue::Scalar(scalar) => go_json::push_value(out, scalar),
        SourcedValue::Number(_, Some(text)) if is_json_number(text) => out.push_str(text),
        SourcedValue::Number(number, _) => go_json::push_value(out, &number.clone().into()),
        SourcedValue::List(items) => {
            go_json::push_joined(out, ('[', ']'), items.iter(), push_sourced);
        }
        SourcedValue::Map(entries) => {
            go_json::push_joined(out, ('{', '}'), entries.iter(), |out, (key, value)| {
                go_json::push_string(out, key);
                out.push(':');
                push_sourced(out, value);
            });
        }
    }
}

/// Says whether a text is a number of the JSON grammar.
fn is_json_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && serde_json::from_str::<serde_json::Number>(text).is_ok()
}
