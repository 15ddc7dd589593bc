//! The printed service account, roles and bindings.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::object;
use crate::rbac::fixture::{any_objects, granted, plain, small_bundle};

fn account() -> Account {
    Account { namespace: "ns1".into(), name: "installer".into() }
}

fn bundle<'a>(name: &'a str, objects: &'a [Object]) -> BundleObjects<'a> {
    BundleObjects { name, objects }
}

#[test]
fn small_bundle_prints_account_roles_and_bindings() {
    let objects = small_bundle();
    let bundles = [bundle("test.v1.2.0", &objects)];
    let (printed, warnings) = manifests(&bundles, &account(), &Options::default()).unwrap();
    assert!(warnings.is_empty());
    let values: Vec<Value> = printed.into_iter().map(Object::into_value).collect();
    insta::assert_yaml_snapshot!(values);
}

#[test]
fn several_bundles_get_a_name_of_their_own_whatever_their_order() {
    let one = rbac_name(&account(), &["a.v1"]);
    let both = rbac_name(&account(), &["a.v1", "b.v2"]);
    assert_eq!(one, "olm:ns1:installer:a.v1");
    // The first 8 hex digits of the SHA-256 of "a.v1\nb.v2".
    assert_eq!(both, "olm:ns1:installer:+e9332056");
    assert_eq!(rbac_name(&account(), &["b.v2", "a.v1", "b.v2"]), both);
}

#[test]
fn account_that_the_bundle_ships_is_refused() {
    let objects = [plain("v1", "ServiceAccount", "ns1", "installer")];
    let bundles = [bundle("test.v1.2.0", &objects)];
    let error = manifests(&bundles, &account(), &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bundle \"test.v1.2.0\" contains service account ns1/installer: installing would collide \
         with it, choose another name"
    );
}

#[test]
fn empty_bundle_prints_the_account_alone() {
    let bundles = [bundle("test.v1.2.0", &[])];
    let (printed, _) = manifests(&bundles, &account(), &Options::default()).unwrap();
    let kinds: Vec<&str> = printed.iter().map(Object::kind).collect();
    assert_eq!(kinds, ["ServiceAccount"]);
}

proptest! {
    // applying.md f1: the generated roles are exactly what is required
    #[test]
    fn roles_grant_exactly_the_required_rights(objects in any_objects(), watch: bool) {
        let options = Options { collection_watch: watch, ..Options::default() };
        let bundles = [bundle("test.v1.2.0", &objects)];
        let wanted = required(&bundles, "ns1", &options).unwrap().all();
        let (printed, _) = manifests(&bundles, &account(), &options).unwrap();
        let granted = granted(&printed);
        prop_assert!(wanted.missing(&granted).is_empty());
        prop_assert!(granted.missing(&wanted).is_empty());
        prop_assert_eq!(granted, wanted);
    }

    #[test]
    fn order_of_objects_and_bundles_does_not_matter(
        first in any_objects(), second in any_objects(),
    ) {
        let forward = [bundle("a.v1", &first), bundle("b.v1", &second)];
        let reversed: [Vec<Object>; 2] =
            [&second, &first].map(|objects| objects.iter().rev().cloned().collect());
        let backward = [bundle("b.v1", &reversed[0]), bundle("a.v1", &reversed[1])];
        let options = Options::default();
        prop_assert_eq!(
            manifests(&forward, &account(), &options),
            manifests(&backward, &account(), &options)
        );
    }

    #[test]
    fn rights_for_two_bundles_cover_each_alone(first in any_objects(), second in any_objects()) {
        let both = [bundle("a.v1", &first), bundle("b.v1", &second)];
        let options = Options::default();
        let union = required(&both, "ns1", &options).unwrap().all();
        for one in both {
            let alone = required(&[one], "ns1", &options).unwrap().all();
            prop_assert!(alone.missing(&union).is_empty());
        }
    }
}

proptest! {
    // plugin.md 1.4: `--missing` prints only what lacks, and takes nothing away when it is applied
    #[test]
    fn what_lacks_is_granted_by_roles_of_their_own(objects in any_objects()) {
        let bundles = [bundle("test.v1.2.0", &objects)];
        let wanted = required(&bundles, "ns1", &Options::default()).unwrap().needed;
        let printed = missing_manifests(&account(), &wanted);
        prop_assert_eq!(granted(&printed), wanted);
        let (all, _) = manifests(&bundles, &account(), &Options::default()).unwrap();
        for role in &printed {
            prop_assert!(all.iter().all(|other| other.name() != role.name()));
        }
    }
}

#[test]
fn no_namespace_is_printed_even_for_foreign_namespaces() {
    let objects = [
        plain("v1", "ConfigMap", "elsewhere", "cfg"),
        object(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "op"}})),
    ];
    let bundles = [bundle("test.v1.2.0", &objects)];
    let (printed, _) = manifests(&bundles, &account(), &Options::default()).unwrap();
    let shown: Vec<String> = printed.iter().map(|one| one.identity().to_string()).collect();
    assert_eq!(
        shown,
        [
            "ServiceAccount.v1 ns1/installer",
            "Role.rbac.authorization.k8s.io/v1 elsewhere/olm:ns1:installer:test.v1.2.0",
            "RoleBinding.rbac.authorization.k8s.io/v1 elsewhere/olm:ns1:installer:test.v1.2.0",
            "Role.rbac.authorization.k8s.io/v1 ns1/olm:ns1:installer:test.v1.2.0",
            "RoleBinding.rbac.authorization.k8s.io/v1 ns1/olm:ns1:installer:test.v1.2.0",
        ]
    );
}

// deploying.md 6.1
#[test]
fn people_may_use_the_account_and_no_other() {
    let people = [Subject::User("dana".into()), Subject::Group("oidc:ops/lamps".into())];
    let printed = use_manifests(&account(), &people);
    let values: Vec<Value> = printed.into_iter().map(Object::into_value).collect();
    insta::assert_yaml_snapshot!(values);
    assert!(use_manifests(&account(), &[]).is_empty());
}

// deploying.md 6.4
#[test]
fn the_controller_may_act_as_the_account_and_no_other() {
    let controller = "olmv1-system/olm".parse().unwrap();
    let printed = impersonate_manifests(&account(), &controller);
    let values: Vec<Value> = printed.into_iter().map(Object::into_value).collect();
    insta::assert_yaml_snapshot!(values);
}

#[test]
fn each_person_has_a_binding_of_their_own() {
    let names = |people: &[Subject]| -> Vec<String> {
        let printed = use_manifests(&account(), people);
        printed.iter().map(|one| one.name().to_owned()).collect()
    };
    let dana = names(&[Subject::User("dana".into())]);
    let group = names(&[Subject::Group("dana".into())]);
    assert_eq!(dana[0], group[0], "one role");
    assert_ne!(dana[1], group[1]);
    for hard in ["a/b", "a%2fb", "https://issuer.example.com#dana"] {
        let name = &names(&[Subject::User(hard.into())])[1];
        assert!(!name.contains(['/', '%']), "{name}");
    }
}
