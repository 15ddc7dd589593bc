//! Why a workload is not ready, from what it and its pods report.

use std::cmp::Reverse;

use olm_api::conditions::{Reason, status};
use serde_json::Value;

use crate::error::{plain, shell_word};
use crate::object::Object;

/// Pods of a workload that are looked at.
pub const MAX_PODS: u32 = 50;
/// Characters that are shown of what a container wrote when it ended.
const MAX_MESSAGE: usize = 200;
/// What the kubelet writes before the cause while it waits to pull an image again.
const BACK_OFF: &str = "Back-off pulling image";

/// Returns what a workload says of why it cannot progress, if it does: a Deployment that passed its
/// own deadline or whose pods are refused, a Job that failed, a CRD whose names another one has.
///
/// `object` is as the API server returned it.
pub fn stalled(object: &Object) -> Option<String> {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if observed.is_some_and(|observed| observed != generation.unwrap_or(0)) {
        return None;
    }
    let condition = |type_: &str, status: &str, reason: Option<&str>| {
        let mut conditions = object.pointer("/status/conditions")?.as_array()?.iter();
        conditions.find(|condition| {
            condition["type"] == type_
                && condition["status"] == status
                && reason.is_none_or(|reason| condition["reason"] == reason)
        })
    };
    let says = |type_: &str, status: &str, reason: Option<&str>| {
        let found = condition(type_, status, reason)?;
        let text = found["message"].as_str().filter(|text| !text.is_empty());
        text.or_else(|| found["reason"].as_str()).map(str::to_owned)
    };
    match (object.group(), object.kind()) {
        ("apps", "Deployment") => says("ReplicaFailure", status::TRUE, None).or_else(|| {
            says("Progressing", status::FALSE, Some(Reason::ProgressDeadlineExceeded.as_str()))
        }),
        ("batch", "Job") => says("Failed", status::TRUE, None),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let found = condition("NamesAccepted", status::FALSE, None)?;
            Some(format!("{}: {}", found["reason"].as_str()?, found["message"].as_str()?))
        }
        _ => None,
    }
}

/// Returns the label selector of the pods of a workload; `None` for every other object.
pub fn pod_selector(workload: &Object) -> Option<String> {
    let kinds = ["DaemonSet", "Deployment", "StatefulSet"];
    if workload.group() != "apps" || !kinds.contains(&workload.kind()) {
        return None;
    }
    let selector = workload.pointer("/spec/selector")?;
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let all: Vec<_> = labels.chain(expressions.map(requirement)).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.join(","))
}

