//! What a bundle is in a catalog: its `olm.bundle` blob, and the package and channels that the CSVs of
//! several bundles draw.
//!
//! Source: plugin.md 2.1; the properties are those opm gives a bundle.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::keys::property;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::model::schema;
use crate::bundle::{
    ANNOTATIONS_FILE, Bundle, BundleError, Files, Properties, UNREADABLE_ANNOTATION, Written,
    csv_as_written, declared_properties, dependencies,
};
use crate::object::{is_set, items};
use crate::yaml;

const CHANNELS_KEY: &str = "operators.operatorframework.io.bundle.channels.v1";
const DEFAULT_CHANNEL_KEY: &str = "operators.operatorframework.io.bundle.channel.default.v1";
/// Annotation of a CSV with the versions it may follow.
pub(crate) const SKIP_RANGE: &str = "olm.skipRange";
/// Members of `spec` that people are shown, and their names in a catalog.
#[rustfmt::skip]
const SHOWN: [(&str, &str); 12] = [
    ("apiservicedefinitions", "apiServiceDefinitions"),
    ("customresourcedefinitions", "crdDescriptions"),
    ("description", "description"), ("displayName", "displayName"), ("installModes", "installModes"),
    ("keywords", "keywords"), ("links", "links"), ("maintainers", "maintainers"),
    ("maturity", "maturity"), ("minKubeVersion", "minKubeVersion"), ("nativeAPIs", "nativeAPIs"),
    ("provider", "provider"),
];

/// A bundle as a catalog has it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogBundle {
    /// The `olm.bundle` blob as JSON, in which properties are as their author wrote them.
    pub blob: String,
    /// Every image of the bundle, sorted.
    pub images: Vec<String>,
    pub(super) package: String,
    pub(super) name: String,
    /// Its channels, and that of them which is the default.
    channels: Vec<String>,
    default_channel: String,
    /// Its entry in a channel.
    entry: Value,
    icon: Option<Value>,
    description: Option<Value>,
}

/// An `olm.bundle` blob.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    schema: &'a str,
    name: &'a str,
    package: &'a str,
    image: &'a str,
    properties: Vec<Box<RawValue>>,
    related_images: &'a [Value],
}

/// A property, and how its author wrote it.
type Declared = (Value, Option<Box<RawValue>>);

impl CatalogBundle {
    /// Reads a bundle that is to have this image.
    ///
    /// # Errors
    ///
    /// What a catalog takes from the CSV has another type than it must have.
    pub fn new(bundle: &Bundle, files: &Files, image: &str) -> Result<Self, BundleError> {
        let csv = csv_as_written(files);
        let Written { version, release, replaces, skips } = csv.versions()?;
        let csv = csv.manifest;
        let annotations = annotations(files);
        let text = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        let name = bundle.csv.name.clone();
        let mut entry = json!({"name": name});
        if !replaces.is_empty() {
            entry["replaces"] = json!(replaces);
        }
        if !skips.is_empty() {
            entry["skips"] = json!(skips);
        }
        if let Some(range) = bundle.csv.annotations.get(SKIP_RANGE) {
            entry["skipRange"] = json!(range);
        }
        let channels = text(CHANNELS_KEY);
        let channels = channels.split(',').map(str::trim).filter(|it| !it.is_empty());
        let mut own = json!({"packageName": bundle.package, "version": version});
        if !release.is_empty() {
            own["release"] = json!(release);
        }
        let own = json!({"type": property::PACKAGE, "value": own});
        let related_images = related_images(bundle, &csv, image);
        let blob = Blob {
            schema: schema::BUNDLE,
            name: &name,
            package: &bundle.package,
            image,
            properties: properties(bundle, files, &csv, own)?,
            related_images: &related_images,
        };
        let images = related_images.iter().filter_map(|it| it["image"].as_str());
        let images = images.filter(|image| !image.is_empty()).map(str::to_owned);
        Ok(Self {
            blob: serde_json::to_string(&blob).map_err(unreadable)?,
            images: images.collect(),
            package: bundle.package.clone(),
            channels: channels.map(str::to_owned).collect(),
            default_channel: text(DEFAULT_CHANNEL_KEY),
            icon: csv.pointer("/spec/icon/0").filter(|it| is_set(&it["base64data"])).cloned(),
            description: csv.pointer("/spec/description").cloned(),
            name,
            entry,
        })
    }

    /// Returns the blobs of a catalog with a channel that has nothing but this bundle, as JSON.
    pub(crate) fn alone(&self) -> [String; 2] {
        let channel = json!({"schema": schema::CHANNEL, "package": self.package, "name": "alone",
            "entries": [self.entry]});
        [channel.to_string(), self.blob.clone()]
    }
}

