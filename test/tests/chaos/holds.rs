//! A catalog whose newer content is held, and edits of it: none of them decides about content.

use olm_test::prelude::*;
use olm_test::scene::serve;

/// The annotations that hold content, and their values. What is held lacks the head of a channel.
const HOLDS: [(&str, &str); 3] =
    [(policy::PAUSED, "true"), (policy::QUARANTINE, "Suspicious"), (policy::MINIMUM_AGE, "7d")];

/// An edit of the catalog.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Priority,
    Interval,
    Availability,
    /// Another annotation holds the content.
    Hold,
}

/// The catalog.
pub(crate) struct Held {
    api: Api<ClusterCatalog>,
    pub(crate) name: String,
    /// Digest of what it serves.
    pub(crate) digest: String,
}

impl Held {
    /// Serves a catalog, holds it, and moves its tag.
    pub(crate) async fn set(cluster: &Cluster, suffix: &str) -> Self {
        let package = Package::new(&format!("{suffix}held"));
        let name = package.name();
        let image = format!("{}/{name}:latest", cluster.registry);
        let versions = ["1.0.0", "1.1.0"];
        let images: BTreeMap<_, _> = versions
            .map(|version| (version.to_owned(), format!("example.com/{name}:v{version}")))
            .into();
        let files = |versions: &[&str]| package.catalog_files(&chain(versions), &images);
        let pushed = images::push_catalog(&image, files(&versions)).await;
        let digest = pushed.rsplit_once('@').expect("a digest").1.to_owned();
        serve(&cluster.client, &name, &image).await;
        let held = Self { api: Api::all(cluster.client.clone()), name, digest };
        held.patch(&holding(0)).await;
        images::push_catalog(&image, files(&versions[..1])).await;
        held
    }

    async fn patch(&self, change: &Value) {
        self.api
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .expect("the edit is admitted");
    }

    /// Edits the catalog in some way; returns what that was.
    pub(crate) async fn edit(&self, random: &mut Random) -> String {
        let edits = [Edit::Priority, Edit::Interval, Edit::Availability, Edit::Hold];
        let edit = *random.one_of(&edits);
        let number = random.between(1, 99);
        let hold = usize::try_from(number).unwrap_or_default() % HOLDS.len();
        let change = match edit {
            Edit::Priority => {
                json!({"spec": {"priority": number, "availabilityMode": "Available"}})
            }
            Edit::Interval => json!({"spec": {"availabilityMode": "Available",
                "source": {"image": {"pollIntervalMinutes": number}}}}),
            Edit::Availability => json!({"spec": {"availabilityMode": "Unavailable"}}),
            Edit::Hold => holding(hold),
        };
        self.patch(&change).await;
        match edit {
            Edit::Hold => format!("{} of a catalog", HOLDS[hold].0),
            _ => format!("{edit:?} of a catalog"),
        }
    }

    /// Returns the reference of what it says it serves.
    pub(crate) async fn served(&self) -> String {
        let catalog = self.api.get(&self.name).await.expect("it is there");
        let found = serde_json::to_value(catalog.status).unwrap_or_default();
        let served = found.pointer("/resolvedSource/image/ref").and_then(Value::as_str);
        served.expect("it serves something").to_owned()
    }

    /// Has its status say that it serves other content.
    pub(crate) async fn say_it_serves(&self, reference: &str) {
        let source = json!({"type": "Image", "image": {"ref": reference}});
        let change = json!({"status": {"resolvedSource": source}});
        self.api
            .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .expect("the status is written");
    }

    /// Fails while the controller has not looked at the last edit.
    pub(crate) async fn is_looked_at(&self) -> Result<(), String> {
        let catalog = self.api.get(&self.name).await.map_err(|error| error.to_string())?;
        let found = serde_json::to_value(catalog).unwrap_or_default();
        let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
        let looked = conditions.any(|it| {
            it["type"] == "Ready" && it["observedGeneration"] == found["metadata"]["generation"]
        });
        looked.then_some(()).ok_or_else(|| format!("not looked at: {}", found["status"]))
    }
}

/// Returns the change that has only one of [`HOLDS`] hold the content.
fn holding(hold: usize) -> Value {
    let mut annotations: BTreeMap<&str, Value> =
        HOLDS.iter().map(|(key, _)| (*key, Value::Null)).collect();
    let (key, value) = HOLDS[hold];
    annotations.insert(key, json!(value));
    json!({"metadata": {"annotations": annotations}})
}
