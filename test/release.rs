//! Bundle folders as releases of a package, and the file-based catalog that offers them: made as by
//! `opm render`, with the fields that resolution uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use olm_api::keys;
use olm_core::yaml;
use serde_json::{Value, json};

use crate::bundles;
use crate::package::Files;

/// Annotation of a ClusterServiceVersion with the versions it upgrades from.
const SKIP_RANGE: &str = "olm.skipRange";
/// Key of the package's name in `metadata/annotations.yaml`.
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
/// The channel of all releases.
const CHANNEL: &str = "stable";

/// One version of a package, as its folder describes it.
#[derive(Debug, Clone)]
pub struct Release {
    /// Folder of the bundle.
    pub folder: PathBuf,
    /// Name of the package.
    pub package: String,
    /// Name of the ClusterServiceVersion, and so of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: String,
    edges: Value,
    properties: Vec<Value>,
}

impl Release {
    /// Reads a bundle folder; panics when it does not contain a bundle.
    pub fn read(folder: &Path) -> Self {
        let files = bundles::read_files(folder).expect("the bundle folder can be read");
        let annotations = document(&files, "metadata/annotations.yaml");
        let package = text(&annotations["annotations"][PACKAGE]);
        let csv = csv(&files);
        let spec = &csv["spec"];
        let name = text(&csv["metadata"]["name"]);
        let version = text(&spec["version"]);
        let edges = json!({
            "name": name,
            "replaces": spec["replaces"],
            "skips": spec["skips"],
            "skipRange": csv["metadata"]["annotations"][SKIP_RANGE],
        });
        Self {
            folder: folder.to_owned(),
            properties: properties(&files, &csv, &package, &version),
            package,
            name,
            version,
            edges,
        }
    }

    /// Returns the files of the bundle image.
    pub fn files(&self) -> Files {
        bundles::read_files(&self.folder).expect("the bundle folder can be read")
    }
}

/// Returns the files of a catalog image whose packages have one channel, `stable`.
///
/// Each release is given with the image of its bundle.
pub fn catalog_files(releases: &[(Release, String)]) -> Files {
    let mut packages: BTreeMap<&str, Vec<&(Release, String)>> = BTreeMap::new();
    for release in releases {
        packages.entry(&release.0.package).or_default().push(release);
    }
    let files = packages.into_iter().map(|(package, releases)| {
        let entries: Vec<Value> =
            releases.iter().map(|(release, _)| present(&release.edges)).collect();
        let mut blobs = vec![
            json!({"schema": "olm.package", "name": package, "defaultChannel": CHANNEL}),
            json!({"schema": "olm.channel", "package": package, "name": CHANNEL,
                "entries": entries}),
        ];
        blobs.extend(releases.iter().map(|(release, image)| {
            json!({"schema": "olm.bundle", "package": package, "name": release.name,
                "image": image, "properties": release.properties})
        }));
        let text: String = blobs.iter().map(|blob| blob.to_string() + "\n").collect();
        (format!("configs/{package}/catalog.json"), text.into_bytes())
    });
    files.collect()
}

/// Returns an object without its null members.
fn present(object: &Value) -> Value {
    let members = object.as_object().into_iter().flatten();
    members
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The properties in the catalog: package and version, what the author declares, and the
/// dependencies with the types that resolution knows.
fn properties(files: &Files, csv: &Value, package: &str, version: &str) -> Vec<Value> {
    let own = json!({"type": keys::property::PACKAGE,
        "value": {"packageName": package, "version": version}});
    let annotated = csv["metadata"]["annotations"][keys::annotation::PROPERTIES]
        .as_str()
        .map(|text| serde_json::from_str(text).expect("the annotated properties are JSON"));
    let declared = document(files, "metadata/properties.yaml");
    let needed = document(files, "metadata/dependencies.yaml");
    let dependencies = list(&needed["dependencies"]).map(|dependency| {
        let kind = match dependency["type"].as_str() {
            Some("olm.package") => keys::property::PACKAGE_REQUIRED,
            Some("olm.gvk") => keys::property::GVK_REQUIRED,
            other => other.unwrap_or_default(),
        };
        let mut value = dependency["value"].clone();
        // Catalogs use another type for it.
        if kind == keys::property::PACKAGE_REQUIRED {
            value["versionRange"] = value["version"].take();
            value.as_object_mut().map(|it| it.remove("version"));
        }
        json!({"type": kind, "value": value})
    });
    std::iter::once(own)
        .chain(list(&annotated.unwrap_or_default()).cloned())
        .chain(list(&declared["properties"]).cloned())
        .chain(dependencies)
        .collect()
}

fn csv(files: &Files) -> Value {
    let manifests = files.keys().filter(|path| path.starts_with("manifests/"));
    manifests
        .map(|path| document(files, path))
        .find(|manifest| manifest["kind"] == "ClusterServiceVersion")
        .expect("the bundle holds a ClusterServiceVersion")
}

/// Returns the first document of a YAML file, null when there is no such file.
fn document(files: &Files, path: &str) -> Value {
    let Some(bytes) = files.get(path) else { return Value::Null };
    let text = String::from_utf8_lossy(bytes);
    let documents = yaml::to_json(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    documents.into_iter().next().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::write_files;

    #[test]
    fn a_catalog_says_what_the_bundles_say() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |path: &str, content: Value| (path.to_owned(), content.to_string().into_bytes());
        let max = json!({"type": "olm.maxOpenShiftVersion", "value": "4.19"});
        let bundle = Files::from([
            file("manifests/a.yaml", json!({"kind": "ConfigMap"})),
            file(
                "manifests/csv.yaml",
                json!({
                    "kind": "ClusterServiceVersion",
                    "metadata": {"name": "kettle.v2", "annotations": {
                        SKIP_RANGE: "<2.0.0",
                        keys::annotation::PROPERTIES: json!([max]).to_string(),
                    }},
                    "spec": {"version": "2.0.0", "skips": ["kettle.v1"]},
                }),
            ),
            file("metadata/annotations.yaml", json!({"annotations": {PACKAGE: "kettle"}})),
            file(
                "metadata/dependencies.yaml",
                json!({"dependencies": [
                    {"type": "olm.package", "value": {"packageName": "tea", "version": ">1"}},
                ]}),
            ),
        ]);
        write_files(folder.path(), &bundle);

        let release = Release::read(folder.path());
        let files = catalog_files(&[(release, "registry.example.com/kettle:v2".to_owned())]);

        let text = String::from_utf8_lossy(&files["configs/kettle/catalog.json"]).into_owned();
        let blobs: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        assert_eq!(
            blobs,
            [
                json!({"schema": "olm.package", "name": "kettle", "defaultChannel": "stable"}),
                json!({"schema": "olm.channel", "package": "kettle", "name": "stable", "entries": [
                    {"name": "kettle.v2", "skips": ["kettle.v1"], "skipRange": "<2.0.0"},
                ]}),
                json!({"schema": "olm.bundle", "package": "kettle", "name": "kettle.v2",
                    "image": "registry.example.com/kettle:v2", "properties": [
                    {"type": "olm.package",
                        "value": {"packageName": "kettle", "version": "2.0.0"}},
                    max,
                    {"type": "olm.package.required",
                        "value": {"packageName": "tea", "versionRange": ">1"}},
                ]}),
            ]
        );
    }
}