/// Returns the packages and channels that the CSVs of some bundles draw, each package's in the order of
/// the bundles; what the last bundle says of its package counts.
pub fn graph(bundles: &[CatalogBundle]) -> Vec<Value> {
    let names: BTreeSet<&str> = bundles.iter().map(|it| it.package.as_str()).collect();
    let mut blobs = Vec::new();
    for name in names {
        let of_package = || bundles.iter().filter(|it| it.package == name);
        let Some(last) = of_package().next_back() else { continue };
        let mut channels: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for bundle in of_package() {
            for channel in &bundle.channels {
                channels.entry(channel).or_default().push(&bundle.entry);
            }
        }
        let default = match last.default_channel.as_str() {
            "" => last.channels.first().map_or("", String::as_str),
            default => default,
        };
        blobs.push(package_blob(name, default, Some(last)));
        blobs.extend(channels.into_iter().map(|(channel, entries)| {
            json!({"schema": schema::CHANNEL, "package": name, "name": channel, "entries": entries})
        }));
    }
    blobs
}

/// Returns the blob of a package, with what a bundle of it says for people.
pub(super) fn package_blob(name: &str, default: &str, bundle: Option<&CatalogBundle>) -> Value {
    let mut blob = json!({"schema": schema::PACKAGE, "name": name, "defaultChannel": default});
    let said = bundle.map(|it| [("icon", &it.icon), ("description", &it.description)]);
    for (key, value) in said.into_iter().flatten() {
        if let Some(value) = value {
            blob[key] = value.clone();
        }
    }
    blob
}

