//! The rights computed for real bundles: exact, and as narrow as possible.
//!
//! Most tests use the objects of the shared rendering vectors: every install mode, webhooks and
//! certificates included. The last uses what our own renderer makes of the shared bundles.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;

use olm_core::bundle::Bundle;
use olm_core::config::Features;
use olm_core::object::Object;
use olm_core::rbac::{
    Account, BundleObjects, Held, Options, Permission, PermissionError, Permissions, PolicyRule,
    manifests, missing, required,
};
use olm_core::render::{RolePlacement, Settings, render_configured};
use olm_test::bundles::{self, read_files};
use olm_test::documents;
use olm_test::prelude::*;

/// Most bytes that `kubectl apply` stores of an object in its annotation.
const MAX_APPLIED_BYTES: usize = 256 * 1024;

/// Bundles with an object whose kind is not defined, because it lacks its `apiVersion`.
///
/// Our own rendering refuses them earlier (rendering.md R7).
const WITHOUT_API_VERSION: [&str; 1] = ["cluster-aas-operator"];

/// One rendered bundle of the vectors.
struct Vector {
    file: String,
    bundle: String,
    package: String,
    namespace: String,
    objects: Vec<Object>,
}

impl Vector {
    fn read((file, value): (String, Value)) -> Option<Self> {
        // Our own rendering merges an object that occurs twice.
        let mut objects: BTreeMap<String, Object> = BTreeMap::new();
        for object in value["objects"].as_array()? {
            let object = Object::from_value(object.clone()).unwrap();
            objects.insert(object.identity().to_string(), object);
        }
        Some(Self {
            file,
            bundle: value["name"].as_str().unwrap().to_owned(),
            package: value["package"].as_str().unwrap().to_owned(),
            namespace: value["installNamespace"].as_str().unwrap().to_owned(),
            objects: objects.into_values().collect(),
        })
    }

    fn bundle<'a>(&'a self, objects: &'a [Object]) -> BundleObjects<'a> {
        BundleObjects { name: &self.bundle, objects }
    }

    fn account(&self) -> Account {
        Account { namespace: self.namespace.clone(), name: "installer-of-the-test".to_owned() }
    }

    fn print(&self) -> Result<Vec<Object>, PermissionError> {
        let bundles = [self.bundle(&self.objects)];
        manifests(&bundles, &self.account(), &Options::default()).map(|(objects, _)| objects)
    }
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<_> = crate::packed("render/community").filter_map(Vector::read).collect();
    assert!(!vectors.is_empty());
    vectors
}

/// The vectors, with the manifests that are printed for them.
fn printed() -> Vec<(Vector, Vec<Object>)> {
    let usable = vectors().into_iter().filter_map(|vector| {
        let refused = WITHOUT_API_VERSION.contains(&vector.package.as_str());
        match vector.print() {
            Ok(objects) => {
                assert!(!refused, "{}: no longer refused", vector.file);
                Some((vector, objects))
            }
            Err(PermissionError::UnknownKind(_)) if refused => None,
            Err(error) => panic!("{}: {error}", vector.file),
        }
    });
    usable.collect()
}

/// Returns the rights that the roles among some objects grant.
fn rights_of_roles(objects: &[Object]) -> Permissions {
    let mut rights = Permissions::default();
    for role in objects {
        let rules = role.pointer("/rules").and_then(Value::as_array);
        if matches!(role.kind(), "Role" | "ClusterRole") {
            for rule in rules.into_iter().flatten() {
                rights.insert_rule(role.namespace(), &PolicyRule::from_value(rule));
            }
        }
    }
    rights
}

#[test]
fn output_is_an_account_with_roles_and_their_bindings() {
    for (vector, objects) in printed() {
        let file = &vector.file;
        assert_eq!(objects[0].kind(), "ServiceAccount", "{file}");
        for pair in objects[1..].chunks(2) {
            let [role, binding] = pair else {
                panic!("{file}: a role without binding");
            };
            let name = role.name();
            assert_eq!(binding.kind(), format!("{}Binding", role.kind()), "{file}");
            assert_eq!(binding.name(), name, "{file}");
            assert_eq!(binding.namespace(), role.namespace(), "{file}");
            assert!(!name.contains(['/', '%']), "{file}: {name}");
        }
        for object in &objects {
            let size = serde_json::to_vec(&object.0).unwrap().len();
            assert!(size < MAX_APPLIED_BYTES, "{file}: {size} bytes");
        }
    }
}

