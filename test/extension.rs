//! What a user does with a ClusterExtension, and what a test checks about it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use olm_api::{ClusterExtension, ClusterObjectSet, UpdateStatus, keys};
use serde_json::{Value, json};

use crate::wait;

/// How long an installation or an upgrade may take.
pub const ROLLOUT: Duration = Duration::from_mins(2);
/// How long an uninstall may take: Kubernetes can keep an empty CRD terminating for minutes.
pub const UNINSTALL: Duration = Duration::from_mins(6);
/// How long the garbage collector may take to know of a kind or an object, and to act: it stands still
/// while it lists kinds that have come.
pub const COLLECTED: Duration = Duration::from_mins(3);

/// A handle on one ClusterExtension.
#[derive(Clone)]
pub struct Extension {
    /// Name of the ClusterExtension.
    pub name: String,
    client: kube::Client,
}

impl Extension {
    /// Creates a ClusterExtension with this `spec.source.catalog`.
    pub async fn create(
        client: &kube::Client,
        name: &str,
        namespace: &str,
        account: &str,
        catalog: Value,
    ) -> Self {
        let spec = json!({
            "namespace": namespace,
            "serviceAccount": {"name": account},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        });
        Self::create_with_spec(client, name, spec).await
    }

    /// Creates a ClusterExtension with this `spec`.
    pub async fn create_with_spec(client: &kube::Client, name: &str, spec: Value) -> Self {
        let extension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": name}, "spec": spec,
        }))
        .expect("a ClusterExtension");
        Api::<ClusterExtension>::all(client.clone())
            .create(&PostParams::default(), &extension)
            .await
            .expect("the ClusterExtension is admitted");
        Self::named(client, name)
    }

    /// Returns a handle on the ClusterExtension `name`, whether it exists or not.
    pub fn named(client: &kube::Client, name: &str) -> Self {
        Self { name: name.to_owned(), client: client.clone() }
    }

    fn api(&self) -> Api<ClusterExtension> {
        Api::all(self.client.clone())
    }

    /// Reads the ClusterExtension.
    pub async fn get(&self) -> ClusterExtension {
        self.api().get(&self.name).await.expect("it exists")
    }

    /// Merges `spec` into its spec.
    pub async fn patch_spec(&self, spec: Value) {
        self.api()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec})))
            .await
            .expect("the change is admitted");
    }

    /// Merges `catalog` into `spec.source.catalog`.
    pub async fn patch_catalog(&self, catalog: Value) {
        self.patch_spec(json!({"source": {"catalog": catalog}})).await;
    }

    /// Asks for a version, and waits until it is installed.
    pub async fn moves_to(&self, version: &str) -> ClusterExtension {
        self.patch_catalog(json!({"version": version})).await;
        self.installed(version).await
    }

    /// Asks for a version, whatever the catalog says of the step.
    pub async fn force(&self, version: &str) {
        let step = json!({"version": version, "upgradeConstraintPolicy": "SelfCertified"});
        self.patch_catalog(step).await;
    }

    /// Waits until it is installed at `version`, settled, and its status is current.
    pub async fn installed(&self, version: &str) -> ClusterExtension {
        self.eventually(&format!("installed at {version}"), ROLLOUT, |extension| {
            let progressing = condition(extension, "Progressing");
            installed_version(extension) == Some(version)
                && is(extension, "Installed", "True", "Succeeded")
                && is(extension, "Progressing", "True", "Succeeded")
                && progressing.and_then(|found| found.observed_generation)
                    == extension.metadata.generation
        })
        .await
    }

    /// Waits until a condition has this status and reason and a message that contains `text`.
    pub async fn shows(
        &self,
        type_: &str,
        status: &str,
        reason: &str,
        text: &str,
    ) -> ClusterExtension {
        self.eventually(&format!("{type_} {status}/{reason} with {text:?}"), ROLLOUT, |extension| {
            let (now, found) = (extension.metadata.generation, condition(extension, type_));
            let is_said = found.is_some_and(|found| found.message.contains(text));
            is_said
                && is(extension, type_, status, reason)
                && found.and_then(|found| found.observed_generation) == now
        })
        .await
    }

    /// Waits until `Progressing` has exactly this content for the newest generation.
    pub async fn says(&self, status: &str, reason: &str, message: &str) -> ClusterExtension {
        let is_said = |found: &ClusterExtension| {
            condition(found, "Progressing").is_some_and(|it| {
                (it.status.as_str(), it.reason.as_str(), it.message.as_str())
                    == (status, reason, message)
                    && it.observed_generation == found.metadata.generation
            })
        };
        let what = format!("Progressing {status}/{reason} {message:?}");
        self.eventually(&what, 2 * ROLLOUT, is_said).await
    }

    /// Waits until the status has an update to this version, for this reason unless it is empty, and
    /// returns it.
    pub async fn offers(&self, version: &str, reason: &str) -> UpdateStatus {
        let update = |found: &ClusterExtension| found.status.as_ref()?.update.clone();
        let is_offered = |found: &ClusterExtension| {
            let observed = found.status.as_ref().and_then(|status| status.observed_generation);
            // The same may have been offered before the spec was changed.
            observed == found.metadata.generation
                && update(found).is_some_and(|update| {
                    update.version.as_deref() == Some(version)
                        && (reason.is_empty() || update.reason == reason)
                })
        };
        let what = format!("update {version} {reason}");
        update(&self.eventually(&what, ROLLOUT, is_offered).await).expect("it was there")
    }

    /// Waits until a condition is as `wanted`.
    pub async fn has(
        &self,
        type_: &str,
        what: &str,
        wanted: impl Fn(&Condition) -> bool,
    ) -> ClusterExtension {
        let holds = |found: &ClusterExtension| condition(found, type_).is_some_and(&wanted);
        self.eventually(what, ROLLOUT, holds).await
    }

    /// Waits until the predicate `holds` is true.
    pub async fn eventually(
        &self,
        what: &str,
        within: Duration,
        holds: impl Fn(&ClusterExtension) -> bool,
    ) -> ClusterExtension {
        let what = format!("{}: {what}", self.name);
        wait::object(&self.api(), &self.name, &what, within, |found| match found {
            Some(extension) if holds(extension) => Ok(extension.clone()),
            Some(extension) => Err(serde_json::to_string_pretty(&extension.status)
                .unwrap_or_default()
                .replace("\\n", "\n")),
            None => Err("it is not there".to_owned()),
        })
        .await
    }

    /// Returns its revisions, oldest first.
    pub async fn revisions(&self) -> Vec<ClusterObjectSet> {
        let owned =
            ListParams::default().labels(&format!("{}={}", keys::label::OWNER_NAME, self.name));
        let api = Api::<ClusterObjectSet>::all(self.client.clone());
        // An API server whose etcd was away refuses lists until it has read everything again.
        let list = || api.list(&owned);
        let mut revisions = wait::until("revisions can be listed", COLLECTED, list).await.items;
        revisions.sort_by_key(|revision| revision.spec.revision);
        revisions
    }

    /// Deletes it with all that users made of its CRDs, and waits until it and its revisions are
    /// gone.
    pub async fn delete(&self) {
        let mark = json!({"metadata": {"annotations": {keys::policy::UNINSTALL: "Delete"}}});
        self.api()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(mark))
            .await
            .expect("it can be marked");
        self.api().delete(&self.name, &DeleteParams::default()).await.expect("it can be deleted");
        self.gone().await;
    }

    /// Waits until it and its revisions are gone.
    pub async fn gone(&self) {
        let what = format!("{} is gone", self.name);
        wait::object(&self.api(), &self.name, &what, UNINSTALL, |found| match found {
            None => Ok(()),
            Some(extension) => Err(format!("{:#?}", extension.status)),
        })
        .await;
        wait::read("its revisions are gone", COLLECTED, || self.revisions(), Vec::is_empty).await;
    }
}

/// Returns a condition by type.
pub fn condition<'a>(extension: &'a ClusterExtension, type_: &str) -> Option<&'a Condition> {
    extension.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Says whether a condition has this status and reason.
pub fn is(extension: &ClusterExtension, type_: &str, status: &str, reason: &str) -> bool {
    condition(extension, type_)
        .is_some_and(|found| found.status == status && found.reason == reason)
}

/// Returns the installed version.
pub fn installed_version(extension: &ClusterExtension) -> Option<&str> {
    let install = extension.status.as_ref()?.install.as_ref()?;
    Some(&install.bundle.version)
}