/// Returns the annotations of the bundle that are texts.
fn annotations(files: &Files) -> BTreeMap<String, String> {
    let text = files.get(ANNOTATIONS_FILE).map(|it| String::from_utf8_lossy(it));
    let documents = text.and_then(|text| yaml::to_json(&text).ok());
    let document = documents.and_then(|documents| documents.into_iter().next());
    let annotations = document.as_ref().and_then(|it| it["annotations"].as_object());
    let annotations = annotations.into_iter().flatten();
    annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns the properties of a bundle, by type and value; what people are shown comes last.
/// `own` is its `olm.package`, unless the author wrote one into the CSV.
fn properties(
    bundle: &Bundle,
    files: &Files,
    csv: &Value,
    own: Value,
) -> Result<Vec<Box<RawValue>>, BundleError> {
    let read = |text: String| -> serde_json::Result<Declared> {
        Ok((serde_json::from_str(&text)?, Some(RawValue::from_string(text)?)))
    };
    let read = |texts: Vec<String>| {
        let read = texts.into_iter().map(read).collect::<Result<Vec<_>, _>>();
        read.map_err(unreadable)
    };
    let derived = |property: Value| (property, None);
    let is_own = |(property, _): &Declared| property["type"] == property::PACKAGE;
    let Properties { annotated, added } = declared_properties(csv, files)?;
    let (owns, mut found): (Vec<_>, Vec<_>) = read(annotated)?.into_iter().partition(is_own);
    found.extend(read(added)?.into_iter().filter(|it| !is_own(it)));
    found.extend(dependencies(files)?.into_iter().map(derived));
    found.push(owns.into_iter().next_back().unwrap_or_else(|| derived(own)));
    found.extend(kinds(bundle, csv).into_iter().map(derived));
    found.sort_by_key(|(it, _)| (it["type"].to_string(), it["value"].to_string()));
    found.dedup_by(|(a, _), (b, _)| a == b);
    found.push(derived(json!({"type": property::CSV_METADATA, "value": shown(csv)})));
    let raw = found.into_iter().map(|(property, written)| match written {
        Some(written) => Ok(written),
        None => serde_json::value::to_raw_value(&property),
    });
    raw.collect::<Result<_, _>>().map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> BundleError {
    BundleError::reading(UNREADABLE_ANNOTATION)(error)
}

/// Returns the kinds that a bundle provides and requires.
fn kinds(bundle: &Bundle, csv: &Value) -> Vec<Value> {
    let property = |kind: &str, group: &str, version: &Value, name: &Value| json!({"type": kind, "value": {"group": group, "version": version, "kind": name}});
    let mut found = Vec::new();
    for crd in &bundle.crds {
        let group = crd.text_at("/spec/group");
        let kind = json!(crd.pointer("/spec/names/kind").and_then(Value::as_str));
        let old = crd.pointer("/spec/version").filter(|it| is_set(it));
        let old = old.filter(|_| crd.api_version() == "apiextensions.k8s.io/v1beta1");
        for version in crd.list_at("/spec/versions").map(|it| &it["name"]).chain(old) {
            found.push(property(property::GVK, group, version, &kind));
        }
    }
    for crd in items(&csv["spec"]["customresourcedefinitions"]["required"]) {
        let name = crd["name"].as_str().unwrap_or_default();
        let group = name.split_once('.').map_or("", |(_, group)| group);
        found.push(property(property::GVK_REQUIRED, group, &crd["version"], &crd["kind"]));
    }
    for (list, kind) in [("owned", property::GVK), ("required", property::GVK_REQUIRED)] {
        for api in items(&csv["spec"]["apiservicedefinitions"][list]) {
            let group = api["group"].as_str().unwrap_or_default();
            found.push(property(kind, group, &api["version"], &api["kind"]));
        }
    }
    found
}

/// Returns what of a CSV people are shown.
pub(super) fn shown(csv: &Value) -> Value {
    let mut shown = Map::new();
    for key in ["annotations", "labels"] {
        let value = csv.pointer(&format!("/metadata/{key}"));
        if let Some(value) = value.filter(|it| is_set(it)) {
            shown.insert(key.to_owned(), value.clone());
        }
    }
    for (key, name) in SHOWN {
        let value = csv.pointer(&format!("/spec/{key}")).filter(|it| is_set(it));
        let always = matches!(name, "apiServiceDefinitions" | "crdDescriptions" | "provider");
        let value = value.cloned().or_else(|| always.then(|| json!({})));
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    }
    if let Some(crds) = shown.get_mut("crdDescriptions") {
        write_out_resources(crds);
    }
    Value::Object(shown)
}

/// Gives each resource of a CRD's description its three members, as catalogs have them.
fn write_out_resources(crds: &mut Value) {
    let lists = crds.as_object_mut().into_iter().flatten();
    let crds = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    let resources = crds.filter_map(|crd| crd.get_mut("resources")?.as_array_mut());
    for resource in resources.flatten() {
        let Some(members) = resource.as_object() else { continue };
        let text = |name: &str| {
            let mut members = members.iter();
            let found = members.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map_or_else(|| json!(""), |(_, value)| value.clone())
        };
        *resource = json!({"name": text("name"), "kind": text("kind"), "version": text("version")});
    }
}

/// Returns the images of a bundle: those it lists, its own, and those of its Deployments.
fn related_images(bundle: &Bundle, csv: &Value, image: &str) -> Vec<Value> {
    let listed = items(&csv["spec"]["relatedImages"]);
    let mut images: Vec<_> = listed
        .map(|it| [&it["image"], &it["name"]].map(|it| it.as_str().unwrap_or_default()))
        .collect();
    let mut known: BTreeSet<&str> = images.iter().map(|[image, _]| *image).collect();
    let containers = bundle.csv.deployments.iter().flat_map(|deployment| {
        let pod = deployment.pod();
        ["initContainers", "containers"].into_iter().flat_map(|key| items(&pod[key]))
    });
    let used = containers.filter_map(|container| container["image"].as_str());
    for used in std::iter::once(image).chain(used) {
        if !used.is_empty() && known.insert(used) {
            images.push([used, ""]);
        }
    }
    images.sort_unstable();
    images.into_iter().map(|[image, name]| json!({"name": name, "image": image})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::fixture::{load, with};
    use crate::bundle::{DEPENDENCIES_FILE, PROPERTIES_FILE};
    use crate::catalog::lint::{Pinned, lint};
    use crate::catalog::read::Meta;
    use crate::error::Chain;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    fn files(version: &str, replaces: &str) -> Files {
        let [mut csv, crd, annotations, dependencies] =
            yaml::to_json(include_str!("../testdata/catalog/teapot.yaml"))
                .unwrap()
                .try_into()
                .unwrap();
        csv["metadata"]["name"] = json!(format!("teapot.v{version}"));
        (csv["spec"]["version"], csv["spec"]["replaces"]) = (json!(version), json!(replaces));
        with(&[
            ("manifests/csv.yaml", &csv.to_string()),
            ("manifests/crd.yaml", &crd.to_string()),
            (ANNOTATIONS_FILE, &annotations.to_string()),
            (DEPENDENCIES_FILE, &dependencies.to_string()),
        ])
    }

    fn catalog_bundle(files: &Files, image: &str) -> CatalogBundle {
        CatalogBundle::new(&load(files), files, image).unwrap()
    }

    fn read(version: &str, replaces: &str) -> CatalogBundle {
        let image = format!("quay.io/pots/teapot-bundle:{version}");
        catalog_bundle(&files(version, replaces), &image)
    }

    #[test]
    fn a_bundle_becomes_its_blob() {
        let bundle = read("1.0.0", "");
        let blob: Value = serde_json::from_str(&bundle.blob).unwrap();
        insta::assert_snapshot!(yaml::to_yaml(&blob));
        assert_eq!(bundle.images.len(), 3, "{:?}", bundle.images);
    }

    /// A bundle whose CSV is changed.
    fn changed(change: impl FnOnce(&mut Value)) -> Files {
        let mut files = files("1.0.0", "");
        let mut csv: Value = serde_json::from_slice(&files["manifests/csv.yaml"]).unwrap();
        change(&mut csv);
        files.insert("manifests/csv.yaml".to_owned(), csv.to_string().into_bytes());
        files
    }

    /// Reads a bundle whose CSV has these members of `spec` too.
    fn read_with(spec: &Value) -> Result<CatalogBundle, String> {
        let members = spec.as_object().unwrap().clone();
        let files = changed(|csv| csv["spec"].as_object_mut().unwrap().extend(members));
        let read = CatalogBundle::new(&load(&files), &files, "quay.io/pots/teapot-bundle:1");
        read.map_err(|error| Chain(&error).to_string())
    }

    // resolution.md 4.2
    #[test]
    fn the_release_of_a_csv_is_that_of_the_package() {
        for release in [json!("20250104"), json!(20_250_104)] {
            let blob = read_with(&json!({"release": release})).unwrap().blob;
            assert!(blob.contains(r#""release":"20250104""#), "{blob}");
        }
        assert!(!read("1.0.0", "").blob.contains("release"));
    }

    // rendering.md R17
    #[test]
    fn what_a_catalog_takes_from_a_csv_has_its_type() {
        for (spec, want) in
            cases::<(Value, &str)>(CASES, "what_a_catalog_takes_from_a_csv_has_its_type")
        {
            let error = read_with(&spec).unwrap_err();
            assert!(error.ends_with(want) && error.contains("\"manifests/csv.yaml\""), "{error}");
        }
    }

    // plugin.md U14
    #[test]
    fn numbers_of_properties_stay_as_they_are_written() {
        let mut files = files("1.0.0", "");
        let properties = "properties: [{type: limit, value: 4.20}]";
        files.insert(PROPERTIES_FILE.to_owned(), properties.as_bytes().to_vec());
        let blob = catalog_bundle(&files, "").blob;
        assert!(blob.contains(r#"{"type":"limit","value":4.20}"#), "{blob}");
        let meta = Meta::parse(&blob).unwrap();
        assert!(meta.json.contains(r#""value":4.20"#), "{}", meta.json);
    }

    // As opm reads it; a catalog has them by their image.
    #[test]
    fn a_related_image_has_a_name_and_an_image() {
        let listed = json!([{"name": "z", "image": "r.io/a:1"}, {"name": "lost", "more": 1}]);
        let bundle = read_with(&json!({"relatedImages": listed})).unwrap();
        let blob: Value = serde_json::from_str(&bundle.blob).unwrap();
        assert_eq!(blob["relatedImages"][0], json!({"name": "lost", "image": ""}));
        assert!(bundle.images.iter().all(|image| !image.is_empty()), "{:?}", bundle.images);
    }

    // Tools write such an icon into each new CSV.
    #[test]
    fn a_package_has_no_icon_that_is_empty() {
        let empty = json!({"icon": [{"base64data": "", "mediatype": ""}]});
        let blobs = graph(&[read_with(&empty).unwrap()]);
        assert_eq!((&blobs[0]["name"], blobs[0].get("icon")), (&json!("teapot"), None));
    }

    // As opm has it: only a property of the CSV counts instead of package and version.
    #[test]
    fn a_bundle_has_one_package() {
        for (annotation, want) in cases::<(Value, &str)>(CASES, "a_bundle_has_one_package") {
            let annotation = json!(annotation.to_string());
            let mut files =
                changed(|csv| csv["metadata"]["annotations"]["olm.properties"] = annotation);
            let property = "{type: olm.package, value: {packageName: p, version: 2.0.0}}";
            let properties = format!("properties: [{property}]").into_bytes();
            files.insert(PROPERTIES_FILE.to_owned(), properties);
            let blob: Value = serde_json::from_str(&catalog_bundle(&files, "").blob).unwrap();
            let own = items(&blob["properties"]).filter(|it| it["type"] == property::PACKAGE);
            let versions: Vec<_> = own.map(|it| it["value"]["version"].as_str().unwrap()).collect();
            assert_eq!(versions, [want]);
        }
    }

    // plugin.md U66
    #[test]
    fn the_graph_of_csvs_is_sound() {
        let bundles = [read("1.0.0", ""), read("1.1.0", "teapot.v1.0.0")];
        let blobs = graph(&bundles);
        assert_eq!(blobs.len(), 3, "{blobs:?}");
        assert_eq!(blobs[1]["entries"][1]["replaces"], "teapot.v1.0.0");
        let lines: Vec<_> = blobs.iter().map(Value::to_string).collect();
        let lines = [lines, bundles.map(|bundle| bundle.blob).into()].concat();
        let text = lines.join("\n");
        let files = [("catalog.json", text.as_bytes())];
        let (findings, _) = lint(files, |_| Ok(Pinned::Digest)).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
    }
}
