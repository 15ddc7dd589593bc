//! Properties and tables of rights.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::fixture::cases;

const CASES: &str = include_str!("../../testdata/rbac/cases.yaml");

fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> PolicyRule {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    PolicyRule {
        api_groups: list(groups),
        resources: list(resources),
        resource_names: list(names),
        verbs: list(verbs),
        non_resource_urls: Vec::new(),
    }
}

fn rights(namespace: &str, rules: &[PolicyRule]) -> Permissions {
    let mut rights = Permissions::default();
    for rule in rules {
        rights.insert_rule(namespace, rule);
    }
    rights
}

#[test]
fn get_pods_is_covered_by() {
    for (held, want) in cases::<(Value, bool)>(CASES, "get_pods_is_covered_by") {
        let held = PolicyRule::from_value(&held);
        let right = Permission::on("get", "", "pods", None);
        assert_eq!(rights("", std::slice::from_ref(&held)).covers("ns1", &right), want);
        assert_eq!(rights("ns1", std::slice::from_ref(&held)).covers("ns1", &right), want);
        assert!(!rights("ns2", std::slice::from_ref(&held)).covers("ns1", &right));
        assert!(!rights("ns2", &[held]).covers("", &right));
    }
}

#[test]
fn subresource_is_covered_by() {
    for (held, want) in cases::<(&str, bool)>(CASES, "subresource_is_covered_by") {
        let held = rights("", &[rule(&[""], &[held], &[], &["get"])]);
        assert_eq!(held.covers("", &Permission::on("get", "", "pods/log", Some("a"))), want);
    }
}

#[test]
fn path_is_covered_by() {
    for (held, wanted, want) in cases::<(&str, &str, bool)>(CASES, "path_is_covered_by") {
        let url = |path: &str| Permission::Url { path: path.to_owned(), verb: "get".to_owned() };
        let mut granted = Permissions::default();
        granted.insert("", url(held));
        assert_eq!(granted.covers("", &url(wanted)), want);
    }
}

#[test]
fn paths_are_never_granted_in_a_namespace() {
    let mut rights = Permissions::default();
    let (path, verb) = ("/a".to_owned(), "get".to_owned());
    rights.insert("ns1", Permission::Url { path, verb });
    assert!(rights.is_empty());
}

#[test]
fn reducing_drops_what_wider_rules_contain() {
    let mut all = rights(
        "",
        &[
            rule(&["apps"], &["*"], &[], &["get"]),
            rule(&["apps"], &["deployments"], &["a"], &["get", "patch"]),
        ],
    );
    all.extend(&rights("ns1", &[rule(&["apps"], &["deployments"], &[], &["get", "list"])]));
    let reduced = all.reduced();
    assert_eq!(
        reduced.rules(""),
        [
            rule(&["apps"], &["*"], &[], &["get"]),
            rule(&["apps"], &["deployments"], &["a"], &["patch"]),
        ]
    );
    assert_eq!(reduced.rules("ns1"), [rule(&["apps"], &["deployments"], &[], &["list"])]);
}

#[test]
fn paths_that_contain_each_other_leave_one() {
    let mut rights = Permissions::default();
    for path in ["/a*", "/a**"] {
        let (path, verb) = (path.to_owned(), "get".to_owned());
        rights.insert("", Permission::Url { path, verb });
    }
    assert_eq!(rights.reduced().iter().count(), 1);
}

#[test]
fn rules_are_joined_over_verbs_names_and_resources() {
    let all = rights(
        "",
        &[
            rule(&["a"], &["xs"], &["n"], &["get"]),
            rule(&["a"], &["xs"], &["m"], &["get"]),
            rule(&["a"], &["ys"], &["m", "n"], &["get"]),
            rule(&["a"], &["xs"], &[], &["create"]),
            rule(&["b"], &["xs"], &[], &["create"]),
        ],
    );
    assert_eq!(
        all.rules(""),
        [
            rule(&["a"], &["xs"], &[], &["create"]),
            rule(&["a"], &["xs", "ys"], &["m", "n"], &["get"]),
            rule(&["b"], &["xs"], &[], &["create"]),
        ]
    );
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let few = |items: &'static [&'static str]| {
        proptest::sample::subsequence(items, 0..=2)
            .prop_map(|items| items.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    (
        few(&["", "a", "*"]),
        few(&["xs", "ys", "xs/log", "*/log", "*"]),
        few(&["m", "n", "*"]),
        few(&["get", "list", "*"]),
        few(&["/a", "/a/b", "/a*", "*"]),
    )
        .prop_map(|(api_groups, resources, resource_names, verbs, urls)| PolicyRule {
            api_groups,
            resources,
            resource_names,
            verbs,
            non_resource_urls: urls,
        })
}

fn any_rights() -> impl Strategy<Value = Permissions> {
    let namespace = proptest::sample::select(&["", "ns1", "ns2"][..]);
    proptest::collection::vec((namespace, any_rule()), 0..5).prop_map(|rules| {
        let mut rights = Permissions::default();
        for (namespace, rule) in rules {
            rights.insert_rule(namespace, &rule);
        }
        rights
    })
}

/// Rebuilds a set from the rules of every namespace.
fn rebuilt(rights: &Permissions) -> Permissions {
    let mut rebuilt = Permissions::default();
    for namespace in rights.namespaces() {
        for rule in rights.rules(namespace) {
            rebuilt.insert_rule(namespace, &rule);
        }
    }
    rebuilt
}

proptest! {
    #[test]
    fn rules_say_exactly_the_rights(rights in any_rights()) {
        prop_assert_eq!(rebuilt(&rights).reduced(), rights.reduced());
        prop_assert!(rebuilt(&rights).iter().eq(rights.iter()));
    }

    #[test]
    fn reduced_allows_the_same_with_nothing_to_spare(rights in any_rights()) {
        let reduced = rights.reduced();
        prop_assert!(rights.missing(&reduced).is_empty());
        prop_assert!(reduced.missing(&rights).is_empty());
        for (namespace, right) in reduced.iter() {
            let mut without = Permissions::default();
            let others = reduced.iter().filter(|other| *other != (namespace, right));
            others.for_each(|(namespace, right)| without.insert(namespace, right.clone()));
            prop_assert!(!without.covers(namespace, right));
        }
    }

    #[test]
    fn granting_what_is_missing_leaves_nothing_missing(
        wanted in any_rights(), granted in any_rights(),
    ) {
        let missing = wanted.missing(&granted);
        let mut all = granted.clone();
        all.extend(&missing);
        prop_assert!(wanted.missing(&all).is_empty());
        for (namespace, right) in missing.iter() {
            prop_assert!(!granted.covers(namespace, right));
        }
    }

    #[test]
    fn lookup_agrees_with_comparison(rights in any_rights(), wanted in any_rights()) {
        for (namespace, right) in wanted.iter() {
            let compared = rights.iter().any(|(held_in, held)| {
                (held_in.is_empty() || held_in == namespace) && held.contains(right)
            });
            prop_assert_eq!(rights.covers(namespace, right), compared);
        }
    }
}
