//! Rules about `olm.constraint`.

use olm_api::keys::property;

use super::{Linter, Origin, Rule};
use crate::catalog::constraint::{self, ConstraintError, Demand};
use crate::error::quote;

impl Linter {
    pub(super) fn constraint(&mut self, origin: &Origin, at: &str, value: &str) {
        match constraint::parsed(property::CONSTRAINT, value) {
            Some(Err(ConstraintError(text))) => {
                let hint = text.ends_with("unknown field \"name\"");
                let hint = hint.then(|| "the field is packageName".to_owned());
                self.error(origin, Rule::Constraint, at, text).hint = hint;
            }
            Some(Ok(constraint)) => {
                let mut texts = Vec::new();
                if matches!(constraint.demand, Demand::Not(_)) {
                    let text = "a \"not\" outside \"all\" and \"any\" excludes without choosing";
                    texts.push(text.to_owned());
                }
                doubts(&constraint.demand, &mut texts);
                for text in texts {
                    self.warning(origin, Rule::Constraint, at, text);
                }
            }
            None => {}
        }
    }
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
