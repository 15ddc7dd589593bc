//! The state of a cluster in a form in which two runs can be compared.
//!
//! All kinds are read, not only the expected ones, so that anything left over or duplicated is
//! found. What differs between two equal runs is left out: uids, times, resource versions, the
//! status of kinds that are not OLM's, and the kinds of [`VOLATILE`].

mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use futures::try_join;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{ApiResource, Discovery, verbs};
use olm_api::keys::annotation;
use olm_api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use serde_json::{Value, json};

/// Kinds whose objects are created and deleted by the cluster itself or have random names.
const VOLATILE: [&str; 8] =
    ["ComponentStatus", "CSINode", "Endpoints", "EndpointSlice", "Event", "Lease", "Node", "Pod"];
const OLM_GROUP: &str = "olm.operatorframework.io";
/// Parts of the names of all field managers of ours.
const OUR_MANAGERS: [&str; 2] = ["olm.operatorframework.io", "operator-controller"];
const LONGEST_VALUE: usize = 600;
/// What names a pod in a message: it is looked for only after a while, and has a random name.
const OF_PODS: [&str; 2] = [": pod ", ": the service account may not list its pods"];
/// What follows in the message about a rollout that was reverted was known of it at that moment.
const BECAUSE: &str = "policy.olm.operatorframework.io/on-failure is removed: ";
/// Annotation in which the Deployment controller counts rollouts.
const ROLL_OUTS: &str = "deployment.kubernetes.io/revision";

/// The state of a cluster: `Kind.group namespace/name` to the object, without random parts.
#[derive(Debug, Clone, PartialEq)]
pub struct State(BTreeMap<String, Value>);

impl State {
    /// Reads all objects of the cluster.
    pub async fn read(client: &Client) -> Result<Self, String> {
        let objects = objects(client).await?;
        Ok(Self::of(objects))
    }

    /// Reads the objects of OLM's own kinds.
    pub async fn read_ours(client: &Client) -> Result<Self, String> {
        let (catalogs, extensions, sets) = try_join!(
            list(client, ApiResource::erase::<ClusterCatalog>(&())),
            list(client, ApiResource::erase::<ClusterExtension>(&())),
            list(client, ApiResource::erase::<ClusterObjectSet>(&())),
        )?;
        let objects = [catalogs, extensions, sets].into_iter().flatten();
        Ok(Self::of(objects.collect()))
    }

    /// Returns only the objects of OLM's own kinds.
    #[must_use]
    pub fn ours(&self) -> Self {
        let ours = self.0.iter().filter(|(key, _)| is_ours(key));
        Self(ours.map(|(key, object)| (key.clone(), object.clone())).collect())
    }

    fn of(objects: BTreeMap<String, Value>) -> Self {
        let living: BTreeSet<String> = objects
            .values()
            .filter_map(|object| object["metadata"]["uid"].as_str().map(str::to_owned))
            .collect();
        let comparable = objects.into_iter().map(|(key, object)| {
            let object = comparable(&key, &object, &living);
            (key, object)
        });
        Self(comparable.collect())
    }

