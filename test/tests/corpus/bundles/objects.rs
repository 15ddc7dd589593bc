//! The objects of a bundle on the cluster: whether they exist, who owns them, and their removal.

use kube::api::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope};
use olm_core::object::{Identity, Object};
use olm_core::revision::is_optional_group;
use olm_test::prelude::*;

/// Objects that revisions of one extension hold, with the APIs to read them.
///
/// The resources are cached: when a CRD is gone, the resource of its kind can no longer be found.
/// called.
pub(crate) struct Objects {
    client: kube::Client,
    resources: BTreeMap<(String, String), (ApiResource, ApiCapabilities)>,
}

impl Objects {
    pub(crate) fn new(client: &kube::Client) -> Self {
        Self { client: client.clone(), resources: BTreeMap::new() }
    }

    async fn api(&mut self, object: &Identity) -> Option<Api<DynamicObject>> {
        let key = (object.api_version(), object.kind.clone());
        if !self.resources.contains_key(&key) {
            let kind = GroupVersionKind::gvk(&object.group, &object.version, &object.kind);
            let found = kube::discovery::pinned_kind(&self.client, &kind).await;
            self.resources.insert(key.clone(), found.ok()?);
        }
        let (resource, capabilities) = &self.resources[&key];
        Some(match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
            Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), &object.namespace, resource)
            }
        })
    }

    /// Reads an object; `None` also when its kind is not served.
    pub(crate) async fn get(&mut self, object: &Identity) -> Option<DynamicObject> {
        let api = self.api(object).await?;
        api.get_opt(&object.name).await.expect("the administrator may read everything")
    }

    /// Returns the API for an object that is known to exist.
    pub(crate) async fn existing(&mut self, object: &Identity) -> Api<DynamicObject> {
        let api = self.api(object).await;
        api.unwrap_or_else(|| panic!("{object}: its kind is not served"))
    }

    /// Returns what is wrong with each of `expected` that does not exist, or is not owned and
    /// labeled by `revision` alone.
    pub(crate) async fn strays(
        &mut self,
        expected: &[Object],
        extension: &str,
        revision: &ClusterObjectSet,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for object in expected {
            let identity = object.identity();
            match self.get(&identity).await {
                None if self.may_wait(&identity).await => {}
                None => wrong.push(format!("{identity}: not there")),
                Some(live) => {
                    let complaints = complaints(&live, extension, revision);
                    wrong.extend(complaints.map(|text| format!("{identity}: {text}")));
                }
            }
        }
        wrong
    }

    /// Says whether an object is left out until the cluster serves its kind, such as monitoring
    /// kinds (decision 21).
    pub(crate) async fn may_wait(&mut self, object: &Identity) -> bool {
        is_optional_group(&object.group) && self.api(object).await.is_none()
    }

    /// Returns which of `unwanted` still exist.
    pub(crate) async fn left(&mut self, unwanted: &[Object]) -> Vec<String> {
        let mut left = Vec::new();
        for object in unwanted {
            let identity = object.identity();
            if self.get(&identity).await.is_some() {
                left.push(identity.to_string());
            }
        }
        left
    }
}

/// applying.md 3.6: labels, annotations and owner of a managed object.
fn complaints(
    live: &DynamicObject,
    extension: &str,
    revision: &ClusterObjectSet,
) -> impl Iterator<Item = String> {
    let metadata = &live.metadata;
    let mut wrong = Vec::new();
    let owners: Vec<_> = metadata
        .owner_references
        .iter()
        .flatten()
        .filter(|owner| owner.controller == Some(true))
        .map(|owner| (owner.kind.as_str(), Some(owner.uid.as_str())))
        .collect();
    if owners != [("ClusterObjectSet", revision.metadata.uid.as_deref())] {
        wrong.push(format!("controlled by {owners:?}"));
    }
    let number = revision.spec.revision.to_string();
    let labels = metadata.labels.clone().unwrap_or_default();
    let annotations = metadata.annotations.clone().unwrap_or_default();
    let marks = [
        (&labels, keys::label::OWNER_NAME, extension),
        (&labels, keys::label::OWNER_KIND, keys::label::OWNER_KIND_EXTENSION),
        (&labels, keys::label::MANAGED_BY, keys::label::MANAGED_BY_OLM),
        (&annotations, keys::annotation::REVISION, &number),
    ];
    for (map, key, value) in marks {
        let found = map.get(key).map(String::as_str);
        if found != Some(value) {
            wrong.push(format!("{key} is {found:?}, not {value:?}"));
        }
    }
    wrong.into_iter()
}
