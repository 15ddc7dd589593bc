//! Simulates a user who makes an object of each operator's CRD, and the operators, which process
//! the finalizers of such objects as long as their Deployments exist.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use olm_test::scene::Scene;
use serde_json::json;

use crate::life::{Age, Life};

const POLL: Duration = Duration::from_millis(500);
/// Name of the user's object.
pub(crate) const INSTANCE: &str = "mine";

/// The objects that are observed for one extension.
pub(crate) struct User {
    name: String,
    deployment: String,
    deployments: Api<Deployment>,
    instances: Api<DynamicObject>,
    kind: ApiResource,
    life: Life,
}

impl User {
    /// Starts a user and an operator for `scene`; they end with the test.
    pub(crate) fn live(scene: &Scene, life: &Life) {
        let client = scene.cluster.client.clone();
        let user = Self {
            name: scene.name.clone(),
            deployment: scene.package.deployment(),
            deployments: Api::namespaced(client, &scene.name),
            instances: instances(scene),
            kind: kind(scene),
            life: life.clone(),
        };
        tokio::spawn(async move {
            loop {
                // The API server may be stopped.
                let _ = user.turn().await;
                tokio::time::sleep(POLL).await;
            }
        });
    }

    async fn turn(&self) -> Result<(), kube::Error> {
        // In this order: an operator that is gone while the object still exists went first.
        let operator = self.deployments.get_opt(&self.deployment).await?;
        let found = match self.instances.get(INSTANCE).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // A kind that is not served, or not yet again, tells nothing about its objects.
                let named = status.details.as_ref().map(|details| details.name.as_str());
                if named != Some(INSTANCE) {
                    return Ok(());
                }
                None
            }
            Err(error) => return Err(error),
        };
        let (age, known, unordered) = {
            let records = self.life.lock();
            let record = &records.all[&self.name];
            (record.age, record.instance.clone(), record.unordered)
        };
        let keeps = matches!(age, Age::Installed | Age::Released);
        let lost = |what: &str| self.life.lost(&self.name, age, what);
        match (found, known) {
            (None, None) if age == Age::Installed => self.create().await,
            (None, Some(_)) if keeps => {
                lost("its instance is gone");
                Ok(())
            }
            (Some(found), Some(uid)) if keeps && found.metadata.uid.as_ref() != Some(&uid) => {
                lost("its instance is another one");
                Ok(())
            }
            (Some(found), Some(_)) if found.metadata.deletion_timestamp.is_some() => {
                if keeps {
                    lost("its instance is being deleted");
                }
                if operator.is_none() && age == Age::Leaving && !unordered {
                    lost("the operator went before its instance");
                }
                if operator.is_some() || unordered {
                    finish(&self.instances).await?;
                }
                Ok(())
            }
            (Some(_), Some(_)) if operator.is_none() && age == Age::Leaving && !unordered => {
                lost("the operator goes before its instance");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn create(&self) -> Result<(), kube::Error> {
        let mut instance = DynamicObject::new(INSTANCE, &self.kind);
        instance.metadata.finalizers = Some(vec![self.finalizer()]);
        let params = PostParams::default();
        let made = self.instances.create(&params, &instance).await?;
        if let Some(record) = self.life.lock().all.get_mut(&self.name) {
            record.instance = made.metadata.uid;
        }
        Ok(())
    }

    fn finalizer(&self) -> String {
        format!("{}/unmoor", self.kind.group)
    }
}

fn kind(scene: &Scene) -> ApiResource {
    let group = format!("{}.example.com", scene.package.suffix);
    ApiResource {
        api_version: format!("{group}/v1"),
        group,
        version: "v1".to_owned(),
        kind: "Buoy".to_owned(),
        plural: "buoys".to_owned(),
    }
}

/// Returns the API for the objects of a scene's CRD.
pub(crate) fn instances(scene: &Scene) -> Api<DynamicObject> {
    Api::namespaced_with(scene.cluster.client.clone(), &scene.name, &kind(scene))
}

/// Removes the finalizer, as the operator does before an object is deleted.
pub(crate) async fn finish(instances: &Api<DynamicObject>) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"finalizers": null}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    instances.patch(INSTANCE, &params, &patch).await.map(drop)
}
