//! Copies of pull secrets for the pods of operators.
//!
//! In: the names that the configuration of an extension has, and the Secrets of the controller's
//! namespace that are labelled for it. Out: Secrets of these names in the install namespace, written
//! as the account of the extension, unless somebody else's has the name. Extensions of a namespace
//! share a copy: it is owned by each of them. What a Secret holds is neither kept nor shown.
//!
//! Source: decision 49.

use std::collections::{BTreeMap, BTreeSet};

use futures::channel::mpsc;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use olm_api::keys::label;
use olm_core::object::Object;
use olm_core::render::secret_object;
use olm_core::revision::{Account, Extension};
use serde_json::json;

use crate::account::impersonating;
use crate::cluster::{RequestError, Target, Watches};
use crate::credentials::document_key;
use crate::owned::{AccountSecret, OwnedError, is_owned, reference};

/// The Secrets that an extension names and the controller's namespace offers, by name.
#[derive(Default)]
pub struct Offered(BTreeMap<String, Document>);

/// The copied part of a Secret.
#[derive(Clone, PartialEq)]
struct Document {
    type_: String,
    key: &'static str,
    content: ByteString,
}

impl Document {
    /// Returns the part of a Secret for operators' pods: the one key of its type.
    fn of(secret: &Secret) -> Option<Self> {
        if secret.labels().get(label::OPERATOR_PULL_SECRET).is_none_or(|value| value != "true") {
            return None;
        }
        let (type_, key) = (secret.type_.clone()?, document_key(secret)?);
        let content = secret.data.as_ref()?.get(key)?.clone();
        Some(Self { type_, key, content })
    }

    fn is_in(&self, secret: &Secret) -> bool {
        let data = secret.data.as_ref();
        data.and_then(|data| data.get(self.key)) == Some(&self.content)
    }
}

impl Offered {
    /// Returns whether a Secret is among them.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns their names as a revision records them; nothing if there are none.
    pub fn record(&self) -> Option<String> {
        let names: Vec<_> = self.0.keys().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns the copies, without data.
    pub fn objects(&self, namespace: &str) -> impl Iterator<Item = Object> {
        self.0.keys().map(move |name| secret_object(name, namespace))
    }
}

/// Whom a copy is for: the extension, as whom its objects are written, and where its pods are.
#[derive(Debug, Clone, Copy)]
pub struct Recipient<'a> {
    pub owner: &'a Extension,
    pub account: &'a Account,
    pub namespace: &'a str,
}

/// Returns whether `found`, the Secret of that name, has to be written to be a copy of `document`: not
/// if it is up to date, or not ours.
fn is_due(document: &Document, found: Option<&Secret>, owner: &Extension) -> bool {
    found.is_none_or(|found| {
        let same = document.is_in(found) && found.type_.as_ref() == Some(&document.type_);
        is_copy(found) && !(same && is_owned(found, owner))
    })
}

/// Returns whether a Secret is a copy of ours, for any extension.
fn is_copy(secret: &Secret) -> bool {
    secret.labels().contains_key(label::PULL_SECRET_COPY)
}

/// Returns the owners of a Secret without an extension.
fn others(secret: &Secret, owner: &Extension) -> Vec<OwnerReference> {
    let owners = secret.metadata.owner_references.iter().flatten();
    owners.filter(|reference| reference.uid != owner.uid).cloned().collect()
}

/// Makes, updates and removes the copies.
pub struct PullSecrets {
    client: Client,
    watches: Watches,
    system_namespace: String,
}

impl PullSecrets {
    /// Returns the keeper of copies, and the names of extensions whose copies somebody else changed.
    ///
    /// `client` must not retry by itself. Must be called within a tokio runtime.
    pub fn new(client: Client, system_namespace: String) -> (Self, mpsc::Receiver<String>) {
        let (watches, woken) = Watches::new(client.clone());
        (Self { client, watches, system_namespace }, woken)
    }

