//! What `deploymentConfig` does to a Deployment, row by row of rendering.md 4.8.

use serde_json::{Value, json};

use crate::bundle::Csv;
use crate::config::{DeploymentConfig, Features, configure};
use crate::fixture::{cases, object, rows};
use crate::render::deployment_config::apply;

const CASES: &str = include_str!("../../testdata/render/cases.yaml");

fn config(value: &Value) -> DeploymentConfig {
    let inline = json!({"deploymentConfig": value});
    let read = configure(&Csv::default(), "ops", Some(&inline), Features::default()).unwrap();
    assert_eq!(read.warnings, [""; 0]);
    read.deployment.unwrap()
}

/// Applies a configuration to a Deployment with this pod spec, and returns the resulting spec.
fn pod(spec: &Value, change: &Value) -> Value {
    let mut deployment = object(json!({"spec": {"template": {"spec": spec}}}));
    apply(&mut deployment, &config(change));
    deployment.0["spec"]["template"]["spec"].take()
}

/// Applies a configuration to a pod with this container and returns the container.
fn container(container: &Value, change: &Value) -> Value {
    let containers = json!({"containers": [container, {"name": "side-car"}],
        "initContainers": [container]});
    let pod = pod(&containers, change);
    assert_eq!(pod["initContainers"][0], *container);
    pod["containers"][0].clone()
}

// rendering.md 4.8
#[test]
fn containers_change() {
    for row in rows(include_str!("../../testdata/render/containers.yaml")) {
        assert_eq!(container(&row["bundle"], &row["change"]), row["want"], "{row}");
    }
}

#[test]
fn every_container_changes() {
    let change = json!({"env": [{"name": "a"}], "resources": {}});
    let pod = pod(&json!({"containers": [{"name": "main"}, {"name": "side-car"}]}), &change);
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["env"], json!([{"name": "a"}]));
        assert_eq!(container["resources"], json!({}));
    }
}

// rendering.md 4.8
#[test]
fn pods_change() {
    for row in rows(include_str!("../../testdata/render/pods.yaml")) {
        assert_eq!(pod(&row["bundle"], &row["change"]), row["want"], "{row}");
    }
}

// rendering.md 4.8: affinities
#[test]
fn affinities_merge() {
    for (bundle, change, want) in cases::<(Value, Value, Value)>(CASES, "affinities_merge") {
        let spec = match bundle {
            Value::Null => json!({}),
            affinity => json!({"affinity": affinity}),
        };
        assert_eq!(pod(&spec, &change), want);
    }
}

// rendering.md 4.8
#[test]
fn annotations_of_the_bundle_stay() {
    let mut deployment = object(json!({
        "metadata": {"annotations": {"a": "bundle"}},
        "spec": {"template": {"metadata": {"annotations":
            {"b": "bundle", "olm.targetNamespaces": ""}}}},
    }));
    let change = json!({"annotations":
        {"a": "config", "b": "config", "olm.targetNamespaces": "everything"}});
    apply(&mut deployment, &config(&change));
    assert_eq!(
        deployment.0["metadata"]["annotations"],
        json!({"a": "bundle", "b": "config", "olm.targetNamespaces": "everything"})
    );
    assert_eq!(
        deployment.0["spec"]["template"]["metadata"]["annotations"],
        json!({"a": "config", "b": "bundle", "olm.targetNamespaces": ""})
    );
}

#[test]
fn a_deployment_of_any_shape_takes_a_configuration() {
    let change = json!({"annotations": {"a": "b"}, "env": [{"name": "e"}],
        "volumes": [{"name": "v"}], "affinity": {"nodeAffinity": {}}});
    for shape in [
        json!({}),
        json!({"spec": 1}),
        json!({"spec": {"template": []}}),
        json!({"spec": {"template": {"spec": {"containers": [1, {"env": "x"}], "affinity": 2}}}}),
    ] {
        let mut deployment = object(shape);
        apply(&mut deployment, &config(&change));
        let pod = &deployment.0["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"], json!([{"name": "v"}]));
    }
}
