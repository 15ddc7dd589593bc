//! Holds `config/rbac` to what applying.md 4.3 promises: the controller's own account can write
//! nothing that a bundle contains.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::repository;

/// Verbs that change nothing.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Everything the controller may do cluster-wide beyond reading: group, resource, verb.
const WRITES: [(&str, &str, &[&str]); 14] = [
    (OLM, "clusterextensions", &["update", "patch"]),
    (OLM, "clusterextensions/status", &["update", "patch"]),
    (OLM, "clusterextensions/finalizers", &["update"]),
    (
        OLM,
        "clusterobjectsets",
        &["create", "update", "patch", "delete"],
    ),
    (OLM, "clusterobjectsets/status", &["update", "patch"]),
    (OLM, "clusterobjectsets/finalizers", &["update"]),
    (OLM, "clustercatalogs", &["update", "patch"]),
    (OLM, "clustercatalogs/status", &["update", "patch"]),
    (OLM, "clustercatalogs/finalizers", &["update"]),
    // The right that the work is done with: as an account, never as itself.
    ("", "serviceaccounts", &["impersonate"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authentication.k8s.io", "selfsubjectreviews", &["create"]),
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("config.openshift.io", "clusteroperators", &["create"]),
];

/// The same, for objects with a name of ours or about something else's state.
const WRITES_APART: [(&str, &str, &[&str]); 4] = [
    ("", "events", &["create", "patch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
    (
        "config.openshift.io",
        "clusteroperators",
        &["update", "patch"],
    ),
    (
        "config.openshift.io",
        "clusteroperators/status",
        &["update", "patch"],
    ),
];

/// What it may write in its own namespace: the Secrets of revisions, and its Leases.
const WRITES_AT_HOME: [(&str, &str, &[&str]); 2] = [
    ("", "secrets", &["create", "update", "patch", "delete"]),
    (
        "coordination.k8s.io",
        "leases",
        &["create", "update", "patch"],
    ),
];

const OLM: &str = "olm.operatorframework.io";

type Write = (String, String, String);

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

/// Returns what roles of `kind` bound to the controller's account may do beyond reading.
fn writes(kind: &str) -> BTreeSet<Write> {
    let mut found = BTreeSet::new();
    for role in objects("role.yaml")
        .iter()
        .filter(|role| role["kind"] == kind)
    {
        for rule in role["rules"].as_array().unwrap() {
            for group in strings(rule, "apiGroups") {
                for resource in strings(rule, "resources") {
                    for verb in strings(rule, "verbs").filter(|verb| !READ.contains(verb)) {
                        found.insert((group.into(), resource.into(), verb.into()));
                    }
                }
            }
        }
    }
    found
}

fn expected(allowed: &[(&str, &str, &[&str])]) -> BTreeSet<Write> {
    allowed
        .iter()
        .flat_map(|(group, resource, verbs)| {
            verbs
                .iter()
                .map(|verb| ((*group).into(), (*resource).into(), (*verb).into()))
        })
        .collect()
}

// applying.md 4.3: the controller's own ClusterRole needs no write on anything a bundle contains.
#[test]
fn the_controller_writes_nothing_a_bundle_contains() {
    let allowed = [&WRITES[..], &WRITES_APART[..]].concat();
    assert_eq!(writes("ClusterRole"), expected(&allowed));
}

#[test]
fn secrets_are_written_in_the_own_namespace_only() {
    assert_eq!(writes("Role"), expected(&WRITES_AT_HOME));
    for role in objects("role.yaml") {
        if role["kind"] == "Role" {
            assert_eq!(role["metadata"]["namespace"], "olmv1-system");
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
