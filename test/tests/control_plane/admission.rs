//! What the API server accepts and refuses with our CRDs installed (api.md 8, "Admission"): the table in
//! `admission.yaml`, and here lengths, changes and what is stored.

use kube::core::ApiResource;
use kube::core::crd::v1::CustomResourceExt;
use olm_api::ClusterExtensionSchema;
use olm_core::yaml;
use olm_test::prelude::*;
use serde::Deserialize;

/// The cases of one kind.
#[derive(Deserialize)]
struct Table {
    smallest: Value,
    fields: Vec<Field>,
}

/// Values of one field of the smallest object; null removes it.
#[derive(Deserialize)]
struct Field {
    #[serde(rename = "field")]
    pointer: String,
    #[serde(default)]
    admitted: Vec<Value>,
    #[serde(default)]
    refused: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    with: String,
    values: Vec<Value>,
}

/// One kind on the shared control plane.
struct Kind {
    api: Api<DynamicObject>,
    resource: ApiResource,
    table: Table,
}

impl Kind {
    async fn of<K: CustomResourceExt>() -> Self {
        let resource = K::api_resource();
        let client = cluster::shared().await.client;
        let tables = yaml::to_json(include_str!("admission.yaml")).expect("YAML");
        let table = tables.into_iter().find(|table| table["kind"] == json!(resource.kind));
        let table = serde_json::from_value(table.expect("a table of the kind")).expect("a table");
        Self { api: Api::all_with(client, &resource), resource, table }
    }

    /// Returns the smallest object with another value of a field; null removes the field.
    fn with(&self, field: &str, value: Value) -> Value {
        let mut object = self.table.smallest.clone();
        let (parent, name) = field.rsplit_once('/').expect("a pointer");
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.expect("the smallest object has the parent");
        if value.is_null() {
            parent.remove(name);
        } else {
            parent.insert(name.to_owned(), value);
        }
        object
    }

    fn object(&self, name: &str, content: Value) -> DynamicObject {
        let mut value = content;
        value["apiVersion"] = json!(self.resource.api_version);
        value["kind"] = json!(self.resource.kind);
        value["metadata"]["name"] = json!(name);
        serde_json::from_value(value).expect("the object has apiVersion, kind and metadata")
    }

    /// Asks, with a dry run, whether the object would be created; `Err` holds the message.
    async fn ask(&self, content: Value) -> Result<Value, String> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let object = self.object("asked", content);
        let made = self.api.create(&params, &object).await;
        made.map(|object| object.data).map_err(message)
    }

    async fn make(&self, name: &str, content: Value) {
        let object = self.object(name, content);
        let made = self.api.create(&PostParams::default(), &object).await;
        made.map_err(message).expect("the object is created");
    }

    /// Changes the object with a JSON merge patch; `Err` holds the API server's message.
    async fn change(&self, name: &str, patch: Value) -> Result<(), String> {
        let params = PatchParams::default();
        let changed = self.api.patch(name, &params, &Patch::Merge(patch)).await;
        changed.map(|_| ()).map_err(message)
    }

    async fn change_status(&self, name: &str, patch: Value) -> Result<(), String> {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let changed = self.api.patch_status(name, &params, &patch).await;
        changed.map(|_| ()).map_err(message)
    }

    async fn refuses_change(&self, name: &str, patch: Value, with: &str) {
        assert_refused(&patch, self.change(name, patch.clone()).await, with);
    }

    async fn refuses_status(&self, name: &str, patch: Value, with: &str) {
        assert_refused(&patch, self.change_status(name, patch.clone()).await, with);
    }

    async fn accepts(&self, field: &str, value: Value) {
        let content = self.with(field, value);
        let answer = self.ask(content.clone()).await;
        assert!(answer.is_ok(), "{content} was refused: {answer:?}");
    }

    async fn refuses(&self, field: &str, value: Value, with: &str) {
        let content = self.with(field, value);
        let answer = self.ask(content.clone()).await;
        assert_refused(&content, answer.map(|_| ()), with);
    }

    async fn follows_its_table(&self) {
        for Field { pointer: field, admitted, refused } in &self.table.fields {
            for value in admitted {
                self.accepts(field, value.clone()).await;
            }
            for Refusal { with, values } in refused {
                for value in values {
                    self.refuses(field, value.clone(), with).await;
                }
            }
        }
    }
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => panic!("no answer of the API server: {other}"),
    }
}

fn assert_refused(what: &Value, answer: Result<(), String>, with: &str) {
    match answer {
        Ok(()) => panic!("{what} was accepted; wanted {with:?}"),
        Err(text) => assert!(text.contains(with), "{what}: {text:?} lacks {with:?}"),
    }
}

#[tokio::test]
async fn a_field_is_admitted_or_refused_as_the_table_says() {
    Kind::of::<ClusterExtensionSchema>().await.follows_its_table().await;
    Kind::of::<ClusterCatalog>().await.follows_its_table().await;
    Kind::of::<ClusterObjectSet>().await.follows_its_table().await;
}

