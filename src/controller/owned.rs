//! Secrets that the controller keeps for an extension beside the objects of its bundle: whose they
//! are, and how they are read and written as the account of the extension.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use olm_api::keys::{label, manager};
use olm_core::error::{Classify, Disposition};
use olm_core::revision::Extension;
use serde_json::{Value, json};

use crate::account::AccountError;
use crate::cluster::{MAX_RIGHTS_DELAY, RequestError, as_manager, delete_as_read};
use crate::reconcile::TooLong;

/// Delay before a Secret is written again whose namespace is missing.
const NAMESPACE_DELAY: Duration = Duration::from_secs(10);

/// Delay after a name turned out to be taken.
const COLLISION_DELAY: Duration = Duration::from_secs(10);

/// Why what is kept beside the objects of a bundle is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum OwnedError {
    /// The controller's own request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request about a Secret, as the account, failed.
    #[error(transparent)]
    Secret(RequestError),
    /// The name of a Secret is taken.
    #[error(
        "Secret {namespace}/{name} exists and is not of this extension, but has the name of \
         {what}: delete or rename it"
    )]
    Foreign {
        /// What the name is for.
        what: &'static str,
        namespace: String,
        name: String,
    },
    /// Nothing can be done as the account.
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error("making a certificate")]
    Crypto(#[from] rcgen::Error),
    /// It did not end.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl OwnedError {
    /// Whether the account is to blame.
    pub fn is_of_account(&self) -> bool {
        match self {
            Self::Account(_) => true,
            Self::Secret(error) => {
                matches!(error.code(), 401 | 403) && !error.is_namespace_terminating()
            }
            Self::Request(_) | Self::Foreign { .. } | Self::Crypto(_) | Self::TooLong(_) => false,
        }
    }
}

impl Classify for OwnedError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Request(error) => error.disposition(),
            Self::Crypto(_) | Self::TooLong(_) => Disposition::Retry,
            Self::Secret(error) => match error.code() {
                // It is gone soon, and may be made again.
                403 if error.is_namespace_terminating() => Disposition::Wait(NAMESPACE_DELAY),
                401 | 403 => Disposition::RetryWithin(MAX_RIGHTS_DELAY),
                // On a write this is the namespace, which may appear at any time.
                404 => Disposition::Wait(NAMESPACE_DELAY),
                _ => error.disposition(),
            },
            Self::Foreign { .. } => Disposition::Wait(COLLISION_DELAY),
            Self::Account(err) => err.disposition(),
        }
    }
}

/// A Secret, seen with the rights of the account.
pub struct AccountSecret<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Its purpose, as the end of a sentence about it.
    pub purpose: &'static str,
}

impl AccountSecret<'_> {
    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn failed(&self, what: &str) -> impl FnOnce(kube::Error) -> OwnedError + use<> {
        let Self { namespace, name, purpose, .. } = self;
        let doing = RequestError::doing(format!("{what} Secret {namespace}/{name}{purpose}"));
        move |error| OwnedError::Secret(doing(error))
    }

    /// Returns it, if it exists.
    pub async fn read(&self) -> Result<Option<Secret>, OwnedError> {
        self.api().get_opt(self.name).await.map_err(self.failed("getting"))
    }

    /// Has it be `wanted`: changes `old`, as it was read, or makes it anew where that is not possible
    /// or there is none.
    pub async fn put(&self, old: Option<&Secret>, mut wanted: Secret) -> Result<(), OwnedError> {
        if let Some(old) = old {
            let frozen = old.immutable == Some(true) && old.data != wanted.data;
            if old.type_ == wanted.type_ && !frozen {
                let Secret { metadata, data, .. } = wanted;
                return self.patch(old, json!({"metadata": metadata, "data": data})).await;
            }
            self.delete(old, "replacing").await?;
        }
        wanted.metadata.name = Some(self.name.to_owned());
        let created = self.api().create(&as_manager(manager::OBJECTS), &wanted).await;
        created.map(drop).map_err(self.failed("writing"))
    }

    /// Changes it by a merge patch, as it was read.
    pub async fn patch(&self, old: &Secret, mut patch: Value) -> Result<(), OwnedError> {
        patch["metadata"]["resourceVersion"] = json!(old.metadata.resource_version);
        let params = PatchParams::apply(manager::OBJECTS);
        let patched = self.api().patch(self.name, &params, &Patch::Merge(patch)).await;
        patched.map(drop).map_err(self.failed("writing"))
    }

    /// Deletes it as it was read, in order to do `what`.
    pub async fn delete(&self, secret: &Secret, what: &'static str) -> Result<(), OwnedError> {
        delete(&self.api(), secret).await.map_err(self.failed(what))
    }
}

/// The garbage collector removes what an uninstall could not.
pub fn reference(owner: &Extension) -> OwnerReference {
    OwnerReference {
        api_version: olm_api::API_VERSION.to_owned(),
        kind: label::OWNER_KIND_EXTENSION.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Returns whether an owner reference of the Secret refers to this extension, not to an earlier one
/// with its name.
pub fn is_owned(secret: &Secret, owner: &Extension) -> bool {
    secret.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid)
}

/// Deletes a Secret as it was read; that it is gone or another by now is fine.
pub async fn delete(api: &Api<Secret>, secret: &Secret) -> Result<(), kube::Error> {
    delete_as_read(api, secret, DeleteParams::background(), false).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rstest::rstest;

    use super::*;
    use crate::cluster::answering::answering;
    use crate::cluster::refusal::{assert_is_said_once, refused};

    #[rstest]
    #[case::missing(None, &["POST"])]
    #[case::older(Some(json!({"type": "a", "data": {"k": "Mg=="}})), &["PATCH"])]
    #[case::immutable(
        Some(json!({"type": "a", "data": {"k": "Mg=="}, "immutable": true})),
        &["DELETE", "POST"]
    )]
    #[case::immutable_with_the_same_data(
        Some(json!({"type": "a", "data": {"k": "MQ=="}, "immutable": true})),
        &["PATCH"]
    )]
    #[case::of_another_type(Some(json!({"type": "b"})), &["DELETE", "POST"])]
    #[tokio::test]
    async fn what_cannot_be_patched_is_replaced(#[case] old: Option<Value>, #[case] want: &[&str]) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let client = answering(move |request| {
            seen.lock().unwrap().push(request.method().to_string());
            (200, json!({"metadata": {"name": "s"}}))
        });
        let secret = |mut value: Value| -> Secret {
            value["metadata"] = json!({"name": "s", "resourceVersion": "7"});
            serde_json::from_value(value).unwrap()
        };
        let old = old.map(secret);
        let wanted = secret(json!({"type": "a", "data": {"k": "MQ=="}}));
        let place = AccountSecret { client: &client, namespace: "n", name: "s", purpose: "" };
        place.put(old.as_ref(), wanted).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), want);
    }

    #[test]
    fn a_refusal_is_said_once() {
        assert_is_said_once(&OwnedError::Secret(RequestError::doing("getting Secret n/s")(
            refused(),
        )));
    }
}
