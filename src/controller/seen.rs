//! Extensions, catalogs and service accounts as the watches bring them that wake extensions, so that
//! reconciles need not ask for them again.

use futures::channel::mpsc;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store, store::Writer};
use olm_api::{ClusterCatalog, ClusterExtension};
use olm_core::revision::Account;

use crate::cluster::is_complete;

/// The objects from the watches; clones share them.
#[derive(Clone)]
pub struct Seen {
    pub extensions: Store<DeserializeGuard<ClusterExtension>>,
    pub catalogs: Store<DeserializeGuard<ClusterCatalog>>,
    pub accounts: Store<PartialObjectMeta<ServiceAccount>>,
}

/// The writers for the watches.
pub struct SeenWriters {
    pub extensions: Writer<DeserializeGuard<ClusterExtension>>,
    /// Told of every extension that has changed, by its metadata, once it is written.
    pub changed: mpsc::UnboundedSender<ObjectMeta>,
    pub catalogs: Writer<DeserializeGuard<ClusterCatalog>>,
    pub accounts: Writer<PartialObjectMeta<ServiceAccount>>,
}

impl Seen {
    /// Returns an empty state, its writers, and the extensions that have changed.
    pub fn new() -> (Self, SeenWriters, mpsc::UnboundedReceiver<ObjectMeta>) {
        let (extensions, of_extensions) = reflector::store();
        let (catalogs, of_catalogs) = reflector::store();
        let (accounts, of_accounts) = reflector::store();
        let (changed, told) = mpsc::unbounded();
        let writers = SeenWriters {
            extensions: of_extensions,
            changed,
            catalogs: of_catalogs,
            accounts: of_accounts,
        };
        let seen = Self { extensions, catalogs, accounts };
        (seen, writers, told)
    }

    /// Returns an extension that is known to live, and can be read. One that is not may have been
    /// made just now.
    pub async fn living(&self, name: &str) -> Option<ClusterExtension> {
        is_complete(&self.extensions).await;
        let found = self.extensions.get(&ObjectRef::new(name))?;
        let found = found.0.as_ref().ok()?;
        found.metadata.deletion_timestamp.is_none().then(|| found.clone())
    }

    /// Returns the catalogs that can be read, once all are there.
    pub async fn readable_catalogs(&self) -> Option<Vec<ClusterCatalog>> {
        if !is_complete(&self.catalogs).await {
            return None;
        }
        let state = self.catalogs.state();
        // A catalog that does not follow its schema must not stop the others.
        Some(state.iter().filter_map(|guarded| guarded.0.as_ref().ok()).cloned().collect())
    }

    /// Returns whether an account is known to exist. One that is not may have been made just now.
    pub async fn has_account(&self, account: &Account) -> bool {
        is_complete(&self.accounts).await;
        let reference = ObjectRef::new(&account.name).within(&account.namespace);
        self.accounts.get(&reference).is_some()
    }
}
