//! What accounts lack: the cases of `cases.yaml`, and that nothing else than what is taken away is.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::fixture::{object, rows};
use crate::object::Object;
use crate::rbac::fixture::{any_objects, rules};
use crate::rbac::{
    Account, BundleObjects, Options, RbacObjects, lines, manifests, missing, outline, required,
};

fn account() -> Account {
    "ns1/installer".parse().unwrap()
}

fn objects(case: &Value, key: &str) -> Vec<Object> {
    let list = case[key].as_array().into_iter().flatten();
    list.cloned().map(object).collect()
}

fn texts<'a>(case: &'a Value, key: &str) -> Vec<&'a str> {
    case[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn cluster(case: &Value) -> RbacObjects {
    let mut cluster = RbacObjects::default();
    for object in case["cluster"].as_array().into_iter().flatten() {
        match object["kind"].as_str().unwrap() {
            "Role" | "ClusterRole" => {
                cluster.add_role(read(&object["metadata"]), read(&object["rules"]));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let role = read(&object["roleRef"]);
                cluster.add_binding(read(&object["metadata"]), &role, read(&object["subjects"]));
            }
            other => panic!("{other}"),
        }
    }
    cluster
}

/// Judges as its callers do: roles outside the bundle are read where they decide.
fn judge(case: &Value) -> (Permissions, Missing) {
    let cluster = cluster(case);
    let mut rights = Permissions::default();
    for grant in cluster.grants(&account()) {
        rights.extend(&grant.rights.unwrap_or_default());
    }
    let objects = [objects(case, "bundle"), objects(case, "leaving")];
    let bundle = BundleObjects { name: "test.v1.2.0", objects: &objects[0] };
    let unserved = texts(case, "unserved");
    let ask = |roles: &BTreeMap<_, _>| {
        let held = Held { rights: &rights, roles };
        missing(&bundle, "ns1", &objects[1], &unserved, &held)
    };
    let first = ask(&BTreeMap::new());
    let roles = first.unread_roles.into_iter().map(|role| {
        let rules = cluster.rules(&role).map(<[_]>::to_vec);
        (role, rules)
    });
    let roles = roles.collect();
    let found = ask(&roles);
    assert!(found.unread_roles.is_empty());
    let outlines = objects.each_ref().map(|all| all.iter().map(outline).collect::<Vec<_>>());
    let held = Held { rights: &rights, roles: &roles };
    let bundle = BundleObjects { objects: &outlines[0], ..bundle };
    let same = missing(&bundle, "ns1", &outlines[1], &unserved, &held);
    assert_eq!(same, found, "outlines say as much as objects");
    (rights, found)
}

// applying.md f4, f5, f6, f7, f12
#[test]
fn accounts_lack_what_the_cases_say() {
    for case in &rows(include_str!("cases.yaml")) {
        let name = case["name"].as_str().unwrap();
        let (rights, found) = judge(case);
        assert_eq!(lines(&found.rights), texts(case, "missing"), "{name}");
        let errors = texts(case, "errors");
        assert_eq!(found.errors.len(), errors.len(), "{name}: {found:?}");
        for (error, part) in found.errors.iter().zip(errors) {
            assert!(error.contains(part), "{name}: {error}");
        }
        let wildcard = has_wildcard_name(&rights, &found.rights);
        assert_eq!(wildcard, case["wildcard"] == true, "{name}");
    }
}

proptest! {
    // applying.md f1: least privilege stays exact
    #[test]
    fn of_a_generated_role_exactly_the_rule_that_is_taken_away_is_missing(
        objects in any_objects(),
    ) {
        let bundles = [BundleObjects { name: "test.v1.2.0", objects: &objects }];
        let options = Options::default();
        let needed = required(&bundles, "ns1", &options).unwrap().needed;
        let (printed, _) = manifests(&bundles, &account(), &options).unwrap();
        let all: Vec<_> = printed
            .iter()
            .filter(|object| matches!(object.kind(), "Role" | "ClusterRole"))
            .flat_map(|role| rules(role).into_iter().map(|rule| (role.namespace(), rule)))
            .collect();
        let roles = BTreeMap::new();
        for gone in 0..=all.len() {
            let (mut held, mut taken) = (Permissions::default(), Permissions::default());
            for (index, (namespace, rule)) in all.iter().enumerate() {
                let into = if index == gone { &mut taken } else { &mut held };
                into.insert_rule(namespace, rule);
            }
            let held = Held { rights: &held, roles: &roles };
            let found = missing(&bundles[0], "ns1", &[], &[], &held).rights;
            let mut expected = Permissions::default();
            for (namespace, right) in needed.iter().filter(|(namespace, right)| {
                taken.covers(namespace, right) && !held.rights.covers(namespace, right)
            }) {
                expected.insert(namespace, right.clone());
            }
            prop_assert_eq!(lines(&found), lines(&expected), "without rule {}", gone);
        }
    }
}
