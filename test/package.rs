//! A small package: bundles and catalogs made for one test, with names that no other test uses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::paths;

/// Files of an image: path to bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

const IMAGE: &str = "registry.example.com/buoy:v1";

/// The port of webhook Services.
pub const WEBHOOK_PORT: u16 = 9443;

/// A package of which every name has the suffix of one test.
#[derive(Debug, Clone)]
pub struct Package {
    /// Distinguishes the cluster-scoped objects of one test from all others.
    pub suffix: String,
}

/// One version of a [`Package`].
#[derive(Debug, Clone, Default)]
pub struct Bundle {
    /// Version of the bundle.
    pub version: String,
    /// Image of the (first) operator's container; `wrong/image` never becomes ready.
    pub image: String,
    /// `progressDeadlineSeconds` of its Deployments, if it is set.
    pub progress_deadline: Option<u32>,
    /// Number of Deployments of the bundle.
    pub deployments: usize,
    /// `data` of the `ConfigMap`.
    pub data: BTreeMap<String, String>,
    /// Whether the bundle contains a second `ConfigMap`.
    pub second_config_map: bool,
    /// Bytes of filler in each `ConfigMap`: with enough of it, the objects of a revision need
    /// several Secrets.
    pub filler: usize,
    /// Whether the operator watches only one namespace, its own or another, and has rights there,
    /// instead of all namespaces.
    pub one_namespace: bool,
    /// Properties of the bundle itself, by type.
    pub properties: BTreeMap<String, String>,
    /// Additional manifests.
    pub extra: Vec<Value>,
    /// Webhook definitions; [`Package::validating_webhook`] makes one.
    pub webhooks: Vec<Value>,
    /// Definitions of API services; [`Package::api_service`] makes one.
    pub api_services: Vec<Value>,
}

/// Makes methods that change a bundle.
macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) |$it:ident| $change:expr;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $($given: $type),*) -> Self {
            let $it = &mut self;
            $change;
            self
        }
    )* };
}

impl Bundle {
    /// Returns a bundle that installs and becomes ready.
    pub fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            image: IMAGE.to_owned(),
            deployments: 1,
            data: BTreeMap::from([("depth".to_owned(), "10".to_owned())]),
            ..Self::default()
        }
    }

    changes! {
        /// Adds a webhook definition.
        with_webhook(definition: Value) |it| it.webhooks.push(definition);
        /// Adds the definition of an API service.
        with_api_service(definition: Value) |it| it.api_services.push(definition);
        /// Adds a manifest.
        with_manifest(manifest: Value) |it| it.extra.push(manifest);
        /// Gives the operator an image that never becomes ready.
        broken() |it| it.image = String::from("wrong/image:v1");
        /// Gives the bundle `count` Deployments.
        with_deployments(count: usize) |it| it.deployments = count;
        /// Puts `bytes` of filler into each `ConfigMap`.
        with_filler(bytes: usize) |it| it.filler = bytes;
        /// Adds a second `ConfigMap`.
        with_second_config_map() |it| it.second_config_map = true;
        /// Makes the operator watch one namespace.
        for_one_namespace() |it| it.one_namespace = true;
        /// Declares the newest OpenShift version the bundle supports.
        with_max_openshift(version: &str)
            |it| it.properties.insert("olm.maxOpenShiftVersion".to_owned(), version.to_owned());
        /// Declares what becomes of users' objects at an uninstall.
        with_uninstall_policy(word: &str)
            |it| it.properties.insert("olm.uninstallPolicy".to_owned(), word.to_owned());
    }
}

/// One entry of a channel, with the version of its bundle.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Version of the bundle.
    pub version: String,
    /// Version it replaces, if any.
    pub replaces: Option<String>,
}

impl Package {
    /// Returns the package of the test with this `suffix` (lower-case letters and digits).
    pub fn new(suffix: &str) -> Self {
        Self { suffix: suffix.to_owned() }
    }

    /// Name of the package.
    pub fn name(&self) -> String {
        format!("buoy-{}", self.suffix)
    }

    /// Name of one of its bundles.
    pub fn bundle_name(&self, version: &str) -> String {
        format!("{}.v{version}", self.name())
    }

