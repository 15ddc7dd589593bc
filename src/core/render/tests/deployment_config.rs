//! What `deploymentConfig` does to a Deployment, row by row of rendering.md 4.8.

use rstest::rstest;
use serde_json::{Value, json};

use crate::config::DeploymentConfig;
use crate::object::Object;
use crate::render::deployment_config::apply;

fn config(value: &Value) -> DeploymentConfig {
    let (config, dropped) = DeploymentConfig::from_value(value).unwrap();
    assert_eq!(dropped, Vec::<String>::new());
    config
}

/// Applies a configuration to a Deployment with this pod spec, and returns the resulting spec.
fn pod(spec: &Value, change: &Value) -> Value {
    let deployment = json!({"spec": {"template": {"spec": spec}}});
    let mut deployment = Object::from_value(deployment).unwrap();
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

fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path})
}

// rendering.md 4.8
#[rstest]
#[case::replaced_as_a_whole(
    json!({"env": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}),
    json!({"env": [{"name": "c", "value": "3"},
        {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}),
    json!({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
        {"name": "b", "value": "2"}, {"name": "c", "value": "3"}]}))]
// R20: upstream appends both, `[{a 1} {a 2}]`, which the API server refuses.
#[case::last_wins(json!({}),
    json!({"env": [{"name": "a", "value": "1"}, {"name": "b"}, {"name": "a", "value": "2"}]}),
    json!({"env": [{"name": "a", "value": "2"}, {"name": "b"}]}))]
#[case::twice_in_the_bundle(json!({"env": [{"name": "a"}, {"name": "a"}]}),
    json!({"env": [{"name": "a", "value": "2"}]}),
    json!({"env": [{"name": "a"}, {"name": "a", "value": "2"}]}))]
#[case::env_from(json!({"envFrom": [{"prefix": "p"}, {"secretRef": {"name": "s"}}]}),
    json!({"envFrom": [{"secretRef": {"name": "s"}, "prefix": ""}, {"configMapRef": {"name": "c"}},
        {"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": false}}]}),
    json!({"envFrom": [{"prefix": "p"}, {"secretRef": {"name": "s"}},
        {"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": false}}]}))]
#[case::mount_by_volume_name(json!({"volumeMounts": [mount("v", "/a"), mount("w", "/w")]}),
    json!({"volumeMounts": [mount("v", "/b"), mount("x", "/x")]}),
    json!({"volumeMounts": [mount("v", "/b"), mount("w", "/w"), mount("x", "/x")]}))]
#[case::last_mount_of_a_volume(json!({"volumeMounts": [mount("v", "/a"), mount("v", "/b")]}),
    json!({"volumeMounts": [mount("v", "/c")]}),
    json!({"volumeMounts": [mount("v", "/a"), mount("v", "/c")]}))]
#[case::one_volume_at_two_paths(json!({}),
    json!({"volumeMounts": [mount("v", "/a"), mount("v", "/b")]}),
    json!({"volumeMounts": [mount("v", "/a"), mount("v", "/b")]}))]
#[case::resources_replaced(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}),
    json!({"resources": {"limits": {"memory": 1}}}),
    json!({"resources": {"limits": {"memory": "1"}}}))]
#[case::resources_erased(json!({"resources": {"limits": {"cpu": "1"}}}),
    json!({"resources": {}}), json!({"resources": {}}))]
#[case::nothing(json!({"resources": {"limits": {"cpu": "1"}}, "env": [{"name": "a"}]}),
    json!({"env": [], "volumeMounts": []}),
    json!({"resources": {"limits": {"cpu": "1"}}, "env": [{"name": "a"}]}))]
fn containers_change(#[case] bundle: Value, #[case] change: Value, #[case] want: Value) {
    assert_eq!(container(&bundle, &change), want);
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
#[rstest]
#[case::volumes(
    json!({"volumes": [{"name": "webhook-cert", "secret": {"secretName": "ours"}}, {"name": "b"}]}),
    json!({"volumes": [{"name": "c"}, {"name": "webhook-cert", "emptyDir": {}}]}),
    json!({"volumes": [{"name": "webhook-cert", "emptyDir": {}}, {"name": "b"}, {"name": "c"}]}))]
