//! Reading and writing the Secrets: that of the CA as the controller, those of servers as the
//! account of the extension.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::Api;
use kube::{Client, ResourceExt};
use olm_api::keys::{annotation, label, manager, name};
use olm_core::render::CertificateRequest;
use olm_core::revision::Extension;

use super::leaf::{CA, CERTIFICATE, KEY};
use super::state::State;
use crate::cluster::{RequestError, as_manager};
use crate::owned::{AccountSecret, OwnedError, delete, is_owned, reference};
use crate::x509::{Data, Issued};

/// Type of Secrets that hold a server's certificate.
const TLS_TYPE: &str = "kubernetes.io/tls";

pub(super) fn authority_name(extension: &str) -> String {
    format!("{extension}-webhook-ca")
}

/// Returns the metadata by which an object is known as the extension's.
fn metadata(owner: &Extension) -> ObjectMeta {
    let labels = [
        (label::OWNER_KIND, label::OWNER_KIND_EXTENSION),
        (label::OWNER_NAME, owner.name.as_str()),
        (label::MANAGED_BY, label::MANAGED_BY_OLM),
    ];
    ObjectMeta {
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![reference(owner)]),
        ..ObjectMeta::default()
    }
}

/// Returns whether a Secret is the CA of the extension, regardless of its content: it is owned by
/// the extension, or it has our special type and no other owner. That includes one that lost its
/// owner, or was restored from a backup together with the extension.
pub(super) fn is_authority_of(secret: &Secret, owner: &Extension) -> bool {
    if is_owned(secret, owner) {
        return true;
    }
    let is_same = |reference: &OwnerReference| {
        (reference.kind.as_str(), reference.name.as_str())
            == (label::OWNER_KIND_EXTENSION, owner.name.as_str())
    };
    let mut owners = secret.metadata.owner_references.iter().flatten();
    let labelled = secret.labels().get(label::OWNER_NAME);
    secret.type_.as_deref() == Some(name::WEBHOOK_CA_SECRET_TYPE)
        && labelled.is_none_or(|it| *it == owner.name)
        && owners.all(is_same)
}

/// Writes the CA, in place of `old` if there is one and it was not changed since it was read.
pub(super) async fn store_authority(
    api: &Api<Secret>,
    owner: &Extension,
    state: &State,
    old: Option<&Secret>,
) -> Result<Secret, OwnedError> {
    let secret = Secret {
        metadata: ObjectMeta {
            resource_version: old.and_then(ResourceExt::resource_version),
            name: Some(authority_name(&owner.name)),
            ..metadata(owner)
        },
        type_: Some(name::WEBHOOK_CA_SECRET_TYPE.to_owned()),
        data: Some(state.data()),
        ..Secret::default()
    };
    let params = as_manager(manager::OPERATOR_CONTROLLER);
    let answer = match old {
        Some(old) if old.type_ == secret.type_ && old.immutable != Some(true) => {
            api.replace(&old.name_any(), &params, &secret).await
        }
        Some(old) => {
            delete(api, old).await.map_err(RequestError::doing("replacing the CA of webhooks"))?;
            let mut fresh = secret;
            fresh.metadata.resource_version = None;
            api.create(&params, &fresh).await
        }
        None => api.create(&params, &secret).await,
    };
    Ok(answer.map_err(RequestError::doing("writing the CA of webhooks"))?)
}

/// The Secret of one server, seen with the rights of the account.
pub(super) struct LeafSecret<'a> {
    pub(super) client: &'a Client,
    pub(super) owner: &'a Extension,
    pub(super) request: &'a CertificateRequest,
}

