//! The probes of a revision, and how they decide whether an object is ready.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use olm_api::conditions::status;
use olm_api::{
    Assertion, AssertionType, ConditionEqualProbe, ConditionEqualStatus, FieldValueProbe,
    FieldsEqualProbe, ObjectSelector, ProgressionProbe, SelectorType,
};
use serde_json::Value;

use super::RevisionError;
use crate::go_json;
use crate::object::Object;
use crate::selector::{Selector, matches_labels};
use crate::yaml::to_json;

/// The result of evaluating probes on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Every matching probe passes, or none matches.
    Ready,
    /// A probe fails; the messages of all failing ones.
    NotReady(String),
    /// A probe cannot be evaluated yet; the messages of all that do not pass.
    Unknown(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    True,
    False,
    Unknown,
}

type Finding = (Verdict, String);

/// Returns the probes that every revision of an extension carries.
///
/// A Deployment is ready when its update is complete and it is `Available`. A `StatefulSet` has no
/// such condition, so its ready replicas count instead; upstream requires the condition, which is
/// never set.
///
/// Source: applying.md 3.7.
pub fn built_in() -> Vec<ProgressionProbe> {
    BUILT_IN.clone()
}

#[expect(clippy::expect_used, reason = "tests read the table")]
static BUILT_IN: LazyLock<Vec<ProgressionProbe>> = LazyLock::new(|| {
    let mut documents = to_json(include_str!("probes.yaml")).expect("the table is YAML");
    serde_json::from_value(documents.remove(0)).expect("the table holds probes")
});

/// Fails if the label selector of a probe is invalid: it would select nothing, as if all were ready.
pub fn check_probes(probes: &[ProgressionProbe]) -> Result<(), RevisionError> {
    let labels = probes
        .iter()
        .filter(|probe| probe.selector.type_ == SelectorType::Label)
        .filter_map(|probe| probe.selector.label.as_ref());
    for label in labels {
        Selector::new(Some(label))
            .map_err(|cause| RevisionError::InvalidProbe { selector: go_text(label), cause })?;
    }
    Ok(())
}

/// Returns a selector as Go prints it with `%v`.
fn go_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: Vec<_> = labels.map(|(key, value)| format!("{key}:{value}")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let values = it.values.as_deref().unwrap_or_default().join(" ");
        format!("{{{} {} [{values}]}}", it.key, it.operator)
    });
    let expressions: Vec<_> = expressions.collect();
    format!("{{map[{}] [{}]}}", labels.join(" "), expressions.join(" "))
}

/// Evaluates `probes` on an object as the API server returned it.
///
/// `Unknown` beats `NotReady`; the messages of everything that does not pass are joined with
/// `" and "`.
///
/// Source: applying.md 3.7, boxcutter `probing`.
pub fn evaluate(object: &Object, probes: &[ProgressionProbe]) -> Readiness {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = observed_generation(object);
    if !probes.is_empty() && observed.is_some_and(|observed| observed != generation.unwrap_or(0)) {
        return Readiness::Unknown(".status outdated".to_owned());
    }
    let failing: Vec<Finding> = probes
        .iter()
        .filter(|probe| selects(&probe.selector, object))
        .flat_map(|probe| &probe.assertions)
        .map(|assertion| check(object, assertion, generation))
        .filter(|(verdict, _)| *verdict != Verdict::True)
        .collect();
    let worst = failing.iter().map(|(verdict, _)| *verdict).max();
    let messages: Vec<&str> = failing.iter().map(|(_, text)| text.as_str()).collect();
    match worst {
        None | Some(Verdict::True) => Readiness::Ready,
        Some(Verdict::False) => Readiness::NotReady(messages.join(" and ")),
        Some(Verdict::Unknown) => Readiness::Unknown(messages.join(" and ")),
    }
}

/// Returns the generation that the controller of an object has seen last, if it says so.
fn observed_generation(object: &Object) -> Option<i64> {
    object.pointer("/status/observedGeneration").and_then(Value::as_i64)
}