mod extensions {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterExtensionSchema>().await
    }

    #[tokio::test]
    async fn the_samples_are_accepted() {
        let mut count = 0;
        for file in paths::inside(&paths::repository().join("config/samples")) {
            let text = std::fs::read_to_string(&file).expect("a sample is text");
            let documents = yaml::to_json(&text).expect("a sample is YAML");
            for document in documents {
                let kind = match document["kind"].as_str() {
                    Some("ClusterExtension") => kind().await,
                    Some("ClusterCatalog") => Kind::of::<ClusterCatalog>().await,
                    other => panic!("{}: unexpected kind {other:?}", file.display()),
                };
                // What the API server would drop is a mistake in the sample.
                let kept = kind.ask(document.clone()).await;
                let kept = kept.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                assert_kept(&document["spec"], &kept["spec"]);
                count += 1;
            }
        }
        assert_eq!(count, 6);
    }

    /// Checks that everything sent is in what would be stored, except defaults.
    fn assert_kept(asked: &Value, kept: &Value) {
        match (asked, kept) {
            (Value::Object(asked), Value::Object(kept)) => {
                for (key, value) in asked {
                    assert_kept(value, kept.get(key).unwrap_or(&Value::Null));
                }
            }
            (asked, kept) => assert_eq!(asked, kept),
        }
    }

    // A4, A5
    #[tokio::test]
    async fn service_account_may_be_cleared_and_set_again_but_not_changed() {
        let kind = kind().await;
        let name = "admission-a4";
        kind.make(name, kind.table.smallest.clone()).await;
        let set = |name: &str| json!({"spec": {"serviceAccount": {"name": name}}});
        kind.refuses_change(name, set("b"), "name is immutable once set but may be cleared").await;
        assert_eq!(kind.change(name, json!({"spec": {"serviceAccount": null}})).await, Ok(()));
        assert_eq!(kind.change(name, set("b")).await, Ok(()));
    }

    // A6
    #[tokio::test]
    async fn namespace_and_package_never_change() {
        let kind = kind().await;
        let name = "admission-a6";
        kind.make(name, kind.table.smallest.clone()).await;
        let namespace = json!({"spec": {"namespace": "other"}});
        kind.refuses_change(name, namespace, "namespace is immutable").await;
        let package = json!({"spec": {"source": {"catalog": {"packageName": "other"}}}});
        kind.refuses_change(name, package, "packageName is immutable").await;
    }

    // A1, A8, A9, A15, A16
    #[tokio::test]
    async fn lengths() {
        let kind = kind().await;
        let version = format!("1.0.0-{}", "a".repeat(58));
        let channels: Vec<_> = (0..257).map(|index| format!("c{index}")).collect();
        let name = "x".repeat(254);
        for (field, longest) in [
            ("/spec/source/catalog/version", json!(version)),
            ("/spec/source/catalog/channels", json!(channels[..256])),
            ("/spec/namespace", json!(name[..63])),
        ] {
            kind.accepts(field, longest).await;
        }
        for (field, longer, with) in [
            (
                "/spec/serviceAccount",
                json!({"name": name}),
                "spec.serviceAccount.name: Too long: may not be more than 253",
            ),
            (
                "/spec/source/catalog/version",
                json!(format!("{version}a")),
                "spec.source.catalog.version: Too long: may not be more than 64",
            ),
            (
                "/spec/source/catalog/packageName",
                json!(name),
                "spec.source.catalog.packageName: Too long: may not be more than 253",
            ),
            ("/spec/source/catalog/channels", json!(channels), "must have at most 256 items"),
            ("/spec/source/catalog/channels", json!([name]), "Too long"),
            ("/spec/namespace", json!(name[..64]), "Too long"),
        ] {
            kind.refuses(field, longer, with).await;
        }
    }

    // A12, A14: nothing of a nested configuration is pruned.
    #[tokio::test]
    async fn what_is_stored_has_a_default_and_the_whole_configuration() {
        let kind = kind().await;
        let inline = json!({"a": {"b": [1, {"c": "d"}]}, "watchNamespace": "w"});
        let config = json!({"configType": "Inline", "inline": inline});
        let stored = kind.ask(kind.with("/spec/config", config)).await.unwrap();
        assert_eq!(stored["spec"]["config"]["inline"], inline);
        let policy = &stored["spec"]["source"]["catalog"]["upgradeConstraintPolicy"];
        assert_eq!(policy, "CatalogProvided");
    }
}

