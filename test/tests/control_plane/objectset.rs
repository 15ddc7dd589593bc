//! ClusterObjectSets made by hand, each with a service account that only has the rights it needs.

use olm_test::prelude::*;
use serde::de::DeserializeOwned;

/// A collision is retried every ten seconds.
const RETRIED: Duration = Duration::from_mins(1);
/// Three attempts over one minute, and the garbage collector's work.
const FALLBACK: Duration = Duration::from_mins(2);

const OURS: &str = "app.kubernetes.io/managed-by";

/// A namespace with a service account, for the revisions of one test.
struct Stage {
    cluster: Cluster,
    name: String,
}

impl Stage {
    /// The account may create `ConfigMaps`, Services and Deployments, and manage those named here.
    async fn set(suffix: &str, names: &[&str]) -> Self {
        let stage =
            Self { cluster: cluster::with_controller().await, name: format!("os-{suffix}") };
        stage.apply(&json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": stage.name}}));
        stage.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "installer", "namespace": stage.name}}));
        let resources = json!(["configmaps", "services", "deployments"]);
        let rules = json!([
            {"apiGroups": ["", "apps"], "resources": resources, "verbs": ["create"]},
            {"apiGroups": ["", "apps"], "resources": resources, "resourceNames": names,
                "verbs": ["delete", "get", "list", "patch", "watch"]},
        ]);
        let account = objects::account(&stage.name, "installer");
        let granted = objects::grant("installer", Some(&stage.name), &rules, &account);
        stage.cluster.plane.grant(&granted);
        stage
    }

    fn apply(&self, object: &Value) {
        self.cluster.plane.requests().apply(object);
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.cluster.plane.kubectl(args)
    }

    fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.plane.requests().read(kind, &self.name, name)
    }

    fn config_map(&self, name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.name}, "data": {"key": value}})
    }

    /// Returns what `objectset.yaml` has under a key.
    fn written<T: DeserializeOwned>(&self, key: &str, with: &[(&str, &str)]) -> T {
        let with = [&[("name", self.name.as_str())][..], with].concat();
        paths::fixture("test/tests/control_plane/objectset.yaml", key, &with)
    }

    /// Returns revision `number`, with a phase for each list of entries.
    fn set_of(&self, number: i64, phases: &[Vec<Value>]) -> Value {
        let mut set: Value = self.written("set", &[("number", &number.to_string())]);
        let phases = phases.iter().enumerate();
        let phases = phases
            .map(|(index, entries)| json!({"name": format!("phase-{index}"), "objects": entries}));
        set["spec"]["phases"] = phases.collect();
        set["spec"]["revision"] = json!(number);
        set
    }

    /// Creates revision `number`, one phase for each list of objects.
    fn revise(&self, number: i64, phases: &[Vec<Value>]) {
        let entry = |object: &Value| json!({"object": object});
        let entries = |objects: &Vec<Value>| objects.iter().map(entry).collect();
        let phases: Vec<_> = phases.iter().map(entries).collect();
        self.apply(&self.set_of(number, &phases));
    }

    /// Returns the Deployment `op` with this image.
    fn deployment(&self, image: &str) -> Value {
        self.written("deployment", &[("image", image)])
    }

    fn revision(&self, number: i64) -> String {
        format!("{}-{number}", self.name)
    }

    /// Waits until a condition of a revision has this status and reason, and returns its message.
    async fn shows(
        &self,
        number: i64,
        type_: &str,
        want: (&str, &str),
        within: Duration,
    ) -> String {
        let name = self.revision(number);
        wait::until(&format!("{name} {type_}={}/{}", want.0, want.1), within, || async {
            let set = self.get("clusterobjectset", &name).unwrap_or_default();
            let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|condition| condition["type"] == type_);
            found
                .filter(|found| found["status"] == want.0 && found["reason"] == want.1)
                .and_then(|found| found["message"].as_str().map(str::to_owned))
                .ok_or(format!("{conditions:#?}"))
        })
        .await
    }

    async fn succeeds(&self, number: i64) {
        self.shows(number, "Progressing", ("True", "Succeeded"), SOON).await;
    }

    async fn eventually(&self, what: &str, within: Duration, look: impl Fn() -> bool) {
        wait::until(what, within, || async { look().then_some(()).ok_or("not yet") }).await;
    }

    /// Deletes a revision and waits until it is gone.
    async fn removed(&self, number: i64, within: Duration) {
        let name = self.revision(number);
        self.kubectl(&["delete", "clusterobjectset", &name, "--wait=false"]);
        let gone = || self.get("clusterobjectset", &name).is_none();
        self.eventually(&format!("{name} is gone"), within, gone).await;
    }
}

