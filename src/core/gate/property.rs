//! Reading `olm.maxOpenShiftVersion`.
//!
//! OpenShift's operator decides on the text of the JSON value, and so does this: `4.20` differs
//! from `4.2`. Source: applying.md 9.1.

use std::fmt;

use olm_api::keys::property;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::release::MinorRelease;
use crate::error::quote;
use crate::version::without_leading_zeros;

/// What a bundle says about the OpenShift versions it supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxVersion {
    /// No version: compatible with all.
    NotDeclared,
    /// The newest minor release it supports.
    Supports(MinorRelease),
}

impl MaxVersion {
    /// Says whether a bundle that declares this may be on a platform of this release.
    pub fn supports(self, target: MinorRelease) -> bool {
        match self {
            Self::NotDeclared => true,
            Self::Supports(max) => max.as_peer() >= target.as_peer(),
        }
    }
}

impl fmt::Display for MaxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDeclared => f.write_str("any version"),
            Self::Supports(max) => write!(f, "up to {max}"),
        }
    }
}

/// Why it is not known which versions a bundle supports.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PropertyError {
    /// No revision has its properties.
    #[error(
        "it is not taken over yet, so its properties are not known: see condition Ready of the \
         extension"
    )]
    NotTakenOver,
    /// The annotation is not a list of properties; holds the JSON error, in Go's words where they
    /// are known.
    #[error("could not convert olm.properties: failed to unmarshal properties annotation: {0}")]
    Annotation(String),
    /// The property occurs more than once, even if with the same value.
    #[error("more than one olm.maxOpenShiftVersion found in bundle")]
    Repeated,
    /// The value is not a minor release.
    /// `raw` is the JSON value as it is written.
    #[error("error converting to semver for version {raw}")]
    Value { raw: String, source: ValueError },
}

/// Why a value is not a minor release.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ValueError {
    /// A number that is not two numbers joined by a point.
    #[error("invalid semver format {}: expected <major>.<minor>", quote(.0))]
    Number(String),
    /// A text without exactly two parts, or with a leading `v`.
    #[error("invalid version format")]
    Format,
    /// A text with a pre-release or build.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    NotShort,
    /// A part that is not a number: which part, and its text.
    /// `part` is `major` or `minor`.
    #[error("Invalid character(s) found in {part} number {}", quote(.text))]
    Characters { part: &'static str, text: String },
    /// A part that is empty or too large.
    /// `problem` is `invalid syntax` or `value out of range`.
    #[error("strconv.ParseUint: parsing {}: {problem}", quote(.text))]
    Size { text: String, problem: &'static str },
    /// Neither text nor number.
    /// `raw` is the JSON value as written, `go_type` what Go decodes it into.
    // The misspelling of the property is upstream's.
    #[error("invalid type {go_type} for olm.maxOpenshiftVersion: {raw}")]
    Type { go_type: &'static str, raw: String },
}

/// A property as a revision records it.
#[derive(Deserialize)]
pub(crate) struct Recorded<'a> {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

impl<'a> Recorded<'a> {
    /// Returns the JSON text of its value.
    pub(crate) fn value(&self) -> &'a str {
        self.value.map_or("null", RawValue::get)
    }
}

/// Returns the newest minor release a bundle supports, from annotation `olm.properties` of its
/// revision; absent is compatible with all.
pub fn max_openshift_version(annotation: Option<&str>) -> Result<MaxVersion, PropertyError> {
    let Some(annotation) = annotation else { return Ok(MaxVersion::NotDeclared) };
    let properties: Option<Vec<Recorded<'_>>> = serde_json::from_str(annotation)
        .map_err(|error| PropertyError::Annotation(go_json_error(annotation, &error)))?;
    let properties = properties.iter().flatten();
    max_declared(properties.map(|it| (&*it.kind, it.value())))
}

/// Returns what a bundle declares as its author wrote it, without the quotes of a text: `4.20` is not
/// `4.2`.
pub fn max_openshift_text(annotation: &str) -> Option<String> {
    let properties: Vec<Recorded<'_>> = serde_json::from_str(annotation).ok()?;
    let mut properties = properties.into_iter();
    let found = properties.find(|it| it.kind == property::MAX_OPENSHIFT_VERSION)?;
    let raw = found.value?.get();
    Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()))
}

