//! Rendering against real bundles and against what upstream renders for them.
//!
//! Every difference is named here with its number in rendering.md section 8, so that a new one
//! fails the test.

mod known;

use std::fs;

use olm_core::bundle::{Bundle, Csv, mode};
use olm_core::config::{Features, configure};
use olm_core::error::Chain;
use olm_core::object::Object;
use olm_core::render::{
    CertificateProvider, CertificateSource, RenderOptions, RolePlacement, render,
};
use olm_test::bundles::{self, read_files};
use olm_test::paths::shared_data;
use olm_test::prelude::*;
use olm_test::state;

use known::{Known, Named};

fn load(directory: &Path) -> Result<Bundle, String> {
    let files = read_files(directory).unwrap();
    Bundle::from_files(&files).map_err(|error| Chain(&error).to_string())
}

// rendering.md 1.1, R7, R6, 1.8
#[test]
fn every_bundle_loads_or_is_refused_for_its_known_reason() {
    let directories = bundles::shared();
    assert_eq!(directories.len(), 40);
    let rows = known::rows();
    let mut refused = 0;
    for (name, path) in directories {
        let row = rows.iter().find(|row| row.is_of(&name, ""));
        let want = row.and_then(|row| row.refused.as_deref());
        match (load(&path), want) {
            (Ok(bundle), None) => assert!(!bundle.package.is_empty(), "{name}"),
            (Err(text), Some(want)) => {
                assert!(text.starts_with(want), "{name}: {text}");
                refused += 1;
            }
            (Ok(_), Some(want)) => panic!("{name} loads instead of {want}"),
            (Err(text), None) => panic!("{name}: {text}"),
        }
    }
    assert_eq!(refused, 5);
}

type Key = (String, String, String, String);

/// Groups objects by identity, after dropping what the vectors' README says does not count.
fn keyed(objects: impl IntoIterator<Item = Value>) -> BTreeMap<Key, Vec<Value>> {
    let mut map: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for value in objects {
        let mut object = Object::from_value(value).unwrap();
        object.0.remove("status");
        let key = (
            object.api_version().to_owned(),
            object.kind().to_owned(),
            object.namespace().to_owned(),
            object.name().to_owned(),
        );
        map.entry(key).or_default().push(without_empty(object.into_value()).unwrap());
    }
    map
}

/// Drops nulls, empty maps and lists, and every `creationTimestamp`.
fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(without_empty).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(map) => {
            let map: serde_json::Map<_, _> = map
                .into_iter()
                .filter(|(key, _)| key != "creationTimestamp")
                .filter_map(|(key, value)| Some((key, without_empty(value)?)))
                .collect();
            (!map.is_empty()).then_some(Value::Object(map))
        }
        scalar => Some(scalar),
    }
}

fn compare(ours: Vec<Object>, theirs: Vec<Value>) -> Vec<String> {
    let ours = keyed(ours.into_iter().map(Object::into_value));
    let theirs = keyed(theirs);
    let mut found = Vec::new();
    for key in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        let name = format!("{} {}/{}", key.1, key.2, key.3);
        match (ours.get(key), theirs.get(key)) {
            (Some(a), Some(b)) if a.len() == b.len() => {
                for (a, b) in a.iter().zip(b) {
                    state::compare(&name, a, b, &mut found);
                }
            }
            (Some(a), Some(b)) => {
                found.push(format!("{name}: ours {} times, upstream {}", a.len(), b.len()));
            }
            (Some(_), None) => found.push(format!("{name}: ours alone")),
            (None, _) => found.push(format!("{name}: upstream alone")),
        }
    }
    found
}