    /// Returns how `found` differs from `self`, one line per difference.
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, object) in &self.0 {
            match found.0.get(key) {
                None => lines.push(format!("missing: {key}")),
                Some(other) => compare(key, object, other, &mut lines),
            }
        }
        let more = found.0.keys().filter(|key| !self.0.contains_key(*key));
        lines.extend(more.map(|key| format!("left over: {key}")));
        lines
    }

    /// Says whether there is an object of this key.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the keys of the objects that `other` lacks.
    pub fn keys_beyond(&self, other: &Self) -> Vec<String> {
        let beyond = self.0.keys().filter(|key| !other.contains(key));
        beyond.cloned().collect()
    }

    /// Leaves out the numbers of the revisions of an extension, and the archived ones with their
    /// content: both differ after a revision was deleted by hand.
    #[must_use]
    pub fn without_numbers(&self, extension: &str) -> Self {
        numbers::left_out(&self.0, extension)
    }

    /// Leaves out the `ReplicaSets` of an extension's Deployments and their number: after an
    /// outage the Deployment controller may take a name in its old cache for taken, and roll out a
    /// second `ReplicaSet` for the same template. That the template stayed is seen in `generation`.
    #[must_use]
    pub fn without_replica_sets(mut self, extension: &str) -> Self {
        let replica_sets = format!("ReplicaSet.apps {extension}/");
        self.0.retain(|key, _| !key.starts_with(&replica_sets));
        self.of_deployments(extension, |metadata| {
            metadata["annotations"][ROLL_OUTS] = Value::Null;
        })
    }

    /// Leaves out all that Kubernetes records about the rollouts of an extension's Deployments: it
    /// starts again for one that was deleted by hand.
    #[must_use]
    pub fn without_roll_outs(self, extension: &str) -> Self {
        self.without_replica_sets(extension).of_deployments(extension, |metadata| {
            metadata["generation"] = Value::Null;
        })
    }

    /// Changes the metadata of an extension's Deployments.
    fn of_deployments(mut self, extension: &str, change: impl Fn(&mut Value)) -> Self {
        let deployments = format!("Deployment.apps {extension}/");
        for (key, object) in &mut self.0 {
            if key.starts_with(&deployments) {
                change(&mut object["metadata"]);
            }
        }
        self
    }

    /// Leaves out the objects of these keys.
    #[must_use]
    pub fn without(mut self, keys: &BTreeSet<String>) -> Self {
        self.0.retain(|key, _| !keys.contains(key));
        self
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the UID of every object on the cluster, except [`VOLATILE`] kinds.
pub async fn uids(client: &Client) -> Result<BTreeMap<String, String>, String> {
    let objects = objects(client).await?.into_iter();
    Ok(objects
        .map(|(key, object)| {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            (key, uid.to_owned())
        })
        .collect())
}

async fn objects(client: &Client) -> Result<BTreeMap<String, Value>, String> {
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.map_err(|error| error.to_string())?;
    let lists = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::recommended_resources)
        .filter(|(resource, able)| {
            able.supports_operation(verbs::LIST) && !VOLATILE.contains(&resource.kind.as_str())
        })
        .map(|(resource, _)| list(client, resource));
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

async fn list(client: &Client, resource: ApiResource) -> Result<Vec<(String, Value)>, String> {
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let listed = match api.list(&ListParams::default()).await {
        Ok(listed) => listed,
        // The kind was removed between the two requests, and its objects with it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => return Ok(Vec::new()),
        Err(error) => return Err(format!("listing {}: {error}", resource.plural)),
    };
    listed
        .items
        .into_iter()
        .map(|object| {
            let key = format!(
                "{}.{} {}/{}",
                resource.kind,
                resource.group,
                object.metadata.namespace.as_deref().unwrap_or_default(),
                object.metadata.name.as_deref().unwrap_or_default(),
            );
            let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
            Ok((key, object))
        })
        .collect()
}

/// Says whether a key is that of one of OLM's own kinds.
pub fn is_ours(key: &str) -> bool {
    let kind = key.split(' ').next();
    kind.is_some_and(|kind| kind.ends_with(OLM_GROUP))
}

/// Returns the parts of an object that two runs must have in common.
fn comparable(key: &str, object: &Value, living: &BTreeSet<String>) -> Value {
    let mut kept = object.clone();
    let metadata = &object["metadata"];
    let mut reduced = json!({});
    for field in ["labels", "annotations", "finalizers", "generation"] {
        reduced[field] = metadata[field].clone();
    }
    // That a step was forced is recorded nowhere else: whoever deletes the revision by hand once
    // nothing is installed to step from takes that with it. What was known of a rollout that was
    // reverted is of that moment.
    if let Some(annotations) = reduced["annotations"].as_object_mut() {
        annotations.remove(annotation::FORCED_FROM);
        annotations.remove(annotation::REVERTED_BECAUSE);
    }
    reduced["deleted"] = json!(metadata.get("deletionTimestamp").is_some());
    reduced["owners"] = owners(metadata, living);
    reduced["writers"] = writers(metadata);
    kept["metadata"] = reduced;
    let ours = is_ours(key);
    if let Some(kept) = kept.as_object_mut() {
        match kept.get_mut("status") {
            Some(status) if ours => leave_lasting(status),
            _ => drop(kept.remove("status")),
        }
    }
    kept
}

/// Returns the owner references, with whether the owner exists instead of its uid.
fn owners(metadata: &Value, living: &BTreeSet<String>) -> Value {
    let mut owners = metadata["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        let lives = owner["uid"].as_str().is_some_and(|uid| living.contains(uid));
        owner["uid"] = json!(if lives { "lives" } else { "is gone" });
    }
    owners
}

/// Returns as whom we own fields. By which operation, and which fields, depends on others too: a
/// create owns what the API server defaulted, until something calls for the first apply.
fn writers(metadata: &Value) -> Value {
    let entries = metadata["managedFields"].as_array().into_iter().flatten();
    let ours = entries.filter_map(|entry| {
        let part = |field: &str| entry[field].as_str().unwrap_or_default();
        let manager = part("manager");
        let ours = OUR_MANAGERS.iter().any(|ours| manager.contains(ours));
        ours.then(|| format!("{manager} {}", part("subresource")))
    });
    json!(ours.collect::<BTreeSet<_>>())
}

/// Removes times and what is said of pods from a status, and sorts conditions by type.
fn leave_lasting(value: &mut Value) {
    let names_pods = |text: &str| OF_PODS.iter().any(|words| text.contains(words));
    let is_of_a_pod = |text: &Value| text.as_str().is_some_and(names_pods);
    match value {
        Value::Object(fields) => {
            if let Some(message) = fields.get_mut("message").filter(|text| is_of_a_pod(text)) {
                let lines = message.as_str().unwrap_or_default().lines();
                let kept: Vec<_> = lines.filter(|line| !names_pods(line)).collect();
                *message = json!(kept.join("\n"));
            }
            if let Some(message) = fields.get_mut("message")
                && let Some((kept, _)) = message.as_str().and_then(|text| text.split_once(BECAUSE))
            {
                *message = json!(kept);
            }
            for time in ["lastTransitionTime", "lastUnpacked", "lastPolled"] {
                fields.remove(time);
            }
            fields.values_mut().for_each(leave_lasting);
        }
        Value::Array(items) => {
            // Reconciling repeats Ready, unless Stalled is true.
            let of_pods = |it: &Value| it["type"] == "Stalled" && is_of_a_pod(&it["message"]);
            items.retain(|item| item["type"] != "Reconciling" && !of_pods(item));
            items.iter_mut().for_each(leave_lasting);
            if items.iter().all(|item| item["type"].is_string()) {
                items.sort_by_key(|item| item["type"].to_string());
            }
        }
        _ => {}
    }
}

/// Adds a line for each place in which two values differ.
pub fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let (left, right) = (&expected[key], &found[key]);
                compare(&format!("{path} .{key}"), left, right, lines);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path} [{index}]"), left, right, lines);
            }
        }
        _ if expected == found => {}
        _ => lines.push(format!("{path}: {} != {}", short(expected), short(found))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(objects: &[(&str, Value)]) -> State {
        let objects = objects.iter().cloned();
        State::of(objects.map(|(key, object)| (key.to_owned(), object)).collect())
    }

    fn config_map(uid: &str, owner: &str, data: &Value) -> Value {
        json!({
            "metadata": {
                "name": "a", "uid": uid, "resourceVersion": uid, "labels": {"x": "y"},
                "ownerReferences": [{"name": "o", "uid": owner, "controller": true}],
                "managedFields": [{
                    "manager": "olm.operatorframework.io", "operation": "Apply", "time": uid,
                    "fieldsV1": {"f:metadata": {format!("k:{{\"uid\":\"{owner}\"}}"): {}}},
                }],
            },
            "data": data,
            "status": {"at": uid},
        })
    }

    #[test]
    fn two_equal_runs_have_no_differences() {
        let run = |uid: &str, owner: &str| {
            state(&[
                ("ConfigMap. n/a", config_map(uid, owner, &json!({"k": "v"}))),
                ("Owner. /o", json!({"metadata": {"name": "o", "uid": owner}})),
            ])
        };
        assert_eq!(run("1", "2").differences(&run("3", "4")), [""; 0]);
    }

    /// A Deployment after so many roll-outs.
    fn rolled_out(generation: u64, roll_outs: u64, replicas: u64) -> State {
        let metadata = json!({"name": "d", "generation": generation,
            "annotations": {ROLL_OUTS: roll_outs.to_string(), "x": "y"}});
        let deployment = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        let set = |number| {
            let metadata = json!({"metadata": {"generation": 1}});
            (format!("ReplicaSet.apps n/d-{number}"), metadata)
        };
        let deployment = ("Deployment.apps n/d".to_owned(), deployment);
        State::of((0..roll_outs).map(set).chain([deployment]).collect())
    }

    #[test]
    fn a_deployment_that_was_made_anew_differs_in_its_roll_outs_only() {
        let (once, thrice) = (rolled_out(1, 1, 1), rolled_out(3, 3, 1));
        assert!(!once.differences(&thrice).is_empty());
        let (once, thrice) = (once.without_roll_outs("n"), thrice.without_roll_outs("n"));
        assert_eq!(once.differences(&thrice), [""; 0]);
        let more = rolled_out(3, 3, 2).without_roll_outs("n");
        assert_eq!(once.differences(&more).len(), 1);
    }

    #[test]
    fn a_second_replica_set_for_one_template_is_left_out_but_not_a_changed_template() {
        let left = |state: State| state.without_replica_sets("n");
        let once = left(rolled_out(1, 1, 1));
        assert_eq!(once.differences(&left(rolled_out(1, 2, 1))), [""; 0]);
        assert_eq!(once.differences(&left(rolled_out(3, 2, 1))).len(), 1);
    }

    #[test]
    fn what_is_missing_left_over_or_different_is_named() {
        let expected = state(&[
            ("ConfigMap. n/a", config_map("1", "2", &json!({"k": "v"}))),
            ("ConfigMap. n/b", json!({"metadata": {}})),
        ]);
        let found = state(&[
            ("ConfigMap. n/a", config_map("1", "1", &json!({"k": "w"}))),
            ("ConfigMap. n/c", json!({"metadata": {}})),
        ]);
        assert_eq!(
            expected.differences(&found),
            [
                "ConfigMap. n/a .data .k: \"v\" != \"w\"",
                "ConfigMap. n/a .metadata .owners [0] .uid: \"is gone\" != \"lives\"",
                "missing: ConfigMap. n/b",
                "left over: ConfigMap. n/c",
            ]
        );
    }

    #[test]
    fn ours_are_the_kinds_of_the_group() {
        let all = state(&[
            ("ClusterObjectSet.olm.operatorframework.io /s", json!({"metadata": {}})),
            ("ConfigMap. n/olm.operatorframework.io", json!({"metadata": {}})),
        ]);
        let left_out = all.ours().differences(&all);
        assert_eq!(left_out, ["left over: ConfigMap. n/olm.operatorframework.io"]);
    }

    #[test]
    fn of_a_status_of_ours_only_the_times_are_left_out() {
        let set = |reason: &str, at: &str| {
            let conditions = json!([
                {"type": "B", "reason": reason, "lastTransitionTime": at},
                {"type": "A", "reason": "x", "lastTransitionTime": at},
            ]);
            state(&[(
                "ClusterObjectSet.olm.operatorframework.io /s",
                json!({"metadata": {}, "status": {"conditions": conditions}}),
            )])
        };
        assert_eq!(set("x", "1").differences(&set("x", "2")), [""; 0]);
        let lines = set("x", "1").differences(&set("y", "1"));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn what_keeps_pods_from_running_is_left_out() {
        let run = |text: &str, more: &[Value]| {
            let ready = json!({"type": "Ready", "message": text});
            let conditions = [&[ready], more].concat();
            let object = json!({"metadata": {}, "status": {"conditions": conditions}});
            state(&[("ClusterObjectSet.olm.operatorframework.io /s", object)])
        };
        let early = run("Object d: got: 2", &[]);
        for status in ["False", "True"] {
            let stalled =
                json!({"type": "Stalled", "status": status, "message": "Object d: pod p: x"});
            let late = run("Object d: got: 2\nObject d: pod p: x", &[stalled]);
            assert_eq!(early.differences(&late), [""; 0]);
        }
        let stalled = json!({"type": "Stalled", "status": "True", "message": "Object d: quota"});
        assert_eq!(early.differences(&run("Object d: got: 2", &[stalled])).len(), 1);
    }
}