/// Returns the newest minor release a bundle supports, from its properties: type, and JSON text of the
/// value.
pub fn max_declared<'a>(
    properties: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<MaxVersion, PropertyError> {
    let mut found = properties.filter(|(kind, _)| *kind == property::MAX_OPENSHIFT_VERSION);
    let Some((_, raw)) = found.next() else { return Ok(MaxVersion::NotDeclared) };
    if found.next().is_some() {
        return Err(PropertyError::Repeated);
    }
    match minor_release(raw) {
        Ok(release) => Ok(MaxVersion::Supports(release)),
        Err(source) => Err(PropertyError::Value { raw: raw.to_owned(), source }),
    }
}

/// Reads the JSON text of a value.
fn minor_release(raw: &str) -> Result<MinorRelease, ValueError> {
    let of_type = |go_type| {
        let raw = raw.to_owned();
        Err(ValueError::Type { go_type, raw })
    };
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(raw).map_err(|_| ValueError::Format)?;
            from_text(&text)
        }
        Some(b'{') => of_type("map[string]interface {}"),
        Some(b'[') => of_type("[]interface {}"),
        Some(b't' | b'f') => of_type("bool"),
        Some(b'n') | None => of_type("<nil>"),
        Some(_) => from_number(raw),
    }
}

/// Reads a JSON number by its text: two numbers without leading zeros, the first not 0.
fn from_number(raw: &str) -> Result<MinorRelease, ValueError> {
    let number = || ValueError::Number(raw.to_owned());
    let (major, minor) = raw.split_once('.').ok_or_else(number)?;
    let plain = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    if !plain(major) || major == "0" || !plain(minor) {
        return Err(number());
    }
    Ok(MinorRelease::new(part("major", major)?, part("minor", minor)?))
}

/// Reads a text as upstream's tolerant parser does: blanks around it and leading zeros are dropped,
/// and so is a `v` that does not stand at the very beginning.
fn from_text(text: &str) -> Result<MinorRelease, ValueError> {
    if text.starts_with('v') || text.split('.').count() != 2 {
        return Err(ValueError::Format);
    }
    let short = text.trim();
    let short = short.strip_prefix('v').unwrap_or(short);
    let (major, minor) = short.split_once('.').ok_or(ValueError::Format)?;
    if minor.contains(['+', '-']) {
        return Err(ValueError::NotShort);
    }
    Ok(MinorRelease::new(
        part("major", &without_leading_zeros(major))?,
        part("minor", &without_leading_zeros(minor))?,
    ))
}

fn part(part: &'static str, text: &str) -> Result<u64, ValueError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = text.to_owned();
        return Err(ValueError::Characters { part, text });
    }
    text.parse().map_err(|_| ValueError::Size {
        text: text.to_owned(),
        problem: if text.is_empty() { "invalid syntax" } else { "value out of range" },
    })
}

/// Phrases a JSON error as Go does, where that can be derived from ours.
fn go_json_error(text: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let own = error.to_string();
    // Go refuses a document at the first character that cannot begin a value.
    let first = text.trim_start().chars().next();
    match first {
        Some(first) if error.is_syntax() && !begins_value(first) => {
            format!("invalid character {} looking for beginning of value", single_quote(first))
        }
        _ => own,
    }
}

fn begins_value(character: char) -> bool {
    character.is_ascii_digit() || matches!(character, '{' | '[' | '"' | '-' | 't' | 'f' | 'n')
}

fn single_quote(character: char) -> String {
    match character {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        other => {
            let quoted = quote(&other.to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}
