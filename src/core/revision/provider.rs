//! What an installed revision provides to others, and what it requires.
//!
//! Source: resolution.md 5.2.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::ClusterObjectSet;
use olm_api::keys::{annotation, label, name, property};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::owner::Extension;
use super::phase::Phase;
use super::plan::{by_extension, states};
use crate::catalog::{Bundle, Property};
use crate::gate::Recorded;
use crate::object::{items, text_of};
use crate::resolve::{GroupVersionKind, Provider, ProviderOrigin};
use crate::uninstall::UninstallPolicy;

/// Longest list of constraints that is recorded, in bytes; a longer one is left out, and the bundle
/// then does not hold back updates of others.
const MAX_CONSTRAINTS_BYTES: usize = 64 * 1024;

/// Where the ClusterServiceVersions of OLM Classic are, as the API server remembers them.
pub const CSVS_PATH: &str =
    "/apis/operators.coreos.com/v1alpha1/clusterserviceversions?resourceVersion=0";

/// Returns the constraints of a bundle as recorded in the annotation of its revision; `None` if it
/// has none, or too many to record.
pub fn recorded_constraints(bundle: &Bundle) -> Option<String> {
    let recorded = |property: &Property| {
        let kind = serde_json::to_string(&property.kind).ok()?;
        Some(format!(r#"{{"type":{kind},"value":{}}}"#, property.value))
    };
    let all: Vec<_> = bundle.dependencies().filter_map(recorded).collect();
    let text = format!("[{}]", all.join(","));
    (!all.is_empty() && text.len() <= MAX_CONSTRAINTS_BYTES).then_some(text)
}

/// Returns what a ClusterExtension provides and requires by its installed revision, whose objects
/// define `apis`. Annotations that cannot be read count as empty.
pub fn provider(
    extension: &str,
    revision: &ClusterObjectSet,
    apis: BTreeSet<GroupVersionKind>,
) -> Provider {
    let text = |key: &str| revision.annotation(key).unwrap_or_default();
    Provider::new(
        ProviderOrigin::ClusterExtension(extension.to_owned()),
        text(annotation::PACKAGE_NAME),
        text(annotation::BUNDLE_VERSION),
    )
    .with_properties(recorded_properties(text(annotation::PROPERTIES)))
    .with_constraints(&recorded_properties(text(annotation::BUNDLE_CONSTRAINTS)))
    .with_apis(apis)
}

/// Returns what a ClusterServiceVersion of OLM Classic provides: one that succeeded, is not a copy
/// and is not being deleted.
pub fn csv_provider(csv: &Value) -> Option<Provider> {
    let metadata = &csv["metadata"];
    let leaves_out = csv["status"]["phase"] != name::CSV_SUCCEEDED
        || metadata["labels"].get(label::COPIED_FROM).is_some()
        || metadata.get("deletionTimestamp").is_some();
    if leaves_out {
        return None;
    }
    let properties = csv_properties(&text_of(&metadata["annotations"][annotation::CSV_PROPERTIES]));
    let package = properties
        .iter()
        .filter(|property| property.kind == property::PACKAGE)
        .find_map(|property| serde_json::from_str::<Value>(&property.value).ok());
    let place = format!("{}/{}", text_of(&metadata["namespace"]), text_of(&metadata["name"]));
    Some(
        Provider::new(
            ProviderOrigin::ClusterServiceVersion(place),
            package.map(|value| text_of(&value["packageName"])).unwrap_or_default(),
            text_of(&csv["spec"]["version"]),
        )
        .with_properties(properties)
        .with_apis(owned_kinds(&csv["spec"])),
    )
}

/// Reads the properties among the annotations of a ClusterServiceVersion; none of what cannot be read.
pub fn csv_properties(annotation: &str) -> Vec<Property> {
    #[derive(Deserialize)]
    struct Annotated<'a> {
        #[serde(borrow)]
        properties: &'a RawValue,
    }
    let annotated = serde_json::from_str::<Annotated<'_>>(annotation).ok();
    annotated.map(|found| recorded_properties(found.properties.get())).unwrap_or_default()
}

/// Returns the kinds that a ClusterServiceVersion owns: those of its CRDs and of its API services.
fn owned_kinds(spec: &Value) -> BTreeSet<GroupVersionKind> {
    let owned = |key: &str| items(&spec[key]["owned"]);
    let kind = |group: String, owned: &Value| GroupVersionKind {
        group,
        version: text_of(&owned["version"]),
        kind: text_of(&owned["kind"]),
    };
    let crds = owned("customresourcedefinitions").map(|crd| {
        let name = text_of(&crd["name"]);
        let group = name.split_once('.').map(|(_, group)| group.to_owned());
        kind(group.unwrap_or_default(), crd)
    });
    let apis = owned("apiservicedefinitions").map(|api| kind(text_of(&api["group"]), api));
    crds.chain(apis).collect()
}

/// Reads the properties that a revision records; none of what cannot be read.
pub fn recorded_properties(text: &str) -> Vec<Property> {
    let recorded: Vec<Recorded<'_>> = serde_json::from_str(text).unwrap_or_default();
    let recorded = recorded.into_iter();
    recorded.map(|it| Property { value: it.value().to_owned(), kind: it.kind }).collect()
}

/// Returns the uninstall policies that the properties of a revision ask for (annotation
/// `olm.properties`); values that are none are left out.
pub fn asked_uninstall_policies(annotations: &BTreeMap<String, String>) -> Vec<UninstallPolicy> {
    let recorded = annotations.get(annotation::PROPERTIES).map(String::as_str);
    let properties = recorded.map(recorded_properties).unwrap_or_default().into_iter();
    let words = properties
        .filter(|asked| asked.kind == property::UNINSTALL_POLICY)
        .filter_map(|asked| serde_json::from_str::<String>(&asked.value).ok());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns the installed revision of every extension that has one.
pub fn installed<'a>(
    sets: impl IntoIterator<Item = &'a ClusterObjectSet>,
) -> BTreeMap<Extension, &'a ClusterObjectSet> {
    let all = by_extension(sets).into_iter();
    all.filter_map(|(owner, revisions)| Some((owner, states(revisions).installed?))).collect()
}