// applying.md f1: least privilege stays exact
#[test]
fn of_a_generated_role_exactly_the_rule_that_is_taken_away_is_missing() {
    let (mut judged, mut spared) = (0, 0);
    for (vector, objects) in printed() {
        let bundle = vector.bundle(&vector.objects);
        let needed = required(&[bundle], &vector.namespace, &Options::default()).unwrap().needed;
        let mut rules = Vec::new();
        for role in &objects {
            let entries = role.pointer("/rules").and_then(Value::as_array);
            let entries = entries.into_iter().flatten();
            rules.extend(entries.map(|rule| (role.namespace(), PolicyRule::from_value(rule))));
        }
        let nowhere = BTreeMap::new();
        for gone in 0..rules.len() {
            let (mut rights, mut taken) = (Permissions::default(), Permissions::default());
            for (index, (namespace, rule)) in rules.iter().enumerate() {
                let into = if index == gone { &mut taken } else { &mut rights };
                into.insert_rule(namespace, rule);
            }
            let held = Held { rights: &rights, roles: &nowhere };
            let found = missing(&bundle, &vector.namespace, &[], &[], &held).rights;
            let mut expected = Permissions::default();
            for (namespace, right) in needed.iter() {
                if taken.covers(namespace, right) && !rights.covers(namespace, right) {
                    expected.insert(namespace, right.clone());
                }
            }
            judged += 1;
            if found != expected {
                // Only where the account may still give itself what was taken.
                let may_escalate = rights.iter().any(|(_, right)| {
                    matches!(right, Permission::Resource { group, verb, .. }
                        if matches!(group.as_str(), "*" | "rbac.authorization.k8s.io")
                            && matches!(verb.as_str(), "*" | "escalate" | "bind"))
                });
                let what = format!("{} without {:?}", vector.file, rules[gone]);
                assert!(may_escalate, "{what}: {found:?}");
                assert!(found.missing(&expected).is_empty(), "{what}: {found:?}");
                spared += 1;
            }
        }
    }
    println!("{judged} rules of {} roles, {spared} spared", printed().len());
    assert!(spared * 5 < judged);
}

/// Returns group and resource of what the CRDs among some objects define.
fn defined_resources(objects: &[Object]) -> BTreeSet<(&str, &str)> {
    let crds = objects.iter().filter(|object| object.kind() == "CustomResourceDefinition");
    crds.filter_map(|crd| {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str);
        Some((text("/spec/group")?, text("/spec/names/plural")?))
    })
    .collect()
}

// applying.md f12, and 5.4: names wherever a name is known
#[test]
fn beyond_the_bundles_own_roles_everything_is_named_and_without_wildcard() {
    for (vector, objects) in printed() {
        let own = rights_of_roles(&vector.objects);
        let defined = defined_resources(&vector.objects);
        for (namespace, right) in rights_of_roles(&objects).missing(&own).iter() {
            let Permission::Resource { group, resource, name, verb } = right else {
                panic!("{}: {right:?}", vector.file);
            };
            let what = format!("{}: {namespace:?} {right:?}", vector.file);
            // Objects of the bundle's own CRDs are counted before a change that could lose them.
            let counted = verb == "list" && defined.contains(&(group.as_str(), resource.as_str()));
            let unnamed = counted || matches!(verb.as_str(), "create" | "escalate");
            assert_eq!(name.is_none(), unnamed, "{what}");
            assert!(name.as_deref() != Some("*"), "{what}");
            assert!([group, resource, verb].iter().all(|part| *part != "*"), "{what}");
        }
    }
}

/// The namespace that shared bundles are rendered for.
const NAMESPACE: &str = "inst-ns";

/// Bundles that become no object, or are refused (rendering.md R6, R7).
const WITHOUT_OBJECTS: [&str; 6] = [
    "azure-service-operator/1.0.27207",
    "cluster-aas-operator/0.1.5",
    "cockroachdb/2.1.1",
    "gitlab-operator-kubernetes/2.2.3",
    "group-sync-operator/0.0.11",
    "oadp-operator/0.2.6",
];

/// Returns what a bundle becomes. One that cannot watch all namespaces watches its own, else another.
fn rendered(bundle: &Bundle) -> Option<Vec<Object>> {
    [None, Some(NAMESPACE), Some("watched-ns")].into_iter().find_map(|watched| {
        let inline = watched.map(|namespace| json!({"watchNamespace": namespace}));
        let settings = Settings {
            install_namespace: NAMESPACE,
            inline: inline.as_ref(),
            features: Features::default(),
            role_placement: RolePlacement::default(),
            certificates: None,
        };
        Some(render_configured(bundle, &settings).ok()?.objects)
    })
}

/// Returns every shared bundle that can be installed, by package and version, with its objects.
fn shared() -> Vec<(String, Bundle, Vec<Object>)> {
    let mut without = Vec::new();
    let mut all = Vec::new();
    for (shown, directory) in bundles::shared() {
        let bundle = Bundle::from_files(&read_files(&directory).unwrap()).ok();
        let objects = bundle.as_ref().and_then(rendered).unwrap_or_default();
        match bundle {
            Some(bundle) if !objects.is_empty() => all.push((shown, bundle, objects)),
            _ => without.push(shown),
        }
    }
    assert_eq!(without, WITHOUT_OBJECTS);
    all
}