#[case::tolerations(
    json!({"tolerations": [{"key": "a", "operator": "Exists", "value": ""}]}),
    json!({"tolerations": [{"key": "a", "operator": "Exists"},
        {"key": "a", "operator": "Exists", "tolerationSeconds": 0}]}),
    json!({"tolerations": [{"key": "a", "operator": "Exists", "value": ""},
        {"key": "a", "operator": "Exists", "tolerationSeconds": 0}]}))]
#[case::pull_secrets(json!({"imagePullSecrets": [{"name": "own"}]}),
    json!({"imagePullSecrets": [{"name": "own"}, {"name": "added"}]}),
    json!({"imagePullSecrets": [{"name": "own"}, {"name": "added"}]}))]
#[case::selector_replaced(json!({"nodeSelector": {"a": "1"}}), json!({"nodeSelector": {"b": "2"}}),
    json!({"nodeSelector": {"b": "2"}}))]
#[case::selector_erased(json!({"nodeSelector": {"a": "1"}}), json!({"nodeSelector": {}}), json!({}))]
#[case::selector_kept(json!({"nodeSelector": {"a": "1"}}), json!({}),
    json!({"nodeSelector": {"a": "1"}}))]
fn pods_change(#[case] bundle: Value, #[case] change: Value, #[case] want: Value) {
    assert_eq!(pod(&bundle, &change), want);
}

fn nodes(value: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": "k", "operator": "In", "values": [value]}]}]);
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
}

fn pods(topology: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": topology}]})
}

// rendering.md 4.8: affinities
#[rstest]
#[case::absent(json!({"nodeAffinity": nodes("n")}), json!({}),
    json!({"affinity": {"nodeAffinity": nodes("n")}}))]
#[case::empty(json!({"nodeAffinity": nodes("n"), "podAffinity": pods("p")}),
    json!({"affinity": {}}), json!({}))]
#[case::one_part(json!({"nodeAffinity": nodes("n"), "podAffinity": pods("p")}),
    json!({"affinity": {"nodeAffinity": nodes("x")}}),
    json!({"affinity": {"nodeAffinity": nodes("x"), "podAffinity": pods("p")}}))]
#[case::part_erased(json!({"nodeAffinity": nodes("n"), "podAffinity": pods("p")}),
    json!({"affinity": {"nodeAffinity": {}}}), json!({"affinity": {"podAffinity": pods("p")}}))]
#[case::last_part_erased(json!({"nodeAffinity": nodes("n")}),
    json!({"affinity": {"nodeAffinity": {}}}), json!({}))]
#[case::no_terms(json!({"nodeAffinity": nodes("n")}),
    json!({"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}), json!({}))]
#[case::other_part_erased(json!({"nodeAffinity": nodes("n"), "podAntiAffinity": pods("a")}),
    json!({"affinity": {"podAntiAffinity": {}}}),
    json!({"affinity": {"nodeAffinity": nodes("n")}}))]
#[case::empty_lists(json!({"podAntiAffinity": pods("a")}),
    json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [],
        "preferredDuringSchedulingIgnoredDuringExecution": []}}}), json!({}))]
#[case::nothing_to_erase(Value::Null, json!({"affinity": {"podAffinity": {}}}), json!({}))]
fn affinities_merge(#[case] bundle: Value, #[case] change: Value, #[case] want: Value) {
    let spec = match bundle {
        Value::Null => json!({}),
        affinity => json!({"affinity": affinity}),
    };
    assert_eq!(pod(&spec, &change), want);
}

#[test]
fn preferred_terms_count_as_terms() {
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "preference": {}}]});
    let change = json!({"affinity": {"nodeAffinity": preferred}});
    assert_eq!(pod(&json!({}), &change), change);
}

// rendering.md 4.8
#[test]
fn annotations_of_the_bundle_stay() {
    let deployment = json!({
        "metadata": {"annotations": {"a": "bundle"}},
        "spec": {"template": {"metadata": {"annotations":
            {"b": "bundle", "olm.targetNamespaces": ""}}}},
    });
    let mut deployment = Object::from_value(deployment).unwrap();
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
        let mut deployment = Object::from_value(shape).unwrap();
        apply(&mut deployment, &config(&change));
        let pod = &deployment.0["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"], json!([{"name": "v"}]));
    }
}
