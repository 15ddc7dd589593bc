//! The expressions of the policies: their cost, and that they match the types of the kinds.

use olm_test::prelude::*;
use serde_json::Map;

use super::{Made, Person, assert_refused, extension, object_set, recorded, refusal};

/// Size of annotations in bytes, below the limit of 256 KiB for keys and values together.
const ANNOTATIONS: usize = 250_000;
const POLICY: &str = "policy.olm.operatorframework.io";

/// 1 MB of configuration, in large and in small pieces.
fn inline() -> Value {
    let mut inline: Map<String, Value> = (0..1_000)
        .map(|index| (format!("key-{index}"), json!({"a": [index, "b", {"c": index}]})))
        .collect();
    inline.insert("large".to_owned(), json!("~".repeat(950_000)));
    Value::Object(inline)
}

/// Annotations with this prefix, as many as fit when each value has `size` bytes.
fn annotations(prefix: &str, size: usize) -> Value {
    let key = |index: usize| format!("{prefix}/k{index}");
    let each = key(99_999).len() + size;
    let all = (0..ANNOTATIONS / each).map(|index| (key(index), json!("x".repeat(size))));
    Value::Object(all.collect())
}

// P47: a label needs no right, so that everything else has to be compared to admit it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_largest_extension_can_be_compared() {
    let tenant = Person::installer("p47").await;
    for (case, notes) in [
        ("p47-others", annotations("example.com", 100)),
        ("p47-many", annotations(POLICY, 1)),
        ("p47-large", annotations(POLICY, 200_000)),
    ] {
        let mut wanted = extension(case, "boss", "boss");
        wanted["spec"]["config"] = json!({"configType": "Inline", "inline": inline()});
        wanted["metadata"]["annotations"] = notes;
        assert_refused(&tenant.asks(&wanted), &refusal("p47"));
        let made = Made::new(&tenant.cluster, "clusterextension", &wanted);
        let merges = |change: Value| tenant.merges("clusterextension", &made.name, &change);
        let answer = merges(json!({"metadata": {"labels": {"a": "b"}}}));
        assert!(answer.is_ok(), "{case}: {answer:?}");
        let changed = merges(json!({"spec": {"config": {"inline": {"key-999": "other"}}}}));
        assert_refused(&changed, &refusal("p47"));
        let note = format!("{POLICY}/k0");
        let changed = merges(json!({"metadata": {"annotations": {note: "other"}}}));
        assert_refused(&changed, &refusal("p47"));
    }
}

// P47
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_largest_revision_can_be_compared() {
    let cluster = cluster::shared().await;
    let mut wanted = object_set("p47-set", &recorded("boss", "boss"));
    let objects: Vec<Value> = (0..50)
        .map(|index| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("p47-{index}"), "namespace": "default"},
                "data": {"large": "~".repeat(20_000)}}})
        })
        .collect();
    wanted["spec"]["phases"] = json!([{"name": "one", "objects": objects}]);
    let notes = wanted["metadata"]["annotations"].as_object_mut();
    let Value::Object(many) = annotations(POLICY, 1) else { panic!("annotations are a map") };
    notes.expect("a map").extend(many);
    let made = Made::new(&cluster, "clusterobjectset", &wanted);
    let tenant = Person::with_role("p47-set", "system:controller:generic-garbage-collector").await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let merges = || tenant.merges("clusterobjectset", &made.name, &label);
    wait::done("compared and found the same", SOON, merges).await;
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    let archived = tenant.merges("clusterobjectset", &made.name, &archive);
    assert_refused(&archived, &refusal("p47-set"));
}

/// Returns the findings of the API server's type checker about a policy, once it has run.
async fn findings(name: &str) -> Value {
    let plane = cluster::shared().await.plane;
    let read = || plane.json(&["get", "validatingadmissionpolicy", name, "-o", "json"]);
    let is_checked =
        |it: &Value| it["status"]["observedGeneration"] == it["metadata"]["generation"];
    let policy = wait::value(&format!("{name} is checked"), SOON, read, is_checked).await;
    policy["status"]["typeChecking"]["expressionWarnings"].clone()
}

// P48: a policy is checked once, when its kind may not be known yet. So copies are checked, and
// only once the checker has found a copy with a field that does not exist.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "size: make test-full"]
async fn the_expressions_fit_the_kinds() {
    let plane = cluster::shared().await.plane;
    let copy = |original: &str, name: &str, wrong: bool| {
        let mut policy = plane.json(&["get", "validatingadmissionpolicy", original, "-o", "json"]);
        policy["metadata"] = json!({"name": name});
        policy["status"] = json!(null);
        if wrong {
            let validations = policy["spec"]["validations"].as_array_mut();
            validations.expect("a list").push(json!({"expression": "object.spec.nonsense == 1"}));
        }
        plane.create(&policy);
    };
    for policy in [
        "clusterextension-serviceaccount-use",
        "clusterobjectset-serviceaccount-use",
        "clusterextension-approve",
        "olm-name-length",
    ] {
        let attempt = std::sync::atomic::AtomicU32::new(0);
        wait::until("what is wrong is found", SOON, || async {
            let number = attempt.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = format!("p48-wrong-{number}-{policy}");
            copy(policy, &name, true);
            let found = findings(&name).await.to_string();
            plane.kubectl(&["delete", "validatingadmissionpolicy", &name]);
            found.contains("nonsense").then_some(()).ok_or(found)
        })
        .await;
        let name = format!("p48-{policy}");
        copy(policy, &name, false);
        assert_eq!(findings(&name).await, Value::Null, "{policy}");
        plane.kubectl(&["delete", "validatingadmissionpolicy", &name]);
    }
}