/// Returns the kinds that the CRDs of a revision define, in the versions they serve.
pub fn served_kinds(phases: &[Phase]) -> BTreeSet<GroupVersionKind> {
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let crds = objects.filter(|object| object.kind() == "CustomResourceDefinition");
    let mut kinds = BTreeSet::new();
    for crd in crds {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str);
        let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else {
            continue;
        };
        for version in crd.list_at("/spec/versions") {
            if let (Some(name), Some(true)) =
                (version["name"].as_str(), version["served"].as_bool())
            {
                kinds.insert(GroupVersionKind {
                    group: group.to_owned(),
                    version: name.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::Content;
    use crate::fixture::{condition, content, object, revision};

    fn bundle(properties: &serde_json::Value) -> Content {
        content([json!({"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "i",
            "properties": properties})])
    }

    fn recorded(content: &Content) -> Option<String> {
        recorded_constraints(&content.package("p").unwrap().unwrap().bundles[0])
    }

    // resolution.md 5.2
    #[test]
    fn constraints_are_recorded_and_read_back() {
        let value = json!({"packageName": "blue", "versionRange": ">=1.0.0"});
        let content = bundle(&json!([
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            {"type": "olm.package.required", "value": value},
        ]));
        let text = recorded(&content).unwrap();
        let annotations = json!({
            annotation::PACKAGE_NAME: "p",
            annotation::BUNDLE_VERSION: "1.0.0",
            annotation::BUNDLE_CONSTRAINTS: text,
            annotation::PROPERTIES: "not JSON",
        });
        let revision = revision(1, &json!({"metadata": {"annotations": annotations}}));
        let provider = provider("e", &revision, BTreeSet::new());
        assert_eq!((provider.package.as_str(), provider.version.as_str()), ("p", "1.0.0"));
        assert_eq!(recorded_properties(&text).len(), 1);
        let read: serde_json::Value =
            serde_json::from_str(&recorded_properties(&text)[0].value).unwrap();
        assert_eq!(read, value);
    }

    #[test]
    fn nothing_is_recorded_of_no_or_of_too_many_constraints() {
        assert_eq!(recorded(&bundle(&json!([]))), None);
        let long = json!({"rule": "x".repeat(MAX_CONSTRAINTS_BYTES)});
        let long = json!([{"type": "olm.constraint", "value": long}]);
        assert_eq!(recorded(&bundle(&long)), None);
    }

    // resolution.md 5.2
    #[test]
    fn what_is_installed_belongs_to_an_extension_by_name_and_uid() {
        let set = |extension: &str, uid: &str, number: i64| {
            let owner = json!({"apiVersion": olm_api::API_VERSION, "controller": true,
                "kind": label::OWNER_KIND_EXTENSION, "name": extension, "uid": uid});
            let metadata = json!({"name": format!("{extension}-{number}"),
                "labels": {label::OWNER_NAME: extension}, "ownerReferences": [owner]});
            let conditions = [condition("Succeeded", "True", "x", "")];
            revision(number, &json!({"metadata": metadata, "status": {"conditions": conditions}}))
        };
        // That the reference of another has the same UID hides nothing.
        let sets = [set("lamp", "u", 2), set("lamp", "u", 10), set("torch", "u", 50)];
        let found = installed(&sets);
        let names =
            found.iter().map(|(it, set)| (&*it.name, set.metadata.name.as_deref().unwrap()));
        assert_eq!(names.collect::<Vec<_>>(), [("lamp", "lamp-10"), ("torch", "torch-50")]);
    }

    // resolution.md 5.2
    #[test]
    fn a_csv_that_succeeded_and_is_no_copy_provides() {
        let csv = json!({
            "metadata": {"name": "blue.v1.2.0", "namespace": "operators", "annotations": {
                annotation::CSV_PROPERTIES: json!({"properties": [
                    {"type": "olm.package", "value": {"packageName": "blue", "version": "1.2.0"}},
                ]}).to_string(),
            }},
            "spec": {"version": "1.2.0", "customresourcedefinitions": {"owned": [
                {"name": "blues.example.com", "version": "v1", "kind": "Blue"},
            ]}, "apiservicedefinitions": {"owned": [
                {"group": "apis.example.com", "version": "v1", "kind": "Sky"},
            ]}},
            "status": {"phase": name::CSV_SUCCEEDED},
        });
        let found = csv_provider(&csv).unwrap();
        assert_eq!((found.package.as_str(), found.version.as_str()), ("blue", "1.2.0"));
        let origin = found.origin.to_string();
        assert_eq!(origin, "ClusterServiceVersion \"operators/blue.v1.2.0\"");
        let owned = owned_kinds(&csv["spec"]);
        let mut kinds: Vec<_> = owned.iter().map(|it| (&*it.group, &*it.kind)).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, [("apis.example.com", "Sky"), ("example.com", "Blue")]);
        let mut copy = csv.clone();
        copy["metadata"]["labels"] = json!({label::COPIED_FROM: "operators"});
        assert!(csv_provider(&copy).is_none());
        let mut installing = csv.clone();
        installing["status"]["phase"] = json!("Installing");
        assert!(csv_provider(&installing).is_none());
        assert!(csv_provider(&json!({})).is_none());
    }

    #[test]
    fn what_a_bundle_asks_for_at_its_end() {
        let of = |value: &str| {
            let text = format!(r#"[{{"type": "olm.uninstallPolicy", "value": {value}}}]"#);
            asked_uninstall_policies(&[(annotation::PROPERTIES.to_owned(), text)].into())
        };
        assert_eq!(of("\"RetainCRDs\""), [UninstallPolicy::RetainCrds]);
        assert_eq!(of("7"), []);
        assert_eq!(of("\"retain\""), []);
        assert_eq!(asked_uninstall_policies(&BTreeMap::new()), []);
    }

    #[test]
    fn only_served_versions_of_a_crd_are_kinds() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "greens.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Green"}, "versions": [
                {"name": "v1", "served": true}, {"name": "v1alpha1", "served": false},
            ]},
        });
        let phase = Phase { name: "crds".to_owned(), objects: vec![object(crd)] };
        let kinds: Vec<_> = served_kinds(&[phase]).into_iter().collect();
        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds[0].to_string(), "example.com/v1, Kind=Green");
    }
}
