//! Reading and writing the Secrets: that of the CA as the controller, those of servers as the
//! account of the extension.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use olm_api::keys::{annotation, label, manager, name};
use olm_core::render::CertificateRequest;
use olm_core::revision::Extension;
use serde_json::json;

use super::CertificateError;
use super::leaf::{CA, CERTIFICATE, KEY};
use super::state::State;
use crate::cluster::{ApiError, RequestError};
use crate::x509::Issued;

/// Type of Secrets that hold a server's certificate.
const TLS_TYPE: &str = "kubernetes.io/tls";

/// Returns the name of the Secret with the CA of an extension.
pub(super) fn authority_name(extension: &str) -> String {
    format!("{extension}-webhook-ca")
}

/// Labels by which an object is known as the extension's.
fn labels(owner: &Extension) -> BTreeMap<String, String> {
    BTreeMap::from(
        [
            (label::OWNER_KIND, label::OWNER_KIND_EXTENSION),
            (label::OWNER_NAME, owner.name.as_str()),
            (label::MANAGED_BY, label::MANAGED_BY_OLM),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    )
}

/// The garbage collector removes what an uninstall could not.
fn reference(owner: &Extension) -> OwnerReference {
    OwnerReference {
        api_version: olm_api::API_VERSION.to_owned(),
        kind: label::OWNER_KIND_EXTENSION.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn params(field_manager: &str) -> PostParams {
    PostParams { field_manager: Some(field_manager.to_owned()), ..PostParams::default() }
}

/// Says whether an owner reference of the Secret names the extension itself, not one that had its
/// name before.
pub(super) fn is_owned(secret: &Secret, owner: &Extension) -> bool {
    let mut owners = secret.metadata.owner_references.iter().flatten();
    owners.any(|reference| reference.uid == owner.uid)
}

/// Says whether a Secret is the CA of the extension, whatever it holds: it is owned by it, or has
/// the type that is for nothing else and belongs to nobody else. So also one counts that lost its
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
) -> Result<Secret, CertificateError> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(authority_name(&owner.name)),
            labels: Some(labels(owner)),
            owner_references: Some(vec![reference(owner)]),
            resource_version: old.and_then(ResourceExt::resource_version),
            ..ObjectMeta::default()
        },
        type_: Some(name::WEBHOOK_CA_SECRET_TYPE.to_owned()),
        data: Some(state.data()),
        ..Secret::default()
    };
    let params = params(manager::OPERATOR_CONTROLLER);
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
    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.request.namespace)
    }

    fn failed(&self, what: &'static str) -> impl Fn(kube::Error) -> CertificateError {
        let (namespace, name) = (self.request.namespace.clone(), self.request.secret.clone());
        move |err| CertificateError::Secret {
            what,
            namespace: namespace.clone(),
            name: name.clone(),
            cause: ApiError(err),
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Secret>, CertificateError> {
        let found = self.api().get_opt(&self.request.secret).await;
        found.map_err(self.failed("getting"))
    }

    /// Writes a certificate, in place of `old` if there is one and it is ours to change.
    pub(super) async fn write(
        &self,
        issued: &Issued,
        old: Option<&Secret>,
    ) -> Result<(), CertificateError> {
        let data = [(CERTIFICATE, &issued.certificate), (KEY, &issued.key), (CA, &issued.ca)];
        let api = self.api();
        if let Some(old) = old {
            if !self.is_ours_to_change(old) {
                return Err(CertificateError::Foreign {
                    what: "the certificate of one of its webhooks",
                    namespace: self.request.namespace.clone(),
                    name: self.request.secret.clone(),
                });
            }
            if old.type_.as_deref() == Some(TLS_TYPE) && old.immutable != Some(true) {
                let encoded: BTreeMap<_, _> =
                    data.iter().map(|(key, pem)| (*key, STANDARD.encode(pem))).collect();
                let patch = json!({
                    "metadata": {
                        "labels": labels(self.owner),
                        "ownerReferences": [reference(self.owner)],
                        "resourceVersion": old.resource_version(),
                    },
                    "data": encoded,
                });
                let params = PatchParams {
                    field_manager: Some(manager::OBJECTS.to_owned()),
                    ..PatchParams::default()
                };
                let patch = Patch::Merge(patch);
                let patched = api.patch(&self.request.secret, &params, &patch).await;
                return patched.map(drop).map_err(self.failed("writing"));
            }
            delete(&api, old).await.map_err(self.failed("replacing"))?;
        }
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.request.secret.clone()),
                labels: Some(labels(self.owner)),
                owner_references: Some(vec![reference(self.owner)]),
                ..ObjectMeta::default()
            },
            type_: Some(TLS_TYPE.to_owned()),
            data: Some(
                data.iter()
                    .map(|(key, pem)| ((*key).to_owned(), ByteString(pem.as_bytes().to_vec())))
                    .collect(),
            ),
            ..Secret::default()
        };
        let created = api.create(&params(manager::OBJECTS), &secret).await;
        created.map(drop).map_err(self.failed("writing"))
    }

    /// Removes the Secret if it is the extension's. One that lost its owner was orphaned on
    /// purpose and stays.
    pub(super) async fn remove(&self) -> Result<(), CertificateError> {
        match self.read().await? {
            Some(secret) if is_owned(&secret, self.owner) => {
                delete(&self.api(), &secret).await.map_err(self.failed("deleting"))
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

/// Deletes a Secret as it was read; that it is gone or another by now is fine.
pub(super) async fn delete(api: &Api<Secret>, secret: &Secret) -> Result<(), kube::Error> {
    let mut params = DeleteParams::background();
    params.preconditions = Some(Preconditions { uid: secret.uid(), resource_version: None });
    match api.delete(&secret.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => answer.map(drop),
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
