//! What an administrator does with a ClusterCatalog, and what a test checks about it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::ControlPlane;
use crate::{objects, wait};

/// How long a catalog may take to be served or refused: other tests have the same controller unpack
/// what never ends, and the shortest poll interval is a minute.
const REPORTED: Duration = Duration::from_mins(4);

/// A handle on one ClusterCatalog.
pub struct Catalog {
    /// Name of the ClusterCatalog.
    pub name: String,
    /// Where it is.
    pub plane: &'static ControlPlane,
}

impl Catalog {
    /// Creates a ClusterCatalog of an image.
    pub fn create(plane: &'static ControlPlane, name: &str, image: &str) -> Self {
        plane.create(&objects::catalog(name, image));
        Self::named(plane, name)
    }

    /// Returns a handle on the ClusterCatalog `name`, whether it exists or not.
    pub fn named(plane: &'static ControlPlane, name: &str) -> Self {
        Self { name: name.to_owned(), plane }
    }

    /// Reads it; null if it is not there.
    pub fn get(&self) -> Value {
        self.plane.requests().read("clustercatalog", "", &self.name).unwrap_or_default()
    }

    /// Merges a change into it.
    pub fn merge(&self, change: &Value) {
        self.plane.requests().merge("clustercatalog", "", &self.name, change);
    }

    /// Merges a change into its status.
    pub fn set_status(&self, status: &Value) {
        let (name, change) = (format!("{}/status", self.name), json!({"status": status}));
        self.plane.requests().merge("clustercatalog", "", &name, &change);
    }

    /// Has it take another image.
    pub fn set_image(&self, image: &str) {
        self.merge(&json!({"spec": {"source": {"image": {"ref": image}}}}));
    }

    /// Sets or removes an annotation.
    pub fn annotate(&self, key: &str, value: Option<&str>) {
        self.merge(&json!({"metadata": {"annotations": {key: value}}}));
    }

    /// Has it deleted, and does not wait for its end.
    pub fn delete(&self) {
        self.plane.kubectl(&["delete", "--wait=false", "clustercatalog", &self.name]);
    }

    /// Waits until it is as `wanted`.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.within(REPORTED, what, wanted).await
    }

    /// The same within a time.
    pub async fn within(
        &self,
        time: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        wait::value(&format!("{}: {what}", self.name), time, || self.get(), wanted).await
    }

    /// Waits until a condition has this reason for the newest generation.
    pub async fn reports(&self, type_: &str, reason: &str) -> Value {
        let is_said = |found: &Value| current(found, type_)["reason"] == reason;
        self.until(&format!("{type_} {reason}"), is_said).await
    }

    /// Waits until `Progressing` has exactly this content for the newest generation.
    pub async fn says(&self, status: &str, reason: &str, message: &str) -> Value {
        let wanted = [status, reason, message];
        let is_said = |found: &Value| {
            let said = current(found, "Progressing");
            ["status", "reason", "message"].map(|key| &said[key]) == wanted
        };
        self.until(&format!("{wanted:?}"), is_said).await
    }

    /// Waits until the content of the newest generation is served.
    pub async fn served(&self) -> Value {
        let message = "Successfully unpacked and stored content from resolved source";
        self.says("True", "Succeeded", message).await
    }

    /// Waits until it says that its image cannot be pulled, with these texts.
    pub async fn fails(&self, within: Duration, texts: &[&str]) {
        let is_said = |found: &Value| {
            let progressing = condition_of(found, "Progressing");
            let message = progressing["message"].as_str().unwrap_or_default();
            progressing["reason"] == "Retrying" && texts.iter().all(|text| message.contains(text))
        };
        self.within(within, &format!("it says {texts:?}"), is_said).await;
    }
}

/// Returns a condition of an object; null if it is not there.
pub fn condition_of(object: &Value, type_: &str) -> Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|found| found["type"] == type_).cloned().unwrap_or_default()
}

/// The same; null also if it is about an earlier generation.
pub(crate) fn current(object: &Value, type_: &str) -> Value {
    let found = condition_of(object, type_);
    let is_current = found["observedGeneration"] == object["metadata"]["generation"];
    if is_current { found } else { Value::Null }
}
