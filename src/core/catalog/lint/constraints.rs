//! Rules about `olm.constraint` and `olm.package.required`, and the hint that a wrong one gets.

use olm_api::keys::property;

use super::Severity;
use crate::catalog::constraint::{Constraint, Declared, Demand};
use crate::catalog::property::Property;
use crate::error::quote;

/// What is wrong with a constraint.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) severity: Severity,
    pub(super) text: String,
    pub(super) hint: Option<String>,
}

/// Returns what is wrong with the value of an `olm.constraint`.
pub(super) fn faults(value: &str) -> Vec<Fault> {
    match parsed(property::CONSTRAINT, value) {
        Err(text) => {
            let hint = text
                .ends_with("unknown field \"name\"")
                .then(|| "the field is packageName".to_owned());
            let severity = Severity::Error;
            vec![Fault { severity, text, hint }]
        }
        Ok(constraint) => {
            let mut texts = Vec::new();
            if matches!(constraint.demand, Demand::Not(_)) {
                let text = "a \"not\" outside \"all\" and \"any\" excludes without choosing";
                texts.push(text.to_owned());
            }
            doubts(&constraint.demand, &mut texts);
            let warning = |text| Fault { severity: Severity::Warning, text, hint: None };
            texts.into_iter().map(warning).collect()
        }
    }
}

/// Returns why the value of an `olm.package.required` cannot be read.
pub(super) fn package_fault(value: &str) -> Option<String> {
    parsed(property::PACKAGE_REQUIRED, value).err()
}

fn parsed(kind: &str, value: &str) -> Result<Constraint, String> {
    let property = Property { kind: kind.to_owned(), value: value.to_owned() };
    let declared = Declared::of(&[property]).into_iter().next();
    let constraint = declared.map(|declared| declared.constraint);
    let constraint = constraint.ok_or_else(|| format!("{kind} is not a constraint"))?;
    constraint.map_err(|error| error.to_string())
}

/// Adds what is allowed and hardly meant.
fn doubts(demand: &Demand, texts: &mut Vec<String>) {
    let (children, empty) = match demand {
        Demand::All(children) => (children, "an empty \"all\" is always met"),
        Demand::Any(children) => (children, "an empty \"any\" is never met"),
        Demand::Not(children) => (children, "an empty \"not\" is always met"),
        Demand::Kind(kind) => {
            if kind.kind.starts_with(|c: char| c.is_lowercase()) {
                let kind = quote(&kind.kind);
                texts.push(format!("kind {kind} begins with a lowercase letter"));
            }
            return;
        }
        Demand::Package { .. } | Demand::Cel(_) => return,
    };
    if children.is_empty() {
        texts.push(empty.to_owned());
    }
    for child in children {
        doubts(&child.demand, texts);
    }
}