// rendering.md 8, 1.7
#[test]
fn community_goldens_are_equal_or_named() {
    let rows = known::rows();
    let mut equal_renders = 0;
    let mut equal_refusals = 0;
    let mut named = Named::default();
    // AllNamespaces without webhooks: how many are rendered, and how many of those are equal.
    let mut plain = (0, 0);
    let mut failures = Vec::new();
    let mut loaded: BTreeMap<String, Result<Bundle, String>> = BTreeMap::new();
    for (file, golden) in crate::packed("render/community") {
        let text = |key: &str| golden[key].as_str().unwrap_or_default();
        let name = text("dir").strip_prefix("bundles/").unwrap();
        let known = rows.iter().find(|row| row.is_of(name, text("certProvider")));
        let bundle = loaded
            .entry(name.to_owned())
            .or_insert_with(|| load(&shared_data().join("bundles").join(name)));
        let result = match bundle {
            Err(text) => Err(text.clone()),
            Ok(bundle) => {
                failures.extend(properties(&file, bundle, text("properties")));
                let options = RenderOptions {
                    certificates: Some(provider(text("certProvider"))),
                    ..options(bundle, text("installNamespace"), text("watchNamespace"))
                };
                render(bundle, &options)
                    .map(|rendered| rendered.objects)
                    .map_err(|error| Chain(&error).to_string())
            }
        };
        match (result, golden.get("renderError").and_then(Value::as_str)) {
            (Err(ours), Some(theirs)) if ours.starts_with(theirs) => equal_refusals += 1,
            (Err(ours), _) => match known {
                Some(Known { rule, refused: Some(want), .. }) if ours.starts_with(want) => {
                    named.add(rule, name);
                }
                _ => failures.push(format!("{file}: refused: {ours}")),
            },
            (Ok(_), Some(theirs)) => failures.push(format!("{file}: upstream refuses: {theirs}")),
            (Ok(ours), None) => {
                let theirs = golden["objects"].as_array().cloned().unwrap_or_default();
                let found = compare(ours, theirs);
                if text("watchNamespace").is_empty() {
                    plain.0 += 1;
                    plain.1 += usize::from(found.is_empty());
                }
                match known {
                    None if found.is_empty() => equal_renders += 1,
                    Some(Known { rule, refused: None, differs, .. })
                        if expected(&found, differs) =>
                    {
                        named.add(rule, name);
                    }
                    _ => failures.extend(found.iter().map(|line| format!("{file}: {line}"))),
                }
            }
        }
    }
    println!(
        "{equal_renders} renders and {equal_refusals} refusals equal, {} differ as named; of {} \
         renders for all namespaces {} are equal\n{named}",
        named.count, plain.0, plain.1
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(equal_renders + equal_refusals + named.count, 152);
}

fn expected(found: &[String], want: &[String]) -> bool {
    found.iter().all(|line| want.iter().any(|text| line.contains(text)))
        && want.iter().all(|text| found.iter().any(|line| line.contains(text)))
}

/// Compares the composed `olm.properties`; R13 makes pelorus-operator differ.
fn properties(file: &str, bundle: &Bundle, theirs: &str) -> Option<String> {
    let ours = bundle.csv.annotations.get("olm.properties");
    let ours = ours.map(String::as_str).unwrap_or_default();
    let theirs = if theirs == "null" { "" } else { theirs };
    (ours != theirs).then(|| format!("{file}: properties: ours {ours}, upstream {theirs}"))
}

/// The certificate issuer of a golden file.
fn provider(name: &str) -> CertificateProvider {
    let source: CertificateSource = name.parse().unwrap();
    source.into()
}

/// The options of a golden file; without a watch namespace it was rendered with the default.
fn options(bundle: &Bundle, install_namespace: &str, watch_namespace: &str) -> RenderOptions {
    let targets = match watch_namespace {
        "" if !bundle.csv.supports(mode::ALL_NAMESPACES) => Vec::new(),
        target => vec![target.to_owned()],
    };
    RenderOptions {
        install_namespace: install_namespace.to_owned(),
        targets,
        role_placement: RolePlacement::TargetsOnly,
        deployment: None,
        certificates: None,
    }
}

// rendering.md 8, 4.8
#[test]
fn upstream_cases_are_equal() {
    let root = shared_data().join("vectors/render/upstream");
    let cases = fs::read_to_string(root.join("cases.json")).unwrap();
    let cases: Value = serde_json::from_str(&cases).unwrap();
    let mut equal = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        let name = format!("{}/{}", text("bundle"), text("case"));
        let bundle = load(&root.join("bundles").join(text("bundle"))).unwrap();
        let mut options = options(&bundle, text("installNamespace"), text("watchNamespace"));
        if let Some(config) = case.get("deploymentConfig") {
            let inline = serde_json::json!({"deploymentConfig": config});
            let namespace = text("installNamespace");
            let read = configure(&Csv::default(), namespace, Some(&inline), Features::default());
            let read = read.unwrap();
            assert_eq!(read.warnings, [""; 0], "{name}");
            options.deployment = read.deployment;
        }
        let ours = render(&bundle, &options).unwrap().objects;
        let theirs = fs::read_dir(root.join("expected-manifests").join(&name))
            .unwrap()
            .flat_map(|entry| {
                let text = fs::read_to_string(entry.unwrap().path()).unwrap();
                olm_core::yaml::to_json(&text).unwrap()
            })
            .collect();
        let found = compare(ours, theirs);
        assert!(found.is_empty(), "{name}\n{}", found.join("\n"));
        equal.push(name);
    }
    println!("equal: {}", equal.join(", "));
    assert_eq!(equal.len(), 7);
}

