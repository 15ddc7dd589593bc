//! Why a workload is not ready, from what it and its pods report.

use std::cmp::Reverse;

use itertools::Itertools as _;
use jiff::{SignedDuration, Timestamp};
use olm_api::conditions::{Reason, status};
use serde_json::Value;

use crate::error::{plain, shell_word};
use crate::object::{Object, items};

/// Pods of a workload that are looked at. The API server lists them by name, so the newest may be missing
/// where there are more; a DaemonSet has one on each node.
pub const MAX_PODS: u32 = 500;
/// Characters that are shown of what a container wrote when it ended.
const MAX_MESSAGE: usize = 200;
/// Reasons of a container whose image cannot be pulled.
#[rustfmt::skip]
const UNPULLED: [&str; 6] = [
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "RegistryUnavailable", "SignatureValidationFailed",
];
/// How old a pod is whose image is no longer expected to be pulled.
const PULLING: SignedDuration = SignedDuration::from_mins(2);
/// What the kubelet writes before the cause while it waits to pull an image again.
const BACK_OFF: &str = "Back-off pulling image";

/// Returns what a workload says of why it cannot progress, if it does: a Deployment that passed its
/// own deadline, whose pods are refused or that somebody has paused, a Job that failed, a CRD whose
/// names another one has or whose webhook has no valid CA.
///
/// `object` is as the API server returned it.
pub fn stalled(object: &Object) -> Option<String> {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if observed.is_some_and(|observed| observed != generation.unwrap_or(0)) {
        return None;
    }
    let condition = |type_: &str, status: &str, reason: Option<&str>| {
        object.list_at("/status/conditions").find(|condition| {
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
        ("apps", "Deployment") => says("ReplicaFailure", status::TRUE, None)
            .or_else(|| {
                says("Progressing", status::FALSE, Some(Reason::ProgressDeadlineExceeded.as_str()))
            })
            .or_else(|| says("Progressing", status::UNKNOWN, Some("DeploymentPaused"))),
        ("batch", "Job") => says("Failed", status::TRUE, None),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let found = condition("NamesAccepted", status::FALSE, None)
                .or_else(|| condition("Established", status::FALSE, Some("InvalidCABundle")))?;
            Some(format!("{}: {}", found["reason"].as_str()?, found["message"].as_str()?))
        }
        _ => None,
    }
}

/// Returns which pods of a StatefulSet or DaemonSet are missing although nothing keeps its controller
/// from creating them: for a moment those that it is about to create, for longer those that are
/// refused, of which it has no condition.
///
/// `live` is as the API server returned it.
pub fn missing_pods(live: &Object) -> Option<String> {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let observed = number("/status/observedGeneration")?;
    if live.group() != "apps" || Some(observed) != number("/metadata/generation") {
        return None;
    }
    let (kind, found, wanted) = match live.kind() {
        // The next pod may wait for those before it, and for nothing else.
        "StatefulSet" if status("replicas") == status("availableReplicas") => {
            ("statefulset", status("replicas"), number("/spec/replicas")?)
        }
        "DaemonSet" => {
            ("daemonset", status("currentNumberScheduled"), status("desiredNumberScheduled"))
        }
        _ => return None,
    };
    let (namespace, name) = (live.namespace(), live.name());
    (found < wanted).then(|| {
        format!(
            "{found} of {wanted} pods exist, the others are refused; kubectl describe {kind} -n \
             {namespace} {name} shows the reason"
        )
    })
}

/// Returns what an API service or a certificate says of why it is not ready: nothing else shows that.
///
/// `object` is as the API server returned it.
pub fn unmet(object: &Object) -> Option<String> {
    let type_ = match (object.group(), object.kind()) {
        ("apiregistration.k8s.io", "APIService") => "Available",
        ("cert-manager.io", "Certificate" | "Issuer") => "Ready",
        _ => return None,
    };
    let mut conditions = object.list_at("/status/conditions");
    let found = conditions.find(|it| it["type"] == type_ && it["status"] != status::TRUE)?;
    let said = ["reason", "message"].map(|key| plain(found[key].as_str().unwrap_or_default()));
    let said: Vec<_> = said.into_iter().filter(|text| !text.is_empty()).collect();
    (!said.is_empty()).then(|| said.join(": "))
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
    let expressions = items(&selector["matchExpressions"]);
    let all: Vec<_> = labels.chain(expressions.map(requirement)).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.join(","))
}