impl LeafSecret<'_> {
    fn secret(&self) -> AccountSecret<'_> {
        AccountSecret {
            client: self.client,
            namespace: &self.request.namespace,
            name: &self.request.secret,
            purpose: " with the certificate of a webhook",
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Secret>, OwnedError> {
        self.secret().read().await
    }

    /// Writes a certificate, in place of `old` if there is one and it is ours to change.
    pub(super) async fn write(
        &self,
        issued: &Issued,
        old: Option<&Secret>,
    ) -> Result<(), OwnedError> {
        let data = [(CERTIFICATE, &issued.certificate), (KEY, &issued.key), (CA, &issued.ca)];
        let data = data.map(|(key, pem)| (key.to_owned(), ByteString(pem.as_bytes().to_vec())));
        if old.is_some_and(|old| !self.is_ours_to_change(old)) {
            return Err(OwnedError::Foreign {
                what: "the certificate of one of its webhooks",
                namespace: self.request.namespace.clone(),
                name: self.request.secret.clone(),
            });
        }
        let secret = Secret {
            metadata: metadata(self.owner),
            type_: Some(TLS_TYPE.to_owned()),
            data: Some(Data::from(data)),
            ..Secret::default()
        };
        self.secret().put(old, secret).await
    }

    /// Removes the Secret if it is the extension's. One that lost its owner was orphaned on
    /// purpose and stays.
    pub(super) async fn remove(&self) -> Result<(), OwnedError> {
        match self.read().await? {
            Some(secret) if is_owned(&secret, self.owner) => {
                self.secret().delete(&secret, "deleting").await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A Secret is ours to change when it is the extension's, or was and lost its owner, or was
    /// made by another source of webhook certificates, whose place we take.
    fn is_ours_to_change(&self, secret: &Secret) -> bool {
        let annotations = secret.annotations();
        let by_other_source =
            [annotation::CERT_MANAGER_CERTIFICATE_NAME, annotation::SERVICE_CA_ORIGIN]
                .iter()
                .any(|key| annotations.contains_key(*key));
        let owners = secret.metadata.owner_references.iter().flatten();
        let is_controlled = owners.into_iter().any(|owner| owner.controller == Some(true));
        let labelled = secret.labels().get(label::OWNER_NAME) == Some(&self.owner.name);
        is_owned(secret, self.owner) || by_other_source || (labelled && !is_controlled)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CA_TYPE: &str = name::WEBHOOK_CA_SECRET_TYPE;
    const NOBODY: Option<(&str, &str, &str)> = None;

    fn extension(uid: &str) -> Extension {
        Extension { name: "teapot".to_owned(), uid: uid.to_owned() }
    }

    // What the controller writes has all three marks: type, label and owner.
    #[rstest]
    #[case::as_written(CA_TYPE, Some("teapot"), Some(("ClusterExtension", "teapot", "1")), true)]
    #[case::lost_its_owner(CA_TYPE, Some("teapot"), NOBODY, true)]
    #[case::of_an_extension_that_is_gone(CA_TYPE, Some("teapot"), Some(("ClusterExtension", "teapot", "0")), true)]
    #[case::type_alone(CA_TYPE, None, NOBODY, true)]
    #[case::other_type_but_owned("Opaque", None, Some(("ClusterExtension", "teapot", "1")), true)]
    #[case::other_label(CA_TYPE, Some("kettle"), NOBODY, false)]
    #[case::other_extension(CA_TYPE, Some("teapot"), Some(("ClusterExtension", "kettle", "2")), false)]
    #[case::other_kind(CA_TYPE, Some("teapot"), Some(("Deployment", "teapot", "2")), false)]
    #[case::label_alone("Opaque", Some("teapot"), NOBODY, false)]
    #[case::owner_of_before_and_other_type("Opaque", Some("teapot"), Some(("ClusterExtension", "teapot", "0")), false)]
    #[case::nothing("Opaque", None, NOBODY, false)]
    fn whose_a_ca_is(
        #[case] type_: &str,
        #[case] labelled: Option<&str>,
        #[case] owned: Option<(&str, &str, &str)>,
        #[case] ours: bool,
    ) {
        let owners = owned.map(|(kind, name, uid)| OwnerReference {
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..reference(&extension(uid))
        });
        let labels = labelled.map(|it| (label::OWNER_NAME.to_owned(), it.to_owned()));
        let secret = Secret {
            metadata: ObjectMeta {
                labels: Some(labels.into_iter().collect()),
                owner_references: Some(owners.into_iter().collect()),
                ..ObjectMeta::default()
            },
            type_: Some(type_.to_owned()),
            ..Secret::default()
        };
        assert_eq!(is_authority_of(&secret, &extension("1")), ours);
    }
}