/// Rendered for one other namespace, the namespaced rights are in the install namespace too, and
/// nothing else differs.
// rendering.md R11
#[test]
fn rights_in_the_install_namespace_are_added_and_nothing_else() {
    let mut bundles = Vec::new();
    for (name, path) in bundles::shared() {
        let Ok(bundle) = load(&path) else { continue };
        let upstream = options(&bundle, "inst-ns", "watch-ns");
        let Ok(theirs) = render(&bundle, &upstream) else { continue };
        let ours = render(
            &bundle,
            &RenderOptions { role_placement: RolePlacement::TargetsAndInstall, ..upstream },
        );
        let theirs = theirs.objects.into_iter().map(Object::into_value);
        let found = compare(ours.unwrap().objects, theirs.collect());
        let roles = 2 * bundle.csv.permissions.len();
        assert!(found.len() <= roles, "{name}: {found:?}");
        assert_eq!(found.is_empty(), roles == 0, "{name}: {found:?}");
        for line in &found {
            let added = line.starts_with("Role") && line.ends_with(": ours alone");
            assert!(added && line.contains(" inst-ns/"), "{name}: {line}");
        }
        if !found.is_empty() {
            bundles.push(name);
        }
    }
    println!("R11: {}", bundles.join(", "));
    assert!(bundles.len() > 5);
}

// rendering.md R15, 4.12
#[test]
fn rendering_twice_gives_identical_bytes_and_no_identity_twice() {
    for (name, path) in bundles::shared() {
        let Ok(bundle) = load(&path) else { continue };
        for target in ["", "inst-ns", "watch-ns"] {
            let options = RenderOptions {
                install_namespace: "inst-ns".to_owned(),
                targets: vec![target.to_owned()],
                role_placement: RolePlacement::TargetsAndInstall,
                deployment: None,
                certificates: None,
            };
            let Ok(first) = render(&bundle, &options) else { continue };
            let again = render(&load(&path).unwrap(), &options).unwrap();
            let text = |objects: &[Object]| {
                let texts = objects.iter().map(|o| Value::Object(o.0.clone()).to_string());
                texts.collect::<Vec<_>>().join("\n")
            };
            assert_eq!(text(&first.objects), text(&again.objects), "{name}");
            let identities: BTreeSet<_> = first.objects.iter().map(Object::identity).collect();
            assert_eq!(identities.len(), first.objects.len(), "{name}");
        }
    }
}
