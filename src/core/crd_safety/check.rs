//! The checks, and how each compares its keyword in two schemas of the same path.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::go_text;
use super::loosening::DOCUMENTATION;
use crate::error::quote;
use crate::go_json;
use crate::object::items;

/// What is checked; the names are those in texts, waivers and, for keywords, schemas.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    IntoStaticStr,
    EnumString,
    VariantNames,
)]
#[strum(serialize_all = "camelCase")]
#[expect(missing_docs, reason = "applying.md 6.3 says what each is")]
pub enum Check {
    Scope,
    ExistingFieldRemoval,
    StoredVersionRemoval,
    Default,
    Enum,
    Maximum,
    MaxItems,
    MaxLength,
    MaxProperties,
    Minimum,
    MinItems,
    MinLength,
    MinProperties,
    Nullable,
    OneOf,
    Pattern,
    Required,
    Type,
    Unhandled,
    /// Ours, as those below: the CRD is not in the new version at all.
    DefinitionRemoval,
    ConversionRemoval,
    Kind,
    Names,
    SelectableFieldRemoval,
    ServedVersionRemoval,
    SubresourceRemoval,
}

impl Check {
    /// Returns whether a finding can be allowed: the API server refuses the others in any case.
    pub fn is_waivable(self) -> bool {
        self.refusal().is_none()
    }

    /// Returns what the API server answers to such a change.
    pub(super) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Scope => Some("spec.scope: field is immutable"),
            Self::Kind => Some("spec.names.kind: field is immutable"),
            Self::StoredVersionRemoval => {
                Some("status.storedVersions: must remain in spec.versions")
            }
            _ => None,
        }
    }
}

/// Says what is wrong between two values of a keyword; an absent one is null.
type Compare = fn(&Value, &Value) -> Option<String>;

/// The checks of a single keyword, which has the name of its check.
#[rustfmt::skip]
pub(super) const KEYWORD_CHECKS: [(Check, Compare); 15] = [
    (Check::Default, default), (Check::Enum, enumeration),
    (Check::Maximum, maximum), (Check::MaxItems, maximum), (Check::MaxLength, maximum),
    (Check::MaxProperties, maximum),
    (Check::Minimum, minimum), (Check::MinItems, minimum), (Check::MinLength, minimum),
    (Check::MinProperties, minimum),
    (Check::Nullable, nullable), (Check::OneOf, one_of), (Check::Pattern, pattern),
    (Check::Required, required), (Check::Type, type_),
];

fn default(old: &Value, new: &Value) -> Option<String> {
    let (before, after) = (go_json::to_string(old), go_json::to_string(new));
    match (old.is_null(), new.is_null()) {
        (true, true) => None,
        (true, _) => {
            Some(format!("default added when there was none previously : {}", quote(&after)))
        }
        (_, true) => Some(format!("default value removed : {}", quote(&before))),
        _ => Some(changed("default value changed", &before, &after)),
    }
}

fn enumeration(old: &Value, new: &Value) -> Option<String> {
    let (old, new) = (sorted(old, go_json::to_string), sorted(new, go_json::to_string));
    if old.is_empty() && !new.is_empty() {
        let text = "enum constraint added when there was none previously";
        return Some(format!("{text} : [{}]", new.join(" ")));
    }
    let removed = without(&old, &new);
    (!removed.is_empty()).then(|| format!("allowed enum values removed : [{}]", removed.join(" ")))
}

fn maximum(old: &Value, new: &Value) -> Option<String> {
    limit(old, new, ("maximum", "decreased"), |old, new| new < old)
}

fn minimum(old: &Value, new: &Value) -> Option<String> {
    limit(old, new, ("minimum", "increased"), |old, new| new > old)
}

fn limit(
    old: &Value,
    new: &Value,
    (name, moved): (&str, &str),
    is_narrower: fn(f64, f64) -> bool,
) -> Option<String> {
    let narrower = is_narrower(old.as_f64().unwrap_or_default(), new.as_f64()?);
    if old.is_null() {
        let text = "constraint added when there was none previously";
        return Some(format!("{name} {text} : {new}"));
    }
    narrower.then(|| format!("{name} {moved} : {old} -> {new}"))
}

fn nullable(old: &Value, new: &Value) -> Option<String> {
    match (old == true, new == true) {
        (false, true) => Some("nullable added : false -> true".to_owned()),
        (true, false) => Some("nullable removed : true -> false".to_owned()),
        _ => None,
    }
}

/// Longer alternatives, in bytes of JSON, are printed as JSON: as a struct of Go they are up to 300 times
/// as long.
const MAX_GO_BYTES: usize = 16 << 10;

fn one_of(old: &Value, new: &Value) -> Option<String> {
    let json = [old, new].map(go_json::to_string);
    let prints_as_go = json.iter().map(String::len).sum::<usize>() <= MAX_GO_BYTES;
    // With other documentation it is the same alternative.
    let text = |schema: &Value| {
        let mut schema = schema.clone();
        if let Value::Object(schema) = &mut schema {
            schema.retain(|key, _| !DOCUMENTATION.contains(&key.as_str()));
        }
        if prints_as_go { go_text::of_schema(&schema) } else { go_json::to_string(&schema) }
    };
    let (old, new) = (sorted(old, text), sorted(new, text));
    let said = |text: &str, schemas: &[&str]| Some(format!("{text}: [{}]", schemas.join(" ")));
    let (removed, added) = (without(&old, &new), without(&new, &old));
    if old.is_empty() && !new.is_empty() {
        said("oneOf constraint added when there was none previously", &added)
    } else if !removed.is_empty() {
        said("allowed oneOf schemas removed", &removed)
    } else if !added.is_empty() {
        said("allowed oneOf schemas added", &added)
    } else {
        None
    }
}

fn pattern(old: &Value, new: &Value) -> Option<String> {
    let (old, new) = (as_text(old), as_text(new));
    let what = match (old, new) {
        _ if old == new => return None,
        ("", _) => "pattern added",
        (_, "") => "pattern removed",
        _ => "pattern changed",
    };
    Some(changed(what, old, new))
}

fn required(old: &Value, new: &Value) -> Option<String> {
    let text = |field: &Value| as_text(field).to_owned();
    let added = sorted(new, text);
    let added = without(&added, &sorted(old, text)).join(" ");
    (!added.is_empty()).then(|| format!("new required fields: [{added}]"))
}

fn type_(old: &Value, new: &Value) -> Option<String> {
    let (old, new) = (as_text(old), as_text(new));
    (old != new).then(|| changed("type changed", old, new))
}

/// Returns the text for a value that became another.
pub(super) fn changed(what: &str, old: &str, new: &str) -> String {
    format!("{what} : {} -> {}", quote(old), quote(new))
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the texts of a list sorted, each once.
fn sorted(list: &Value, text: impl Fn(&Value) -> String) -> Vec<String> {
    items(list).map(text).sorted().dedup().collect()
}

/// Returns what of a list is not in another.
pub(super) fn without<'a>(all: &'a [String], others: &[String]) -> Vec<&'a str> {
    let others: BTreeSet<_> = others.iter().collect();
    all.iter().filter(|one| !others.contains(one)).map(String::as_str).collect()
}