mod catalogs {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterCatalog>().await
    }

    // C1
    #[tokio::test]
    async fn long_tags_are_refused() {
        let kind = kind().await;
        let (tag, port) = ("x".repeat(128), "x".repeat(125));
        for long in [format!("docker.io/foo/bar:{tag}"), format!("host:5000/{port}:v1")] {
            let with = "tag is invalid. the tag must not be more than 127 characters";
            kind.refuses("/spec/source/image/ref", json!(long), with).await;
        }
    }

    // C2
    #[tokio::test]
    async fn priority_and_availability_have_defaults() {
        let kind = kind().await;
        let stored = kind.ask(kind.table.smallest.clone()).await.unwrap();
        assert_eq!(stored["spec"]["priority"], 0);
        assert_eq!(stored["spec"]["availabilityMode"], "Available");
    }

    // C4
    #[tokio::test]
    async fn status_is_checked_too() {
        let kind = kind().await;
        let name = "admission-c4";
        // Other tests resolve on this cluster: a catalog that cannot be read would count.
        kind.make(name, kind.with("/spec/availabilityMode", json!("Unavailable"))).await;
        let url = |base: &str| json!({"status": {"urls": {"base": base}}});
        for (base, with) in
            [("ftp://x", "scheme must be either http or https"), ("no url", "must be a valid URL")]
        {
            kind.refuses_status(name, url(base), with).await;
        }
        let good = url("https://catalogd-service.olmv1-system.svc/catalogs/x");
        assert_eq!(kind.change_status(name, good).await, Ok(()));
        let tag = json!({"status": {"resolvedSource":
            {"type": "Image", "image": {"ref": "docker.io/foo/bar:v1"}}}});
        kind.refuses_status(name, tag, "must end with a digest").await;
    }
}

mod object_sets {
    use super::*;

    async fn kind() -> Kind {
        Kind::of::<ClusterObjectSet>().await
    }

    fn object() -> Value {
        json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}}})
    }

    fn phase(objects: &[Value]) -> Value {
        json!([{"name": "deploy", "objects": objects}])
    }

    /// Archived from the start, so that a controller on this cluster does not apply anything.
    fn archived(kind: &Kind, phases: Value) -> Value {
        let mut set = kind.with("/spec/phases", phases);
        set["spec"]["lifecycleState"] = json!("Archived");
        set
    }

    // O1, O3
    #[tokio::test]
    async fn revisions_are_immutable_and_stay_archived() {
        let kind = kind().await;
        let name = "admission-o1";
        kind.make(name, archived(&kind, phase(&[object()]))).await;
        for (patch, with) in [
            (json!({"revision": 2}), "revision is immutable"),
            (json!({"collisionProtection": "None"}), "collisionProtection is immutable"),
            (json!({"phases": phase(&[])}), "phases is immutable"),
            (json!({"lifecycleState": "Active"}), "cannot un-archive"),
        ] {
            kind.refuses_change(name, json!({"spec": patch}), with).await;
        }
        let mutable = json!({"spec": {"progressDeadlineMinutes": 10}});
        assert_eq!(kind.change(name, mutable).await, Ok(()));
    }

    // O2
    #[tokio::test]
    async fn phases_may_be_filled_once() {
        let kind = kind().await;
        let fill = json!({"spec": {"phases": phase(&[object()])}});
        for (name, phases) in
            [("admission-o2-empty", json!([])), ("admission-o2-absent", Value::Null)]
        {
            kind.make(name, archived(&kind, phases)).await;
            assert_eq!(kind.change(name, fill.clone()).await, Ok(()), "{name}");
            let again = json!({"spec": {"phases": phase(&[])}});
            kind.refuses_change(name, again, "phases is immutable").await;
        }
    }

    // O4
    #[tokio::test]
    async fn limits_of_phases_and_objects() {
        let kind = kind().await;
        let phases = |count: usize| -> Value {
            (0..count).map(|index| json!({"name": format!("p{index}"), "objects": []})).collect()
        };
        kind.accepts("/spec/phases", phases(20)).await;
        kind.refuses("/spec/phases", phases(21), "must have at most 20 items").await;
        kind.accepts("/spec/phases", phase(&vec![object(); 50])).await;
        let objects = phase(&vec![object(); 51]);
        kind.refuses("/spec/phases", objects, "must have at most 50 items").await;
        let above = json!(olm_api::MAX_REVISION + 1);
        kind.refuses("/spec/revision", above, "should be less than or equal to").await;
    }

    // api.md 3.4
    #[tokio::test]
    async fn observed_phases_are_written_once() {
        let kind = kind().await;
        let name = "admission-observed";
        kind.make(name, archived(&kind, Value::Null)).await;
        let observed =
            |digest: &str| json!({"status": {"observedPhases": [{"name": "p", "digest": digest}]}});
        let with = "digest must be in the format '<algorithm>:<hex>'";
        kind.refuses_status(name, observed("sha256:XYZ"), with).await;
        assert_eq!(kind.change_status(name, observed("sha256:00")).await, Ok(()));
        kind.refuses_status(name, observed("sha256:11"), "observedPhases is immutable").await;
    }
}