    /// Name of its CRD.
    pub fn crd(&self) -> String {
        format!("buoys.{}", self.group())
    }

    /// Name of its Deployment.
    pub fn deployment(&self) -> String {
        format!("buoy-{}", self.suffix)
    }

    /// Name of its `ConfigMap`.
    pub fn config_map(&self) -> String {
        format!("buoy-{}-settings", self.suffix)
    }

    /// Name of the second `ConfigMap`, if a bundle has one.
    pub fn second_config_map(&self) -> String {
        format!("{}-second", self.config_map())
    }

    /// Group of the API that an API service of it serves, in version `v1`.
    pub fn served_group(&self) -> String {
        format!("served.{}", self.group())
    }

    /// Name of the Service for the webhooks of its Deployment.
    pub fn service(&self) -> String {
        format!("{}-service", self.deployment())
    }

    /// Name of the Secret with the certificate of its webhook server.
    pub fn certificate(&self) -> String {
        format!("{}-cert", self.service())
    }

    /// Returns the definition of a webhook that is called for new `ConfigMap`s with the label
    /// `asks: <name of the package>`.
    pub fn validating_webhook(&self) -> Value {
        self.written("webhook", &[])
    }

    /// Returns the definition of an API service at the port of its webhooks.
    pub fn api_service(&self) -> Value {
        json!({
            "group": self.served_group(), "version": "v1", "kind": "Tide", "name": "tides",
            "deploymentName": self.deployment(), "containerPort": WEBHOOK_PORT,
        })
    }

    /// Returns the files of a bundle image.
    pub fn bundle_files(&self, bundle: &Bundle) -> Files {
        let mut files = Files::new();
        let mut put = |path: &str, value: &Value| {
            files.insert(path.to_owned(), value.to_string().into_bytes());
        };
        put("metadata/annotations.yaml", &self.written("annotations", &[]));
        if !bundle.properties.is_empty() {
            let properties = bundle.properties.iter();
            let properties =
                properties.map(|(type_, value)| json!({"type": type_, "value": value}));
            let properties: Vec<_> = properties.collect();
            put("metadata/properties.yaml", &json!({"properties": properties}));
        }
        put("manifests/crd.yaml", &definition("Buoy", &self.group()));
        let config_map = |name: String, data: &BTreeMap<String, String>| {
            let mut data = data.clone();
            if bundle.filler > 0 {
                data.insert("filler".to_owned(), "~".repeat(bundle.filler));
            }
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": data,
            })
        };
        put("manifests/settings.yaml", &config_map(self.config_map(), &bundle.data));
        if bundle.second_config_map {
            let data = BTreeMap::from([("only".to_owned(), "here".to_owned())]);
            put("manifests/second.yaml", &config_map(self.second_config_map(), &data));
        }
        put("manifests/csv.yaml", &self.csv(bundle));
        for (index, manifest) in bundle.extra.iter().enumerate() {
            put(&format!("manifests/extra-{index}.yaml"), manifest);
        }
        files
    }

    /// Returns a manifest of another CRD, whose group begins with `word`.
    pub fn further_crd(&self, word: &str) -> Value {
        definition("Buoy", &format!("{word}.{}", self.group()))
    }

    /// Group of its CRD.
    pub fn group(&self) -> String {
        format!("{}.example.com", self.suffix)
    }

    /// Returns what `package.yaml` has under a key.
    fn written(&self, key: &str, with: &[(&str, &str)]) -> Value {
        let (name, group, deployment) = (self.name(), self.group(), self.deployment());
        let own: [(&str, &str); 3] =
            [("name", &name), ("group", &group), ("deployment", &deployment)];
        paths::fixture("test/package.yaml", key, &[&own[..], with].concat())
    }

    fn csv(&self, bundle: &Bundle) -> Value {
        let name = self.bundle_name(&bundle.version);
        let mut csv = self.written("csv", &[("bundle", &name), ("version", &bundle.version)]);
        let spec = &mut csv["spec"];
        if bundle.one_namespace {
            let mut other = self.written("one namespace", &[]);
            spec["installModes"] = other["installModes"].take();
            spec["install"]["spec"]["permissions"] = other["permissions"].take();
        }
        let deployments = (0..bundle.deployments).map(|index| self.deployment_spec(bundle, index));
        spec["install"]["spec"]["deployments"] = deployments.collect();
        spec["webhookdefinitions"] = json!(bundle.webhooks);
        spec["apiservicedefinitions"]["owned"] = json!(bundle.api_services);
        csv
    }

    fn deployment_spec(&self, bundle: &Bundle, index: usize) -> Value {
        let (app, image) = match index {
            0 => (self.deployment(), bundle.image.as_str()),
            _ => (format!("{}-{}", self.deployment(), index + 1), IMAGE),
        };
        let mut deployment = self.written("deployment", &[("app", &app), ("image", image)]);
        if let Some(seconds) = bundle.progress_deadline {
            deployment["spec"]["progressDeadlineSeconds"] = json!(seconds);
        }
        deployment
    }

    /// Returns the files of a catalog image with one channel, `stable`.
    ///
    /// `images` gives the image of each version's bundle.
    pub fn catalog_files(&self, entries: &[Entry], images: &BTreeMap<String, String>) -> Files {
        let mut blobs = vec![
            json!({"schema": "olm.package", "name": self.name(), "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": self.name(), "name": "stable",
                "entries": entries.iter().map(|entry| {
                    let mut blob = json!({"name": self.bundle_name(&entry.version)});
                    if let Some(replaced) = &entry.replaces {
                        blob["replaces"] = json!(self.bundle_name(replaced));
                    }
                    blob
                }).collect::<Vec<_>>()}),
        ];
        blobs.extend(entries.iter().map(|entry| {
            json!({"schema": "olm.bundle", "package": self.name(),
            "name": self.bundle_name(&entry.version),
            "image": images[&entry.version],
            "properties": [{"type": "olm.package", "value": {
                "packageName": self.name(), "version": entry.version,
            }}]})
        }));
        let lines: Vec<String> = blobs.iter().map(ToString::to_string).collect();
        let text = lines.join("\n");
        Files::from([(format!("configs/{}/catalog.json", self.name()), text.into_bytes())])
    }
}

