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
