//! Operators that say when they may be updated.
//!
//! Source: applying.md 10.

use olm_cluster::operator_condition;
use olm_core::error::quote;
use olm_core::extension::{Goal, Question};
use olm_core::operator_condition::held;
use serde_json::Value;

use super::Attempt;
use super::error::{ExtensionError, OPERATOR};
use super::outcome::Outcome;
use crate::backoff::jittered;
use crate::cluster::RequestError;

impl Attempt<'_> {
    /// Keeps the bundle that is installed or rolled out if its operator does not let itself be updated: that is reported as an
    /// update that is held, or as a failure where exactly another version is asked for.
    pub(super) async fn heed_operator(
        &self,
        question: &Question,
        goal: Goal,
        outcome: &mut Outcome,
    ) -> Result<(Goal, Option<ExtensionError>), ExtensionError> {
        let Some(installed) = question.heeds(&goal.target) else { return Ok((goal, None)) };
        let Some(condition) = self.operator_condition(&installed.name).await? else {
            return Ok((goal, None));
        };
        let Some(held) = held(&condition, installed, &goal.target) else { return Ok((goal, None)) };
        outcome.enacted.look_again_within(Some(jittered(OPERATOR)));
        let kept = Goal::keep(question.present().unwrap_or(installed).clone());
        if question.asks_for_one() {
            return Ok((kept, Some(ExtensionError::Operator(held))));
        }
        if let Some(answer) = &mut outcome.answer {
            answer.hold(goal, &held);
        }
        Ok((kept, None))
    }

    /// Reads the OperatorCondition of the installed operator as the account; there may be none.
    async fn operator_condition(&self, name: &str) -> Result<Option<Value>, ExtensionError> {
        let client = self.as_account()?;
        let namespace = &self.extension.spec.namespace;
        let found = operator_condition(&client, namespace, name).await;
        let doing = format!("reading OperatorCondition {}", quote(name));
        found.map_err(RequestError::doing(doing)).map_err(ExtensionError::Repairable)
    }
}
