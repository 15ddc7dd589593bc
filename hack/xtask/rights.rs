//! Holds `config/rbac` to what applying.md 4.3 promises about its form. What the rules are worth is
//! tested on the control plane (`identity.rs`, `rights.rs`), where they meet what is asked for.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::repository;

/// Verbs that change nothing.
const READ: [&str; 3] = ["get", "list", "watch"];

fn objects(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(repository().join("config/rbac").join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn strings<'a>(rule: &'a Value, member: &str) -> impl Iterator<Item = &'a str> {
    rule[member]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

#[test]
fn rights_outside_of_the_system_namespace_are_in_no_role() {
    let roles = objects("role.yaml");
    let namespaced: Vec<_> = roles.iter().filter(|role| role["kind"] == "Role").collect();
    assert!(!namespaced.is_empty());
    for role in namespaced {
        assert_eq!(role["metadata"]["namespace"], "olmv1-system");
    }
    // Secrets hold the content of revisions and keys of CAs.
    for role in roles.iter().filter(|role| role["kind"] == "ClusterRole") {
        for rule in role["rules"].as_array().unwrap() {
            assert!(
                strings(rule, "resources").all(|name| name != "secrets"),
                "{rule}"
            );
        }
    }
}

#[test]
fn no_right_is_a_wildcard() {
    for role in [objects("role.yaml"), objects("user_roles.yaml")].concat() {
        for rule in role["rules"].as_array().unwrap() {
            for member in ["apiGroups", "resources", "verbs"] {
                assert!(
                    strings(rule, member).all(|text| !text.contains('*')),
                    "{rule}"
                );
            }
        }
    }
}

#[test]
fn the_controllers_account_holds_exactly_its_own_roles() {
    let mut bound = BTreeSet::new();
    for binding in objects("role_binding.yaml") {
        assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
        assert_eq!(
            binding["subjects"][0]["name"],
            "operator-controller-controller-manager"
        );
        bound.insert(binding["roleRef"]["name"].as_str().unwrap().to_owned());
    }
    let own = ["operator-controller-manager-role", "catalogd-manager-role"];
    assert_eq!(bound, own.map(str::to_owned).into());
}

// api.md 6.1: whoever writes ClusterObjectSets applies anything as anybody.
#[test]
fn users_never_get_to_write_object_sets() {
    for role in objects("user_roles.yaml") {
        for rule in role["rules"].as_array().unwrap() {
            let reads = strings(rule, "verbs").all(|verb| READ.contains(&verb));
            let sets = strings(rule, "resources").any(|name| name == "clusterobjectsets");
            assert!(reads || !sets, "{rule}");
        }
    }
}