fn requirement(expression: &Value) -> Option<String> {
    let key = expression["key"].as_str()?;
    let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let values = values.collect::<Vec<_>>().join(",");
    match expression["operator"].as_str()? {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

/// Returns where the reason is found by somebody who may read the pods of a workload.
pub fn pods_hint(workload: &Object) -> Option<String> {
    let selector = shell_word(&pod_selector(workload)?);
    let namespace = workload.namespace();
    Some(format!(
        "the service account may not list its pods; kubectl describe pods -n {namespace} -l \
         {selector} shows the reason"
    ))
}

/// Returns what keeps a workload from being ready: what it reports of itself, and what the newest of
/// its pods reports that does not run.
pub fn hindrance(workload: &Object, pods: &[Object]) -> Option<String> {
    let reasons: Vec<_> = stalled(workload).into_iter().chain(pod_fault(pods)).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns what keeps pods from running, by the newest that reports anything.
pub fn pod_fault(pods: &[Object]) -> Option<String> {
    let is_going = |pod: &&Object| pod.pointer("/metadata/deletionTimestamp").is_some();
    let mut pods: Vec<&Object> = pods.iter().filter(|pod| !is_going(pod)).collect();
    let made = |pod: &Object| {
        let made = pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        made.unwrap_or_default().to_owned()
    };
    pods.sort_by_key(|pod| (Reverse(made(pod)), pod.name().to_owned()));
    let mut faults = pods.into_iter().filter_map(|pod| Some((pod.name(), fault(pod)?)));
    faults.next().map(|(name, why)| format!("pod {name}: {why}"))
}

fn fault(pod: &Object) -> Option<String> {
    let state = pod.0.get("status")?;
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    if state["phase"] == "Failed" {
        let cause = [text(&state["reason"]), text(&state["message"])];
        let cause = cause.into_iter().filter(|part| !part.is_empty());
        return Some(
            std::iter::once("it failed".to_owned()).chain(cause).collect::<Vec<_>>().join(": "),
        );
    }
    let mut conditions = state["conditions"].as_array().into_iter().flatten();
    let unscheduled = conditions.find(|condition| {
        condition["type"] == "PodScheduled" && condition["status"] == status::FALSE
    });
    if let Some(condition) = unscheduled {
        return Some(format!("it cannot be scheduled: {}", text(&condition["message"])));
    }
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut containers = lists.iter().filter_map(|list| state[*list].as_array()).flatten();
    containers.find_map(container_fault)
}

fn container_fault(container: &Value) -> Option<String> {
    if container["ready"] == true {
        return None;
    }
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let (name, image) = (text(&container["name"]), text(&container["image"]));
    let (now, before) = (&container["state"], &container["lastState"]);
    let (reason, message) = (text(&now["waiting"]["reason"]), text(&now["waiting"]["message"]));
    match reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
            // The same cause before and while the next attempt is waited for.
            let cause = message.split_once("ErrImagePull: ").map_or(&*message, |(_, cause)| cause);
            let cause = if cause.starts_with(BACK_OFF) { "" } else { cause };
            let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
            Some(format!("image {image} of container {name} cannot be pulled{cause}"))
        }
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => {
            let ended = [now, before].into_iter().map(|state| &state["terminated"]);
            let mut failed = ended.filter(|it| it.is_object() && it["exitCode"] != 0);
            match failed.next() {
                Some(ended) => Some(format!("container {name} ended with {}", end(ended))),
                None if now["running"].is_object() => {
                    Some(format!("container {name} runs, and its probes have not succeeded"))
                }
                None => None,
            }
        }
        _ if message.is_empty() => Some(format!("container {name}: {reason}")),
        _ => Some(format!("container {name}: {reason}: {message}")),
    }
}

/// Returns how a container ended, with the last line that it left.
fn end(ended: &Value) -> String {
    let text = |key: &str| ended[key].as_str().unwrap_or_default();
    let reason = match text("reason") {
        "" | "Error" => String::new(),
        reason => format!(" ({})", plain(reason)),
    };
    let last = text("message").lines().rev().map(plain).find(|line| !line.is_empty());
    let last = last.map(|line| line.chars().take(MAX_MESSAGE).collect::<String>());
    let last = last.map_or_else(String::new, |line| format!(": {line}"));
    format!("exit code {}{reason}{last}", ended["exitCode"])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    // applying.md 1.3
    #[rstest]
    #[case::late(
        "apps/v1", "Deployment", json!({"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "message": "timed out"}), Some("timed out")
    )]
    #[case::refused_pods(
        "apps/v1", "Deployment",
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}),
        Some("quota")
    )]
    #[case::without_words(
        "batch/v1", "Job", json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}),
        Some("BackoffLimitExceeded")
    )]
    #[case::taken_names(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition",
        json!({"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict",
            "message": "\"BuoyList\" is already in use"}),
        Some("ListKindConflict: \"BuoyList\" is already in use")
    )]
    #[case::progressing(
        "apps/v1", "Deployment", json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}),
        None
    )]
    #[case::another_kind(
        "example.com/v1", "Deployment", json!({"type": "ReplicaFailure", "status": "True", "message": "m"}),
        None
    )]
    fn a_workload_says_that_it_cannot_progress(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] condition: Value,
        #[case] want: Option<&str>,
    ) {
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "status": {"observedGeneration": 2, "conditions": [condition]}});
        let of = |object: &Value| stalled(&Object::from_value(object.clone()).unwrap());
        assert_eq!(of(&object).as_deref(), want);
        object["status"]["observedGeneration"] = json!(1);
        assert_eq!(of(&object), None, "of an earlier generation");
    }
    fn pod(name: &str, made: &str, state: &Value) -> Object {
        let pod = json!({"metadata": {"name": name, "creationTimestamp": made}, "status": state});
        Object::from_value(pod).unwrap()
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "r/c:1",
            "ready": false, "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    fn ended(state: &Value) -> Value {
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "r/c:1",
            "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": state}}]})
    }

    #[rstest]
    #[case::pulling(
        waiting("ErrImagePull", "not found"),
        Some("image r/c:1 of container c cannot be pulled: not found")
    )]
    #[case::pulling_again(
        waiting("ImagePullBackOff", "Back-off pulling image \"r/c:1\": ErrImagePull: not found"),
        Some("image r/c:1 of container c cannot be pulled: not found")
    )]
    #[case::pulling_again_without_cause(
        waiting("ImagePullBackOff", "Back-off pulling image \"r/c:1\""),
        Some("image r/c:1 of container c cannot be pulled")
    )]
    #[case::crash_loop(
        ended(&json!({"exitCode": 1, "reason": "Error", "message": "starting\nno such host\n\n"})),
        Some("container c ended with exit code 1: no such host")
    )]
    #[case::memory(
        ended(&json!({"exitCode": 137, "reason": "OOMKilled"})),
        Some("container c ended with exit code 137 (OOMKilled)")
    )]
    #[case::configuration(
        waiting("CreateContainerConfigError", "secret \"s\" not found"),
        Some("container c: CreateContainerConfigError: secret \"s\" not found")
    )]
    #[case::no_node(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
        Some("it cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu.")
    )]
    #[case::evicted(
        json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
        Some("it failed: Evicted: low on memory")
    )]
    #[case::not_ready(
        json!({"phase": "Running", "containerStatuses": [
            {"name": "c", "ready": false, "state": {"running": {}}}]}),
        Some("container c runs, and its probes have not succeeded")
    )]
    #[case::init_container(
        json!({"phase": "Pending",
            "initContainerStatuses": [
                {"name": "done", "ready": true, "state": {"terminated": {"exitCode": 0}}},
                {"name": "init", "ready": false, "state": {"terminated": {"exitCode": 2}}}],
            "containerStatuses": [{"name": "c", "ready": false,
                "state": {"waiting": {"reason": "PodInitializing"}}}]}),
        Some("container init ended with exit code 2")
    )]
    #[case::starting(waiting("ContainerCreating", ""), None)]
    #[case::ready(
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "ready": true,
            "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}]}),
        None
    )]
    fn a_pod_reports_why_it_does_not_run(#[case] state: Value, #[case] want: Option<&str>) {
        let want = want.map(|want| format!("pod p: {want}"));
        assert_eq!(pod_fault(&[pod("p", "2026-01-01T00:00:00Z", &state)]), want);
    }

    #[test]
    fn the_newest_pod_that_stays_counts() {
        let fault = |message: &str| waiting("Odd", message);
        let mut going = pod("z", "2026-01-03T00:00:00Z", &fault("going"));
        going.metadata_mut().insert("deletionTimestamp".to_owned(), json!("2026-01-03T00:00:01Z"));
        let running = pod("y", "2026-01-02T00:00:00Z", &json!({"phase": "Running"}));
        let pods = [
            pod("old", "2026-01-01T00:00:00Z", &fault("old")),
            pod("new", "2026-01-01T10:00:00Z", &fault("new")),
            going,
            running,
        ];
        assert_eq!(pod_fault(&pods).as_deref(), Some("pod new: container c: Odd: new"));
        assert_eq!(pod_fault(&[]), None);
    }

    #[test]
    fn the_pods_of_a_workload_are_those_of_its_selector() {
        let of = |kind: &str, selector: Value| {
            let object = json!({"apiVersion": "apps/v1", "kind": kind,
                "metadata": {"name": "d", "namespace": "n"}, "spec": {"selector": selector}});
            let object = Object::from_value(object).unwrap();
            (pod_selector(&object), pods_hint(&object))
        };
        let labels = json!({"matchLabels": {"app": "a", "tier": "b"}});
        let (selector, hint) = of("Deployment", labels.clone());
        assert_eq!(selector.as_deref(), Some("app=a,tier=b"));
        assert!(hint.unwrap().contains(" -n n -l 'app=a,tier=b' "));
        let expressions = json!({"matchLabels": {"app": "a"}, "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["x", "y"]},
            {"key": "l", "operator": "NotIn", "values": ["z"]},
            {"key": "m", "operator": "Exists"}, {"key": "o", "operator": "DoesNotExist"}]});
        let (selector, _) = of("StatefulSet", expressions);
        assert_eq!(selector.as_deref(), Some("app=a,k in (x,y),l notin (z),m,!o"));
        let unknown = json!({"matchExpressions": [{"key": "k", "operator": "Near"}]});
        for (kind, selector) in
            [("Job", labels), ("Deployment", unknown), ("Deployment", json!({}))]
        {
            assert_eq!(of(kind, selector), (None, None));
        }
    }

    #[test]
    fn what_a_workload_and_its_pods_report_stands_together() {
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]}});
        let workload = Object::from_value(workload).unwrap();
        let pods = [pod("p", "2026-01-01T00:00:00Z", &waiting("Odd", ""))];
        assert_eq!(hindrance(&workload, &[]).as_deref(), Some("quota"));
        let both = hindrance(&workload, &pods);
        assert_eq!(both.as_deref(), Some("quota; pod p: container c: Odd"));
    }
}
