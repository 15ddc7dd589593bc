//! Catalogs and service accounts as the watches that wake extensions bring them, so that passes need
//! not ask for them again.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store, store::Writer};
use olm_api::ClusterCatalog;
use olm_core::revision::Account;

use crate::cluster::is_complete;

/// What the watches have brought.
pub struct Seen {
    catalogs: Store<DeserializeGuard<ClusterCatalog>>,
    accounts: Store<PartialObjectMeta<ServiceAccount>>,
}

/// Where they put it.
pub struct SeenWriters {
    pub(super) catalogs: Writer<DeserializeGuard<ClusterCatalog>>,
    pub(super) accounts: Writer<PartialObjectMeta<ServiceAccount>>,
}

impl Seen {
    /// Returns what is seen, which is nothing yet, and where that is put.
    pub fn new() -> (Self, SeenWriters) {
        let (catalogs, of_catalogs) = reflector::store();
        let (accounts, of_accounts) = reflector::store();
        let writers = SeenWriters {
            catalogs: of_catalogs,
            accounts: of_accounts,
        };
        (Self { catalogs, accounts }, writers)
    }

    /// Returns the catalogs that can be read, once all are there.
    pub(super) async fn catalogs(&self) -> Option<Vec<ClusterCatalog>> {
        if !is_complete(&self.catalogs).await {
            return None;
        }
        let state = self.catalogs.state();
        // A catalog that does not follow its schema must not stop the others.
        let readable = state.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        Some(readable.cloned().collect())
    }

    /// Says whether an account is known to exist. One that is not may have been made just now.
    pub(super) async fn has_account(&self, account: &Account) -> bool {
        is_complete(&self.accounts).await;
        let reference = ObjectRef::new(&account.name).within(&account.namespace);
        self.accounts.get(&reference).is_some()
    }
}
