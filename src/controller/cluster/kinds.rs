//! Which kinds the cluster serves, asked once each.

use std::collections::HashMap;
use std::sync::Mutex;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::error::DiscoveryError;
use kube::{Api, Client};
use olm_cluster::code;
use olm_core::object::{Identity, Object};

use super::wake::lock;

/// A kind as the cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    pub namespaced: bool,
}

/// The kinds the cluster serves, read with the controller's own client.
///
/// Absence is never remembered: a CRD may be established at any moment.
pub struct Kinds {
    client: Client,
    known: Mutex<HashMap<(String, String), Kind>>,
}

impl Kinds {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Returns the kind of an object, or `None` when the cluster does not serve it.
    pub async fn find(&self, object: &Identity) -> Result<Option<Kind>, kube::Error> {
        let key = (object.api_version(), object.kind.clone());
        if let Some(kind) = lock(&self.known).get(&key) {
            return Ok(Some(kind.clone()));
        }
        let gvk = GroupVersionKind::gvk(&object.group, &object.version, &object.kind);
        match pinned_kind(&self.client, &gvk).await {
            Ok((resource, capabilities)) => {
                let kind = Kind { resource, namespaced: capabilities.scope == Scope::Namespaced };
                lock(&self.known).insert(key, kind.clone());
                Ok(Some(kind))
            }
            Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => Ok(None),
            Err(err) if code(&err) == 404 => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Returns the kind of an installed object. If the cluster no longer serves the version it was
    /// installed in, this is the kind in a version that is served, in which the object still exists.
    pub async fn find_installed(&self, object: &Identity) -> Result<Option<Kind>, kube::Error> {
        if let Some(kind) = self.find(object).await? {
            return Ok(Some(kind));
        }
        let groups = self.client.list_api_groups().await?.groups;
        let group = groups.into_iter().find(|group| group.name == object.group);
        for other in group.into_iter().flat_map(|group| group.versions) {
            let object = Identity { version: other.version, ..object.clone() };
            if let Some(kind) = self.find(&object).await? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Forgets a kind that may no longer be served.
    pub fn forget(&self, object: &Object) {
        let key = (object.api_version().to_owned(), object.kind().to_owned());
        lock(&self.known).remove(&key);
    }

    /// Forgets the kinds of a group, of which some may be served no longer, or in another version.
    pub fn forget_group(&self, group: &str) {
        lock(&self.known).retain(|_, kind| kind.resource.group != group);
    }

    /// Returns whether claims of a storage class stay unbound until a pod uses them.
    ///
    /// A class that cannot be read binds at once, as far as anyone knows.
    pub async fn waits_for_consumer(&self, class: &str) -> bool {
        let api = Api::<StorageClass>::all(self.client.clone());
        let Ok(Some(found)) = api.get_opt(class).await else { return false };
        found.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::{answering, refusal};

    fn resources(version: &str, kind: &str) -> Value {
        json!({"kind": "APIResourceList", "groupVersion": format!("policy/{version}"), "resources": [{
            "name": "as", "singularName": "a", "namespaced": true, "kind": kind, "verbs": ["get"]}]})
    }

    // applying.md 3.9: what was installed in a version that is gone is not taken for removed
    #[rstest]
    #[case::another_version("policy", "PodDisruptionBudget", Some("policy/v1"))]
    #[case::another_kind("policy", "PodSecurityPolicy", None)]
    #[case::another_group("gone.example.com", "PodDisruptionBudget", None)]
    #[tokio::test]
    async fn what_was_installed_is_found_in_a_version_that_is_served(
        #[case] group: &str,
        #[case] kind: &str,
        #[case] want: Option<&str>,
    ) {
        let client = answering(|request| match request.uri().path() {
            "/apis" => (
                200,
                json!({"kind": "APIGroupList", "groups": [{"name": "policy",
                "preferredVersion": {"groupVersion": "policy/v2", "version": "v2"}, "versions": [
                    {"groupVersion": "policy/v2", "version": "v2"},
                    {"groupVersion": "policy/v1", "version": "v1"}]}]}),
            ),
            "/apis/policy/v2" => (200, resources("v2", "Other")),
            "/apis/policy/v1" => (200, resources("v1", "PodDisruptionBudget")),
            _ => refusal(404),
        });
        let object = Identity {
            group: group.to_owned(),
            version: "v1beta1".to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        let kinds = Kinds::new(client);
        assert_eq!(kinds.find(&object).await.unwrap(), None);
        let found = kinds.find_installed(&object).await.unwrap();
        assert_eq!(found.map(|it| it.resource.api_version).as_deref(), want);
    }
}