fn check(object: &Object, assertion: &Assertion, generation: Option<i64>) -> Finding {
    let Assertion { condition_equal, fields_equal, field_value, .. } = assertion;
    let found = match assertion.type_ {
        AssertionType::ConditionEqual => {
            condition_equal.as_ref().map(|probe| compare_condition(object, probe, generation))
        }
        AssertionType::FieldsEqual => {
            fields_equal.as_ref().map(|probe| compare_fields(object, probe))
        }
        AssertionType::FieldValue => field_value.as_ref().map(|probe| compare_value(object, probe)),
    };
    // The API refuses an assertion without the field that its type requires.
    found.unwrap_or_else(|| unknown("malformed probe"))
}

fn compare_condition(
    object: &Object,
    probe: &ConditionEqualProbe,
    generation: Option<i64>,
) -> Finding {
    let name = format!(".status.condition[{:?}]", probe.type_);
    let Some(conditions) = object.pointer("/status/conditions") else {
        return unknown("missing .status.conditions");
    };
    let conditions = conditions.as_array().filter(|all| all.iter().all(Value::is_object));
    let Some(conditions) = conditions else { return unknown("malformed .status.conditions") };
    let Some(condition) = conditions.iter().find(|entry| entry["type"] == *probe.type_) else {
        return unknown(&format!("missing {name}"));
    };
    let observed = condition["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| observed != generation.unwrap_or(0)) {
        return unknown(&format!("{name} outdated"));
    }
    let want = match probe.status {
        ConditionEqualStatus::True => status::TRUE,
        ConditionEqualStatus::False => status::FALSE,
    };
    let found = condition["status"].as_str().unwrap_or_default();
    if found == want {
        return pass();
    }
    fail(format!("{name} is {found}"))
}

fn compare_fields(object: &Object, probe: &FieldsEqualProbe) -> Finding {
    let FieldsEqualProbe { field_a, field_b } = probe;
    let Some(a) = field_or_zero(object, field_a) else {
        return fail(format!("\"{field_a}\" missing"));
    };
    let Some(b) = field_or_zero(object, field_b) else {
        return fail(format!("\"{field_b}\" missing"));
    };
    let (a, b) = (go_json::to_string(&a), go_json::to_string(&b));
    if a == b {
        return pass();
    }
    fail(format!("\"{field_a}\" != \"{field_b}\" expected: {a} got: {b}"))
}

/// Kubernetes omits counters that are zero, so an absent counter is zero, once a controller has seen
/// the object.
fn field_or_zero(object: &Object, path: &str) -> Option<Value> {
    let last = path.rsplit('.').next().unwrap_or(path);
    let counter = last.ends_with("eplicas") || last.ends_with("Scheduled") || last == "numberReady";
    let counter = counter && observed_generation(object).is_some();
    let absent = || counter.then(|| Value::from(0));
    field(object, path).cloned().or_else(absent)
}

fn compare_value(object: &Object, probe: &FieldValueProbe) -> Finding {
    let FieldValueProbe { field_path, value } = probe;
    let Some(found) = field(object, field_path) else {
        return fail(format!("missing key: \"{field_path}\""));
    };
    let want = go_json::to_string(&Value::from(value.as_str()));
    let got = go_json::to_string(found);
    let plain = matches!(found, Value::Number(_) | Value::Bool(_)) && got == *value;
    if plain || got == want {
        return pass();
    }
    fail(format!("value at key \"{field_path}\" != \"{value}\"; expected: {want} got: {got}"))
}

/// Follows map keys only; list indices cannot be expressed.
fn field<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.').filter(|part| !part.is_empty());
    let first = object.0.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

fn selects(selector: &ObjectSelector, object: &Object) -> bool {
    match selector.type_ {
        SelectorType::GroupKind => selector
            .group_kind
            .as_ref()
            .is_some_and(|wanted| wanted.group == object.group() && wanted.kind == object.kind()),
        SelectorType::Label => selector
            .label
            .as_ref()
            .is_some_and(|wanted| matches_labels(wanted, |key| object.label(key))),
    }
}

fn pass() -> Finding {
    (Verdict::True, String::new())
}

fn fail(message: String) -> Finding {
    (Verdict::False, message)
}

fn unknown(message: &str) -> Finding {
    (Verdict::Unknown, message.to_owned())
}
