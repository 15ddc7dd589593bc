//! Whether an operator lets itself be updated, by its OperatorCondition.
//!
//! The rules and texts are those of OLM Classic. Classic copies what the operator says from the spec
//! into the status; where it does not run, the spec is read. Source: applying.md 10.

use olm_api::UpdateStatus;
use olm_api::conditions::{Reason, status};
use serde_json::Value;

use crate::extension::{Answer, Goal, Notice, Question, newest_known};
use crate::object::{items, text_of};
use crate::revision::BundleRecord;
use crate::status::Note;
use crate::version::Version;

/// Holds any update.
const UPGRADEABLE: &str = "Upgradeable";

/// Why an operator does not allow its update.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUpgradeable {
    /// The condition belongs to an earlier generation of its OperatorCondition.
    #[error("the operatorcondition status {type_:?}={status:?} is outdated")]
    Outdated { type_: String, status: String },
    /// It says no.
    #[error("the operator is not upgradeable: {0}")]
    Says(String),
}

impl Question {
    /// Returns the installed bundle whose operator is asked before `target` takes its place; nothing
    /// where none is.
    pub fn heeds(&self, target: &BundleRecord) -> Option<&BundleRecord> {
        let policy = &self.policy;
        let goes_on = self.present().is_some_and(|it| it.is_same_bundle(target));
        let asks = policy.additions.operator_conditions && !policy.paused && !goes_on;
        let installed = self.installed.as_ref().filter(|_| asks);
        installed.filter(|installed| !installed.is_same_bundle(target))
    }

    /// Returns whether exactly one version is requested: not getting it is then a failure, and not
    /// a held update.
    pub fn asks_for_one(&self) -> bool {
        let range = self.filter.version.as_deref();
        range.is_some_and(|range| range.parse::<Version>().is_ok())
    }
}

impl Answer {
    /// Reports a goal as an update that the installed operator holds.
    pub fn hold(&mut self, goal: Goal, held: &NotUpgradeable) {
        let message = format!("{} is available; {held}", goal.target.version);
        let reason = Reason::OperatorNotUpgradeable;
        self.update = Some(UpdateStatus {
            newest: newest_known(self.newest.clone(), &goal.target.version),
            version: Some(goal.target.version),
            catalog: goal.catalog.unwrap_or_default(),
            reason: reason.to_string(),
            message: message.clone(),
        });
        self.notices.push(Notice {
            is_warning: false,
            reason: Reason::UpgradeAvailable,
            note: message.clone(),
        });
        self.notes.push(Note { reason, message });
    }
}

/// Returns why the operator of an installed bundle with this OperatorCondition does not let `to` take
/// its place, if it does not.
pub fn held(condition: &Value, from: &BundleRecord, to: &BundleRecord) -> Option<NotUpgradeable> {
    let (from, to) = (from.version.parse().ok()?, to.version.parse().ok()?);
    check(condition, &from, &to).err()
}

/// Says whether the operator with this OperatorCondition may be updated `from` a version `to`
/// another.
fn check(condition: &Value, from: &Version, to: &Version) -> Result<(), NotUpgradeable> {
    let mut types = vec![UPGRADEABLE];
    if to.major != from.major {
        types.push("MajorUpgradeable");
    } else if to.minor != from.minor {
        types.push("MinorUpgradeable");
    }
    types.into_iter().try_for_each(|type_| judge(condition, type_))
}

fn judge(condition: &Value, type_: &str) -> Result<(), NotUpgradeable> {
    let of = |list: &str| {
        condition.pointer(list).and_then(|list| items(list).find(|entry| entry["type"] == type_))
    };
    let no = |entry: &Value| Err(NotUpgradeable::Says(text_of(&entry["message"])));
    if let Some(decided) = of("/spec/overrides") {
        return if decided["status"] == status::TRUE { Ok(()) } else { no(decided) };
    }
    let reported = of("/status/conditions");
    let generation = condition["metadata"]["generation"].as_i64();
    if let Some(reported) = reported
        && reported["observedGeneration"].as_i64() != generation
    {
        let status = text_of(&reported["status"]);
        return Err(NotUpgradeable::Outdated { type_: type_.to_owned(), status });
    }
    match reported.or_else(|| of("/spec/conditions")) {
        Some(entry) if entry["status"] == status::FALSE => no(entry),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::rows;

    // applying.md j1
    #[test]
    fn the_operator_decides() {
        let (from, to) = ("1.0.0".parse().unwrap(), "1.1.0".parse().unwrap());
        for row in rows(include_str!("testdata/operator_conditions.yaml")) {
            let mut condition = row["condition"].clone();
            condition["metadata"] = json!({"generation": 2});
            let got = check(&condition, &from, &to).err();
            let got = got.map(|error| error.to_string());
            assert_eq!(got.as_deref(), row["want"].as_str(), "{row}");
        }
    }
}
