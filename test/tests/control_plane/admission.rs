//! What the API server accepts, refuses and stores with our CRDs installed (api.md 8, "Admission"): the
//! tables in `admission.yaml`.

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
    #[serde(default)]
    stored: Vec<Stored>,
    changes: Vec<Change>,
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

/// What is stored of the smallest object with other values of some fields.
#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    with: BTreeMap<String, Value>,
    has: Value,
}

/// Changes of one object, one after the other.
#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    with: BTreeMap<String, Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    /// A JSON merge patch; one of the status is sent to the status.
    patch: Value,
    refused: Option<String>,
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
        let table = written_out(&table.expect("a table of the kind"));
        let table = serde_json::from_value(table).expect("a table");
        Self { api: Api::all_with(client, &resource), resource, table }
    }

    /// Returns the smallest object with other values of some fields; null removes a field.
    fn with<'a>(&self, fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Value {
        let mut object = self.table.smallest.clone();
        for (field, value) in fields {
            let (parent, name) = field.rsplit_once('/').expect("a pointer");
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
            let parent = parent.expect("the smallest object has the parent");
            if value.is_null() {
                parent.remove(name);
            } else {
                parent.insert(name.to_owned(), value.clone());
            }
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

    async fn change(&self, name: &str, patch: &Value) -> Result<(), String> {
        let params = PatchParams::default();
        let merge = Patch::Merge(patch);
        let changed = match patch.get("status") {
            None => self.api.patch(name, &params, &merge).await,
            Some(_) => self.api.patch_status(name, &params, &merge).await,
        };
        changed.map(|_| ()).map_err(message)
    }

    async fn follows_its_table(&self) {
        for Field { pointer: field, admitted, refused } in &self.table.fields {
            for value in admitted {
                let content = self.with([(field, value)]);
                assert_answer(&content, self.ask(content.clone()).await, None);
            }
            for Refusal { with, values } in refused {
                for value in values {
                    let content = self.with([(field, value)]);
                    assert_answer(&content, self.ask(content.clone()).await, Some(with));
                }
            }
        }
        for Stored { with, has } in &self.table.stored {
            let stored = self.ask(self.with(with)).await.expect("it is accepted");
            assert_kept(has, &stored);
        }
        for (index, Change { with, steps }) in self.table.changes.iter().enumerate() {
            let name = format!("admission-{}-{index}", self.resource.plural);
            self.make(&name, self.with(with)).await;
            for Step { patch, refused } in steps {
                assert_answer(patch, self.change(&name, patch).await, refused.as_deref());
            }
        }
    }
}

/// Returns a table without its abbreviations: `x{9}` is nine of a letter, and a list of
/// `{times: 9, of: p#}` has nine items, each with its number.
fn written_out(table: &Value) -> Value {
    match table {
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), written_out(value))).collect()
        }
        Value::Array(items) => match &items[..] {
            [one] if one.get("times").is_some() => {
                let item = written_out(&one["of"]).to_string();
                let numbers = 0..one["times"].as_u64().expect("a number");
                let items = numbers.map(|number| item.replace('#', &number.to_string()));
                items.map(|item| serde_json::from_str::<Value>(&item).expect("JSON")).collect()
            }
            _ => items.iter().map(written_out).collect(),
        },
        Value::String(text) => match text.split_once('{') {
            Some((before, rest)) => {
                let (times, after) = rest.split_once('}').expect("how often");
                let (before, letter) = before.split_at(before.len() - 1);
                let times = times.parse().expect("a number");
                json!(format!("{before}{}{after}", letter.repeat(times)))
            }
            None => table.clone(),
        },
        _ => table.clone(),
    }
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => panic!("no answer of the API server: {other}"),
    }
}

fn assert_answer<T: std::fmt::Debug>(
    what: &Value,
    answer: Result<T, String>,
    refused: Option<&str>,
) {
    match (answer, refused) {
        (Ok(_), None) => {}
        (Err(text), Some(with)) if text.contains(with) => {}
        (answer, _) => panic!("{what}: {answer:?}; wanted {refused:?}"),
    }
}

/// Checks that everything asked for is in what would be stored, except defaults.
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

#[tokio::test]
async fn what_is_admitted_refused_and_stored_is_as_the_tables_say() {
    Kind::of::<ClusterExtensionSchema>().await.follows_its_table().await;
    Kind::of::<ClusterCatalog>().await.follows_its_table().await;
    Kind::of::<ClusterObjectSet>().await.follows_its_table().await;
}

#[tokio::test]
async fn the_samples_are_accepted() {
    let mut count = 0;
    for file in paths::inside(&paths::repository().join("config/samples")) {
        let text = std::fs::read_to_string(&file).expect("a sample is text");
        let documents = yaml::to_json(&text).expect("a sample is YAML");
        for document in documents {
            let kind = match document["kind"].as_str() {
                Some("ClusterExtension") => Kind::of::<ClusterExtensionSchema>().await,
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