fn controller_of(object: &Value) -> String {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let controller = references.iter().find(|reference| reference["controller"] == true);
    controller.map_or_else(String::new, |found| found["name"].as_str().unwrap_or("").to_owned())
}

/// Returns by what operations we manage fields of an object.
fn our_operations(object: &Value) -> Vec<&str> {
    let managers = object["metadata"]["managedFields"].as_array();
    let ours = managers.into_iter().flatten();
    let ours = ours.filter(|entry| entry["manager"] == "olm.operatorframework.io");
    ours.filter_map(|entry| entry["operation"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_waits_for_a_foreign_one_is_repaired_and_stays_while_a_policy_is_misspelt() {
    let stage = Stage::set("drift", &["cm"]).await;
    foreign_object_collides_until_it_is_gone(&stage).await;
    objects_are_created_and_drift_is_repaired(&stage).await;
    an_unknown_policy_annotation_blocks_a_revision_and_its_removal(&stage).await;
    assert_eq!(stage.get("configmap", "cm"), None);
}

// applying.md 10
async fn an_unknown_policy_annotation_blocks_a_revision_and_its_removal(stage: &Stage) {
    const MISSPELT: &str = "policy.olm.operatorframework.io/uninstal";
    let (name, set) = (stage.revision(1), "clusterobjectset");
    stage.kubectl(&["annotate", set, &name, &format!("{MISSPELT}=RetainCRDs")]);
    let text = stage.shows(1, "Progressing", ("False", "Blocked"), SOON).await;
    assert!(text.contains("is unknown: remove it; nothing is reconciled until then"), "{text}");

    stage.kubectl(&["delete", set, &name, "--wait=false"]);
    let text = stage.shows(1, "Progressing", ("True", "Retrying"), SOON).await;
    let way_out = format!("kubectl annotate clusterobjectset {name} {MISSPELT}-");
    assert!(text.starts_with("removal blocked: ") && text.ends_with(&way_out), "{text}");
    assert!(stage.get("configmap", "cm").is_some());
    stage.kubectl(&["annotate", set, &name, &format!("{MISSPELT}-")]);
    stage.eventually("it is gone", SOON, || stage.get(set, &name).is_none()).await;
}

// applying.md 3.6, d6, d8 on rung 2
async fn objects_are_created_and_drift_is_repaired(stage: &Stage) {
    let created = stage.get("configmap", "cm").expect("the object is there");
    assert_eq!(created["metadata"]["labels"][OURS], "olm.operatorframework.io");
    assert_eq!(controller_of(&created), stage.revision(1));
    assert_eq!(created["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
    // The next write of ours makes it an apply, below.
    assert_eq!(our_operations(&created), ["Update"]);

    let drift = r#"{"data":{"key":"other","mine":"1"},"metadata":{"labels":{"mine":"1"}}}"#;
    stage.kubectl(&["patch", "configmap", "cm", "-n", &stage.name, "--type=merge", "-p", drift]);
    let repaired = || stage.get("configmap", "cm").is_some_and(|cm| cm["data"]["key"] == "wanted");
    stage.eventually("the declared value is back", SOON, repaired).await;
    let kept = stage.get("configmap", "cm").expect("the object is there");
    assert_eq!(kept["data"]["mine"], "1");
    assert_eq!(kept["metadata"]["labels"]["mine"], "1");
    assert_eq!(our_operations(&kept), ["Apply"]);

    let old = kept["metadata"]["uid"].clone();
    stage.kubectl(&["delete", "configmap", "cm", "-n", &stage.name]);
    let back = || stage.get("configmap", "cm").is_some_and(|cm| cm["metadata"]["uid"] != old);
    stage.eventually("the deleted object is back", SOON, back).await;
}

// applying.md d5, f1
#[tokio::test(flavor = "multi_thread")]
async fn next_revision_takes_over_and_the_rest_goes() {
    let stage = Stage::set("handover", &["shared", "old", "new", "op"]).await;
    let mut operator = stage.deployment("example/op:1");
    // A create ignores it; the second revision applies what exists.
    operator["spec"]["template"]["spec"]["containers"][0]["odd"] = json!({"field": true});
    let first = vec![stage.config_map("shared", "1"), stage.config_map("old", "1")];
    stage.revise(1, &[first, vec![operator.clone()]]);
    stage.succeeds(1).await;
    let before = stage.get("deployment", "op").expect("the Deployment is there");

    let second = vec![stage.config_map("shared", "2"), stage.config_map("new", "1")];
    stage.revise(2, &[second, vec![operator]]);
    stage.succeeds(2).await;
    let text = stage.shows(1, "Progressing", ("False", "Archived"), SOON).await;
    assert_eq!(text, "revision is archived");
    assert_eq!(stage.get("configmap", "old"), None);
    let shared = stage.get("configmap", "shared").expect("the shared object stays");
    assert_eq!(controller_of(&shared), stage.revision(2));
    assert_eq!(shared["data"]["key"], "2");
    let references = || {
        let shared = stage.get("configmap", "shared").unwrap_or_default();
        shared["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len) == 1
    };
    stage.eventually("the archived revision let go", SOON, references).await;
    let after = stage.get("deployment", "op").expect("the Deployment stays");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    // The API server increments the generation for a changed annotation; pods must not restart.
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");

    let account = format!("system:serviceaccount:{}:installer", stage.name);
    let log = &stage.cluster.plane.addresses.audit_log;
    let writes: Vec<audit::Request> = audit::writes(log, &stage.name)
        .into_iter()
        .filter(|write| write.namespace == stage.name && write.user.contains(CONTROLLER_ACCOUNT))
        .collect();
    assert!(writes.len() > 5, "{writes:#?}");
    let others: Vec<_> =
        writes.iter().filter(|write| write.acted_as.as_ref() != Some(&account)).collect();
    assert!(others.is_empty(), "{others:#?}");
    stage.removed(2, SOON).await;
}

/// Returns what of a Service and a Deployment differs from one revision to the next.
fn choices(stage: &Stage) -> Value {
    let service = stage.get("service", "op").unwrap_or_default();
    let spec = stage.get("deployment", "op").unwrap_or_default()["spec"].clone();
    let (pod, container) = (&spec["template"]["spec"], &spec["template"]["spec"]["containers"][0]);
    let keys =
        |value: &Value| json!(value.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>()));
    let numbers = |list: &Value, key: &str| {
        let numbers = list.as_array().into_iter().flatten().map(|it| it[key].clone());
        json!(numbers.collect::<Vec<_>>())
    };
    json!([
        numbers(&pod["containers"], "name"),
        numbers(&service["spec"]["ports"], "port"),
        numbers(&container["ports"], "containerPort"),
        spec["strategy"]["type"],
        keys(&pod["volumes"][0]),
        keys(&container["env"][0]),
        container["livenessProbe"].get("tcpSocket").is_some()
    ])
}

// applying.md 3.6: one of a name, one of several choices
#[tokio::test(flavor = "multi_thread")]
async fn a_port_a_volume_or_a_choice_gets_another_value_under_the_same_name() {
    let stage = Stage::set("choice", &["op"]).await;
    // From the third on the API server's own defaults belong to nobody.
    let wanted = |which: &str| stage.written::<Value>(&format!("{which} choices"), &[]);
    for (number, which) in [(1, "first"), (2, "second"), (3, "first"), (4, "second")] {
        stage.revise(number, &[stage.written(which, &[])]);
        stage.succeeds(number).await;
        assert_eq!(choices(&stage), wanted(which), "revision {number}");
        if number == 3 {
            // Stays behind without an image.
            let set = ["set", "env", "deployment/op", "-c", "extra", "A=1", "-n", &stage.name];
            stage.kubectl(&set);
        }
    }
    let second = wanted("second");
    for (kind, edit) in stage.written::<BTreeMap<String, Value>>("edits", &[]) {
        let patch = ["patch", &kind, "op", "-n", &stage.name, "--type=json"];
        stage.kubectl(&[&patch[..], &["-p", &edit.to_string()]].concat());
        let repaired = || choices(&stage) == second;
        stage.eventually(&format!("the {kind} is repaired"), SOON, repaired).await;
    }
    stage.removed(4, SOON).await;
}

// applying.md 3.6: a create takes entries with the same key, a server-side apply refuses them
#[tokio::test(flavor = "multi_thread")]
async fn both_names_of_one_port_stay_in_a_repair_and_an_upgrade() {
    let stage = Stage::set("named", &["op"]).await;
    let with_ports = |names: &[&str], image: &str| {
        let mut op = stage.deployment(image);
        let ports = names.iter().map(|name| json!({"name": name, "containerPort": 8080}));
        op["spec"]["template"]["spec"]["containers"][0]["ports"] = ports.collect();
        op
    };
    let ports = || {
        let op = stage.get("deployment", "op").unwrap_or_default();
        let container = &op["spec"]["template"]["spec"]["containers"][0];
        let ports = container["ports"].as_array().cloned().unwrap_or_default();
        let names = ports.iter().map(|port| port["name"].as_str().unwrap_or_default().to_owned());
        (container["image"].as_str().unwrap_or_default().to_owned(), names.collect::<Vec<_>>())
    };
    let has = |image: &str, names: &[&str]| {
        ports() == (image.to_owned(), names.iter().map(|&name| name.to_owned()).collect())
    };
    stage.revise(1, &[vec![with_ports(&["http", "metrics"], "example/op:1")]]);
    stage.succeeds(1).await;
    assert!(has("example/op:1", &["http", "metrics"]), "{:?}", ports());
    stage.kubectl(&["set", "image", "deployment/op", "c=other", "-n", &stage.name]);
    let repaired = || has("example/op:1", &["http", "metrics"]);
    stage.eventually("the image is repaired", SOON, repaired).await;
    for (number, names) in [(2, ["http", "health"].as_slice()), (3, &["http"])] {
        let image = format!("example/op:{number}");
        stage.revise(number, &[vec![with_ports(names, &image)]]);
        stage.succeeds(number).await;
        assert!(has(&image, names), "{:?}", ports());
    }
    stage.removed(3, SOON).await;
}

/// A `CustomResourceDefinition` that serves these versions.
fn things(versions: &[&str]) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == "v1",
            "schema": {"openAPIV3Schema": open}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.lost.example.com"},
        "spec": {"group": "lost.example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

// applying.md 3.6: who wrote in a version that is gone would stop every server-side apply
#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_applied_that_somebody_wrote_in_a_version_its_crd_has_lost() {
    let stage = Stage::set("lost", &["cm"]).await;
    let rules = json!([{"apiGroups": ["lost.example.com"], "resources": ["things"],
        "verbs": ["*"]}]);
    let account = objects::account(&stage.name, "installer");
    stage.cluster.plane.grant(&objects::grant("things", Some(&stage.name), &rules, &account));
    stage.apply(&things(&["v1alpha1", "v1"]));
    let thing = |value: &str| {
        json!({"apiVersion": "lost.example.com/v1", "kind": "Thing",
            "metadata": {"name": "x", "namespace": stage.name}, "spec": {"ours": value}})
    };
    stage.revise(1, &[vec![thing("1")]]);
    stage.succeeds(1).await;
    let kind = "things.v1alpha1.lost.example.com";
    let own = r#"{"spec": {"own": "1"}}"#;
    stage.kubectl(&["patch", kind, "x", "-n", &stage.name, "--type=merge", "-p", own]);
    stage.apply(&things(&["v1"]));
    stage.revise(2, &[vec![thing("2")]]);
    stage.succeeds(2).await;
    let found = stage.get("things.lost.example.com", "x").expect("it is there");
    assert_eq!(found["spec"], json!({"ours": "2", "own": "1"}));
    stage.removed(2, SOON).await;
    stage.kubectl(&["delete", "crd", "things.lost.example.com"]);
}

// applying.md d1
async fn foreign_object_collides_until_it_is_gone(stage: &Stage) {
    stage.apply(&stage.config_map("cm", "foreign"));
    stage.revise(1, &[vec![stage.config_map("cm", "wanted")]]);
    let text = stage.shows(1, "Progressing", ("True", "Retrying"), SOON).await;
    let want = format!(
        "revision object collisions in phase 0\nObject ConfigMap.v1 {}/cm\nAction: \
         \"Collision\"\nConflicting Owner: nil",
        stage.name
    );
    assert_eq!(text, want);
    let events = stage.cluster.plane.json(&["get", "events", "-n", "default", "-o", "json"]);
    let events = events["items"].as_array().expect("a list").iter();
    assert_eq!(events.filter(|event| event["message"] == want).count(), 1);
    let untouched = stage.get("configmap", "cm").expect("the object stays");
    assert_eq!(untouched["data"]["key"], "foreign");
    assert!(untouched["metadata"]["labels"].is_null());
    stage.kubectl(&["delete", "configmap", "cm", "-n", &stage.name]);
    stage.shows(1, "Progressing", ("True", "Succeeded"), RETRIED).await;
}

// applying.md e1, e2, 3.8
#[tokio::test(flavor = "multi_thread")]
async fn later_phase_waits_for_the_probes_of_the_earlier() {
    let stage = Stage::set("phases", &["op", "cm"]).await;
    let broken = stage.deployment("wrong/image");
    stage.revise(1, &[vec![broken.clone()], vec![stage.config_map("cm", "1")]]);
    let text = stage.shows(1, "Available", ("False", "ProbeFailure"), SOON).await;
    let object = format!("Object Deployment.apps/v1 {}/op: ", stage.name);
    assert!(text.starts_with(&object), "{text}");
    let text = stage.shows(1, "Progressing", ("True", "RollingOut"), SOON).await;
    assert_eq!(text, "Revision 1.0.0 is rolling out.");
    // Of another owner nothing is applied, because a later phase has the same object.
    let objects = [stage.config_map("cm", "2"), broken];
    let mut other = stage.set_of(2, &objects.map(|object| vec![json!({"object": object})]));
    other["metadata"]["labels"] = json!({label::OWNER_NAME: format!("{}-other", stage.name)});
    other["spec"]["revision"] = json!(1);
    stage.apply(&other);
    let text = stage.shows(2, "Progressing", ("True", "Retrying"), SOON).await;
    assert!(text.starts_with("revision object collisions in phase 1\n"), "{text}");
    assert_eq!(stage.get("configmap", "cm"), None);
    stage.removed(2, SOON).await;
    stage.removed(1, SOON).await;
    assert_eq!(stage.get("deployment", "op"), None);
}

// applying.md c8
#[tokio::test(flavor = "multi_thread")]
async fn mutable_secret_blocks() {
    let stage = Stage::set("mutable", &["cm"]).await;
    let content = stage.config_map("cm", "1").to_string();
    stage.apply(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": stage.name, "namespace": "olmv1-system",
            "labels": {"olm.operatorframework.io/revision-name": stage.revision(1)}},
        "stringData": {"k": content}}));
    let entry = json!({"ref": {"name": stage.name, "key": "k"}});
    stage.apply(&stage.set_of(1, &[vec![entry]]));
    let text = stage.shows(1, "Progressing", ("False", "Blocked"), SOON).await;
    let want = format!(
        "the following secrets are not immutable (referenced secrets must have immutable set to \
         true): olmv1-system/{}",
        stage.name
    );
    assert_eq!(text, want);
    let immutable = r#"{"immutable":true}"#;
    stage.kubectl(&["patch", "secret", &stage.name, "-n", "olmv1-system", "-p", immutable]);
    stage.succeeds(1).await;
    stage.removed(1, SOON).await;
}

// applying.md h8
#[tokio::test(flavor = "multi_thread")]
async fn uninstall_without_account_is_left_to_the_garbage_collector() {
    let stage = Stage::set("fallback", &["cm"]).await;
    stage.revise(1, &[vec![stage.config_map("cm", "1")]]);
    stage.succeeds(1).await;
    stage.kubectl(&["delete", "serviceaccount", "installer", "-n", &stage.name]);
    stage.removed(1, FALLBACK).await;
    let gone = || stage.get("configmap", "cm").is_none();
    stage.eventually("the object is collected", COLLECTED, gone).await;
    let events = stage.kubectl(&["get", "events", "-n", "default", "-o", "json"]);
    assert!(events.contains("UninstallFallback"));
}