/// What `kubectl olm install` gives by default for one version, and for a range: stable rights.
const GIVEN: [bool; 2] = [false, true];

/// Returns everything that an account gets for some objects.
fn given(name: &str, objects: &[Object], stable: bool) -> Permissions {
    let options = Options { stable, ..Options::default() };
    required(&[BundleObjects { name, objects }], NAMESPACE, &options).unwrap().all()
}

/// Returns what an account lacks to put `after` in place of `before`.
fn lacks(rights: &Permissions, before: &[Object], after: &[Object]) -> Permissions {
    let held = Held { rights, roles: &BTreeMap::new() };
    let bundle = BundleObjects { name: "next", objects: after };
    missing(&bundle, NAMESPACE, before, &[], &held).rights
}

fn rules(rights: &Permissions) -> usize {
    rights.namespaces().map(|namespace| rights.rules(namespace).len()).sum()
}

/// The table of docs/rights.md, as it begins.
const TABLE: &str = "| bundle | rules, exact | rules, stable | waits, exact | waits, stable |\n";

// applying.md 5.4: ten versions that differ in their names need nobody
#[test]
fn stable_rights_outlive_ten_updates_of_every_bundle() {
    let mut table = format!("{TABLE}|---|---|---|---|---|\n");
    let mut held = [0, 0];
    for (directory, mut bundle, first) in shared() {
        let name = bundle.csv.name.clone();
        let all = GIVEN.map(|stable| given(&name, &first, stable));
        let mut waits = [0, 0];
        let mut before = first;
        for number in 1..=10 {
            bundle.csv.name = format!("{}.v99.0.{number}", bundle.package);
            let after = rendered(&bundle).unwrap();
            for (rights, waits) in all.iter().zip(&mut waits) {
                *waits += usize::from(!lacks(rights, &before, &after).is_empty());
            }
            before = after;
        }
        let [exact, stable] = all.each_ref().map(rules);
        let row = directory.replacen('/', " ", 1);
        let [first, second] = waits;
        writeln!(table, "| {row} | {exact} | {stable} | {first} | {second} |").unwrap();
        held = [held[0] + first, held[1] + second];
    }
    assert!(held[0] > 0 && held[1] == 0, "{table}");
    let document = documents::read("docs/rights.md");
    let (before, rest) = document.split_once(TABLE).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let corrected = format!("{before}{table}\n{after}");
    documents::settle("docs/rights.md", (corrected != document).then_some(corrected));
}

// applying.md 5.4: a real update needs somebody only where the operator gets more rights
#[test]
fn stable_rights_outlive_real_updates_but_for_what_operators_get_besides() {
    let all = shared();
    let mut held = 0;
    for pair in all.windows(2) {
        let [(before, old, present), (after, new, next)] = pair else { panic!("{}", pair.len()) };
        if before.split('/').next() != after.split('/').next() {
            continue;
        }
        let mut added = rights_of_roles(next).missing(&rights_of_roles(present));
        let known: BTreeSet<_> = present.iter().map(Object::identity).collect();
        let crds = next.iter().filter(|it| it.kind() == "CustomResourceDefinition");
        for crd in crds.filter(|crd| !known.contains(&crd.identity())) {
            for verb in ["delete", "get", "patch"] {
                let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
                added.insert("", Permission::on(verb, group, plural, Some(crd.name())));
            }
        }
        let [exact, stable] = GIVEN.map(|stable| {
            let rights = given(&old.csv.name, present, stable);
            (rules(&rights), lacks(&rights, present, next))
        });
        println!(
            "{} -> {}: stable {} rules, lacks {}; exact {} rules, lacks {}",
            old.csv.name,
            new.csv.name,
            stable.0,
            rules(&stable.1),
            exact.0,
            rules(&exact.1)
        );
        assert!(stable.1.missing(&added).is_empty(), "{}: {:?}", new.csv.name, stable.1);
        held += usize::from(!exact.1.is_empty());
    }
    assert!(held > 0, "exact rights are of one version");
}

/// What is printed for a bundle directory, by the renderer of this project.
#[test]
fn every_bundle_we_render_gets_its_rights() {
    for (shown, bundle, objects) in shared() {
        let bundles = [BundleObjects { name: &bundle.csv.name, objects: &objects }];
        let account =
            Account { namespace: "inst-ns".to_owned(), name: "installer-of-the-test".to_owned() };
        let options = Options::default();
        let (objects, _) = manifests(&bundles, &account, &options)
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        let wanted = required(&bundles, "inst-ns", &options).unwrap();
        assert_eq!(rights_of_roles(&objects), wanted.all(), "{shown}");
    }
}
