//! What the controller last said of an extension, beside what is decided of it now.
//!
//! Source: plugin.md 5.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use olm_api::conditions::{Reason, types};
use olm_api::keys::manager;
use olm_api::{ClusterExtension, UpdateStatus};

use super::decide::{Answer, Goal, Question};
use crate::error::Chain;
use crate::status::{Differs, Said, find, sanitize};

/// Compares what stands in the status of an extension with an answer about it, if one is known.
/// Nothing is compared while something else stops the controller, which stands in the condition.
pub fn said(
    extension: &ClusterExtension,
    question: &Question,
    answer: Option<&Answer>,
) -> Option<Said> {
    let status = extension.status.as_ref()?;
    let ready = find(&status.conditions, types::READY)?;
    let at = written(extension).unwrap_or(ready.last_transition_time.0);
    let differs = answer.and_then(|answer| difference(extension, question, answer));
    let differs = differs.map(|(last, now)| Differs { at: at.to_string(), last, now });
    Some(Said { reason: ready.reason.clone(), message: ready.message.clone(), differs })
}

/// Returns when the controller last wrote the status.
fn written(extension: &ClusterExtension) -> Option<Timestamp> {
    let of_status = |entry: &&ManagedFieldsEntry| {
        let is = |found: &Option<String>, want| found.as_deref() == Some(want);
        is(&entry.subresource, "status") && is(&entry.manager, manager::OPERATOR_CONTROLLER)
    };
    let entries = extension.metadata.managed_fields.iter().flatten().filter(of_status);
    entries.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

fn difference(
    extension: &ClusterExtension,
    question: &Question,
    answer: &Answer,
) -> Option<(String, String)> {
    let status = extension.status.as_ref()?;
    let progressing = find(&status.conditions, types::PROGRESSING)?;
    let settled = progressing.reason == Reason::Succeeded.as_str();
    let installed = status.install.as_ref().map(|it| &it.bundle.name);
    // One of the two was read before a rollout ended, and the other after.
    let apart = installed != question.installed.as_ref().map(|it| &it.name);
    if !settled || apart {
        return None;
    }
    let goal = match (&question.rolling, &answer.goal) {
        (Some(_), _) => None,
        (None, Ok(Goal { held: None, target, .. })) => Some(target),
        (None, Ok(Goal { held: Some(error), .. })) => {
            return Some((progressing.message.clone(), sanitize(&Chain(error).to_string())));
        }
        (None, Err(error)) => {
            return Some((progressing.message.clone(), sanitize(&Chain(error).to_string())));
        }
    };
    if status.update != answer.update {
        return Some((offered(status.update.as_ref()), offered(answer.update.as_ref())));
    }
    let target = goal.filter(|_| !question.policy.paused)?;
    let is_there = question.installed.as_ref().is_some_and(|it| it.is_same_bundle(target));
    let ready = find(&status.conditions, types::READY)?;
    (!is_there && ready.reason == Reason::Succeeded.as_str())
        .then(|| (ready.message.clone(), format!("{} would be rolled out", target.name)))
}

fn offered(update: Option<&UpdateStatus>) -> String {
    update.map_or_else(
        || "no update is held".to_owned(),
        |update| format!("{}: {}", update.reason, update.message),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::extension::{DecisionError, Policy};
    use crate::fixture::cases;
    use crate::revision::BundleRecord;

    const CASES: &str = include_str!("../testdata/extension/cases.yaml");
    const BEFORE: &str = "2026-01-01T09:11:59Z";
    const WRITTEN: &str = "2026-01-01T09:12:00Z";

    fn extension(update: &Value) -> ClusterExtension {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Succeeded", "message": "all well",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let mut object = json!({
            "metadata": {"name": "e", "generation": 2, "managedFields": [
                {"manager": "kubectl", "operation": "Update", "time": BEFORE},
                {"manager": "operator-controller", "operation": "Update", "time": WRITTEN,
                    "subresource": "status"}]},
            "status": {"conditions": [condition("Ready"), condition("Progressing")],
                "install": {"bundle": {"name": "p.v1.0.0", "version": "1.0.0"}}},
        });
        if !update.is_null() {
            object["status"]["update"] = update.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn question(annotations: &[(&str, &str)]) -> Question {
        let (filter, policy) = (olm_api::CatalogFilter::default(), Policy::example(annotations));
        let installed = Some(BundleRecord::example("1.0.0"));
        Question { installed, ..Question::new(filter, policy, WRITTEN.parse().unwrap()) }
    }

    fn answer(goal: Result<Goal, DecisionError>, update: &Value) -> Answer {
        Answer {
            goal,
            update: serde_json::from_value(update.clone()).unwrap(),
            newest: None,
            deprecations: None,
            lifecycle: None,
            lift: None,
            notes: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn keep(version: &str) -> Goal {
        Goal::keep(BundleRecord::example(version))
    }

    fn update() -> Value {
        json!({"version": "2.0.0", "newest": "2.0.0", "catalog": "c", "reason": "NextMajorHeld",
            "message": "2.0.0 is held"})
    }

    fn said(extension: &ClusterExtension, answer: &Answer) -> Option<String> {
        let said = super::said(extension, &question(&[]), Some(answer)).unwrap();
        assert_eq!((said.reason.as_str(), said.message.as_str()), ("Succeeded", "all well"));
        said.differs.map(|differs| differs.to_string())
    }

    // plugin.md U87
    #[test]
    fn both_results_are_shown_where_they_differ() {
        for (version, seen, now, want) in cases::<(Option<&str>, bool, bool, Option<(&str, &str)>)>(
            CASES,
            "both_results_are_shown_where_they_differ",
        ) {
            let update = |has: bool| if has { update() } else { Value::Null };
            let goal = version.map(keep).ok_or(DecisionError::NoContent);
            let text = said(&extension(&update(seen)), &answer(goal, &update(now)));
            let want = want.map(|(last, now)| {
                format!("the controller last said ({WRITTEN}): {last}; now it would be: {now}")
            });
            assert_eq!(text, want);
        }
    }

    #[test]
    fn what_the_controller_does_not_decide_is_not_compared() {
        let other = answer(Ok(keep("1.1.0")), &update());
        let mut stopped = extension(&json!(null));
        stopped.status.as_mut().unwrap().conditions[1].reason = "Retrying".to_owned();
        assert_eq!(said(&stopped, &other), None);
        let mut rolled_out = extension(&json!(null));
        let install = rolled_out.status.as_mut().unwrap().install.as_mut();
        install.unwrap().bundle.name = "p.v1.1.0".to_owned();
        assert_eq!(said(&rolled_out, &other), None);
        let paused = question(&[(olm_api::keys::policy::PAUSED, "true")]);
        let other = answer(Ok(keep("1.1.0")), &json!(null));
        let well = extension(&json!(null));
        assert_eq!(super::said(&well, &paused, Some(&other)).unwrap().differs, None);
    }
}
