//! Simulates users who make an object of each CRD, and the operators, which process the finalizers of
//! such objects as long as their Deployments exist.

use k8s_openapi::api::apps::v1::Deployment;
use kube::discovery::ApiResource;
use olm_test::prelude::*;

use crate::cast::{Actor, users};
use crate::life::{Age, Known, Life};

const POLL: Duration = Duration::from_millis(250);
/// Name of the users' objects.
pub(crate) const INSTANCE: &str = "mine";

/// A kind of which a user makes an object.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) crd: String,
    /// Whether 1.0.0 has it.
    pub(crate) of_first: bool,
    resource: ApiResource,
    objects: Api<DynamicObject>,
}

/// What the API server has of a user's object.
enum Found {
    /// Its UID, and whether it is being deleted.
    Object(Option<String>, bool),
    Nothing,
    /// The kind is not served, or not yet again: that tells nothing about its objects.
    Unserved,
}

impl Kind {
    pub(crate) fn new(scene: &Scene, group: &str, of_first: bool) -> Self {
        let resource = ApiResource {
            api_version: format!("{group}/v1"),
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "Buoy".to_owned(),
            plural: "buoys".to_owned(),
        };
        let client = scene.cluster.client.clone();
        let objects = Api::namespaced_with(client, &users(scene), &resource);
        Self { crd: format!("buoys.{group}"), of_first, resource, objects }
    }

    /// Says whether a key of a state is that of the CRD or of an object of it.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        key == format!("CustomResourceDefinition.apiextensions.k8s.io /{}", self.crd)
            || key.starts_with(&format!("{}.{} ", self.resource.kind, self.resource.group))
            // The API server makes and removes it with the CRD.
            || key.starts_with("APIService.") && key.ends_with(&format!(".{}", self.resource.group))
    }

    async fn read(&self) -> Result<Found, kube::Error> {
        match self.objects.get(INSTANCE).await {
            Ok(found) => {
                let goes = found.metadata.deletion_timestamp.is_some();
                Ok(Found::Object(found.metadata.uid, goes))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let named = status.details.as_ref().map(|details| details.name.as_str());
                Ok(if named == Some(INSTANCE) { Found::Nothing } else { Found::Unserved })
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> Result<Option<String>, kube::Error> {
        let mut instance = DynamicObject::new(INSTANCE, &self.resource);
        instance.metadata.finalizers = Some(vec![format!("{}/unmoor", self.resource.group)]);
        Ok(self.objects.create(&PostParams::default(), &instance).await?.metadata.uid)
    }

    /// Removes the finalizer, as the operator does before an object is deleted.
    pub(crate) async fn finish(&self) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"finalizers": null}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.objects.patch(INSTANCE, &params, &patch).await.map(drop)
    }

    /// Records that the object of extension `name` is lost, if it has to be there and is not, or is
    /// another one.
    pub(crate) async fn look(&self, name: &str, life: &Life) {
        let known = life.known(name, &self.crd);
        let (Some(uid), true) = (&known.uid, known.stays) else { return };
        match self.read().await {
            Ok(Found::Object(found, _)) if found.as_ref() != Some(uid) => {
                life.lost(name, &self.crd, &known, "is another one");
            }
            Ok(Found::Object(_, true)) => life.lost(name, &self.crd, &known, "is being deleted"),
            Ok(Found::Object(..)) => {}
            Ok(Found::Nothing) => life.lost(name, &self.crd, &known, "is gone"),
            Ok(Found::Unserved) => life.lost(name, &self.crd, &known, "is gone with its CRD"),
            Err(error) => panic!("{}: {error}", self.crd),
        }
    }
}

/// The objects that are observed for one extension.
pub(crate) struct User {
    name: String,
    deployment: String,
    deployments: Api<Deployment>,
    kinds: Vec<Kind>,
    life: Life,
}

impl User {
    /// Starts a user and an operator for an extension; they end with the test.
    pub(crate) fn live(actor: &Actor, life: &Life) {
        let scene = &actor.scene;
        let user = Self {
            name: scene.name.clone(),
            deployment: scene.package.deployment(),
            deployments: Api::namespaced(scene.cluster.client.clone(), &scene.name),
            kinds: actor.kinds.clone(),
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
        let operates = self.deployments.get_opt(&self.deployment).await?.is_some();
        for kind in &self.kinds {
            self.look_after(kind, operates).await?;
        }
        Ok(())
    }

    async fn look_after(&self, kind: &Kind, operates: bool) -> Result<(), kube::Error> {
        let found = kind.read().await?;
        let known = self.life.known(&self.name, &kind.crd);
        let lost = |what: &str| self.life.lost(&self.name, &kind.crd, &known, what);
        let out_of_order = !operates && known.age == Age::Leaving && !known.unordered;
        match (found, &known) {
            (Found::Nothing, Known { uid: None, age: Age::Installed, .. }) => {
                if let Some(uid) = kind.create().await? {
                    self.life.made(&self.name, &kind.crd, uid);
                }
            }
            (Found::Nothing, Known { stays: true, .. }) => lost("is gone"),
            (Found::Object(found, _), Known { stays: true, uid, .. }) if found != *uid => {
                lost("is another one");
            }
            (Found::Object(_, true), Known { uid: Some(_), stays, unordered, .. }) => {
                if *stays {
                    lost("is being deleted");
                } else if out_of_order {
                    lost("is left behind: the operator went before its instance");
                }
                if operates || *unordered {
                    kind.finish().await?;
                }
            }
            (Found::Object(_, false), Known { uid: Some(_), stays: false, .. }) if out_of_order => {
                lost("is left behind: the operator goes before its instance");
            }
            _ => {}
        }
        Ok(())
    }
}