impl Package {
    /// Adds a property to the bundle of one version in the files of a catalog image.
    pub fn add_property(&self, files: &mut Files, version: &str, property: &Value) {
        let name = self.bundle_name(version);
        for text in files.values_mut() {
            let lines = String::from_utf8_lossy(text).into_owned();
            let lines = lines.lines().map(|line| {
                let mut blob: Value = serde_json::from_str(line).expect("a blob");
                if blob["schema"] == "olm.bundle" && blob["name"] == name.as_str() {
                    let properties = blob["properties"].as_array_mut();
                    properties.expect("a list").push(property.clone());
                }
                blob.to_string()
            });
            *text = lines.collect::<Vec<_>>().join("\n").into_bytes();
        }
    }
}

impl Package {
    /// Returns the files of a catalog with version 1.0.0 alone, whose bundle is this image.
    pub fn catalog_of(&self, image: &str) -> Files {
        self.catalog_files(&chain(&["1.0.0"]), &[("1.0.0".to_owned(), image.to_owned())].into())
    }

    /// Deprecates a bundle in a catalog.
    pub fn deprecate(&self, files: &mut Files, version: &str) {
        let reference = json!({"schema": "olm.bundle", "name": self.bundle_name(version)});
        let blob = json!({"schema": "olm.deprecations", "package": self.name(),
            "entries": [{"reference": reference, "message": "old"}]});
        for text in files.values_mut() {
            text.extend(format!("\n{blob}").into_bytes());
        }
    }
}

/// Returns a CRD of a kind, whose plural has one more letter, with one version that takes any object.
pub fn definition(kind: &str, group: &str) -> Value {
    let singular = kind.to_lowercase();
    let with: [(&str, &str); 4] = [
        ("kind", kind),
        ("group", group),
        ("singular", &singular),
        ("plural", &format!("{singular}s")),
    ];
    paths::fixture("test/package.yaml", "crd", &with)
}

/// Returns entries in which each version replaces the one before it.
pub fn chain(versions: &[&str]) -> Vec<Entry> {
    let mut before = None;
    versions
        .iter()
        .map(|version| Entry {
            version: (*version).to_owned(),
            replaces: before.replace((*version).to_owned()),
        })
        .collect()
}