    /// Reads which of these Secrets the controller's namespace offers.
    pub async fn offered(&self, names: &BTreeSet<String>) -> Result<Offered, RequestError> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.system_namespace);
        let mut offered = Offered::default();
        for name in names {
            let found = secrets.get_opt(name).await;
            let found = found.map_err(RequestError::doing("getting pull secrets of operators"))?;
            let document = found.as_ref().and_then(Document::of);
            offered.0.extend(document.map(|document| (name.clone(), document)));
        }
        Ok(offered)
    }

    /// Creates and updates the copies of what is offered.
    pub async fn copy(&self, to: Recipient<'_>, offered: &Offered) -> Result<(), OwnedError> {
        let Recipient { owner, account, namespace } = to;
        if offered.0.is_empty() {
            self.watches.release(&owner.name);
            return Ok(());
        }
        let client = impersonating(&self.client, account)?;
        for (name, document) in &offered.0 {
            let copy = CopySecret::new(&client, to, name);
            let found = copy.secret.read().await?;
            if is_due(document, found.as_ref(), owner) {
                copy.write(document, found.as_ref()).await?;
                tracing::info!(namespace, name, "pull secret copied");
            }
        }
        let target = Target::secrets(namespace.to_owned(), offered.0.keys().cloned().collect());
        let selector = format!("{}=true", label::PULL_SECRET_COPY);
        self.watches.ensure(&owner.name, account, &client, &selector, vec![target]);
        Ok(())
    }

    /// Removes copies that the extension does not need, unless others do. What its account may not
    /// remove is left to the garbage collector.
    pub async fn retire(&self, to: Recipient<'_>, names: &[&str]) -> Result<(), OwnedError> {
        let Recipient { account, namespace, .. } = to;
        for &name in names {
            let client = impersonating(&self.client, account)?;
            match CopySecret::new(&client, to, name).release().await {
                Err(error) if error.is_of_account() => {
                    tracing::debug!(namespace, name, "copy of a pull secret not removed");
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Returns whether the copies of an extension have to be polled, because its account may not watch
    /// them.
    pub fn polls(&self, extension: &str) -> bool {
        self.watches.polls(extension)
    }

    /// Ends the watches for an extension that is gone.
    pub fn forget(&self, extension: &str) {
        self.watches.release(extension);
    }
}

/// The Secret of a name in the install namespace, seen with the rights of the account.
struct CopySecret<'a> {
    secret: AccountSecret<'a>,
    owner: &'a Extension,
}

impl<'a> CopySecret<'a> {
    fn new(client: &'a Client, to: Recipient<'a>, name: &'a str) -> Self {
        let purpose = ", with which the operator's pods pull";
        let secret = AccountSecret { client, namespace: to.namespace, name, purpose };
        Self { secret, owner: to.owner }
    }

    /// Writes the copy. An extension owns it beside others, so that none of them controls it.
    async fn write(&self, document: &Document, old: Option<&Secret>) -> Result<(), OwnedError> {
        let labels =
            [(label::PULL_SECRET_COPY, "true"), (label::MANAGED_BY, label::MANAGED_BY_OLM)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut owners = old.map(|old| others(old, self.owner)).unwrap_or_default();
        owners.push(OwnerReference { controller: None, ..reference(self.owner) });
        let secret = Secret {
            metadata: ObjectMeta {
                labels: Some(labels.into()),
                owner_references: Some(owners),
                ..ObjectMeta::default()
            },
            type_: Some(document.type_.clone()),
            data: Some([(document.key.to_owned(), document.content.clone())].into()),
            ..Secret::default()
        };
        self.secret.put(old, secret).await
    }

    /// Removes the copy if it is the extension's alone; one of others as well stays theirs.
    async fn release(&self) -> Result<(), OwnedError> {
        let found = self.secret.read().await?;
        let Some(found) = found.filter(|found| is_copy(found) && is_owned(found, self.owner))
        else {
            return Ok(());
        };
        let others = others(&found, self.owner);
        if !others.is_empty() {
            let patch = json!({"metadata": {"ownerReferences": others}});
            return self.secret.patch(&found, patch).await;
        }
        self.secret.delete(&found, "deleting").await?;
        let AccountSecret { namespace, name, .. } = self.secret;
        tracing::info!(namespace, name, "copy of a pull secret removed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NEW: &str = "kubernetes.io/dockerconfigjson";
    const OLD: &str = "kubernetes.io/dockercfg";

    fn extension(uid: &str) -> Extension {
        Extension { name: "teapot".to_owned(), uid: uid.to_owned() }
    }

    fn secret(label: Option<&str>, type_: &str, content: &str, owners: &[&str]) -> Secret {
        let labels = label.map(|label| (label.to_owned(), "true".to_owned()));
        let mut secret = Secret {
            metadata: ObjectMeta {
                labels: Some(labels.into_iter().collect()),
                owner_references: Some(owners.iter().map(|it| reference(&extension(it))).collect()),
                ..ObjectMeta::default()
            },
            type_: Some(type_.to_owned()),
            ..Secret::default()
        };
        let key = document_key(&secret).unwrap_or("config");
        secret.data = Some([(key.to_owned(), ByteString(content.as_bytes().to_vec()))].into());
        secret
    }

    fn offered(content: &str) -> Document {
        Document::of(&secret(Some(label::OPERATOR_PULL_SECRET), NEW, content, &[])).unwrap()
    }

    // decision 49
    #[rstest]
    #[case::ours(Some(label::PULL_SECRET_COPY), NEW, "a", &["1"], false)]
    #[case::shared(Some(label::PULL_SECRET_COPY), NEW, "a", &["2", "1"], false)]
    #[case::older_content(Some(label::PULL_SECRET_COPY), NEW, "b", &["1"], true)]
    #[case::of_another(Some(label::PULL_SECRET_COPY), NEW, "a", &["2"], true)]
    #[case::orphaned(Some(label::PULL_SECRET_COPY), NEW, "a", &[], true)]
    #[case::other_type(Some(label::PULL_SECRET_COPY), OLD, "a", &["1"], true)]
    #[case::somebody_elses(None, NEW, "b", &[], false)]
    #[case::owned_without_the_mark(None, NEW, "b", &["1"], false)]
    #[case::the_source(Some(label::OPERATOR_PULL_SECRET), NEW, "b", &[], false)]
    fn only_copies_are_written_over(
        #[case] label: Option<&str>,
        #[case] type_: &str,
        #[case] content: &str,
        #[case] owners: &[&str],
        #[case] want: bool,
    ) {
        let found = secret(label, type_, content, owners);
        assert_eq!(is_due(&offered("a"), Some(&found), &extension("1")), want);
    }

    #[test]
    fn what_is_missing_is_made_and_other_owners_stay() {
        assert!(is_due(&offered("a"), None, &extension("1")));
        let left = others(&secret(None, NEW, "a", &["1", "2"]), &extension("1"));
        assert_eq!(left.iter().map(|it| it.uid.as_str()).collect::<Vec<_>>(), ["2"]);
    }

    #[rstest]
    #[case::offered(Some(label::OPERATOR_PULL_SECRET), NEW, true)]
    #[case::older_form(Some(label::OPERATOR_PULL_SECRET), OLD, true)]
    #[case::for_catalogs(Some(label::CATALOG_PULL_SECRET), NEW, false)]
    #[case::unlabelled(None, NEW, false)]
    #[case::no_credentials(Some(label::OPERATOR_PULL_SECRET), "Opaque", false)]
    fn only_labelled_credentials_are_offered(
        #[case] label: Option<&str>,
        #[case] type_: &str,
        #[case] want: bool,
    ) {
        assert_eq!(Document::of(&secret(label, type_, "a", &[])).is_some(), want);
    }

    #[test]
    fn a_revision_records_the_names_of_what_is_offered() {
        let mut all = Offered::default();
        assert_eq!(all.record(), None);
        all.0.extend(["b", "a"].map(|name| (name.to_owned(), offered("x"))));
        assert_eq!(all.record().as_deref(), Some("a,b"));
        assert!(all.has("a") && !all.has("c"));
        let objects = all.objects("ns").map(|object| object.identity().text());
        assert_eq!(objects.count(), 2);
    }
}