fn requirement(expression: &Value) -> Option<String> {
    let key = expression["key"].as_str()?;
    let values = items(&expression["values"]).filter_map(Value::as_str).join(",");
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

/// Returns what keeps an object from being ready: what it reports of itself, and what the newest of
/// its pods reports that does not run.
pub fn hindrance(object: &Object, pods: &[Object]) -> Option<String> {
    let reasons = [stalled(object), unmet(object), pod_fault(pods)];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns what keeps pods from running, by the newest that reports anything. One that has failed for
/// good, as an evicted one has, stays for long after another took its place: it counts if it is the newest.
pub fn pod_fault(pods: &[Object]) -> Option<String> {
    let pods = newest(pods).into_iter().enumerate();
    let mut pods = pods.filter(|(age, pod)| *age == 0 || !has_failed(pod)).map(|(_, pod)| pod);
    pods.find_map(|pod| Some(format!("pod {}: {}", pod.name(), fault(pod)?)))
}

fn has_failed(pod: &Object) -> bool {
    pod.text_at("/status/phase") == "Failed"
}

/// Says whether the newest pod has waited for minutes for an image that cannot be pulled. Pods of
/// earlier revisions, which stay until newer ones run, do not count.
pub fn is_unpulled(pods: &[Object], now: Timestamp) -> bool {
    newest(pods).first().is_some_and(|pod| {
        let made = made(pod).parse::<Timestamp>();
        made.is_ok_and(|made| now.duration_since(made) >= PULLING)
            && pod.0.get("status").into_iter().flat_map(containers).any(|(_, container)| {
                let reason = container["state"]["waiting"]["reason"].as_str();
                reason.is_some_and(|reason| UNPULLED.contains(&reason))
            })
    })
}

/// Returns the pods that stay, the newest first.
fn newest(pods: &[Object]) -> Vec<&Object> {
    let is_going = |pod: &&Object| pod.pointer("/metadata/deletionTimestamp").is_some();
    let mut pods: Vec<&Object> = pods.iter().filter(|pod| !is_going(pod)).collect();
    pods.sort_by_key(|pod| (Reverse(made(pod)), pod.name()));
    pods
}

fn made(pod: &Object) -> &str {
    pod.text_at("/metadata/creationTimestamp")
}

/// Returns the containers of a pod, and whether others wait for one.
fn containers(state: &Value) -> impl Iterator<Item = (bool, &Value)> {
    let lists = [("initContainerStatuses", true), ("containerStatuses", false)];
    lists.into_iter().flat_map(move |(list, init)| items(&state[list]).map(move |it| (init, it)))
}

fn fault(pod: &Object) -> Option<String> {
    let state = pod.0.get("status")?;
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    if has_failed(pod) {
        let cause = [text(&state["reason"]), text(&state["message"])];
        let cause = cause.into_iter().filter(|part| !part.is_empty());
        return Some(std::iter::once("it failed".to_owned()).chain(cause).join(": "));
    }
    let unscheduled = items(&state["conditions"]).find(|condition| {
        condition["type"] == "PodScheduled" && condition["status"] == status::FALSE
    });
    if let Some(condition) = unscheduled {
        return Some(format!("it cannot be scheduled: {}", text(&condition["message"])));
    }
    // Afterwards those of its init containers that run are sidecars.
    let initialized = items(&state["conditions"])
        .any(|it| it["type"] == "Initialized" && it["status"] == status::TRUE);
    containers(state)
        .find_map(|(is_init, container)| container_fault(container, is_init && !initialized))
}

fn container_fault(container: &Value, is_init: bool) -> Option<String> {
    if container["ready"] == true {
        return None;
    }
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let (name, image) = (text(&container["name"]), text(&container["image"]));
    let (now, before) = (&container["state"], &container["lastState"]);
    let (reason, message) = (text(&now["waiting"]["reason"]), text(&now["waiting"]["message"]));
    match reason.as_str() {
        reason if UNPULLED.contains(&reason) => {
            // The same cause before and while the next attempt is waited for.
            let cause = message.split_once("ErrImagePull: ").map_or(&*message, |(_, cause)| cause);
            let cause = if cause.starts_with(BACK_OFF) { "" } else { cause };
            let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
            Some(format!("image {image} of container {name} cannot be pulled{cause}"))
        }
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => {
            let ended = [now, before].into_iter().map(|state| &state["terminated"]);
            // One that ends well again and again does not run either.
            let restarts = reason == "CrashLoopBackOff"
                || container["restartCount"].as_i64().is_some_and(|count| count > 2);
            let mut failed = ended.filter(|it| it.is_object() && (restarts || it["exitCode"] != 0));
            match failed.next() {
                Some(ended) => Some(format!("container {name} ended with {}", end(ended))),
                None if now["running"].is_object() => {
                    let why = if is_init {
                        "others wait for it"
                    } else {
                        "its probes have not succeeded"
                    };
                    Some(format!("container {name} runs, and {why}"))
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
    use serde_json::json;

    use super::*;
    use crate::fixture::{self, cases, rows, text};

    const CASES: &str = include_str!("../testdata/revision/cases.yaml");

    // applying.md 1.3
    #[test]
    fn a_workload_says_that_it_cannot_progress() {
        let of = |object: &Value| stalled(&fixture::object(object.clone()));
        for row in rows(include_str!("../testdata/revision/stalled.yaml")) {
            let mut object = json!({"apiVersion": row["apiVersion"], "kind": row["kind"],
                "metadata": {"name": "d", "namespace": "n", "generation": 2},
                "status": {"observedGeneration": 2, "conditions": [row["condition"]]}});
            assert_eq!(of(&object).as_deref(), row["want"].as_str(), "{row}");
            object["status"]["observedGeneration"] = json!(1);
            assert_eq!(of(&object), None, "of an earlier generation: {row}");
        }
    }

    // applying.md 1.3
    #[test]
    fn pods_are_missing_that_nothing_waits_for() {
        let of = |object: &Value| missing_pods(&fixture::object(object.clone()));
        for row in rows(include_str!("../testdata/revision/missing_pods.yaml")) {
            let kind = text(&row, "kind");
            let mut object = json!({"apiVersion": "apps/v1", "kind": kind,
                "metadata": {"name": "s", "namespace": "n", "generation": 2},
                "spec": {"replicas": 3}, "status": row["status"]});
            assert_eq!(of(&object), None, "not looked at yet: {row}");
            object["status"]["observedGeneration"] = json!(1);
            assert_eq!(of(&object), None, "of an earlier generation: {row}");
            object["status"]["observedGeneration"] = json!(2);
            let hint = format!("kubectl describe {} -n n s shows the reason", kind.to_lowercase());
            let want = row["want"].as_str();
            let want =
                want.map(|numbers| format!("{numbers} pods exist, the others are refused; {hint}"));
            assert_eq!(of(&object), want, "{row}");
        }
    }

    // applying.md 3.7
    #[test]
    fn an_object_says_why_its_condition_is_not_met() {
        for row in rows(include_str!("../testdata/revision/unmet.yaml")) {
            let object = json!({"apiVersion": row["apiVersion"], "kind": row["kind"],
                "metadata": {"name": "d"}, "status": {"conditions": [row["condition"]]}});
            let object = fixture::object(object);
            let want = row["want"].as_str();
            assert_eq!(unmet(&object).as_deref(), want, "{row}");
            assert_eq!(hindrance(&object, &[]).as_deref(), want, "{row}");
        }
    }

    fn pod(name: &str, made: &str, state: &Value) -> Object {
        let metadata = json!({"name": name, "creationTimestamp": made});
        fixture::object(json!({"metadata": metadata, "status": state}))
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "r/c:1",
            "ready": false, "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn a_pod_reports_why_it_does_not_run() {
        for row in rows(include_str!("../testdata/revision/pod_fault.yaml")) {
            let want = row["want"].as_str().map(|want| format!("pod p: {want}"));
            let pods = [pod("p", "2026-01-01T00:00:00Z", &row["state"])];
            assert_eq!(pod_fault(&pods), want, "{row}");
        }
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
            pod(
                "evicted",
                "2026-01-01T20:00:00Z",
                &json!({"phase": "Failed", "reason": "Evicted"}),
            ),
            going,
            running,
        ];
        assert_eq!(pod_fault(&pods).as_deref(), Some("pod new: container c: Odd: new"));
        assert_eq!(pod_fault(&[]), None);
    }

    // applying.md 1.3
    #[test]
    fn an_image_that_cannot_be_pulled_counts_after_a_while() {
        for (reason, now, want) in cases::<(&str, &str, bool)>(
            CASES,
            "an_image_that_cannot_be_pulled_counts_after_a_while",
        ) {
            let now = now.parse().unwrap();
            let one = pod("p", "2026-01-01T00:00:00Z", &waiting(reason, ""));
            assert_eq!(is_unpulled(std::slice::from_ref(&one), now), want);
            let newer = pod("q", "2026-01-01T00:00:30Z", &waiting("ContainerCreating", ""));
            assert!(!is_unpulled(&[one, newer], now), "of an earlier revision");
            assert!(!is_unpulled(&[], now));
        }
    }

    #[test]
    fn the_pods_of_a_workload_are_those_of_its_selector() {
        let of = |kind: &str, selector: Value| {
            let object = fixture::object(json!({"apiVersion": "apps/v1", "kind": kind,
                "metadata": {"name": "d", "namespace": "n"}, "spec": {"selector": selector}}));
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
        let workload = fixture::object(workload);
        let pods = [pod("p", "2026-01-01T00:00:00Z", &waiting("Odd", ""))];
        assert_eq!(hindrance(&workload, &[]).as_deref(), Some("quota"));
        let both = hindrance(&workload, &pods);
        assert_eq!(both.as_deref(), Some("quota; pod p: container c: Odd"));
    }
}
