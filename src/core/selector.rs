//! Label selectors, with the error texts of Kubernetes.
//!
//! The schema of ClusterExtension does not validate selectors, so mistakes appear here.
//!
//! Source: resolution.md 1.3; `k8s.io/apimachinery` packages `labels` and `util/validation`.

use std::collections::BTreeMap;
use std::slice;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::bundle::{MAX_SUBDOMAIN_BYTES, SUBDOMAIN_FORM, is_subdomain};
use crate::error::quote;

/// The most bytes the name part of a key, or a value, may have.
const MAX_NAME_BYTES: usize = 63;

/// A selector whose requirements are valid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selector(LabelSelector);

/// Why a selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An operator that does not exist.
    #[error("{} is not a valid label selector operator", quote(.0))]
    UnknownOperator(String),
    /// Problems of one requirement, as field errors.
    #[error("{0}")]
    Requirement(String),
}

impl Selector {
    /// Checks a selector: `matchLabels` in key order, then `matchExpressions` in list order; the
    /// first invalid requirement is the error. An absent or empty selector selects all.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::default()) };
        for (key, value) in selector.match_labels.iter().flatten() {
            check(key, "In", slice::from_ref(value))?;
        }
        for it in selector.match_expressions.iter().flatten() {
            check(&it.key, &it.operator, it.values.as_deref().unwrap_or_default())?;
        }
        Ok(Self(selector.clone()))
    }

    /// Says whether labels meet every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        matches_labels(&self.0, |key| labels.get(key).map(String::as_str))
    }
}

/// Says whether labels, given as a lookup function, match a selector.
///
/// All requirements must hold; an empty selector matches everything, an unknown operator nothing.
pub(crate) fn matches_labels<'a>(
    selector: &LabelSelector,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let exact = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    exact.into_iter().all(|(key, value)| label(key) == Some(value))
        && expressions.into_iter().all(|expression| {
            let found = label(&expression.key);
            let listed = || {
                let values = expression.values.iter().flatten();
                found.is_some_and(|found| values.into_iter().any(|value| value == found))
            };
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Checks one requirement.
fn check(key: &str, operator: &str, values: &[String]) -> Result<(), SelectorError> {
    let mut problems = Vec::new();
    let invalid =
        |field: &str, value: &str, text: &str| format!("{field}: Invalid value: {value}: {text}");
    let key_problems = key_problems(key);
    if !key_problems.is_empty() {
        problems.push(invalid("key", &quote(key), &key_problems.join("; ")));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let text = "for 'in', 'notin' operators, values set can't be empty";
            problems.push(invalid("values", "null", text));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let listed: Vec<_> = values.iter().map(|value| quote(value)).collect();
            let text = "values set must be empty for exists and does not exist";
            problems.push(invalid("values", &format!("[{}]", listed.join(",")), text));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        unknown => return Err(SelectorError::UnknownOperator(unknown.to_owned())),
    }
    for (index, value) in values.iter().enumerate() {
        let value_problems = value_problems(value);
        if !value_problems.is_empty() {
            let field = format!("values[{index}][{key}]");
            problems.push(invalid(&field, &quote(value), &value_problems.join("; ")));
        }
    }
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(SelectorError::Requirement(one.clone())),
        several => Err(SelectorError::Requirement(format!("[{}]", several.join(", ")))),
    }
}

/// Returns what is wrong with a label key: an optional DNS subdomain and `/`, then a name.
fn key_problems(key: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and \
        end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
        for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            return vec![format!(
                "a qualified name {RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut problems: Vec<_> = prefix.and_then(prefix_problem).into_iter().collect();
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME_BYTES {
        problems.push(format!("name part must be no more than {MAX_NAME_BYTES} bytes"));
    }
    if !is_name(name) {
        problems.push(format!("name part {RULE}"));
    }
    problems
}

/// Returns what is wrong with the prefix of a label key.
fn prefix_problem(prefix: &str) -> Option<String> {
    let rule = match prefix.len() {
        0 => "must be non-empty".to_owned(),
        long if long > MAX_SUBDOMAIN_BYTES => {
            format!("must be no more than {MAX_SUBDOMAIN_BYTES} bytes")
        }
        _ if is_subdomain(prefix) => return None,
        _ => SUBDOMAIN_FORM.to_owned(),
    };
    Some(format!("prefix part {rule}"))
}

/// Returns what is wrong with a label value.
fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > MAX_NAME_BYTES {
        problems.push(format!("must be no more than {MAX_NAME_BYTES} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
             or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Says whether a text is valid as the name part of a key, or as a value.
fn is_name(text: &str) -> bool {
    let alphanumeric = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(inner)
        && alphanumeric(text.bytes().next())
        && alphanumeric(text.bytes().next_back())
}
